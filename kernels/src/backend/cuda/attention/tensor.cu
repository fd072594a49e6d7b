// Attention of 16-bit types by tensor cores: products of T with sums in f32. A block of four warps has TILE positions of one
// head, a warp 16 of them; the positions they meet pass through shared memory. Probabilities and logits' gradients, which
// are f32, enter products as two numbers of T each, the result of rounding and what it leaves, so that results are as
// precise as those of arithmetic in f32.

static const int WARPS = 4;
// Elements of T between rows in shared memory beyond their own, so that the lanes of a warp read different banks.
static const int GAP = 8;

template <class X> struct IsBf16 { static const bool value = false; };
template <> struct IsBf16<bf16> { static const bool value = true; };

__device__ __forceinline__ int lane() { return threadIdx.x % 32; }
// A lane's row, and the next but seven; and its pair of columns, of four.
__device__ __forceinline__ int group() { return lane() / 4; }
__device__ __forceinline__ int place() { return lane() % 4; }

__device__ __forceinline__ f32 part(u32 pair, int i) {
    T x;
    x.bits = (u16)(i == 0 ? pair : pair >> 16);
    return widen(x);
}
__device__ __forceinline__ u32 pack(T low, T high) { return (u32)low.bits | (u32)high.bits << 16; }
__device__ __forceinline__ u32 pack_rounded(f32 low, f32 high) { return pack(narrow<T>(low), narrow<T>(high)); }

// c += a b, of 16 rows, 8 columns and 16 elements between. As PTX lays it out, a lane has of `a` the pairs of elements from
// 2 place() and, later, 8 more, of the rows group() and group() + 8; of `b` the same elements of the column group(); of `c`
// the columns from 2 place() of both rows.
__device__ __forceinline__ void multiply_add(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef PLIMSOLL_SIMULATED
    for (int t = 0; t < 4; t++) {
        u32 x[4], y[2][2];
        for (int h = 0; h < 4; h++) x[h] = __shfl_sync(ALL_LANES, a[h], group() * 4 + t);
        for (int n = 0; n < 2; n++)
            for (int h = 0; h < 2; h++) y[n][h] = __shfl_sync(ALL_LANES, b[h], (2 * place() + n) * 4 + t);
        for (int i = 0; i < 4; i++)
            for (int h = 0; h < 2; h++)
                for (int e = 0; e < 2; e++) c[i] += part(x[i / 2 + 2 * h], e) * part(y[i % 2][h], e);
    }
#elif __CUDA_ARCH__ >= 800
    if (IsBf16<T>::value)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// ---- Operands. Of a tile of rows, `D` elements each, or turned, `D` rows of elements from `N` positions.

struct __align__(16) Eight { u32 at[4]; };

template <int D, int N> __device__ __forceinline__ void load_rows(T *to, const Rows &from, int head_dim) {
    #pragma unroll 4
    for (int e = threadIdx.x; e < N * D / 8; e += WARPS * 32) {
        int r = e / (D / 8), d = e % (D / 8) * 8;
        Eight x = {0, 0, 0, 0};
        if (r < from.count && d < head_dim) x = *(const Eight *)(from.at + (i64)r * from.stride + d);
        *(Eight *)(to + r * (D + GAP) + d) = x;
    }
}
template <int D, int N> __device__ __forceinline__ void load_turned_pairs(T *to, const Rows &from, int head_dim) {
    #pragma unroll 4
    for (int e = threadIdx.x; e < N * D / 4; e += WARPS * 32) {
        // A warp has eight pairs of positions and four pairs of elements: every bank once.
        int d = 2 * (e % 4 + e / 32 % (D / 8) * 4), r = 2 * (e / 4 % 8 + e / 32 / (D / 8) * 8);
        const T *at = from.at + (i64)r * from.stride + d;
        u32 x = r < from.count && d < head_dim ? *(const u32 *)at : 0;
        u32 y = r + 1 < from.count && d < head_dim ? *(const u32 *)(at + from.stride) : 0;
        *(u32 *)(to + d * (N + GAP) + r) = (x & 0xffffu) | y << 16;
        *(u32 *)(to + (d + 1) * (N + GAP) + r) = x >> 16 | (y & 0xffff0000u);
    }
}

// A left operand: rows from `row` on, elements from `first` on.
__device__ __forceinline__ void left(u32 (&a)[4], const Rows &from, int row, int first, int head_dim) {
    #pragma unroll
    for (int h = 0; h < 4; h++) {
        int r = row + group() + h % 2 * 8, d = first + h / 2 * 8;
        a[h] = r < from.count && d < head_dim ? *(const u32 *)(from.at + (i64)r * from.stride + d + 2 * place()) : 0;
    }
}
// A right operand from shared memory: rows from `row` on, which are its columns, elements from `first` on.
__device__ __forceinline__ void right(u32 (&b)[2], const T *tile, int pitch, int row, int first) {
    const T *at = tile + (row + group()) * pitch + first + 2 * place();
    b[0] = *(const u32 *)at;
    b[1] = *(const u32 *)(at + 8);
}

// What rounding leaves of a number. Nothing of one past the largest of f16, which is infinite: infinity less infinity would be
// NaN. bf16 reaches as far as f32 does.
__device__ __forceinline__ f32 left_by(f32 x, f32 rounded) {
    f32 rest = x - rounded;
    return IsBf16<T>::value || rest - rest == 0.0f ? rest : 0.0f;
}

// sums += weights tile, where the tile is turned: the positions of both are K.
template <int D, int K> __device__ __forceinline__ void add_weighted_tile(f32 (&sums)[D / 8][4], const f32 (&weights)[K / 8][4], const T *tile) {
    #pragma unroll
    for (int k = 0; k < K / 16; k++) {
        u32 high[4], low[4];
        #pragma unroll
        for (int h = 0; h < 4; h++) {
            f32 x = weights[2 * k + h / 2][h % 2 * 2], y = weights[2 * k + h / 2][h % 2 * 2 + 1];
            high[h] = pack_rounded(x, y);
            low[h] = pack_rounded(left_by(x, part(high[h], 0)), left_by(y, part(high[h], 1)));
        }
        #pragma unroll
        for (int n = 0; n < D / 8; n++) {
            u32 b[2];
            right(b, tile, K + GAP, 8 * n, 16 * k);
            multiply_add(sums[n], high, b);
            multiply_add(sums[n], low, b);
        }
    }
}

// A warp's rows as a left operand: from memory each time, or HELD in registers.
template <int D, bool HELD> struct Operand {
    Rows rows;
    int row, head_dim;
    u32 held[HELD ? D / 16 : 1][4];

    __device__ __forceinline__ Operand(const Rows &from, int first, int elements) : rows(from), row(first), head_dim(elements) {
        #pragma unroll
        for (int k = 0; HELD && k < D / 16; k++) left(held[k], rows, row, 16 * k, head_dim);
    }
    __device__ __forceinline__ void get(u32 (&a)[4], int k) const {
        if (!HELD) return left(a, rows, row, 16 * k, head_dim);
        #pragma unroll
        for (int h = 0; h < 4; h++) a[h] = held[HELD ? k : 0][h];
    }
};

// pairs = rows tile^T.
template <int D, int K, bool HELD> __device__ __forceinline__ void products(f32 (&pairs)[K / 8][4], const Operand<D, HELD> &rows, const T *tile) {
    #pragma unroll
    for (int n = 0; n < K / 8; n++)
        #pragma unroll
        for (int i = 0; i < 4; i++) pairs[n][i] = 0;
    #pragma unroll
    for (int k = 0; k < D / 16; k++) {
        u32 a[4];
        rows.get(a, k);
        #pragma unroll
        for (int n = 0; n < K / 8; n++) {
            u32 b[2];
            right(b, tile, D + GAP, 8 * n, 16 * k);
            multiply_add(pairs[n], a, b);
        }
    }
}

template <int D> __device__ __forceinline__ void clear_tile(f32 (&sums)[D / 8][4]) {
    #pragma unroll
    for (int n = 0; n < D / 8; n++)
        #pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0;
}

// Rounds a warp's rows, times a factor each, to the rows from `row` on.
template <int D> __device__ __forceinline__ void store_tile(T *at, int stride, int row, int count, int head_dim, const f32 (&sums)[D / 8][4], const f32 (&factors)[2]) {
    #pragma unroll
    for (int n = 0; n < D / 8; n++)
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            int r = row + group() + 8 * i, c = 8 * n + 2 * place();
            if (r < count && c < head_dim)
                *(u32 *)(at + (i64)r * stride + c) = pack_rounded(sums[n][2 * i] * factors[i], sums[n][2 * i + 1] * factors[i]);
        }
}

// Over the four lanes of a row.
__device__ __forceinline__ f32 quad_sum(f32 x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}
__device__ __forceinline__ f32 quad_max(f32 x) {
    f32 y = __shfl_xor_sync(ALL_LANES, x, 1);
    x = y > x ? y : x;
    y = __shfl_xor_sync(ALL_LANES, x, 2);
    return y > x ? y : x;
}

// ---- The forward pass.

template <int D> __device__ __forceinline__ void attend(const T *qkv, T *y, f32 *lse, const Shape &s) {
    __shared__ __align__(16) T shared_keys[TILE * (D + GAP)], shared_values[D * (TILE + GAP)];
    const int head_place = blockIdx.x % s.places, tile = s.tiles() - 1 - blockIdx.x / s.places;
    const int first = tile * TILE, end = first + rows_from(first, s.length), row = threadIdx.x / 32 * 16;
    const Head head(s, head_place / s.heads, head_place % s.heads);
    const Operand<D, true> queries(rows_at(qkv, head.queries, s.packed(), first, end), row, s.head_dim);
    const f32 lowest = -__uint_as_float(0x7f800000u);
    f32 result[D / 8][4], max[2] = {lowest, lowest}, total[2] = {0, 0};
    clear_tile<D>(result);
    const int end_key = s.end_key(end);
    for (int from = s.first_key(first); from < end_key; from += TILE) {
        __syncthreads();
        load_rows<D, TILE>(shared_keys, rows_at(qkv, head.keys, s.packed(), from, end_key), s.head_dim);
        load_turned_pairs<D, TILE>(shared_values, rows_at(qkv, head.values, s.packed(), from, end_key), s.head_dim);
        __syncthreads();
        f32 pairs[TILE / 8][4];
        products<D, TILE>(pairs, queries, shared_keys);
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            const int query = first + row + group() + 8 * i;
            f32 top = max[i], sum = 0;
            #pragma unroll
            for (int n = 0; n < TILE / 8; n++)
                #pragma unroll
                for (int e = 2 * i; e < 2 * i + 2; e++) {
                    const int key = from + 8 * n + 2 * place() + e % 2;
                    pairs[n][e] = s.sees(query, key) ? pairs[n][e] * s.scale : lowest;
                    if (pairs[n][e] > top) top = pairs[n][e];
                }
            top = quad_max(top);
            const f32 shrink = max[i] == top ? 1.0f : exp_of(max[i] - top);
            max[i] = top;
            #pragma unroll
            for (int n = 0; n < TILE / 8; n++)
                #pragma unroll
                for (int e = 2 * i; e < 2 * i + 2; e++) {
                    pairs[n][e] = pairs[n][e] == lowest ? 0.0f : exp_of(pairs[n][e] - top);
                    sum += pairs[n][e];
                }
            total[i] = total[i] * shrink + quad_sum(sum);
            #pragma unroll
            for (int n = 0; n < D / 8; n++) {
                result[n][2 * i] *= shrink;
                result[n][2 * i + 1] *= shrink;
            }
        }
        add_weighted_tile<D, TILE>(result, pairs, shared_values);
    }
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        const int query = first + row + group() + 8 * i;
        if (query < end && place() == 0) lse[head.row + query] = max[i] + log_of(total[i]);
        total[i] = 1.0f / total[i];
    }
    store_tile<D>(y + head.result + (i64)first * s.width(), s.width(), row, end - first, s.head_dim, result, total);
}

// ---- The gradients. Blocks of queries make the means of rows that blocks of keys read later.

// The means of the lane's two rows: the result times its gradient.
__device__ __forceinline__ void means_of(f32 (&own)[2], const Rows &result, const Rows &gradients, int row, int head_dim) {
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = row + group() + 8 * i;
        f32 sum = 0;
        for (int d = 2 * place(); r < result.count && d < head_dim; d += 8) {
            const u32 x = *(const u32 *)(result.at + (i64)r * result.stride + d);
            const u32 y = *(const u32 *)(gradients.at + (i64)r * gradients.stride + d);
            sum += part(x, 0) * part(y, 0) + part(x, 1) * part(y, 1);
        }
        own[i] = quad_sum(sum);
    }
}

// Probabilities and logits' gradients times the scale, from the logits and the probabilities' gradients. A warp's rows are
// queries, or, TURNED, keys. The mean of a query is its lane's, or, TURNED, lies in memory.
template <int K, bool TURNED> __device__ __forceinline__ void weigh_tile(f32 (&pairs)[K / 8][4], f32 (&slopes)[K / 8][4], int row, int column, const f32 *lse, const f32 (&own)[2], const f32 *means, const Shape &s) {
    #pragma unroll
    for (int n = 0; n < K / 8; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            const int r = row + group() + e / 2 * 8, c = column + 8 * n + 2 * place() + e % 2;
            const int query = TURNED ? c : r, key = TURNED ? r : c;
            const bool sees = s.sees(query, key);
            pairs[n][e] = sees ? exp_of(pairs[n][e] * s.scale - lse[query]) : 0.0f;
            const f32 mean = !TURNED ? own[e / 2] : sees ? means[query] : 0.0f;
            slopes[n][e] = sees ? pairs[n][e] * (slopes[n][e] - mean) * s.scale : 0.0f;
        }
}

template <int D, int K> __device__ __forceinline__ void by_queries(const T *qkv, const T *y, const f32 *lse, const T *dy, f32 *means, T *dqkv, const Shape &s) {
    __shared__ __align__(16) T shared_keys[K * (D + GAP)], shared_values[K * (D + GAP)], turned_keys[D * (K + GAP)];
    const int head_place = blockIdx.x % s.places, tile = s.tiles() - 1 - blockIdx.x / s.places;
    const int first = tile * TILE, end = first + rows_from(first, s.length), row = threadIdx.x / 32 * 16;
    const Head head(s, head_place / s.heads, head_place % s.heads);
    const Operand<D, D <= 64> queries(rows_at(qkv, head.queries, s.packed(), first, end), row, s.head_dim);
    const Rows slopes_of = rows_at(dy, head.result, s.width(), first, end);
    const Operand<D, D <= 64> gradients(slopes_of, row, s.head_dim);
    f32 own[2];
    means_of(own, rows_at(y, head.result, s.width(), first, end), slopes_of, row, s.head_dim);
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        const int query = first + row + group() + 8 * i;
        if (query < end && place() == 0) means[head.row + query] = own[i];
    }
    const int end_key = s.end_key(end);
    f32 sums[D / 8][4];
    clear_tile<D>(sums);
    for (int from = s.first_key(first); from < end_key; from += K) {
        const Rows keys = rows_at(qkv, head.keys, s.packed(), from, end_key);
        __syncthreads();
        load_rows<D, K>(shared_keys, keys, s.head_dim);
        load_rows<D, K>(shared_values, rows_at(qkv, head.values, s.packed(), from, end_key), s.head_dim);
        load_turned_pairs<D, K>(turned_keys, keys, s.head_dim);
        __syncthreads();
        f32 pairs[K / 8][4], slopes[K / 8][4];
        products<D, K>(pairs, queries, shared_keys);
        products<D, K>(slopes, gradients, shared_values);
        weigh_tile<K, false>(pairs, slopes, first + row, from, lse + head.row, own, 0, s);
        add_weighted_tile<D, K>(sums, slopes, turned_keys);
    }
    const f32 factors[2] = {1, 1};
    store_tile<D>(dqkv + head.queries + (i64)first * s.packed(), s.packed(), row, end - first, s.head_dim, sums, factors);
}

template <int D, int K> __device__ __forceinline__ void by_keys(const T *qkv, const f32 *lse, const T *dy, const f32 *means, T *dqkv, const Shape &s) {
    __shared__ __align__(16) T shared_queries[K * (D + GAP)], shared_slopes[K * (D + GAP)];
    __shared__ __align__(16) T turned_queries[D * (K + GAP)], turned_slopes[D * (K + GAP)];
    const int shared = s.heads / s.kv_heads, groups = s.places / shared, own_group = blockIdx.x % groups;
    const int first = blockIdx.x / groups * TILE, end = first + rows_from(first, s.length), row = threadIdx.x / 32 * 16;
    const int sequence = own_group / s.kv_heads, first_head = own_group % s.kv_heads * shared;
    const Head own(s, sequence, first_head);
    const Operand<D, false> keys(rows_at(qkv, own.keys, s.packed(), first, end), row, s.head_dim);
    const Operand<D, false> values(rows_at(qkv, own.values, s.packed(), first, end), row, s.head_dim);
    const int end_query = s.end_query(end);
    const f32 none[2] = {0, 0};
    f32 of_keys[D / 8][4], of_values[D / 8][4];
    clear_tile<D>(of_keys);
    clear_tile<D>(of_values);
    for (int h = first_head; h < first_head + shared; h++) {
        const Head head(s, sequence, h);
        for (int from = s.first_query(first); from < end_query; from += K) {
            const Rows queries = rows_at(qkv, head.queries, s.packed(), from, end_query);
            const Rows gradients = rows_at(dy, head.result, s.width(), from, end_query);
            __syncthreads();
            load_rows<D, K>(shared_queries, queries, s.head_dim);
            load_rows<D, K>(shared_slopes, gradients, s.head_dim);
            load_turned_pairs<D, K>(turned_queries, queries, s.head_dim);
            load_turned_pairs<D, K>(turned_slopes, gradients, s.head_dim);
            __syncthreads();
            f32 pairs[K / 8][4], slopes[K / 8][4];
            products<D, K>(pairs, keys, shared_queries);
            products<D, K>(slopes, values, shared_slopes);
            weigh_tile<K, true>(pairs, slopes, first + row, from, lse + head.row, none, means + head.row, s);
            add_weighted_tile<D, K>(of_values, pairs, turned_slopes);
            add_weighted_tile<D, K>(of_keys, slopes, turned_queries);
        }
    }
    const f32 factors[2] = {1, 1};
    store_tile<D>(dqkv + own.keys + (i64)first * s.packed(), s.packed(), row, end - first, s.head_dim, of_keys, factors);
    store_tile<D>(dqkv + own.values + (i64)first * s.packed(), s.packed(), row, end - first, s.head_dim, of_values, factors);
}

extern "C" __global__ void attention_64(const T *qkv, T *y, f32 *lse, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    attend<64>(qkv, y, lse, s);
}
extern "C" __global__ void attention_128(const T *qkv, T *y, f32 *lse, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    attend<128>(qkv, y, lse, s);
}
extern "C" __global__ void attention_queries_64(const T *qkv, const T *y, const f32 *lse, const T *dy, f32 *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<64, 64>(qkv, y, lse, dy, means, dqkv, s);
}
extern "C" __global__ void attention_queries_128(const T *qkv, const T *y, const f32 *lse, const T *dy, f32 *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<128, 32>(qkv, y, lse, dy, means, dqkv, s);
}
extern "C" __global__ void attention_keys_64(const T *qkv, const f32 *lse, const T *dy, const f32 *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_keys<64, 32>(qkv, lse, dy, means, dqkv, s);
}
extern "C" __global__ void attention_keys_128(const T *qkv, const f32 *lse, const T *dy, const f32 *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_keys<128, 32>(qkv, lse, dy, means, dqkv, s);
}

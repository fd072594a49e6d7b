// The gradients of attention. The gradient of a logit is its probability times the difference between the gradient of that
// probability and the mean of its row. The means come first. Then blocks of queries visit the keys they see, and blocks of
// keys the queries that see them, so that one thread computes each sum in one order. Probabilities are recomputed, or were
// KEPT.

// The mean of the values' gradients is the result times its gradient. Each warp takes a row of a head.
extern "C" __global__ void attention_means(const T *y, const T *dy, A *means, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const i64 count = (i64)s.places * s.length;
    for (i64 n = (i64)blockIdx.x * warps + threadIdx.x / 32; n < count; n += (i64)gridDim.x * warps) {
        // Neighbours are the heads of a row.
        const i64 row = n / s.heads, at = row * s.width() + (n - row * s.heads) * s.head_dim;
        A sum = 0;
        for (int d = lane; d < s.head_dim; d += 32) sum += widen(y[at + d]) * widen(dy[at + d]);
        sum = warp_sum(sum);
        const i64 sequence = row / s.length, head = n - row * s.heads;
        if (lane == 0) means[(sequence * s.heads + head) * s.length + row - sequence * s.length] = sum;
    }
}

// The probability of a pair that was kept.
__device__ __forceinline__ A kept(const T *p, const Shape &s, i64 row, int query, int key) {
    return query < s.length && key < s.length ? widen(p[(row + query) * s.length + key]) : (A)0;
}

// The same by the probabilities: a block TILE queries of one head.
extern "C" __global__ void attention_kept_means(const T *qkv, const T *p, const T *dy, A *means, SHAPE_PARAMETERS) {
    __shared__ A room[ROOM];
    const Shape s = SHAPE;
    const int place = blockIdx.x % s.places, first = blockIdx.x / s.places * TILE, end = first + rows_from(first, s.length);
    const Head head(s, place / s.heads, place % s.heads);
    const Rows slopes = rows_at(dy, head.result, s.width(), first, end);
    const int end_key = s.end_key(end);
    A sums[4] = {0, 0, 0, 0};
    for (int from = s.first_key(first); from < end_key; from += TILE) {
        A pairs[4][4];
        clear(pairs);
        multiply(pairs, slopes, rows_at(qkv, head.values, s.packed(), from, end_key), s.head_dim, room);
        #pragma unroll
        for (int i = 0; i < 4; i++)
            #pragma unroll
            for (int j = 0; j < 4; j++)
                sums[i] += kept(p, s, head.row, first + 4 * thread_y() + i, from + 4 * thread_x() + j) * pairs[i][j];
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        const int query = first + 4 * thread_y() + i;
        A sum = row_sum(sums[i]);
        if (query < end && thread_x() == 0) means[head.row + query] = sum;
    }
}

// Probabilities of a thread's pairs: of queries `a` and keys `b`, or TURNED.
template <bool KEPT, bool TURNED> __device__ __forceinline__ void weigh(A (&pairs)[4][4], const Rows &a, const Rows &b, int row, int column, const T *p, const A *lse, i64 start, const Shape &s, A *room) {
    clear(pairs);
    if (!KEPT) multiply(pairs, a, b, s.head_dim, room);
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            const int r = row + 4 * thread_y() + i, c = column + 4 * thread_x() + j;
            const int query = TURNED ? c : r, key = TURNED ? r : c;
            if (KEPT) pairs[i][j] = kept(p, s, start, query, key);
            else pairs[i][j] = s.sees(query, key) ? exp_of(pairs[i][j] * s.scale - lse[start + query]) : (A)0;
        }
}

// Turns the gradients of probabilities into those of logits, times the scale.
template <bool TURNED> __device__ __forceinline__ void slope(A (&slopes)[4][4], const A (&pairs)[4][4], int row, int column, const A *means, const Shape &s) {
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            const int query = TURNED ? column + 4 * thread_x() + j : row + 4 * thread_y() + i;
            slopes[i][j] = query < s.length ? pairs[i][j] * (slopes[i][j] - means[query]) * s.scale : (A)0;
        }
}

// A block TILE queries of one head, G * TILE elements along y.
template <int G, bool KEPT> __device__ __forceinline__ void by_queries(const T *qkv, const T *p, const A *lse, const T *dy, const A *means, T *dqkv, const Shape &s) {
    __shared__ A room[ROOM], weights[PAIRS];
    const int place = blockIdx.x % s.places, tile = s.tiles() - 1 - blockIdx.x / s.places;
    const int first = tile * TILE, end = first + rows_from(first, s.length), left = blockIdx.y * G * TILE;
    const Head head(s, place / s.heads, place % s.heads);
    const Rows queries = rows_at(qkv, head.queries, s.packed(), first, end);
    const Rows gradients = rows_at(dy, head.result, s.width(), first, end);
    const int end_key = s.end_key(end);
    A sums[4][4 * G];
    clear(sums);
    for (int from = s.first_key(first); from < end_key; from += TILE) {
        const Rows keys = rows_at(qkv, head.keys, s.packed(), from, end_key);
        A pairs[4][4], slopes[4][4];
        weigh<KEPT, false>(pairs, queries, keys, first, from, p, lse, head.row, s, room);
        clear(slopes);
        multiply(slopes, gradients, rows_at(qkv, head.values, s.packed(), from, end_key), s.head_dim, room);
        slope<false>(slopes, pairs, first, from, means + head.row, s);
        share(weights, slopes);
        add_weighted<G>(sums, weights, keys, left, s.head_dim, room);
    }
    const A factors[4] = {1, 1, 1, 1};
    store<G>(dqkv + head.queries + (i64)first * s.packed(), s.packed(), end - first, left, s.head_dim, sums, factors);
}

// A block TILE keys of one head and its values, G * TILE elements along y; all query heads that share them in turn.
template <int G, bool KEPT> __device__ __forceinline__ void by_keys(const T *qkv, const T *p, const A *lse, const T *dy, const A *means, T *dqkv, const Shape &s) {
    __shared__ A room[ROOM], weights[PAIRS];
    const int shared = s.heads / s.kv_heads, groups = s.places / shared, group = blockIdx.x % groups;
    const int first = blockIdx.x / groups * TILE, end = first + rows_from(first, s.length), left = blockIdx.y * G * TILE;
    const int sequence = group / s.kv_heads, first_head = group % s.kv_heads * shared;
    const Head own(s, sequence, first_head);
    const Rows keys = rows_at(qkv, own.keys, s.packed(), first, end);
    const Rows values = rows_at(qkv, own.values, s.packed(), first, end);
    const int end_query = s.end_query(end);
    A of_keys[4][4 * G], of_values[4][4 * G];
    clear(of_keys);
    clear(of_values);
    for (int h = first_head; h < first_head + shared; h++) {
        const Head head(s, sequence, h);
        for (int from = s.first_query(first); from < end_query; from += TILE) {
            const Rows queries = rows_at(qkv, head.queries, s.packed(), from, end_query);
            const Rows gradients = rows_at(dy, head.result, s.width(), from, end_query);
            A pairs[4][4], slopes[4][4];
            weigh<KEPT, true>(pairs, keys, queries, first, from, p, lse, head.row, s, room);
            share(weights, pairs);
            add_weighted<G>(of_values, weights, gradients, left, s.head_dim, room);
            clear(slopes);
            multiply(slopes, values, gradients, s.head_dim, room);
            slope<true>(slopes, pairs, first, from, means + head.row, s);
            share(weights, slopes);
            add_weighted<G>(of_keys, weights, queries, left, s.head_dim, room);
        }
    }
    const A factors[4] = {1, 1, 1, 1};
    store<G>(dqkv + own.keys + (i64)first * s.packed(), s.packed(), end - first, left, s.head_dim, of_keys, factors);
    store<G>(dqkv + own.values + (i64)first * s.packed(), s.packed(), end - first, left, s.head_dim, of_values, factors);
}

extern "C" TWO_BLOCKS __global__ void attention_queries_1(const T *qkv, const A *lse, const T *dy, const A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<1, false>(qkv, 0, lse, dy, means, dqkv, s);
}
extern "C" TWO_BLOCKS __global__ void attention_queries_2(const T *qkv, const A *lse, const T *dy, const A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<2, false>(qkv, 0, lse, dy, means, dqkv, s);
}
extern "C" TWO_BLOCKS __global__ void attention_kept_queries(const T *qkv, const T *p, const T *dy, const A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<2, true>(qkv, p, 0, dy, means, dqkv, s);
}
extern "C" __global__ void attention_keys_1(const T *qkv, const A *lse, const T *dy, const A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_keys<1, false>(qkv, 0, lse, dy, means, dqkv, s);
}
extern "C" __global__ void attention_keys_2(const T *qkv, const A *lse, const T *dy, const A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_keys<2, false>(qkv, 0, lse, dy, means, dqkv, s);
}
extern "C" __global__ void attention_kept_keys(const T *qkv, const T *p, const T *dy, const A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_keys<2, true>(qkv, p, 0, dy, means, dqkv, s);
}

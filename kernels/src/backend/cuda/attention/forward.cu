// Attention, block by block. A thread block takes TILE queries of one head and TILE keys at a time, and updates the softmax
// as it goes (Milakov & Gimelshein 2018; Dao et al. 2022). Blocks along y have G * TILE elements of the values each.

template <int G> __device__ __forceinline__ void attend(const T *qkv, T *y, A *lse, const Shape &s) {
    __shared__ A room[ROOM], weights[PAIRS];
    // The last queries of a causal attention have the most to do, so they begin.
    const int place = blockIdx.x % s.places, tile = s.tiles() - 1 - blockIdx.x / s.places;
    const int first = tile * TILE, end = first + rows_from(first, s.length), left = blockIdx.y * G * TILE;
    const Head head(s, place / s.heads, place % s.heads);
    const Rows queries = rows_at(qkv, head.queries, s.packed(), first, end);
    const A lowest = -(A)__uint_as_float(0x7f800000u);
    A result[4][4 * G], max[4], total[4];
    clear(result);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        max[i] = lowest;
        total[i] = 0;
    }
    const int end_key = s.end_key(end);
    for (int from = s.first_key(first); from < end_key; from += TILE) {
        A pairs[4][4];
        clear(pairs);
        multiply(pairs, queries, rows_at(qkv, head.keys, s.packed(), from, end_key), s.head_dim, room);
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const int query = first + 4 * thread_y() + i;
            A top = max[i], sum = 0;
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                pairs[i][j] = s.sees(query, from + 4 * thread_x() + j) ? pairs[i][j] * s.scale : lowest;
                if (pairs[i][j] > top) top = pairs[i][j];
            }
            top = row_max(top);
            const A shrink = max[i] == top ? (A)1 : exp_of(max[i] - top);
            max[i] = top;
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                pairs[i][j] = pairs[i][j] == lowest ? (A)0 : exp_of(pairs[i][j] - top);
                sum += pairs[i][j];
            }
            total[i] = total[i] * shrink + row_sum(sum);
            #pragma unroll
            for (int n = 0; n < 4 * G; n++) result[i][n] *= shrink;
        }
        share(weights, pairs);
        add_weighted<G>(result, weights, rows_at(qkv, head.values, s.packed(), from, end_key), left, s.head_dim, room);
    }
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        const int query = first + 4 * thread_y() + i;
        if (query < end && thread_x() == 0 && left == 0) lse[head.row + query] = max[i] + log_of(total[i]);
        total[i] = (A)1 / total[i];
    }
    store<G>(y + head.result + (i64)first * s.width(), s.width(), end - first, left, s.head_dim, result, total);
}

extern "C" TWO_BLOCKS __global__ void attention_1(const T *qkv, T *y, A *lse, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    attend<1>(qkv, y, lse, s);
}
extern "C" TWO_BLOCKS __global__ void attention_2(const T *qkv, T *y, A *lse, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    attend<2>(qkv, y, lse, s);
}

// The probabilities whole, by the softmax's denominators: a block TILE queries, and TILE keys along y at a time.
extern "C" __global__ void attention_probabilities(const T *qkv, const A *lse, T *p, SHAPE_PARAMETERS) {
    __shared__ A room[ROOM];
    const Shape s = SHAPE;
    const int place = blockIdx.x % s.places, first = blockIdx.x / s.places * TILE, end = first + rows_from(first, s.length);
    const Head head(s, place / s.heads, place % s.heads);
    const Rows queries = rows_at(qkv, head.queries, s.packed(), first, end);
    for (int from = blockIdx.y * TILE; from < s.length; from += gridDim.y * TILE) {
        A pairs[4][4];
        clear(pairs);
        bool any = from < s.end_key(end) && from + TILE > s.first_key(first);
        if (any) multiply(pairs, queries, rows_at(qkv, head.keys, s.packed(), from, s.length), s.head_dim, room);
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const int query = first + 4 * thread_y() + i;
            if (query >= end) continue;
            const A denominator = lse[head.row + query];
            #pragma unroll
            for (int j = 0; j < 4; j++) {
                const int key = from + 4 * thread_x() + j;
                A value = s.sees(query, key) ? exp_of(pairs[i][j] * s.scale - denominator) : (A)0;
                if (key < s.length) p[(head.row + query) * s.length + key] = narrow<T>(value);
            }
        }
    }
}

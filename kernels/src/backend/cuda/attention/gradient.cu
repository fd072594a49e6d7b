// The gradients of attention. The gradient of a logit is its probability times the difference between the gradient of that
// probability and the mean of its row. Blocks of queries visit the keys they see, and make the means of their rows; then
// blocks of keys visit the queries that see them. So one thread computes each sum in one order. Probabilities are recomputed,
// or were KEPT.

// The probability of a pair that was kept.
__device__ __forceinline__ A kept(const T *p, const Shape &s, i64 row, int query, int key) {
    return query < s.length && key < s.length ? widen(p[(row + query) * s.length + key]) : (A)0;
}

// The means by the probabilities: a block TILE queries of one head.
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

// Turns the gradients of probabilities into those of logits, times the scale. The mean of a row is that of its thread, or,
// TURNED, lies in memory.
template <bool TURNED> __device__ __forceinline__ void slope(A (&slopes)[4][4], const A (&pairs)[4][4], int row, int column, const A (&own)[4], const A *means, const Shape &s) {
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            const int query = TURNED ? column + 4 * thread_x() + j : row + 4 * thread_y() + i;
            const A mean = !TURNED ? own[i] : query < s.length ? means[query] : (A)0;
            slopes[i][j] = query < s.length ? pairs[i][j] * (slopes[i][j] - mean) * s.scale : (A)0;
        }
}

// The means of the thread's four rows: of values' gradients, it is the result times its gradient.
__device__ __forceinline__ void means_of(A (&own)[4], const Rows &result, const Rows &gradients, int head_dim) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = 4 * thread_y() + i;
        A sum = 0;
        for (int d = thread_x(); r < result.count && d < head_dim; d += LANES)
            sum += widen(result.at[(i64)r * result.stride + d]) * widen(gradients.at[(i64)r * gradients.stride + d]);
        own[i] = row_sum(sum);
    }
}

// A block TILE queries of one head, G * TILE elements along y.
template <int G, bool KEPT> __device__ __forceinline__ void by_queries(const T *qkv, const T *p, const T *y, const A *lse, const T *dy, A *means, T *dqkv, const Shape &s) {
    __shared__ A room[ROOM], weights[PAIRS];
    const int place = blockIdx.x % s.places, tile = s.tiles() - 1 - blockIdx.x / s.places;
    const int first = tile * TILE, end = first + rows_from(first, s.length), left = blockIdx.y * G * TILE;
    const Head head(s, place / s.heads, place % s.heads);
    const Rows queries = rows_at(qkv, head.queries, s.packed(), first, end);
    const Rows gradients = rows_at(dy, head.result, s.width(), first, end);
    const int end_key = s.end_key(end), row = first + 4 * thread_y();
    A own[4];
    if (!KEPT) means_of(own, rows_at(y, head.result, s.width(), first, end), gradients, s.head_dim);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        if (KEPT) own[i] = row + i < end ? means[head.row + row + i] : (A)0;
        else if (blockIdx.y == 0 && thread_x() == 0 && row + i < end) means[head.row + row + i] = own[i];
    }
    A sums[4][4 * G];
    clear(sums);
    for (int from = s.first_key(first); from < end_key; from += TILE) {
        const Rows keys = rows_at(qkv, head.keys, s.packed(), from, end_key);
        A pairs[4][4], slopes[4][4];
        weigh<KEPT, false>(pairs, queries, keys, first, from, p, lse, head.row, s, room);
        clear(slopes);
        multiply(slopes, gradients, rows_at(qkv, head.values, s.packed(), from, end_key), s.head_dim, room);
        slope<false>(slopes, pairs, first, from, own, 0, s);
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
    const A none[4] = {0, 0, 0, 0};
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
            slope<true>(slopes, pairs, first, from, none, means + head.row, s);
            share(weights, slopes);
            add_weighted<G>(of_keys, weights, queries, left, s.head_dim, room);
        }
    }
    const A factors[4] = {1, 1, 1, 1};
    store<G>(dqkv + own.keys + (i64)first * s.packed(), s.packed(), end - first, left, s.head_dim, of_keys, factors);
    store<G>(dqkv + own.values + (i64)first * s.packed(), s.packed(), end - first, left, s.head_dim, of_values, factors);
}

extern "C" TWO_BLOCKS __global__ void attention_queries_1(const T *qkv, const T *y, const A *lse, const T *dy, A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<1, false>(qkv, 0, y, lse, dy, means, dqkv, s);
}
extern "C" TWO_BLOCKS __global__ void attention_queries_2(const T *qkv, const T *y, const A *lse, const T *dy, A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<2, false>(qkv, 0, y, lse, dy, means, dqkv, s);
}
extern "C" TWO_BLOCKS __global__ void attention_kept_queries(const T *qkv, const T *p, const T *dy, A *means, T *dqkv, SHAPE_PARAMETERS) {
    const Shape s = SHAPE;
    by_queries<2, true>(qkv, p, 0, 0, dy, means, dqkv, s);
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

// What both directions of attention share: a block of threads works on TILE positions of one head against TILE others, all
// arithmetic in A. A thread has four by four pairs: rows 4 y + i, columns 4 x + j.

static const int TILE = sizeof(A) == 8 ? 32 : 64;
static const int LANES = TILE / 4;
static const int THREADS = LANES * LANES;
// Elements of a head that are in shared memory at a time, and from one row there to the next.
static const int DEPTH = 32;
static const int PITCH = TILE + 4;
static const int ROOM = 2 * DEPTH * PITCH;
static const int PAIRS = TILE * PITCH;
// Registers for two blocks of a multiprocessor at once, which then hide each other's barriers and loads.
#define TWO_BLOCKS __launch_bounds__(THREADS, 2)

#define SHAPE_PARAMETERS i64 places, i64 heads, i64 kv_heads, i64 head_dim, i64 length, i64 reach, int is_causal, A scale
#define SHAPE {(int)places, (int)heads, (int)kv_heads, (int)head_dim, (int)length, (int)reach, is_causal != 0, scale}

// `places` are sequences times heads; a position sees those fewer than `reach` away; logits are products times `scale`.
struct Shape {
    int places, heads, kv_heads, head_dim, length, reach;
    bool is_causal;
    A scale;

    __device__ __forceinline__ int packed() const { return (heads + 2 * kv_heads) * head_dim; }
    __device__ __forceinline__ int width() const { return heads * head_dim; }
    __device__ __forceinline__ int tiles() const { return (length + TILE - 1) / TILE; }
    __device__ __forceinline__ bool sees(int query, int key) const {
        int ahead = key - query;
        bool is_near = ahead < reach && -ahead < reach;
        return query < length && key < length && is_near && !(is_causal && ahead > 0);
    }
    // The first key that any query from `query` on sees, and the first past those that any before `end` does.
    __device__ __forceinline__ int first_key(int query) const { return query < reach ? 0 : query - reach + 1; }
    __device__ __forceinline__ int end_key(int end) const {
        return is_causal ? end : length - end < reach ? length : end - 1 + reach;
    }
    // The same the other way round.
    __device__ __forceinline__ int first_query(int key) const { return is_causal ? key : first_key(key); }
    __device__ __forceinline__ int end_query(int end) const { return length - end < reach ? length : end - 1 + reach; }
};

// The elements of one head at some positions, in place; past `count` there are none.
struct Rows {
    const T *at;
    int stride, count;
};

// One head of one sequence.
struct Head {
    i64 queries, keys, values, result, row;

    __device__ __forceinline__ Head(const Shape &s, int sequence, int head) {
        i64 start = (i64)sequence * s.length * s.packed();
        int shared = head / (s.heads / s.kv_heads);
        queries = start + (i64)head * s.head_dim;
        keys = start + (i64)(s.heads + shared) * s.head_dim;
        values = start + (i64)(s.heads + s.kv_heads + shared) * s.head_dim;
        result = (i64)sequence * s.length * s.width() + (i64)head * s.head_dim;
        row = ((i64)sequence * s.heads + head) * s.length;
    }
};

__device__ __forceinline__ int rows_from(int first, int end) { return end - first < TILE ? end - first : TILE; }
__device__ __forceinline__ Rows rows_at(const T *of, i64 head, int stride, int first, int end) {
    Rows rows = {of + head + (i64)first * stride, stride, rows_from(first, end)};
    return rows;
}

__device__ __forceinline__ int thread_x() { return threadIdx.x % LANES; }
__device__ __forceinline__ int thread_y() { return threadIdx.x / LANES; }

// To shared memory, element by row.
__device__ __forceinline__ void load_turned(A *to, const Rows &from, int first, int head_dim) {
    #pragma unroll
    for (int n = 0; n < TILE * DEPTH / THREADS; n++) {
        int e = n * THREADS + threadIdx.x, d = e % DEPTH, r = e / DEPTH;
        bool is_there = r < from.count && first + d < head_dim;
        to[d * PITCH + r] = is_there ? widen(from.at[r * from.stride + first + d]) : (A)0;
    }
}

// pairs += a b^T over the elements of a head. All threads must take part; begins with a barrier.
__device__ __forceinline__ void multiply(A (&pairs)[4][4], const Rows &a, const Rows &b, int head_dim, A *room) {
    A *left = room, *right = room + DEPTH * PITCH;
    for (int first = 0; first < head_dim; first += DEPTH) {
        __syncthreads();
        load_turned(left, a, first, head_dim);
        load_turned(right, b, first, head_dim);
        __syncthreads();
        // Past the last element there are zeros.
        for (int deep = 0; deep < DEPTH && first + deep < head_dim; deep += 8) {
            #pragma unroll
            for (int d = 0; d < 8; d++) {
                A x[4], y[4];
                #pragma unroll
                for (int i = 0; i < 4; i++) x[i] = left[(deep + d) * PITCH + 4 * thread_y() + i];
                #pragma unroll
                for (int j = 0; j < 4; j++) y[j] = right[(deep + d) * PITCH + 4 * thread_x() + j];
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    #pragma unroll
                    for (int j = 0; j < 4; j++) pairs[i][j] += x[i] * y[j];
            }
        }
    }
}

// What the threads have of the pairs, to all of them. Begins with a barrier; the next has to follow.
__device__ __forceinline__ void share(A *weights, const A (&pairs)[4][4]) {
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) weights[(4 * thread_y() + i) * PITCH + 4 * thread_x() + j] = pairs[i][j];
}

// sums += weights rows, of the elements `first` on: TILE of them for each of the G groups, of which a thread has four at
// 4 x. Begins with a barrier.
template <int G> __device__ __forceinline__ void add_weighted(A (&sums)[4][4 * G], const A *weights, const Rows &rows, int first, int head_dim, A *room) {
    #pragma unroll
    for (int g = 0; g < G; g++) {
        const int left = first + g * TILE;
        if (left >= head_dim) break;
        __syncthreads();
        #pragma unroll 8
        for (int n = 0; n < TILE * TILE / THREADS; n++) {
            int e = n * THREADS + threadIdx.x, c = e % TILE, r = e / TILE;
            bool is_there = r < rows.count && left + c < head_dim;
            room[r * PITCH + c] = is_there ? widen(rows.at[r * rows.stride + left + c]) : (A)0;
        }
        __syncthreads();
        #pragma unroll 4
        for (int k = 0; k < TILE; k += 4) {
            A w[4][4];
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int d = 0; d < 4; d++) w[i][d] = weights[(4 * thread_y() + i) * PITCH + k + d];
            #pragma unroll
            for (int d = 0; d < 4; d++) {
                A v[4];
                #pragma unroll
                for (int j = 0; j < 4; j++) v[j] = room[(k + d) * PITCH + 4 * thread_x() + j];
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    #pragma unroll
                    for (int j = 0; j < 4; j++) sums[i][4 * g + j] += w[i][d] * v[j];
            }
        }
    }
}

// Over the threads of a row.
__device__ __forceinline__ A row_sum(A x) {
    #pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}
__device__ __forceinline__ A row_max(A x) {
    #pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
        A other = __shfl_xor_sync(ALL_LANES, x, lanes);
        x = other > x ? other : x;
    }
    return x;
}

template <int N> __device__ __forceinline__ void clear(A (&sums)[4][N]) {
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int n = 0; n < N; n++) sums[i][n] = 0;
}

// Rounds a thread's sums, times a factor a row, to the rows from `at` on.
template <int G> __device__ __forceinline__ void store(T *at, int stride, int count, int first, int head_dim, const A (&sums)[4][4 * G], const A (&factors)[4]) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        int r = 4 * thread_y() + i;
        #pragma unroll
        for (int n = 0; n < 4 * G; n++) {
            int c = first + n / 4 * TILE + 4 * thread_x() + n % 4;
            if (r < count && c < head_dim) at[(i64)r * stride + c] = narrow<T>(sums[i][n] * factors[i]);
        }
    }
}

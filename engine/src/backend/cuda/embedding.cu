// Rows of a table by token, and their gradient. Sorted are pairs of a token and its place, the token above.

// A row of threads a row, neighbours along the columns.
extern "C" __global__ void embedding(const u32 *tokens, const T *table, T *y, i64 rows, i64 width, i64 vocabulary) {
    const T nothing = narrow<T>((A)__uint_as_float(0x7fc00000u));
    for (i64 r = (i64)blockIdx.x * blockDim.y + threadIdx.y; r < rows; r += (i64)gridDim.x * blockDim.y) {
        i64 token = tokens[r];
        for (i64 c = (i64)blockIdx.y * blockDim.x + threadIdx.x; c < width; c += (i64)gridDim.y * blockDim.x)
            y[r * width + c] = token < vocabulary ? table[token * width + c] : nothing;
    }
}

extern "C" __global__ void embedding_clear(W *table, i64 n) {
    EACH(i, n) table[i] = narrow<W>((A)0);
}

// ---- A bitonic sort that always puts the smaller pair first, so that what lies past the end may count as larger than all.

#define CHUNK 1024

__device__ __forceinline__ void in_order(u64 *pairs, i64 a, i64 b) {
    u64 x = pairs[a], y = pairs[b];
    if (x > y) {
        pairs[a] = y;
        pairs[b] = x;
    }
}

__device__ __forceinline__ void merge_chunk(u64 *chunk, int stride) {
    for (; stride > 0; stride /= 2) {
        for (int t = threadIdx.x; t < CHUNK / 2; t += blockDim.x) {
            int a = (t & ~(stride - 1)) * 2 + (t & (stride - 1));
            in_order(chunk, a, a + stride);
        }
        __syncthreads();
    }
}

// A block a chunk: makes the pairs, and sorts them in shared memory.
extern "C" __global__ void sort_chunks(const u32 *tokens, u64 *sorted, i64 rows) {
    __shared__ u64 chunk[CHUNK];
    i64 start = (i64)blockIdx.x * CHUNK;
    for (int t = threadIdx.x; t < CHUNK; t += blockDim.x)
        chunk[t] = start + t < rows ? (u64)tokens[start + t] << 32 | (u64)(start + t) : ~0ULL;
    __syncthreads();
    for (int size = 2; size <= CHUNK; size *= 2) {
        for (int t = threadIdx.x; t < CHUNK / 2; t += blockDim.x) {
            int in = t & (size / 2 - 1), first = (t - in) * 2;
            in_order(chunk, first + in, first + size - 1 - in);
        }
        __syncthreads();
        merge_chunk(chunk, size / 4);
    }
    for (int t = threadIdx.x; t < CHUNK; t += blockDim.x)
        if (start + t < rows) sorted[start + t] = chunk[t];
}
// Of each part of `size` pairs, a power of two: the first with the last, and so on.
extern "C" __global__ void sort_flip(u64 *sorted, i64 rows, i64 size) {
    i64 half = size / 2, count = (rows + size - 1) / size * half;
    EACH(t, count) {
        i64 in = t & (half - 1), first = (t - in) * 2, last = first + size - 1 - in;
        if (last < rows) in_order(sorted, first + in, last);
    }
}
extern "C" __global__ void sort_stride(u64 *sorted, i64 rows, i64 stride) {
    i64 count = (rows + 2 * stride - 1) / (2 * stride) * stride;
    EACH(t, count) {
        i64 in = t & (stride - 1), a = (t - in) * 2 + in;
        if (a + stride < rows) in_order(sorted, a, a + stride);
    }
}
// A block a chunk: the strides below its size.
extern "C" __global__ void sort_merge(u64 *sorted, i64 rows) {
    __shared__ u64 chunk[CHUNK];
    i64 start = (i64)blockIdx.x * CHUNK;
    for (int t = threadIdx.x; t < CHUNK; t += blockDim.x) chunk[t] = start + t < rows ? sorted[start + t] : ~0ULL;
    __syncthreads();
    merge_chunk(chunk, CHUNK / 2);
    for (int t = threadIdx.x; t < CHUNK; t += blockDim.x)
        if (start + t < rows) sorted[start + t] = chunk[t];
}

// A block of 8 warps: the tokens whose first place is among 32 sorted ones, in 128 columns. Each warp adds up every 8th row
// of a token, then the warps' sums are added.
extern "C" __global__ void embedding_gradient(const u64 *sorted, const T *dy, W *table, i64 rows, i64 width, i64 vocabulary, int accumulate) {
    __shared__ A sums[8][128];
    const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
    const i64 start = (i64)blockIdx.x * 32, own = start + lane;
    bool is_first = own < rows && (own == 0 || sorted[own] >> 32 != sorted[own - 1] >> 32);
    const u32 firsts = __ballot_sync(ALL_LANES, is_first);
    for (i64 left = (i64)blockIdx.y * 128; left < width; left += (i64)gridDim.y * 128) {
        for (u32 rest = firsts; rest != 0; rest &= rest - 1) {
            const i64 begin = start + __ffs(rest) - 1;
            const u64 token = sorted[begin] >> 32;
            if ((i64)token >= vocabulary) continue;
            A sum[4] = {0, 0, 0, 0};
            bool goes_on = true;
            for (i64 p = begin + warp; goes_on; p += 32) {
                u64 pairs[4];
                #pragma unroll
                for (int j = 0; j < 4; j++) pairs[j] = p + 8 * j < rows ? sorted[p + 8 * j] : ~0ULL;
                #pragma unroll
                for (int j = 0; j < 4; j++) {
                    goes_on = p + 8 * j < rows && pairs[j] >> 32 == token;
                    const T *row = dy + (i64)(u32)pairs[j] * width + left + lane;
                    #pragma unroll
                    for (int v = 0; v < 4; v++)
                        if (goes_on && left + lane + 32 * v < width) sum[v] += widen(row[32 * v]);
                }
            }
            #pragma unroll
            for (int v = 0; v < 4; v++) sums[warp][lane + 32 * v] = sum[v];
            __syncthreads();
            if (thread < 128 && left + thread < width) {
                A total = 0;
                for (int w = 0; w < 8; w++) total += sums[w][thread];
                put(table + (i64)token * width + left + thread, total, accumulate != 0);
            }
            __syncthreads();
        }
    }
}

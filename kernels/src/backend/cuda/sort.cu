// Pairs of a token and its place, the token above, sorted: by bitonic merges that always put the smaller pair first, so that
// what lies past the end may count as larger than all.

#define CHUNK 4096

__device__ __forceinline__ void in_order(u64 *pairs, i64 a, i64 b) {
    u64 x = pairs[a], y = pairs[b];
    if (x > y) {
        pairs[a] = y;
        pairs[b] = x;
    }
}

// Of the first `reach` pairs of a chunk, a power of two.
__device__ __forceinline__ void merge_chunk(u64 *chunk, int reach, int stride) {
    for (; stride > 0; stride /= 2) {
        for (int t = threadIdx.x; t < reach / 2; t += blockDim.x) {
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
    const int count = rows - start < CHUNK ? (int)(rows - start) : CHUNK;
    // A chunk that is not full is sorted as far as its pairs go.
    int reach = 1;
    while (reach < count) reach *= 2;
    for (int t = threadIdx.x; t < reach; t += blockDim.x)
        chunk[t] = t < count ? (u64)tokens[start + t] << 32 | (u64)(start + t) : ~0ULL;
    __syncthreads();
    for (int size = 2; size <= reach; size *= 2) {
        for (int t = threadIdx.x; t < reach / 2; t += blockDim.x) {
            int in = t & (size / 2 - 1), first = (t - in) * 2;
            in_order(chunk, first + in, first + size - 1 - in);
        }
        __syncthreads();
        merge_chunk(chunk, reach, size / 4);
    }
    for (int t = threadIdx.x; t < count; t += blockDim.x) sorted[start + t] = chunk[t];
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
    merge_chunk(chunk, CHUNK, CHUNK / 2);
    for (int t = threadIdx.x; t < CHUNK; t += blockDim.x)
        if (start + t < rows) sorted[start + t] = chunk[t];
}

// The last block to be done: it adds up what all have written, so that no second launch has to.

#ifndef GROUPS
#define GROUPS 1
#endif

// Blocks of each group that are done: zero between launches, which follow each other in one stream.
__device__ u32 blocks_done[GROUPS];

// Whether all `blocks` of a group are done, and what they wrote is to be read: so it is in one block of them, and for
// all of its threads. All threads must take part.
__device__ __forceinline__ bool is_last(i64 group, i64 blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(&blocks_done[group], 1u) == (u32)blocks - 1;
        if (last) blocks_done[group] = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

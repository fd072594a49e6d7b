// Pruning by magnitude. A magnitude is compared by its bits as an f32 without the sign.

#define BUCKETS 2048

__device__ __forceinline__ u32 magnitude_key(T weight) { return __float_as_uint((f32)widen(weight)) & 0x7fffffffu; }

// Each block counts for itself first.
extern "C" __global__ void count_magnitudes(const T *weight, const u32 *bound, u32 *counts, i64 n, i64 shift, i64 bits, int highest) {
    __shared__ u32 own[BUCKETS];
    for (int i = threadIdx.x; i < BUCKETS; i += blockDim.x) own[i] = 0u;
    __syncthreads();
    const u32 prefix = bound[0], last = (1u << bits) - 1u;
    EACH(i, n) {
        const u32 key = magnitude_key(weight[i]);
        if (highest || key >> shift >> bits == prefix) atomicAdd(&own[key >> shift & last], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BUCKETS; i += blockDim.x)
        if (own[i] != 0u) atomicAdd(&counts[i], own[i]);
}

extern "C" __global__ void pick_threshold(u32 *counts, u32 *bound, i64 bits, i64 rank, int highest) {
    const u32 last = (1u << bits) - 1u;
    const u32 prefix = highest ? 0u : bound[0];
    u32 left = highest ? (u32)rank : bound[1], value = 0u;
    while (value < last && left > counts[value]) left -= counts[value++];
    bound[0] = prefix << bits | value;
    bound[1] = left;
    for (int i = 0; i < BUCKETS; ++i) counts[i] = 0u;
}

extern "C" __global__ void mask_by_magnitude(const T *weight, const u32 *bound, u8 *mask, i64 n) {
    const u32 threshold = bound[0];
    EACH(at, (n + 7) / 8) {
        u32 bits = 0u;
        for (int bit = 0; bit < 8; ++bit) {
            const i64 i = 8 * at + bit;
            if (i < n && magnitude_key(weight[i]) > threshold) bits |= 1u << bit;
        }
        mask[at] = (u8)bits;
    }
}

// The largest of every group; of equal ones the first.
extern "C" __global__ void mask_in_groups(const T *weight, u8 *mask, i64 n, i64 columns, i64 kept, i64 of) {
    EACH(at, (n + 7) / 8) {
        u32 bits = 0u;
        for (int bit = 0; bit < 8; ++bit) {
            const i64 i = 8 * at + bit;
            if (i >= n) break;
            const i64 row = quotient(i, columns) * columns, column = i - row;
            const i64 begin = row + quotient(column, of) * of, end = begin + of < row + columns ? begin + of : row + columns;
            const u32 own = magnitude_key(weight[i]);
            i64 before = 0;
            for (i64 other = begin; other < end; ++other) {
                const u32 key = magnitude_key(weight[other]);
                before += key > own || (key == own && other < i);
            }
            if (before < kept) bits |= 1u << bit;
        }
        mask[at] = (u8)bits;
    }
}

extern "C" __global__ void apply_mask(const u8 *mask, T *weight, i64 n) {
    EACH(i, n) {
        if ((mask[i >> 3] >> (i & 7) & 1) == 0) weight[i] = narrow<T>((A)0);
    }
}

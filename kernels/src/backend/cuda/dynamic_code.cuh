// The dynamic code of 8 bits (Dettmers et al. 2022), made by each block of threads.

#define DECADES 7
#define ZERO 127

// The dynamic code: values from 0 to 1, rising, and the middles between neighbours; `first` values in the lowest decade.
struct Code {
    f32 values[256], middles[256];
};

__device__ __forceinline__ void make_code(Code &code, int first, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        // The value's decade is looked for among constants, so that little is left to do in f64.
        f64 top = 0, of_step = 0, at_top = 1e-6, share = 1.0 / first;
        int below = 1, steps = first, place = 0;
        #pragma unroll
        for (int decade = 0; decade < DECADES; decade++) {
            if (i >= below && i < below + steps) {
                top = at_top;
                of_step = share;
                place = i - below;
            }
            below += steps;
            steps *= 2;
            at_top *= 10.0;
            share /= 2.0;
        }
        // Steps are a power of two: to multiply by their inverse is to divide by them, to the bit.
        f64 value = top * (0.1 + 0.9 * ((f64)place + 0.5) * of_step);
        code.values[i] = i == 0 ? 0.0f : i < below ? (f32)value : 1.0f;
    }
    __syncthreads();
    // The sum of two neighbours, rounded once; half of it is exact.
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        code.middles[i] = i + 1 < count ? (code.values[i] + code.values[i + 1]) * 0.5f : 2.0f;
    __syncthreads();
}

// Which value is nearest to a share, in [0, 1].
__device__ __forceinline__ int nearest(const Code &code, int count, f32 share) {
    int low = 0, high = count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (share <= code.middles[middle]) high = middle;
        else low = middle + 1;
    }
    return low;
}


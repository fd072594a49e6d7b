// AdamW with moments of 8 bits. Each warp takes a block of 256 codes, and each lane every 32nd of them.

#define BLOCK 256
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

__device__ __forceinline__ f32 magnitude(f32 x) {
    // NaN is ignored.
    return x > 0.0f ? x : x < 0.0f ? -x : 0.0f;
}

extern "C" __global__ void adamw_quantised(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, u8 *mean_codes, f32 *mean_tops, u8 *square_codes, f32 *square_tops, double rate, double decay, double beta1, double beta2, double epsilon, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    __shared__ Code signed_code, unsigned_code;
    const int SIGNED = 129, UNSIGNED = 256, lane = threadIdx.x % 32;
    make_code(signed_code, 1, SIGNED);
    make_code(unsigned_code, 2, UNSIGNED);
    const A keep1 = (A)beta1, take1 = (A)(1 - beta1), keep2 = (A)beta2, take2 = (A)(1 - beta2);
    const i64 warps = blockDim.x / 32, blocks = (n + BLOCK - 1) / BLOCK;
    for (i64 b = (i64)blockIdx.x * warps + threadIdx.x / 32; b < blocks; b += (i64)gridDim.x * warps) {
        const i64 start = b * BLOCK + lane;
        f32 mean_top = mean_tops[b], square_top = square_tops[b], means[8], squares[8];
        f32 mean_most = 0, square_most = 0;
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            i64 i = start + 32 * j;
            means[j] = squares[j] = 0;
            if (i >= n) continue;
            int code = mean_codes[i];
            f32 before = mean_top * signed_code.values[code < ZERO ? ZERO - code : code - ZERO];
            A g = (A)grad_scale * widen(grad[i]);
            A m = keep1 * (A)(code < ZERO ? -before : before) + take1 * g;
            A v = keep2 * (A)(square_top * unsigned_code.values[square_codes[i]]) + take2 * (g * g);
            W after = narrow<W>((A)decay * widen(weight[i]) - (A)rate * m / (sqrt_of(v) + (A)epsilon));
            weight[i] = after;
            if (low) low[i] = narrow<bf16>(widen(after));
            if (half) half[i] = narrow<f16>(widen(after));
            means[j] = (f32)m;
            squares[j] = (f32)v;
            if (magnitude(means[j]) > mean_most) mean_most = magnitude(means[j]);
            if (magnitude(squares[j]) > square_most) square_most = magnitude(squares[j]);
        }
        mean_most = warp_max(mean_most);
        square_most = warp_max(square_most);
        if (lane == 0) {
            mean_tops[b] = mean_most;
            square_tops[b] = square_most;
        }
        // Of a block of zeros every share is zero.
        f32 mean_unit = mean_most > 0 ? mean_most : 1, square_unit = square_most > 0 ? square_most : 1;
        #pragma unroll
        for (int j = 0; j < 8; j++) {
            i64 i = start + 32 * j;
            if (i >= n) continue;
            int near = nearest(signed_code, SIGNED, magnitude(means[j]) / mean_unit);
            // There is no -1.
            mean_codes[i] = (u8)(means[j] < 0 ? ZERO - (near < ZERO ? near : ZERO) : ZERO + near);
            // A second moment that is not zero is never coded as zero: the update divides by its root.
            int square = nearest(unsigned_code, UNSIGNED, magnitude(squares[j]) / square_unit);
            square_codes[i] = (u8)(square == 0 && squares[j] > 0 ? 1 : square);
        }
    }
}

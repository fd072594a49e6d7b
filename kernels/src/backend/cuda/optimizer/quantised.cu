// AdamW with moments of 8 bits. Each warp takes a block of 256 codes, and each lane every 32nd of them.

#define BLOCK 256

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

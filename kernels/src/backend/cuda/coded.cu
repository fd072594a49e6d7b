// Coded weights. The codes and what is computed of them are the CPU's; see its file.

#define INT8_BLOCK 256
#define NF4_BLOCK 64
#define INT4_BLOCK 128
#define SCALE_BLOCK 256

__constant__ f32 NF4[16] = {
    -1.0f, -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f, -0.091050036f, 0.0f,
    0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f, 0.44070983f, 0.562617f, 0.72295684f, 1.0f,
};

// The number of the nearest value. The middle of two values of f32 is exact in f64.
__device__ __forceinline__ int nearest_nf4(f32 share) {
    int at = 0;
    #pragma unroll
    for (int step = 8; step > 0; step /= 2) {
        f32 middle = (f32)(((f64)NF4[at + step - 1] + (f64)NF4[at + step]) / 2);
        if (share > middle) at += step;
    }
    return at;
}

__device__ __forceinline__ f32 single(T x) { return (f32)widen(x); }
__device__ __forceinline__ f32 positive(f32 x) { return x < 0.0f ? -x : x; }

// A warp a block of 64 elements, a lane the two of a byte.
extern "C" __global__ void encode_nf4(const T *x, i64 n, u8 *codes, f32 *scales) {
    const i64 warps = blockDim.x / 32, blocks = (n + NF4_BLOCK - 1) / NF4_BLOCK, lane = threadIdx.x % 32;
    for (i64 b = (i64)blockIdx.x * warps + threadIdx.x / 32; b < blocks; b += (i64)gridDim.x * warps) {
        const i64 i = b * NF4_BLOCK + 2 * lane;
        f32 first = i < n ? single(x[i]) : 0.0f, second = i + 1 < n ? single(x[i + 1]) : 0.0f;
        f32 scale = warp_max(larger(positive(first), positive(second)));
        if (lane == 0) scales[b] = scale;
        if (i >= n) continue;
        f32 unit = scale == 0.0f ? 1.0f : scale;
        int low = i + 1 < n ? nearest_nf4(second / unit) : 0;
        codes[i / 2] = (u8)(nearest_nf4(first / unit) << 4 | low);
    }
}

// The number of the nearest of 4-bit integers. For NaN it is the number of zero.
__device__ __forceinline__ int nearest_int4(f32 share) {
    f32 step = rintf(share * 7.0f);
    step = step > 7.0f ? 7.0f : step < -7.0f ? -7.0f : step == step ? step : 0.0f;
    return (int)step + 8;
}

// A warp a block of 128 elements, a lane the two of a byte, twice.
extern "C" __global__ void encode_int4(const T *x, i64 n, u8 *codes, f32 *scales) {
    const i64 warps = blockDim.x / 32, blocks = (n + INT4_BLOCK - 1) / INT4_BLOCK, lane = threadIdx.x % 32;
    for (i64 b = (i64)blockIdx.x * warps + threadIdx.x / 32; b < blocks; b += (i64)gridDim.x * warps) {
        const i64 start = b * INT4_BLOCK + 2 * lane;
        f32 scale = 0.0f;
        for (int j = 0; j < 2; j++) {
            i64 i = start + 64 * j;
            if (i < n) scale = larger(scale, positive(single(x[i])));
            if (i + 1 < n) scale = larger(scale, positive(single(x[i + 1])));
        }
        scale = warp_max(scale);
        if (lane == 0) scales[b] = scale;
        f32 unit = scale == 0.0f ? 1.0f : scale;
        for (int j = 0; j < 2; j++) {
            i64 i = start + 64 * j;
            if (i >= n) continue;
            int low = i + 1 < n ? nearest_int4(single(x[i + 1]) / unit) : 0;
            codes[i / 2] = (u8)(nearest_int4(single(x[i]) / unit) << 4 | low);
        }
    }
}

// A warp a block of 256 elements.
extern "C" __global__ void encode_int8(const T *x, i64 n, u8 *codes, f32 *scales) {
    const i64 warps = blockDim.x / 32, blocks = (n + INT8_BLOCK - 1) / INT8_BLOCK, lane = threadIdx.x % 32;
    for (i64 b = (i64)blockIdx.x * warps + threadIdx.x / 32; b < blocks; b += (i64)gridDim.x * warps) {
        const i64 start = b * INT8_BLOCK + lane;
        f32 scale = 0.0f;
        for (int j = 0; j < INT8_BLOCK / 32; j++) {
            i64 i = start + 32 * j;
            if (i < n) scale = larger(scale, positive(single(x[i])));
        }
        scale = warp_max(scale);
        if (lane == 0) scales[b] = scale;
        f32 unit = scale == 0.0f ? 1.0f : scale;
        for (int j = 0; j < INT8_BLOCK / 32; j++) {
            i64 i = start + 32 * j;
            if (i >= n) continue;
            f32 step = rintf(single(x[i]) / unit * 127.0f);
            // NaN is skipped.
            step = step > 127.0f ? 127.0f : step < -127.0f ? -127.0f : step == step ? step : 0.0f;
            codes[i] = (u8)(int)step;
        }
    }
}

// One block of threads.
extern "C" __global__ void mean_of_scales(const f32 *scales, i64 n, f32 *mean) {
    f64 sum = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += scales[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *mean = (f32)(sum / (f64)n);
}

// A warp a block of scales.
extern "C" __global__ void encode_scales(const f32 *scales, i64 n, u8 *codes, f32 *tops, const f32 *mean) {
    __shared__ Code code;
    make_code(code, 1, 129);
    const i64 warps = blockDim.x / 32, blocks = (n + SCALE_BLOCK - 1) / SCALE_BLOCK, lane = threadIdx.x % 32;
    const f32 middle = *mean;
    for (i64 b = (i64)blockIdx.x * warps + threadIdx.x / 32; b < blocks; b += (i64)gridDim.x * warps) {
        const i64 start = b * SCALE_BLOCK + lane;
        f32 top = 0.0f;
        for (int j = 0; j < SCALE_BLOCK / 32; j++) {
            i64 i = start + 32 * j;
            if (i < n) top = larger(top, positive(scales[i] - middle));
        }
        top = warp_max(top);
        if (lane == 0) tops[b] = top;
        f32 unit = top == 0.0f ? 1.0f : top;
        for (int j = 0; j < SCALE_BLOCK / 32; j++) {
            i64 i = start + 32 * j;
            if (i >= n) continue;
            f32 distance = scales[i] - middle;
            int near = nearest(code, 129, positive(distance) / unit);
            // There is no -1.
            codes[i] = (u8)(distance < 0.0f ? ZERO - (near < ZERO ? near : ZERO) : ZERO + near);
        }
    }
}

// Columns of rows of a weight whose rows have `stride` elements, from element `first` on, to `y [rows, columns]`. Its scales
// are as they are, or by codes. `kind` is 0 for integers of 8 bits, 1 for NF4, 2 for integers of 4 bits.
extern "C" __global__ void decode(const u8 *codes, const f32 *scales, const u8 *scale_codes, const f32 *tops, const f32 *mean, i64 kind, i64 first, i64 stride, i64 rows, i64 columns, T *y) {
    __shared__ Code code;
    if (scale_codes) make_code(code, 1, 129);
    const f32 middle = scale_codes ? *mean : 0.0f;
    const int shift = kind == 0 ? 8 : kind == 1 ? 6 : 7;
    EACH(at, rows * columns) {
        i64 row = quotient(at, columns), i = first + row * stride + (at - row * columns), b = i >> shift;
        f32 scale;
        if (scale_codes) {
            int c = scale_codes[b];
            f32 share = code.values[c < ZERO ? ZERO - c : c - ZERO];
            // In f64, so that every device rounds alike.
            scale = (f32)((f64)middle + (f64)(c < ZERO ? -share : share) * (f64)tops[b / SCALE_BLOCK]);
        } else {
            scale = scales[b];
        }
        f32 value;
        if (kind == 0) {
            value = (f32)(signed char)codes[i] / 127.0f;
        } else {
            int half = (codes[i >> 1] >> (i % 2 ? 0 : 4)) & 15;
            value = kind == 1 ? NF4[half] : (f32)(half - 8) / 7.0f;
        }
        y[at] = narrow<T>(value * scale);
    }
}

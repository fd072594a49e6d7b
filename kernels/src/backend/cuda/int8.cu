// 8-bit integers. The codes and what is computed of them are the CPU's; see its file.

__device__ __forceinline__ f32 single(T x) { return (f32)widen(x); }
__device__ __forceinline__ bool is_normal(f32 x) {
    const u32 exponent = __float_as_uint(x) >> 23 & 255u;
    return exponent != 0u && exponent != 255u;
}
__device__ __forceinline__ f32 within(f32 x, f32 low, f32 high) { return x < low ? low : x > high ? high : x; }
// NaN is skipped.
__device__ __forceinline__ int whole(f32 x) { return x == x ? (int)x : 0; }

// The steps of an input's codes: their distance, and the code that stands for zero.
struct Steps {
    f32 scale, zero;
    // A range of zeros, which has seen nothing, has none.
    bool known;
};
__device__ __forceinline__ Steps steps_of(const f32 *range) {
    Steps steps = {(range[1] - range[0]) / 255.0f, 0.0f, true};
    if (!is_normal(steps.scale)) {
        steps.scale = 1.0f;
        steps.known = false;
    } else {
        steps.zero = within(rintf(-range[0] / steps.scale), 0.0f, 255.0f);
    }
    return steps;
}
__device__ __forceinline__ f32 from_zero(T x, Steps steps) {
    return within(rintf(single(x) / steps.scale), -steps.zero, 255.0f - steps.zero);
}

// The largest magnitude of a row over 127, and what the row is divided by; a warp a row.
struct Scale {
    f32 own, unit;
};
__device__ __forceinline__ Scale row_scale(const T *w, i64 columns, i64 lane) {
    f32 largest = 0.0f;
    for (i64 j = lane; j < columns; j += 32) {
        const f32 x = single(w[j]), magnitude = x < 0.0f ? -x : x;
        if (magnitude > largest) largest = magnitude;
    }
    const f32 own = warp_max(largest) / 127.0f;
    Scale scale = {0.0f, 1.0f};
    if (is_normal(own)) scale.own = scale.unit = own;
    return scale;
}

extern "C" __global__ void encode_rows(const T *w, i64 rows, i64 columns, u8 *codes, f32 *scales, u32 *sums) {
    const i64 warps = blockDim.x / 32, lane = threadIdx.x % 32;
    for (i64 row = (i64)blockIdx.x * warps + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * warps) {
        const Scale scale = row_scale(w + row * columns, columns, lane);
        int sum = 0;
        for (i64 j = lane; j < columns; j += 32) {
            const int step = whole(within(rintf(single(w[row * columns + j]) / scale.unit), -127.0f, 127.0f));
            codes[row * columns + j] = (u8)step;
            sum += step;
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            scales[row] = scale.own;
            sums[row] = (u32)sum;
        }
    }
}

extern "C" __global__ void round_rows(const T *w, i64 rows, i64 columns, T *y) {
    const i64 warps = blockDim.x / 32, lane = threadIdx.x % 32;
    for (i64 row = (i64)blockIdx.x * warps + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * warps) {
        const Scale scale = row_scale(w + row * columns, columns, lane);
        for (i64 j = lane; j < columns; j += 32) {
            const f32 step = within(rintf(single(w[row * columns + j]) / scale.unit), -127.0f, 127.0f);
            y[row * columns + j] = narrow<T>(step * scale.own);
        }
    }
}

// The range of what each block of threads saw.
extern "C" __global__ void find_ranges(const T *x, i64 n, f32 *ranges) {
    f32 low = 0.0f, high = 0.0f;
    EACH(i, n) {
        const f32 value = single(x[i]);
        if (value < low) low = value;
        if (value > high) high = value;
    }
    low = -block_max(-low);
    high = block_max(high);
    if (threadIdx.x == 0) {
        ranges[2 * blockIdx.x] = low;
        ranges[2 * blockIdx.x + 1] = high;
    }
}

// An end of a range that grows at once, and moves by a share towards a narrower one; rounded after each operation, as on the CPU.
__device__ __forceinline__ f32 followed(f32 before, f32 seen, bool is_narrower, f32 share) {
    if (!is_narrower) return seen;
    return share == 0.0f ? before : (f32)((f64)before + (f64)((f32)((f64)share * (f64)(seen - before))));
}

// One thread. A share of zero is for a range that only grows.
extern "C" __global__ void follow_ranges(const f32 *ranges, i64 count, f32 *range, double share) {
    f32 low = 0.0f, high = 0.0f;
    for (i64 i = 0; i < count; ++i) {
        if (ranges[2 * i] < low) low = ranges[2 * i];
        if (ranges[2 * i + 1] > high) high = ranges[2 * i + 1];
    }
    range[0] = followed(range[0], low, low > range[0], (f32)share);
    range[1] = followed(range[1], high, high < range[1], (f32)share);
}

extern "C" __global__ void encode_input(const T *x, const f32 *range, u8 *codes, i64 n) {
    const Steps steps = steps_of(range);
    EACH(i, n) codes[i] = (u8)whole(from_zero(x[i], steps) + steps.zero);
}

extern "C" __global__ void round_input(const T *x, const f32 *range, T *y, i64 n) {
    const Steps steps = steps_of(range);
    EACH(i, n) y[i] = steps.known ? narrow<T>(from_zero(x[i], steps) * steps.scale) : x[i];
}

extern "C" __global__ void round_input_gradient(const T *x, const f32 *range, T *dx, i64 n) {
    const Steps steps = steps_of(range);
    EACH(i, n) {
        const f32 step = rintf(single(x[i]) / steps.scale);
        if (steps.known && (step < -steps.zero || step > 255.0f - steps.zero)) dx[i] = narrow<T>((A)0);
    }
}

// Adds four products of an unsigned by a signed byte.
__device__ __forceinline__ int four_products(u32 x, u32 w, int sum) {
#if defined(PLIMSOLL_SIMULATED) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 610
    for (int i = 0; i < 32; i += 8) sum += (int)(x >> i & 255u) * (int)(signed char)(w >> i & 255u);
    return sum;
#else
    int result;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
    return result;
#endif
}

// A thread an output. Where channels are a multiple of four, and so rows begin at one of four bytes, four are read at once.
extern "C" __global__ void int8_product(const u8 *x, const f32 *range, const u8 *w, const f32 *scales, const u32 *sums, const T *bias, T *y, i64 batch, i64 filters, i64 height, i64 width, i64 channels, i64 size, i64 stride, i64 padding, int in_fours) {
    const Steps steps = steps_of(range);
    const int zero = (int)steps.zero;
    const i64 down = (height + 2 * padding - size) / stride + 1, across = (width + 2 * padding - size) / stride + 1;
    EACH(at, batch * down * across * filters) {
        const i64 pixel = quotient(at, filters), filter = at - pixel * filters;
        const i64 line = quotient(pixel, across), column = pixel - line * across;
        const i64 image = quotient(line, down), row = line - image * down;
        const u8 *weight = w + filter * size * size * channels;
        int sum = 0;
        for (i64 i = 0; i < size; ++i) {
            const i64 v = row * stride + i - padding;
            for (i64 j = 0; j < size; ++j, weight += channels) {
                const i64 u = column * stride + j - padding;
                if (v < 0 || v >= height || u < 0 || u >= width) {
                    // The code of zero.
                    for (i64 c = 0; c < channels; ++c) sum += zero * (int)(signed char)weight[c];
                    continue;
                }
                const u8 *seen = x + ((image * height + v) * width + u) * channels;
                if (in_fours) {
                    for (i64 c = 0; c < channels; c += 4) sum = four_products(*(const u32 *)(seen + c), *(const u32 *)(weight + c), sum);
                } else {
                    for (i64 c = 0; c < channels; ++c) sum += (int)seen[c] * (int)(signed char)weight[c];
                }
            }
        }
        const A scale = (A)steps.scale * (A)scales[filter];
        A value = (A)(sum - zero * (int)sums[filter]) * scale;
        if (bias) value += widen(bias[filter]);
        y[at] = narrow<T>(value);
    }
}

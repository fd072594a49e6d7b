// Kernels that treat each element by itself.

extern "C" __global__ void fill(T *y, i64 n, double value) {
    T filled = narrow<T>(value);
    EACH(i, n) y[i] = filled;
}
extern "C" __global__ void fill_u32(u32 *y, i64 n, double value) {
    EACH(i, n) y[i] = (u32)value;
}
extern "C" __global__ void fill_u8(u8 *y, i64 n, double value) {
    EACH(i, n) y[i] = (u8)value;
}

extern "C" __global__ void uniform(T *y, i64 n, double bound, u64 key) {
    EACH(i, n) y[i] = narrow<T>(bound * (2.0 * random_uniform(key, (u64)i) - 1.0));
}
// Box & Muller 1958, with the counters 2i and 2i + 1.
extern "C" __global__ void normal(T *y, i64 n, double std, u64 key) {
    EACH(i, n) {
        double radius = sqrt(-2.0 * log(1.0 - random_uniform(key, 2 * (u64)i)));
        y[i] = narrow<T>(std * radius * cos(6.283185307179586 * random_uniform(key, 2 * (u64)i + 1)));
    }
}

// Comparisons are such that NaN stays NaN, and that the gradient passes where it is, so that it is not lost.
extern "C" __global__ void relu(T *y, i64 n) {
    EACH(i, n) if (widen(y[i]) < (A)0) y[i] = narrow<T>((A)0);
}
extern "C" __global__ void relu_gradient(const T *y, T *dy, i64 n) {
    EACH(i, n) if (widen(y[i]) <= (A)0) dy[i] = narrow<T>((A)0);
}
extern "C" __global__ void relu6(T *y, i64 n) {
    EACH(i, n) {
        A value = widen(y[i]);
        if (value < (A)0) y[i] = narrow<T>((A)0);
        if (value > (A)6) y[i] = narrow<T>((A)6);
    }
}
extern "C" __global__ void relu6_gradient(const T *y, T *dy, i64 n) {
    EACH(i, n) if (widen(y[i]) <= (A)0 || widen(y[i]) >= (A)6) dy[i] = narrow<T>((A)0);
}

extern "C" __global__ void add(const T *x, T *y, i64 n) {
    EACH(i, n) y[i] = narrow<T>(widen(y[i]) + widen(x[i]));
}
extern "C" __global__ void scale(T *y, i64 n, double factor) {
    EACH(i, n) y[i] = narrow<T>(widen(y[i]) * (A)factor);
}

// What gradients of this sum of squares are multiplied by so that their norm is the limit at the most. One thread.
extern "C" __global__ void clip(const f64 *squares, f64 *scale, double limit) {
    if (threadIdx.x == 0) {
        double norm = sqrt(*squares);
        *scale = norm > limit ? limit / norm : 1.0;
    }
}

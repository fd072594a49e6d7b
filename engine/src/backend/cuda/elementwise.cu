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
        double sine, cosine;
        sine_and_cosine(6.283185307179586 * random_uniform(key, 2 * (u64)i + 1), sine, cosine);
        y[i] = narrow<T>(std * radius * cosine);
    }
}

// What f makes of each element, in place: a run of elements a thread.
template <class F> __device__ __forceinline__ void change(T *y, i64 n, int wide, F f) {
    each_run(n, wide, [=](i64 i, auto run) {
        A values[LENGTH(run)];
        load(y + i, values);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) values[v] = f(values[v]);
        store(y + i, values);
    });
}
// The same of two.
template <class F> __device__ __forceinline__ void change_by(const T *x, T *y, i64 n, int wide, F f) {
    each_run(n, wide, [=](i64 i, auto run) {
        A from[LENGTH(run)], values[LENGTH(run)];
        load(x + i, from);
        load(y + i, values);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) values[v] = f(from[v], values[v]);
        store(y + i, values);
    });
}

// Comparisons are such that NaN stays NaN, and that the gradient passes where it is, so that it is not lost.
extern "C" __global__ void relu(T *y, i64 n, int wide) {
    change(y, n, wide, [](A y) { return y < (A)0 ? (A)0 : y; });
}
extern "C" __global__ void relu_gradient(const T *y, T *dy, i64 n, int wide) {
    change_by(y, dy, n, wide, [](A y, A dy) { return y <= (A)0 ? (A)0 : dy; });
}
extern "C" __global__ void relu6(T *y, i64 n, int wide) {
    change(y, n, wide, [](A y) { return y < (A)0 ? (A)0 : y > (A)6 ? (A)6 : y; });
}
extern "C" __global__ void relu6_gradient(const T *y, T *dy, i64 n, int wide) {
    change_by(y, dy, n, wide, [](A y, A dy) { return y <= (A)0 || y >= (A)6 ? (A)0 : dy; });
}

extern "C" __global__ void add(const T *x, T *y, i64 n, int wide) {
    change_by(x, y, n, wide, [](A x, A y) { return y + x; });
}
extern "C" __global__ void scale(T *y, i64 n, double factor, int wide) {
    change(y, n, wide, [=](A y) { return y * (A)factor; });
}

// What gradients of this sum of squares are multiplied by so that their norm is the limit at the most. One thread.
extern "C" __global__ void clip(const f64 *squares, f64 *scale, double limit) {
    if (threadIdx.x == 0) {
        double norm = sqrt(*squares);
        *scale = norm > limit ? limit / norm : 1.0;
    }
}

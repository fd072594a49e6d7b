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

extern "C" __global__ void add(const T *x, T *y, i64 n, int wide) {
    change_by(x, y, n, wide, [](A x, A y) { return y + x; });
}
extern "C" __global__ void scale(T *y, i64 n, double factor, int wide) {
    change(y, n, wide, [=](A y) { return y * (A)factor; });
}

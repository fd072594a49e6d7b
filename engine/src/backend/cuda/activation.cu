// Activation functions and their gradients: each thread takes a run of elements.

extern "C" __global__ void relu(T *y, i64 n, int wide) {
    change(y, n, wide, [](A y) { return Relu::value(y); });
}
extern "C" __global__ void relu_gradient(const T *y, T *dy, i64 n, int wide) {
    change_by(y, dy, n, wide, [](A y, A dy) { return Relu::passed(y, dy); });
}
extern "C" __global__ void relu6(T *y, i64 n, int wide) {
    change(y, n, wide, [](A y) { return Relu6::value(y); });
}
extern "C" __global__ void relu6_gradient(const T *y, T *dy, i64 n, int wide) {
    change_by(y, dy, n, wide, [](A y, A dy) { return Relu6::passed(y, dy); });
}

template <class Function> __device__ __forceinline__ void values(const T *x, T *y, i64 n, int wide) {
    each_run(n, wide, [=](i64 i, auto run) {
        A of[LENGTH(run)];
        load(x + i, of);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) of[v] = Function::value(of[v]);
        store(y + i, of);
    });
}
template <class Function> __device__ __forceinline__ void derivatives(const T *x, T *dy, i64 n, int wide) {
    each_run(n, wide, [=](i64 i, auto run) {
        A of[LENGTH(run)], derivative[LENGTH(run)];
        load(x + i, of);
        load(dy + i, derivative);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) derivative[v] *= Function::derivative(of[v]);
        store(dy + i, derivative);
    });
}

extern "C" __global__ void gelu(const T *x, T *y, i64 n, int wide) { values<Gelu>(x, y, n, wide); }
extern "C" __global__ void gelu_tanh(const T *x, T *y, i64 n, int wide) { values<GeluTanh>(x, y, n, wide); }
extern "C" __global__ void silu(const T *x, T *y, i64 n, int wide) { values<Silu>(x, y, n, wide); }
extern "C" __global__ void mish(const T *x, T *y, i64 n, int wide) { values<Mish>(x, y, n, wide); }
extern "C" __global__ void gelu_gradient(const T *x, T *dy, i64 n, int wide) { derivatives<Gelu>(x, dy, n, wide); }
extern "C" __global__ void gelu_tanh_gradient(const T *x, T *dy, i64 n, int wide) { derivatives<GeluTanh>(x, dy, n, wide); }
extern "C" __global__ void silu_gradient(const T *x, T *dy, i64 n, int wide) { derivatives<Silu>(x, dy, n, wide); }
extern "C" __global__ void mish_gradient(const T *x, T *dy, i64 n, int wide) { derivatives<Mish>(x, dy, n, wide); }

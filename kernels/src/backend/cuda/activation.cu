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

#define KERNELS(name, Function) \
    extern "C" __global__ void name(const T *x, T *y, i64 n, int wide) { values<Function>(x, y, n, wide); } \
    extern "C" __global__ void name##_gradient(const T *x, T *dy, i64 n, int wide) { derivatives<Function>(x, dy, n, wide); }
EACH_SMOOTH(KERNELS)

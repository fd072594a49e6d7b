// The functions of one number, and their derivatives.

// Comparisons keep NaN, and let the gradient pass where the output is NaN, so that it is not lost.
struct Relu {
    static __device__ __forceinline__ A value(A x) { return x < (A)0 ? (A)0 : x; }
    static __device__ __forceinline__ A passed(A y, A dy) { return y <= (A)0 ? (A)0 : dy; }
};
struct Relu6 {
    static __device__ __forceinline__ A value(A x) { return x < (A)0 ? (A)0 : x > (A)6 ? (A)6 : x; }
    static __device__ __forceinline__ A passed(A y, A dy) { return y <= (A)0 || y >= (A)6 ? (A)0 : dy; }
};

// sqrt(2 / pi) and the cubic term of Hendrycks & Gimpel 2016.
#define SLOPE 0.7978845608028654
#define CUBIC 0.044715

__device__ __forceinline__ A normal_share(A x) { return (A)0.5 * ((A)1 + erf_of(x * (A)0.7071067811865476)); }
__device__ __forceinline__ A sigmoid(A x) { return (A)1 / ((A)1 + exp_of(-x)); }

struct Gelu {
    static __device__ __forceinline__ A value(A x) { return x * normal_share(x); }
    static __device__ __forceinline__ A derivative(A x) {
        return normal_share(x) + x * (A)0.3989422804014327 * exp_of((A)-0.5 * x * x);
    }
};
struct GeluTanh {
    // tanh of the argument. Past 20 the quotient is 1 in any type, and below the exponential is 0.
    static __device__ __forceinline__ A inner(A x) {
        A argument = (A)SLOPE * x * ((A)1 + (A)CUBIC * (x * x));
        return (A)1 - (A)2 / (exp_of((A)2 * argument) + (A)1);
    }
    static __device__ __forceinline__ A value(A x) { return (A)0.5 * x * ((A)1 + inner(x)); }
    static __device__ __forceinline__ A derivative(A x) {
        A t = inner(x), steepness = (A)SLOPE * ((A)1 + (A)(3 * CUBIC) * (x * x));
        return (A)0.5 * ((A)1 + t + x * ((A)1 - t * t) * steepness);
    }
};
struct Silu {
    static __device__ __forceinline__ A value(A x) { return x * sigmoid(x); }
    static __device__ __forceinline__ A derivative(A x) {
        A s = sigmoid(x);
        return s * ((A)1 + x * ((A)1 - s));
    }
};
struct Mish {
    // With e = exp(x) and n = e (e + 2), tanh(ln(1 + e)) is n / (n + 2). Past 20 the quotient is 1 in any type.
    static __device__ __forceinline__ A exponential(A x) { return exp_of(x > (A)20 ? (A)20 : x); }
    static __device__ __forceinline__ A value(A x) {
        A e = exponential(x), n = e * (e + (A)2);
        return x * (n / (n + (A)2));
    }
    static __device__ __forceinline__ A derivative(A x) {
        A e = exponential(x), n = e * (e + (A)2);
        A rest = (A)4 * (n + (A)1) / ((n + (A)2) * (n + (A)2));  // 1 - tanh²
        return n / (n + (A)2) + x * (e / ((A)1 + e)) * rest;
    }
};

// Every smooth function, for what makes kernels of each: the name of its kernels, and the type above.
#define EACH_SMOOTH(make) make(gelu, Gelu) make(gelu_tanh, GeluTanh) make(silu, Silu) make(mish, Mish)

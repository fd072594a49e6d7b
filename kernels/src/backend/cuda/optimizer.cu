// Update rules that treat every element alike. T is the gradient's type, W that of weight and state; of the two copies, at
// most one is there. A scale of the device's own, `clip`, multiplies that of the gradient where it is given. A thread takes
// four neighbours at once where the alignment of all tensors allows it.

template <class X> struct __align__(4 * sizeof(X)) Four { X at[4]; };

template <class X> __device__ __forceinline__ bool is_aligned(const X *at) { return (u64)at % sizeof(Four<X>) == 0; }

// Applies a rule to an element. Returns the weight as it is stored.
template <class R> __device__ __forceinline__ A update(const R &rule, T g, W &w, W &first, W &second) {
    A state[2] = {0, 0}, weight = widen(w);
    if (R::KEPT > 0) state[0] = widen(first);
    if (R::KEPT > 1) state[1] = widen(second);
    rule.step(widen(g), weight, state);
    w = narrow<W>(weight);
    if (R::KEPT > 0) first = narrow<W>(state[0]);
    if (R::KEPT > 1) second = narrow<W>(state[1]);
    return widen(w);
}

template <class X> __device__ __forceinline__ void copy_four(X *copy, i64 i, const A (&stored)[4]) {
    Four<X> four;
    #pragma unroll
    for (int j = 0; j < 4; j++) four.at[j] = narrow<X>(stored[j]);
    ((Four<X> *)copy)[i] = four;
}

template <class R> __device__ __forceinline__ void update_all(const R &rule, const T *grad, W *weight, W *first, W *second, bf16 *low, f16 *half, i64 n) {
    bool is_whole = is_aligned(grad) && is_aligned(weight) && is_aligned(low) && is_aligned(half);
    if (R::KEPT > 0) is_whole = is_whole && is_aligned(first);
    if (R::KEPT > 1) is_whole = is_whole && is_aligned(second);
    const i64 fours = is_whole ? n / 4 : 0;
    W none = narrow<W>((A)0);
    EACH(i, fours) {
        const Four<T> g = ((const Four<T> *)grad)[i];
        Four<W> w = ((Four<W> *)weight)[i], m = w, v = w;
        if (R::KEPT > 0) m = ((Four<W> *)first)[i];
        if (R::KEPT > 1) v = ((Four<W> *)second)[i];
        A stored[4];
        #pragma unroll
        for (int j = 0; j < 4; j++) stored[j] = update(rule, g.at[j], w.at[j], m.at[j], v.at[j]);
        ((Four<W> *)weight)[i] = w;
        if (R::KEPT > 0) ((Four<W> *)first)[i] = m;
        if (R::KEPT > 1) ((Four<W> *)second)[i] = v;
        if (low) copy_four(low, i, stored);
        if (half) copy_four(half, i, stored);
    }
    for (i64 i = fours * 4 + first_index(); i < n; i += index_stride()) {
        A stored = update(rule, grad[i], weight[i], R::KEPT > 0 ? first[i] : none, R::KEPT > 1 ? second[i] : none);
        if (low) low[i] = narrow<bf16>(stored);
        if (half) half[i] = narrow<f16>(stored);
    }
}

struct Sgd {
    static const int KEPT = 0;
    A rate, weight_decay, grad_scale;
    __device__ __forceinline__ void step(A g, A &w, A *) const { w -= rate * (grad_scale * g + weight_decay * w); }
};
extern "C" __global__ void sgd(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, double rate, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Sgd rule = {(A)rate, (A)weight_decay, (A)grad_scale};
    update_all(rule, grad, weight, (W *)0, (W *)0, low, half, n);
}

template <bool NESTEROV> struct Momentum {
    static const int KEPT = 1;
    A rate, momentum, weight_decay, grad_scale;
    __device__ __forceinline__ void step(A g, A &w, A *state) const {
        g = grad_scale * g + weight_decay * w;
        A next = momentum * state[0] + g;
        state[0] = next;
        w -= rate * (NESTEROV ? g + momentum * next : next);
    }
};
extern "C" __global__ void momentum(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, W *velocity, double rate, double momentum, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Momentum<false> rule = {(A)rate, (A)momentum, (A)weight_decay, (A)grad_scale};
    update_all(rule, grad, weight, velocity, (W *)0, low, half, n);
}
extern "C" __global__ void nesterov(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, W *velocity, double rate, double momentum, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Momentum<true> rule = {(A)rate, (A)momentum, (A)weight_decay, (A)grad_scale};
    update_all(rule, grad, weight, velocity, (W *)0, low, half, n);
}

struct Lion {
    static const int KEPT = 1;
    A rate, decay, keep1, take1, keep2, take2, grad_scale;
    __device__ __forceinline__ void step(A g, A &w, A *state) const {
        g *= grad_scale;
        A direction = keep1 * state[0] + take1 * g;
        state[0] = keep2 * state[0] + take2 * g;
        w = decay * w - (direction > (A)0 ? rate : direction < (A)0 ? -rate : (A)0);
    }
};
extern "C" __global__ void lion(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, W *mean, double rate, double decay, double beta1, double beta2, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Lion rule = {(A)rate, (A)decay, (A)beta1, (A)(1 - beta1), (A)beta2, (A)(1 - beta2), (A)grad_scale};
    update_all(rule, grad, weight, mean, (W *)0, low, half, n);
}

struct RmsProp {
    static const int KEPT = 1;
    A rate, keep, take, epsilon, weight_decay, grad_scale;
    __device__ __forceinline__ void step(A g, A &w, A *state) const {
        g = grad_scale * g + weight_decay * w;
        state[0] = keep * state[0] + take * (g * g);
        w -= rate * g / (sqrt_of(state[0]) + epsilon);
    }
};
extern "C" __global__ void rms_prop(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, W *squares, double rate, double alpha, double epsilon, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    RmsProp rule = {(A)rate, (A)alpha, (A)(1 - alpha), (A)epsilon, (A)weight_decay, (A)grad_scale};
    update_all(rule, grad, weight, squares, (W *)0, low, half, n);
}

struct Adam {
    static const int KEPT = 2;
    A rate, decay, l2, keep1, take1, keep2, take2, epsilon, grad_scale;
    __device__ __forceinline__ void step(A g, A &w, A *state) const {
        g = grad_scale * g + l2 * w;
        state[0] = keep1 * state[0] + take1 * g;
        state[1] = keep2 * state[1] + take2 * (g * g);
        w = decay * w - rate * state[0] / (sqrt_of(state[1]) + epsilon);
    }
};
extern "C" __global__ void adam(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, W *mean, W *square, double rate, double decay, double l2, double beta1, double beta2, double epsilon, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Adam rule = {(A)rate, (A)decay, (A)l2, (A)beta1, (A)(1 - beta1), (A)beta2, (A)(1 - beta2), (A)epsilon, (A)grad_scale};
    update_all(rule, grad, weight, mean, square, low, half, n);
}

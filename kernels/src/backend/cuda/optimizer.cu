// Update rules that treat every element alike, of one parameter or of several: TENSORS and UPDATE say which. A scale of the
// device's own, `clip`, multiplies that of the gradient where it is given.

struct Sgd {
    static const int KEPT = 0;
    A rate, weight_decay, grad_scale;
    __device__ __forceinline__ void step(A g, A &w, A *) const { w -= rate * (grad_scale * g + weight_decay * w); }
};
extern "C" __global__ void sgd(TENSORS, double rate, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Sgd rule = {(A)rate, (A)weight_decay, (A)grad_scale};
    UPDATE(rule);
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
extern "C" __global__ void momentum(TENSORS, double rate, double momentum, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Momentum<false> rule = {(A)rate, (A)momentum, (A)weight_decay, (A)grad_scale};
    UPDATE(rule);
}
extern "C" __global__ void nesterov(TENSORS, double rate, double momentum, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Momentum<true> rule = {(A)rate, (A)momentum, (A)weight_decay, (A)grad_scale};
    UPDATE(rule);
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
extern "C" __global__ void lion(TENSORS, double rate, double decay, double beta1, double beta2, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Lion rule = {(A)rate, (A)decay, (A)beta1, (A)(1 - beta1), (A)beta2, (A)(1 - beta2), (A)grad_scale};
    UPDATE(rule);
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
extern "C" __global__ void rms_prop(TENSORS, double rate, double alpha, double epsilon, double weight_decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    RmsProp rule = {(A)rate, (A)alpha, (A)(1 - alpha), (A)epsilon, (A)weight_decay, (A)grad_scale};
    UPDATE(rule);
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
extern "C" __global__ void adam(TENSORS, double rate, double decay, double l2, double beta1, double beta2, double epsilon, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    Adam rule = {(A)rate, (A)decay, (A)l2, (A)beta1, (A)(1 - beta1), (A)beta2, (A)(1 - beta2), (A)epsilon, (A)grad_scale};
    UPDATE(rule);
}

// A parameter's update, element by element. T is the gradient's type, W that of weight and state; of the two copies, at most
// one is there. A thread takes four neighbours at once where the alignment of all tensors allows it.

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

// What the thread `own` of `threads` does of it. A rule does not use a state that it does not keep.
template <class R> __device__ __forceinline__ void update_tensor(const R &rule, const T *grad, W *weight, W *first, W *second, bf16 *low, f16 *half, i64 n, i64 own, i64 threads) {
    bool is_whole = is_aligned(grad) && is_aligned(weight) && is_aligned(low) && is_aligned(half);
    if (R::KEPT > 0) is_whole = is_whole && is_aligned(first);
    if (R::KEPT > 1) is_whole = is_whole && is_aligned(second);
    const i64 fours = is_whole ? n / 4 : 0;
    W none = narrow<W>((A)0);
    FEW_TIMES for (i64 i = own; i < fours; i += threads) {
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
    for (i64 i = fours * 4 + own; i < n; i += threads) {
        A stored = update(rule, grad[i], weight[i], R::KEPT > 0 ? first[i] : none, R::KEPT > 1 ? second[i] : none);
        if (low) low[i] = narrow<bf16>(stored);
        if (half) half[i] = narrow<f16>(stored);
    }
}

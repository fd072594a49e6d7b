// The columns of a tile, and what each is normalised by.
template <int V> struct Normal {
    A center[V], scale[V], offset[V];

    __device__ __forceinline__ void read(i64 column, const A *mean, const A *inverse, const W *weight, const W *bias) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            center[v] = mean[column + v];
            scale[v] = inverse[column + v] * widen(weight[column + v]);
            offset[v] = widen(bias[column + v]);
        }
    }
    __device__ __forceinline__ A of(int v, A x) const { return as_stored(fused(x - center[v], scale[v], offset[v])); }
};

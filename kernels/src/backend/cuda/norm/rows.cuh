// A row under the threads of a warp, or of a whole block where it is long.

// The sum over the threads of a row.
template <int G> __device__ __forceinline__ A group_sum(A x) { return G == 32 ? warp_sum(x) : block_sum(x); }

// Calls f(i) for the thread's elements of a row.
template <int G, int V, class F> __device__ __forceinline__ void each_of_row(i64 columns, F f) {
    for (i64 i = (i64)((int)threadIdx.x % G) * V; i < columns; i += G * V) f(i);
}

// Normalises a row whose first element is `first`; where no mean is given there is none, and no bias.
template <int G, int V>
__device__ __forceinline__ void normalise_row(const T *from, A first, const W *weight, const W *bias, T *to, A *mean,
                                              A *inverse, i64 columns, A epsilon) {
    A share = (A)(1.0 / (f64)columns), center = 0, values[V], weights[V];
    if (mean) {
        A sum = 0;
        each_of_row<G, V>(columns, [&](i64 i) {
            load(from + i, values);
#pragma unroll
            for (int v = 0; v < V; ++v) sum += values[v] - first;
        });
        center = first + share * group_sum<G>(sum);
    }
    A sum = 0;
    each_of_row<G, V>(columns, [&](i64 i) {
        load(from + i, values);
#pragma unroll
        for (int v = 0; v < V; ++v) sum += (values[v] - center) * (values[v] - center);
    });
    A scale = (A)1 / sqrt_of(share * group_sum<G>(sum) + epsilon);
    each_of_row<G, V>(columns, [&](i64 i) {
        A offsets[V];
        load(from + i, values);
        load(weight + i, weights);
        if (bias) load(bias + i, offsets);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = (values[v] - center) * scale * weights[v];
            if (bias) values[v] += offsets[v];
        }
        store(to + i, values);
    });
    if ((int)threadIdx.x % G == 0) {
        if (mean) *mean = center;
        *inverse = scale;
    }
}

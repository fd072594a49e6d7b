// Runs of neighbouring elements: one access of a thread where addresses allow it, one by one where not.

template <class X, int N> struct alignas(sizeof(X) * N) Pack { X at[N]; };
// A run's length as a type, for functions that are compiled for each.
template <int N> struct Run { static const int length = N; };
#define LENGTH(run) decltype(run)::length

template <class X, class Y, int N> __device__ __forceinline__ void load(const X *from, Y (&to)[N]) {
    Pack<X, N> pack = *(const Pack<X, N> *)from;
#pragma unroll
    for (int v = 0; v < N; ++v) to[v] = widen(pack.at[v]);
}
template <class X, class Y, int N> __device__ __forceinline__ void store(X *to, const Y (&from)[N]) {
    Pack<X, N> pack;
#pragma unroll
    for (int v = 0; v < N; ++v) pack.at[v] = narrow<X>(from[v]);
    *(Pack<X, N> *)to = pack;
}

// Runs in registers.
template <class Y, int N> __device__ __forceinline__ void clear(Y (&run)[N]) {
#pragma unroll
    for (int v = 0; v < N; ++v) run[v] = 0;
}
template <class Y, int N> __device__ __forceinline__ void add_to(Y (&sums)[N], const Y (&values)[N]) {
#pragma unroll
    for (int v = 0; v < N; ++v) sums[v] += values[v];
}
template <class Y, int N> __device__ __forceinline__ void add_product(Y (&sums)[N], const Y (&a)[N], const Y (&b)[N]) {
#pragma unroll
    for (int v = 0; v < N; ++v) sums[v] += a[v] * b[v];
}
template <class Y, int N> __device__ __forceinline__ void multiply_by(Y (&run)[N], Y factor) {
#pragma unroll
    for (int v = 0; v < N; ++v) run[v] *= factor;
}

// Calls f(i, run) for runs that cover n elements, of four where `wide`, which promises that every address is aligned so: for
// those of the thread `first` of `threads`.
template <class F> __device__ __forceinline__ void each_run_of(i64 first, i64 threads, i64 n, int wide, F f) {
    i64 whole = wide ? n / 4 * 4 : 0;
    FEW_TIMES for (i64 i = 4 * first; i < whole; i += 4 * threads) f(i, Run<4>());
    FEW_TIMES for (i64 i = whole + first; i < n; i += threads) f(i, Run<1>());
}
// The same for all threads of the launch.
template <class F> __device__ __forceinline__ void each_run(i64 n, int wide, F f) {
    each_run_of(first_index(), index_stride(), n, wide, f);
}

// Calls f(row, column, run) for runs that cover a matrix: a row of threads a row, neighbours along the columns. Of four where
// `wide`, which promises the same of every row.
template <class F> __device__ __forceinline__ void each_run_of_rows(i64 rows, i64 columns, int wide, F f) {
    const i64 length = wide ? 4 : 1, first = length * ((i64)blockIdx.y * blockDim.x + threadIdx.x);
    const i64 step = length * ((i64)gridDim.y * blockDim.x);
    FEW_TIMES for (i64 r = (i64)blockIdx.x * blockDim.y + threadIdx.y; r < rows; r += (i64)gridDim.x * blockDim.y) {
        FEW_TIMES for (i64 c = first; c < columns; c += step) {
            if (wide) f(r, c, Run<4>());
            else f(r, c, Run<1>());
        }
    }
}

// A product and a sum, rounded once on every device.
__device__ __forceinline__ f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
__device__ __forceinline__ f64 fused(f64 a, f64 b, f64 c) { return fma(a, b, c); }

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

// A sum over all elements, in f64: the square of any f32 is finite there, so only what is not finite makes the sum so.

// Every block has a part, whose sum it writes; a single block adds it to the result.
extern "C" __global__ void sum_squares(const T *x, i64 n, f64 *partials, f64 *sum, int wide) {
    f64 total = 0;
    each_run(n, wide, [&](i64 i, auto run) {
        A values[LENGTH(run)];
        load(x + i, values);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) total += (f64)values[v] * (f64)values[v];
    });
    total = block_sum(total);
    if (threadIdx.x != 0) return;
    if (gridDim.x == 1) {
        sum[0] += total;
    } else {
        partials[blockIdx.x] = total;
    }
}
// One block adds up the parts.
extern "C" __global__ void add_parts(const f64 *partials, i64 parts, f64 *sum) {
    f64 total = 0;
    for (i64 i = threadIdx.x; i < parts; i += blockDim.x) total += partials[i];
    total = block_sum(total);
    if (threadIdx.x == 0) sum[0] += total;
}

// What gradients of this sum of squares are multiplied by so that their norm is the limit at the most. One thread.
extern "C" __global__ void clip(const f64 *squares, f64 *scale, double limit) {
    if (threadIdx.x == 0) {
        double norm = sqrt(*squares);
        *scale = norm > limit ? limit / norm : 1.0;
    }
}

// Brings a tensor of this sum of squares to a norm of one.
extern "C" __global__ void normalise(const f64 *squares, T *x, i64 n, double epsilon, int wide) {
    const A factor = (A)(1.0 / (sqrt(*squares) + epsilon));
    each_run(n, wide, [&](i64 i, auto run) {
        A values[LENGTH(run)];
        load(x + i, values);
        multiply_by(values, factor);
        store(x + i, values);
    });
}

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

// Several tensors: the parts of each as `sum_squares` makes them, one behind another.
struct Summed {
    const T *x;
    i64 n;
};
static_assert(sizeof(Table<Summed>) == MOST * (2 * 8 + 4), "as the host lays it out");
extern "C" __global__ void sum_all_squares(Table<Summed> all, f64 *partials) {
    const int tensor = tensor_of_block(all);
    const i64 block = blockIdx.x - first_block(all, tensor), own = block * blockDim.x + threadIdx.x;
    const i64 threads = (i64)blocks_of(all, tensor) * blockDim.x;
    const T *x = all.of[tensor].x;
    f64 total = 0;
    each_run_of(own, threads, all.of[tensor].n, (u64)x % (4 * sizeof(T)) == 0, [&](i64 i, auto run) {
        A values[LENGTH(run)];
        load(x + i, values);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) total += (f64)values[v] * (f64)values[v];
    });
    total = block_sum(total);
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
}
// One block. A warp adds up the parts of a tensor in the order in which the 256 threads of `add_parts` do, one warp of them
// after another; one thread adds the sums in the order of the tensors.
extern "C" __global__ void add_all_parts(Table<Summed> all, const f64 *partials, i64 tensors, f64 *sum, int accumulate) {
    __shared__ f64 sums[MOST];
    const int lane = threadIdx.x % 32;
    FEW_TIMES for (int tensor = threadIdx.x / 32; tensor < tensors; tensor += blockDim.x / 32) {
        const f64 *own = partials + first_block(all, tensor);
        const u32 parts = blocks_of(all, tensor);
        f64 of_warps = 0;
        FEW_TIMES for (u32 warp = 0; warp < 8; warp++) {
            f64 total = 0;
            for (u32 i = 32 * warp + lane; i < parts; i += 256) total += own[i];
            total = warp_sum(total);
            if (lane == (int)warp) of_warps = total;
        }
        of_warps = warp_sum(of_warps);
        if (lane == 0) sums[tensor] = of_warps;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    f64 total = accumulate ? sum[0] : 0.0;
    for (int tensor = 0; tensor < tensors; tensor++) total += sums[tensor];
    sum[0] = total;
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

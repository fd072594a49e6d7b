// APOLLO-Mini. Sums are carried in f64, part by part, in an order that never changes.

// Normal numbers: those of the engine's Rng (Box & Muller 1958, with the counters 2i and 2i + 1).
extern "C" __global__ void apollo_direction(f64 *direction, i64 n, u64 key) {
    EACH(i, n) {
        f64 radius = sqrt(-2.0 * log(1.0 - random_uniform(key, 2 * (u64)i)));
        f64 sine, cosine;
        sine_and_cosine(6.283185307179586 * random_uniform(key, 2 * (u64)i + 1), sine, cosine);
        direction[i] = radius * cosine;
    }
}

// Of a matrix with few columns. A warp a row.
extern "C" __global__ void apollo_rows(const T *grad, const f64 *direction, i64 rows, i64 columns, f64 *sums, f64 *squares) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    f64 square = 0;
    for (i64 r = (i64)blockIdx.x * warps + threadIdx.x / 32; r < rows; r += (i64)gridDim.x * warps) {
        const T *row = grad + r * columns;
        f64 sum = 0;
        #pragma unroll 4
        for (i64 c = lane; c < columns; c += 32) {
            f64 g = widen(row[c]);
            sum += g * direction[c];
            square += g * g;
        }
        sum = warp_sum(sum);
        if (lane == 0) sums[r] = sum;
    }
    square = block_sum(square);
    if (threadIdx.x == 0) squares[blockIdx.x] = square;
}
// Of a matrix with few rows. A block 32 columns of a part of the rows, of which a warp has every 8th.
extern "C" __global__ void apollo_columns(const T *grad, const f64 *direction, i64 rows, i64 columns, f64 *sums, f64 *squares) {
    __shared__ f64 warps[8][32], of_warps[8];
    const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
    const i64 from = (i64)blockIdx.y * rows / gridDim.y, to = ((i64)blockIdx.y + 1) * rows / gridDim.y;
    f64 sum = 0, square = 0;
    if (c < columns) {
        #pragma unroll 4
        for (i64 r = from + threadIdx.y; r < to; r += 8) {
            f64 g = widen(grad[r * columns + c]);
            sum += g * direction[r];
            square += g * g;
        }
    }
    square = warp_sum(square);
    warps[threadIdx.y][threadIdx.x] = sum;
    if (threadIdx.x == 0) of_warps[threadIdx.y] = square;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        for (int w = 1; w < 8; w++) sum += warps[w][threadIdx.x];
        sums[(i64)blockIdx.y * columns + c] = sum;
    }
    if (threadIdx.y == 0 && threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) square += of_warps[w];
        squares[(i64)blockIdx.y * gridDim.x + blockIdx.x] = square;
    }
}

// One block: moves the moments of the longer side, limits the norm, and leaves the factor of the gradient.
extern "C" __global__ void apollo_moments(A *first, A *second, A *norm, const f64 *sums, i64 splits, i64 n, const f64 *squares, i64 parts, f64 *factor, double rate, double correction, double scale, double beta1, double beta2, double epsilon, double least, double growth, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    f64 steps = 0, along = 0, square = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        f64 sum = 0;
        for (i64 p = 0; p < splits; p++) sum += sums[p * n + i];
        const f64 r = grad_scale * sum;
        const A m = (A)(beta1 * (f64)first[i] + (1 - beta1) * r), v = (A)(beta2 * (f64)second[i] + (1 - beta2) * (r * r));
        first[i] = m;
        second[i] = v;
        const f64 step = correction * (f64)m / (sqrt((f64)v) + epsilon);
        steps += step * step;
        along += r * r;
    }
    for (i64 p = threadIdx.x; p < parts; p += blockDim.x) square += squares[p];
    steps = block_sum(steps);
    along = block_sum(along);
    square = block_sum(square);
    if (threadIdx.x != 0) return;
    const f64 share = sqrt(steps) / (sqrt(along) + least), size = share * sqrt(square) * fabs(grad_scale);
    const f64 before = (f64)*norm;
    const f64 limited = before > 0 && size > growth * before ? growth * before : size;
    *norm = (A)limited;
    *factor = rate * scale * grad_scale * share * (size > 0 ? limited / size : 1.0);
}
extern "C" __global__ void apollo_step(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, const f64 *factor, double decay) {
    const A along = (A)*factor;
    EACH(i, n) {
        W stored = narrow<W>((A)decay * widen(weight[i]) - along * widen(grad[i]));
        weight[i] = stored;
        if (low) low[i] = narrow<bf16>(widen(stored));
        if (half) half[i] = narrow<f16>(widen(stored));
    }
}

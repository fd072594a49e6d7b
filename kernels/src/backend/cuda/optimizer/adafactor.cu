// Adafactor. Sums over a whole parameter have at most 256 parts, one a block, which every later block of 256 threads adds up
// again; sums are carried in f64.

#define PARTS 256

// The sum of `count` parts, at most PARTS; of a block of PARTS threads, in one row or in several.
__device__ __forceinline__ f64 sum_parts(const f64 *parts, i64 count, int thread) {
    __shared__ f64 sums[PARTS];
    __syncthreads();
    sums[thread] = thread < count ? parts[thread] : 0.0;
    __syncthreads();
    for (int half = PARTS / 2; half > 0; half /= 2) {
        if (half >= count) continue; // Nothing is that far behind.
        if (thread < half) sums[thread] += sums[thread + half];
        __syncthreads();
    }
    return sums[0];
}

__device__ __forceinline__ A moved(A before, f64 sum, i64 count, f64 take, f64 grad_scale, f64 epsilon) {
    return (A)((1.0 - take) * (f64)before + take * (sum * (grad_scale * grad_scale) / (f64)count + epsilon));
}

// What multiplies grad / sqrt(v), given the sum of squares of those.
__device__ __forceinline__ f64 factor_of(f64 squares, f64 count, f64 rate, f64 grad_scale) {
    f64 size = sqrt(squares / count) * fabs(grad_scale);
    return rate * grad_scale / (size > 1.0 ? size : 1.0);
}

__device__ __forceinline__ void store(W *weight, bf16 *low, f16 *half, i64 i, A value) {
    W stored = narrow<W>(value);
    weight[i] = stored;
    if (low) low[i] = narrow<bf16>(widen(stored));
    if (half) half[i] = narrow<f16>(widen(stored));
}

// ---- Of a vector.

extern "C" __global__ void adafactor_moments(const T *grad, A *second, i64 n, f64 *parts, double take, double grad_scale, const f64 *clip, double epsilon) {
    if (clip) grad_scale *= *clip;
    const A keep = (A)(1.0 - take), share = (A)(take * (grad_scale * grad_scale)), least = (A)(take * epsilon);
    f64 sum = 0;
    EACH(i, n) {
        A g = widen(grad[i]), v = keep * second[i] + (share * (g * g) + least);
        second[i] = v;
        sum += (f64)g * (f64)g / (f64)v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
extern "C" __global__ void adafactor_vector(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, const A *second, const f64 *parts, i64 count, double rate, double decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    const A factor = (A)factor_of(sum_parts(parts, count, threadIdx.x), (f64)n, rate, grad_scale);
    EACH(i, n) store(weight, low, half, i, (A)decay * widen(weight[i]) - factor * widen(grad[i]) / sqrt_of(second[i]));
}

// ---- Of a matrix.

// A warp a row: moves the rows' means, and sums them.
extern "C" __global__ void adafactor_rows(const T *grad, A *means, i64 rows, i64 columns, f64 *parts, double take, double grad_scale, const f64 *clip, double epsilon) {
    if (clip) grad_scale *= *clip;
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    f64 total = 0;
    for (i64 r = (i64)blockIdx.x * warps + threadIdx.x / 32; r < rows; r += (i64)gridDim.x * warps) {
        const T *row = grad + r * columns;
        f64 sum = 0;
        #pragma unroll 4
        for (i64 c = lane; c < columns; c += 32) {
            f64 g = widen(row[c]);
            sum += g * g;
        }
        sum = warp_sum(sum);
        A mean = moved(means[r], sum, columns, take, grad_scale, epsilon);
        __syncwarp();
        if (lane == 0) {
            means[r] = mean;
            total += (f64)mean;
        }
    }
    total = block_sum(total);
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}
// A block 32 columns of a part of the rows, of which a warp has every 8th.
extern "C" __global__ void adafactor_column_parts(const T *grad, i64 rows, i64 columns, f64 *sums) {
    __shared__ f64 warps[8][32];
    const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
    const i64 from = (i64)blockIdx.y * rows / gridDim.y, to = ((i64)blockIdx.y + 1) * rows / gridDim.y;
    f64 sum = 0;
    if (c < columns) {
        #pragma unroll 4
        for (i64 r = from + threadIdx.y; r < to; r += 8) {
            f64 g = widen(grad[r * columns + c]);
            sum += g * g;
        }
    }
    warps[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        for (int w = 1; w < 8; w++) sum += warps[w][threadIdx.x];
        sums[(i64)blockIdx.y * columns + c] = sum;
    }
}
// A thread a column: moves the columns' means.
extern "C" __global__ void adafactor_columns(const f64 *sums, i64 parts, A *means, i64 rows, i64 columns, double take, double grad_scale, const f64 *clip, double epsilon) {
    if (clip) grad_scale *= *clip;
    EACH(c, columns) {
        f64 sum = 0;
        for (i64 p = 0; p < parts; p++) sum += sums[p * columns + c];
        means[c] = moved(means[c], sum, rows, take, grad_scale, epsilon);
    }
}

// A warp a row: the squares of grad / sqrt(v).
extern "C" __global__ void adafactor_squares(const T *grad, i64 rows, i64 columns, const A *row_means, const A *column_means, const f64 *row_sums, i64 count, f64 *parts) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const f64 mean = sum_parts(row_sums, count, threadIdx.x) / (f64)rows;
    f64 total = 0;
    for (i64 r = (i64)blockIdx.x * warps + threadIdx.x / 32; r < rows; r += (i64)gridDim.x * warps) {
        const T *row = grad + r * columns;
        f64 sum = 0;
        #pragma unroll 4
        for (i64 c = lane; c < columns; c += 32) {
            f64 u = widen(row[c]) / sqrt_of(column_means[c]);
            sum += u * u;
        }
        total += mean / (f64)row_means[r] * sum;
    }
    total = block_sum(total);
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}
// A block 32 columns of 8 rows at a time.
extern "C" __global__ void adafactor_matrix(const T *grad, W *weight, bf16 *low, f16 *half, i64 rows, i64 columns, const A *row_means, const A *column_means, const f64 *row_sums, const f64 *squares, i64 count, double rate, double decay, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    const int thread = threadIdx.y * 32 + threadIdx.x;
    const f64 mean = sum_parts(row_sums, count, thread) / (f64)rows;
    const f64 factor = factor_of(sum_parts(squares, count, thread), (f64)rows * (f64)columns, rate, grad_scale) * sqrt(mean);
    const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
    if (c >= columns) return;
    const A scale = (A)1 / sqrt_of(column_means[c]);
    for (i64 r = (i64)blockIdx.y * 8 + threadIdx.y; r < rows; r += (i64)gridDim.y * 8) {
        A of_row = (A)factor / sqrt_of(row_means[r]);
        i64 i = r * columns + c;
        store(weight, low, half, i, (A)decay * widen(weight[i]) - of_row * (scale * widen(grad[i])));
    }
}

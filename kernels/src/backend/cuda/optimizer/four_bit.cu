// AdamW with moments of 4 bits. Each warp takes a block of 128 elements, and each lane four neighbours: two bytes of codes.

#define BLOCK 128

__constant__ f32 SIGNED[16] = {
    -0.8875f, -0.6625f, -0.4375f, -0.2125f, -0.0775f, -0.0325f, -0.0055f, 0.0f,
    0.0055f, 0.0325f, 0.0775f, 0.2125f, 0.4375f, 0.6625f, 0.8875f, 1.0f,
};

__device__ __forceinline__ f32 magnitude(f32 x) {
    // NaN is ignored.
    return x > 0.0f ? x : x < 0.0f ? -x : 0.0f;
}

// The code of a first moment. The middle of two values of f32 is exact in f64.
__device__ __forceinline__ int nearest_signed(f32 share) {
    int at = 0;
    #pragma unroll
    for (int step = 8; step > 0; step /= 2) {
        f32 middle = (f32)(((f64)SIGNED[at + step - 1] + (f64)SIGNED[at + step]) / 2);
        if (share > middle) at += step;
    }
    return at;
}

// The code of a second moment; for NaN, the lowest code.
__device__ __forceinline__ int nearest_even(f32 share) {
    f32 place = share * 16.0f - 0.5f;
    return place > 0.0f ? (place < 15.0f ? (int)place : 15) : 0;
}

__device__ __forceinline__ f32 even(int code) { return (f32)(code + 1) * 0.0625f; }
__device__ __forceinline__ int half_of(const u8 *codes, i64 i) { return i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15; }
__device__ __forceinline__ f32 smaller(f32 a, f32 b) { return b < a ? b : a; }

// ---- Of a matrix: the largest second moment of each row and of each column. Bits of numbers that are not negative are in
// the order of the numbers, so integers tell the largest, in any order of threads.

extern "C" __global__ void clear_tops(u32 *tops, i64 n) {
    EACH(i, n) tops[i] = 0;
}
// A block 32 columns of a part of the rows, of which a warp has every 8th.
extern "C" __global__ void largest_squares(const T *grad, i64 rows, i64 columns, const u8 *codes, const f32 *row_tops, const f32 *column_tops, u32 *tops, double beta2, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    __shared__ f32 warps[8][32];
    const A keep = (A)beta2, take = (A)(1 - beta2);
    const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
    const i64 from = (i64)blockIdx.y * rows / gridDim.y, to = ((i64)blockIdx.y + 1) * rows / gridDim.y;
    const f32 column_top = c < columns ? column_tops[c] : 0.0f;
    f32 most = 0;
    for (i64 r = from + threadIdx.y; r < to; r += 8) {
        f32 square = 0;
        if (c < columns) {
            i64 i = r * columns + c;
            A g = (A)grad_scale * widen(grad[i]);
            square = magnitude((f32)(keep * (A)(smaller(row_tops[r], column_top) * even(half_of(codes, i))) + take * (g * g)));
        }
        if (square > most) most = square;
        f32 of_row = warp_max(square);
        if (threadIdx.x == 0) atomicMax(tops + r, __float_as_uint(of_row));
    }
    warps[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        for (int w = 1; w < 8; w++) most = larger(most, warps[w][threadIdx.x]);
        atomicMax(tops + rows + c, __float_as_uint(most));
    }
}
extern "C" __global__ void keep_tops(const f32 *tops, i64 rows, i64 columns, f32 *row_tops, f32 *column_tops) {
    EACH(i, rows + columns) {
        if (i < rows) row_tops[i] = tops[i];
        else column_tops[i - rows] = tops[i];
    }
}

// ---- The step. Of a vector `row_tops` are those of blocks, and there are no others.

extern "C" __global__ void adamw_four_bit(const T *grad, W *weight, bf16 *low, f16 *half, i64 n, u8 *mean_codes, f32 *mean_tops, u8 *square_codes, f32 *row_tops, const f32 *column_tops, const f32 *tops, i64 rows, i64 columns, double rate, double decay, double beta1, double beta2, double epsilon, double grad_scale, const f64 *clip) {
    if (clip) grad_scale *= *clip;
    const A keep1 = (A)beta1, take1 = (A)(1 - beta1), keep2 = (A)beta2, take2 = (A)(1 - beta2);
    const int lane = threadIdx.x % 32;
    const i64 warps = blockDim.x / 32, blocks = (n + BLOCK - 1) / BLOCK;
    for (i64 b = (i64)blockIdx.x * warps + threadIdx.x / 32; b < blocks; b += (i64)gridDim.x * warps) {
        const i64 start = b * BLOCK + 4 * lane;
        const f32 mean_top = mean_tops[b];
        f32 means[4], squares[4], units[4], mean_most = 0, square_most = 0;
        i64 row = column_tops ? quotient(start, columns) : b, column = column_tops ? start - row * columns : 0;
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            i64 i = start + j;
            means[j] = squares[j] = units[j] = 0;
            if (i >= n) continue;
            f32 square_top = row_tops[row];
            if (column_tops) {
                square_top = smaller(square_top, column_tops[column]);
                units[j] = smaller(tops[row], tops[rows + column]);
                if (++column == columns) {
                    column = 0;
                    row++;
                }
            }
            A g = (A)grad_scale * widen(grad[i]);
            A m = keep1 * (A)(mean_top * SIGNED[half_of(mean_codes, i)]) + take1 * g;
            A v = keep2 * (A)(square_top * even(half_of(square_codes, i))) + take2 * (g * g);
            W after = narrow<W>((A)decay * widen(weight[i]) - (A)rate * m / (sqrt_of(v) + (A)epsilon));
            weight[i] = after;
            if (low) low[i] = narrow<bf16>(widen(after));
            if (half) half[i] = narrow<f16>(widen(after));
            means[j] = (f32)m;
            squares[j] = (f32)v;
            if (magnitude(means[j]) > mean_most) mean_most = magnitude(means[j]);
            if (magnitude(squares[j]) > square_most) square_most = magnitude(squares[j]);
        }
        mean_most = warp_max(mean_most);
        square_most = warp_max(square_most);
        if (lane == 0) {
            mean_tops[b] = mean_most;
            if (!column_tops) row_tops[b] = square_most;
        }
        // Of a block of zeros every share is zero.
        const f32 mean_unit = mean_most > 0 ? mean_most : 1;
        #pragma unroll
        for (int pair = 0; pair < 4; pair += 2) {
            i64 i = start + pair;
            if (i >= n) continue;
            int mean_pair = 0, square_pair = 0;
            #pragma unroll
            for (int j = pair; j < pair + 2; j++) {
                f32 unit = column_tops ? units[j] : square_most;
                bool is_there = start + j < n;
                mean_pair = mean_pair << 4 | (is_there ? nearest_signed(means[j] / mean_unit) : 0);
                square_pair = square_pair << 4 | (is_there ? nearest_even(squares[j] / (unit > 0 ? unit : 1)) : 0);
            }
            mean_codes[i / 2] = (u8)mean_pair;
            square_codes[i / 2] = (u8)square_pair;
        }
    }
}

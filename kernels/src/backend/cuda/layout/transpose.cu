// A transpose of each matrix of a batch: a block a square, turned in shared memory so that reads and writes both are rows.

#define SIDE 32
#define STEP 8

// Squares are counted in 32 bits: a division by 64 takes many times as long.
extern "C" __global__ void transpose(const T *x, T *y, i64 rows, i64 columns) {
    // One column more than it needs, so that a column's elements are in different banks.
    __shared__ T square[SIDE][SIDE + 1];
    const u32 across = (u32)((columns + SIDE - 1) / SIDE), down = (u32)((rows + SIDE - 1) / SIDE);
    const u32 line = blockIdx.x / across, matrix = line / down;
    const i64 left = (i64)(blockIdx.x - line * across) * SIDE, top = (i64)(line - matrix * down) * SIDE;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const T *from = x + (matrix * rows + top + ty) * columns + left + tx;
    T *to = y + (matrix * columns + left + ty) * rows + top + tx;
    // As far as the matrix goes in the square.
    const int height = (int)(rows - top < SIDE ? rows - top : SIDE), width = (int)(columns - left < SIDE ? columns - left : SIDE);
    #pragma unroll
    for (int i = 0; i < SIDE; i += STEP)
        if (ty + i < height && tx < width) square[ty + i][tx] = from[i * columns];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < SIDE; i += STEP)
        if (ty + i < width && tx < height) to[i * rows] = square[tx][ty + i];
}

// A transpose of each matrix of a batch: a block a square, turned in shared memory so that reads and writes both are rows.

#define SIDE 32
#define STEP 8

extern "C" __global__ void transpose(const T *x, T *y, i64 batch, i64 rows, i64 columns) {
    // One column more than it needs, so that a column's elements are in different banks.
    __shared__ T square[SIDE][SIDE + 1];
    i64 across = (columns + SIDE - 1) / SIDE, down = (rows + SIDE - 1) / SIDE;
    int tx = threadIdx.x, ty = threadIdx.y;
    for (i64 tile = blockIdx.x; tile < batch * down * across; tile += gridDim.x) {
        i64 left = tile % across * SIDE, top = tile / across % down * SIDE;
        i64 matrix = tile / across / down * rows * columns;
        for (int i = ty; i < SIDE; i += STEP) {
            if (top + i < rows && left + tx < columns) square[i][tx] = x[matrix + (top + i) * columns + left + tx];
        }
        __syncthreads();
        for (int i = ty; i < SIDE; i += STEP) {
            if (left + i < columns && top + tx < rows) y[matrix + (left + i) * rows + top + tx] = square[tx][i];
        }
        __syncthreads();
    }
}

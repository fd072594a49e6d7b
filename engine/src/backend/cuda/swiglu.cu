// Gates beside values: a row of threads a row, neighbours along the columns.

#define EACH_ROW(r, rows) \
    for (i64 r = (i64)blockIdx.x * blockDim.y + threadIdx.y; r < (rows); r += (i64)gridDim.x * blockDim.y)
#define EACH_COLUMN(c, columns) \
    for (i64 c = (i64)blockIdx.y * blockDim.x + threadIdx.x; c < (columns); c += (i64)gridDim.y * blockDim.x)

__device__ __forceinline__ A sigmoid(A x) { return (A)1 / ((A)1 + exp_of(-x)); }

extern "C" __global__ void swiglu(const T *gu, T *y, i64 rows, i64 columns) {
    EACH_ROW(r, rows) {
        const T *gates = gu + r * 2 * columns, *values = gates + columns;
        EACH_COLUMN(c, columns) {
            A gate = widen(gates[c]);
            y[r * columns + c] = narrow<T>(gate * sigmoid(gate) * widen(values[c]));
        }
    }
}
extern "C" __global__ void swiglu_gradient(const T *gu, const T *dy, T *dgu, i64 rows, i64 columns) {
    EACH_ROW(r, rows) {
        const T *gates = gu + r * 2 * columns, *values = gates + columns;
        T *dgates = dgu + r * 2 * columns, *dvalues = dgates + columns;
        EACH_COLUMN(c, columns) {
            A gate = widen(gates[c]), slope = widen(dy[r * columns + c]), s = sigmoid(gate);
            dgates[c] = narrow<T>(slope * widen(values[c]) * s * ((A)1 + gate * ((A)1 - s)));
            dvalues[c] = narrow<T>(slope * gate * s);
        }
    }
}

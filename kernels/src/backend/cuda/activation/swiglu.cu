// A row holds its gates, then its values.

__device__ __forceinline__ A sigmoid(A x) { return (A)1 / ((A)1 + exp_of(-x)); }

extern "C" __global__ void swiglu(const T *gu, T *y, i64 rows, i64 columns, int wide) {
    each_run_of_rows(rows, columns, wide, [=](i64 r, i64 c, auto run) {
        const T *gates = gu + r * 2 * columns + c;
        A gate[LENGTH(run)], value[LENGTH(run)];
        load(gates, gate);
        load(gates + columns, value);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) value[v] = gate[v] * sigmoid(gate[v]) * value[v];
        store(y + r * columns + c, value);
    });
}
extern "C" __global__ void swiglu_gradient(const T *gu, const T *dy, T *dgu, i64 rows, i64 columns, int wide) {
    each_run_of_rows(rows, columns, wide, [=](i64 r, i64 c, auto run) {
        const T *gates = gu + r * 2 * columns + c;
        T *dgates = dgu + r * 2 * columns + c;
        A gate[LENGTH(run)], value[LENGTH(run)], slope[LENGTH(run)];
        load(gates, gate);
        load(gates + columns, value);
        load(dy + r * columns + c, slope);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) {
            A s = sigmoid(gate[v]), by_value = slope[v] * gate[v] * s;
            gate[v] = slope[v] * value[v] * s * ((A)1 + gate[v] * ((A)1 - s));
            value[v] = by_value;
        }
        store(dgates, gate);
        store(dgates + columns, value);
    });
}

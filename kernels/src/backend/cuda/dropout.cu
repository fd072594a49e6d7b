// Dropout: each thread takes a run of elements.

// `bound` is the probability of zero, times 2^64.
extern "C" __global__ void dropout(T *y, i64 n, u64 bound, double scale, u64 key, int wide) {
    each_run(n, wide, [=](i64 i, auto run) {
        A values[LENGTH(run)];
        load(y + i, values);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) {
            values[v] = random_bits(key, (u64)(i + v)) < bound ? (A)0 : values[v] * (A)scale;
        }
        store(y + i, values);
    });
}

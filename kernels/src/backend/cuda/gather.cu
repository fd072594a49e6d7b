// Samples at places of a set.

#define IGNORE_INDEX 0xffffffffu

// Rows of images. Scaled in f32 with two roundings, as the host does it.
extern "C" __global__ void gather_images(const u8 *pixels, const f32 *scaling, const u32 *places, T *y, i64 rows, i64 height, i64 row, i64 samples, int wide) {
    each_run_of_rows(rows, row, wide, [=](i64 r, i64 c, auto run) {
        i64 image = quotient(r, height), place = places[image];
        f32 values[LENGTH(run)], factors[LENGTH(run)], offsets[LENGTH(run)];
        load(scaling + c, factors);
        load(scaling + row + c, offsets);
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) values[v] = __uint_as_float(0x7fc00000u);
        if (place < samples) {
            const auto from = *(const Pack<u8, LENGTH(run)> *)(pixels + (place * height + (r - image * height)) * row + c);
#pragma unroll
            for (int v = 0; v < LENGTH(run); ++v) values[v] = __fadd_rn(__fmul_rn((f32)from.at[v], factors[v]), offsets[v]);
        }
        store(y + r * row + c, values);
    });
}

template <class L> __device__ __forceinline__ void gather_labels(const L *table, const u32 *places, u32 *y, i64 n, i64 targets, i64 samples) {
    EACH(i, n) {
        i64 sample = quotient(i, targets), place = places[sample];
        y[i] = place < samples ? (u32)table[place * targets + (i - sample * targets)] : IGNORE_INDEX;
    }
}
extern "C" __global__ void gather_labels_u8(const u8 *table, const u32 *places, u32 *y, i64 n, i64 targets, i64 samples) {
    gather_labels(table, places, y, n, targets, samples);
}
extern "C" __global__ void gather_labels_u32(const u32 *table, const u32 *places, u32 *y, i64 n, i64 targets, i64 samples) {
    gather_labels(table, places, y, n, targets, samples);
}

// The first `unscored` labels of a sample do not count.
template <class L> __device__ __forceinline__ void gather_tokens(const L *tokens, const u32 *places, u32 *inputs, u32 *labels, i64 n, i64 length, i64 unscored, i64 count) {
    EACH(i, n) {
        i64 sample = quotient(i, length), at = i - sample * length, place = places[sample];
        bool is_known = place < count;
        inputs[i] = is_known ? (u32)tokens[place + at] : IGNORE_INDEX;
        labels[i] = is_known && at >= unscored ? (u32)tokens[place + at + 1] : IGNORE_INDEX;
    }
}
extern "C" __global__ void gather_tokens_u8(const u8 *tokens, const u32 *places, u32 *inputs, u32 *labels, i64 n, i64 length, i64 unscored, i64 count) {
    gather_tokens(tokens, places, inputs, labels, n, length, unscored, count);
}
extern "C" __global__ void gather_tokens_u32(const u32 *tokens, const u32 *places, u32 *inputs, u32 *labels, i64 n, i64 length, i64 unscored, i64 count) {
    gather_tokens(tokens, places, inputs, labels, n, length, unscored, count);
}

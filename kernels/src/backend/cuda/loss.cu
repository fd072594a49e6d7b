// Softmax cross entropy. A block takes a row where it is WIDE, otherwise a warp does; either reads it once, with the
// largest logit so far and the sum of exponentials relative to it (Milakov & Gimelshein 2018). A row may have more columns than
// classes: those behind are not read, and are zero in a gradient.

#define IGNORE_INDEX 0xffffffffu

struct Softmax {
    A max, total;
    // Whether a class before the label's has a logit as large.
    bool is_beaten;
};

template <bool WIDE> __device__ __forceinline__ A sum_of(A x) { return WIDE ? block_sum(x) : warp_sum(x); }
template <bool WIDE> __device__ __forceinline__ A max_of(A x) { return WIDE ? block_max(x) : warp_max(x); }
template <bool WIDE> __device__ __forceinline__ int width() { return WIDE ? (int)blockDim.x : 32; }
template <bool WIDE> __device__ __forceinline__ int place() { return WIDE ? (int)threadIdx.x : (int)threadIdx.x % 32; }
template <bool WIDE> __device__ __forceinline__ i64 first_row() {
    return WIDE ? (i64)blockIdx.x : (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
}
template <bool WIDE> __device__ __forceinline__ i64 row_step() {
    return WIDE ? (i64)gridDim.x : (i64)gridDim.x * (blockDim.x / 32);
}

template <bool WIDE> __device__ __forceinline__ Softmax read_row(const T *row, int classes, int label) {
    const A lowest = -(A)__uint_as_float(0x7f800000u), of_label = widen(row[label]);
    const int step = width<WIDE>();
    A max = lowest, total = 0;
    bool is_beaten = false;
    for (int c = place<WIDE>(); c < classes; c += 4 * step) {
        A x[4], top = max;
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            int at = c + j * step;
            x[j] = at < classes ? widen(row[at]) : lowest;
            if (x[j] > top) top = x[j];
            is_beaten = is_beaten || (at < label && x[j] >= of_label);
        }
        if (top != max) total *= exp_of(max - top);
        max = top;
        // NaN goes into the sum.
        #pragma unroll
        for (int j = 0; j < 4; j++)
            if (x[j] != lowest) total += exp_of(x[j] - max);
    }
    Softmax all;
    all.max = max_of<WIDE>(max);
    if (max != all.max) total *= exp_of(max - all.max);
    // Without a largest number, no sum.
    all.total = sum_of<WIDE>(total) + (all.max - all.max);
    all.is_beaten = sum_of<WIDE>(is_beaten ? (A)1 : (A)0) > (A)0;
    return all;
}

// Adds the losses and right answers of all threads of all blocks to the statistics: each block writes its part, and the last
// adds them up.
__device__ __forceinline__ void add_all(f64 loss, u32 count, f64 *parts, f64 *stats) {
    loss = block_sum(loss);
    f64 right = (f64)block_sum(count);
    if (threadIdx.x == 0) {
        parts[2 * (i64)blockIdx.x] = loss;
        parts[2 * (i64)blockIdx.x + 1] = right;
    }
    if (!is_last(0, gridDim.x)) return;
    loss = right = 0;
    for (i64 p = threadIdx.x; p < gridDim.x; p += blockDim.x) {
        loss += __ldcg(parts + 2 * p);
        right += __ldcg(parts + 2 * p + 1);
    }
    loss = block_sum(loss);
    right = block_sum(right);
    if (threadIdx.x == 0) {
        stats[0] += loss;
        stats[1] += right;
    }
}

// Losses and right answers.
template <bool WIDE> __device__ __forceinline__ void losses(const T *logits, const u32 *labels, i64 rows, i64 columns, int classes, f64 *parts, f64 *stats) {
    f64 loss = 0;
    u32 right = 0;
    for (i64 r = first_row<WIDE>(); r < rows; r += row_step<WIDE>()) {
        u32 label = labels[r];
        if (label == IGNORE_INDEX) continue;
        if (label >= (u32)classes) {
            loss = (f64)__uint_as_float(0x7fc00000u);
            continue;
        }
        const T *row = logits + r * columns;
        Softmax all = read_row<WIDE>(row, classes, (int)label);
        A of_label = widen(row[label]);
        // Rounded in A as the sum is; only what adds up over the rows is kept in f64.
        loss += (f64)(log_of(all.total) - (of_label - all.max));
        if (of_label == all.max && !all.is_beaten && all.total == all.total) right++;
    }
    // One thread of each row's.
    bool speaks = place<WIDE>() == 0;
    add_all(speaks ? loss : 0.0, speaks ? right : 0u, parts, stats);
}

extern "C" __global__ void cross_entropy(const T *logits, const u32 *labels, i64 rows, i64 columns, i64 classes, f64 *parts, f64 *stats) {
    losses<false>(logits, labels, rows, columns, (int)classes, parts, stats);
}
extern "C" __global__ void cross_entropy_wide(const T *logits, const u32 *labels, i64 rows, i64 columns, i64 classes, f64 *parts, f64 *stats) {
    losses<true>(logits, labels, rows, columns, (int)classes, parts, stats);
}
template <bool WIDE> __device__ __forceinline__ void slopes(const u32 *labels, T *logits, i64 rows, i64 columns, int classes, A scale) {
    for (i64 r = first_row<WIDE>(); r < rows; r += row_step<WIDE>()) {
        u32 label = labels[r];
        T *row = logits + r * columns;
        for (int c = classes + place<WIDE>(); c < (int)columns; c += width<WIDE>()) row[c] = narrow<T>((A)0);
        if (label >= (u32)classes) {
            for (int c = place<WIDE>(); c < classes; c += width<WIDE>()) row[c] = narrow<T>((A)0);
            continue;
        }
        Softmax all = read_row<WIDE>(row, classes, (int)label);
        A factor = scale / all.total;
        #pragma unroll 4
        for (int c = place<WIDE>(); c < classes; c += width<WIDE>()) {
            A e = exp_of(widen(row[c]) - all.max);
            row[c] = narrow<T>((u32)c == label ? scale * (e / all.total - (A)1) : factor * e);
        }
    }
}

extern "C" __global__ void cross_entropy_gradient(const u32 *labels, T *logits, i64 rows, i64 columns, i64 classes, double scale) {
    slopes<false>(labels, logits, rows, columns, (int)classes, (A)scale);
}
extern "C" __global__ void cross_entropy_gradient_wide(const u32 *labels, T *logits, i64 rows, i64 columns, i64 classes, double scale) {
    slopes<true>(labels, logits, rows, columns, (int)classes, (A)scale);
}

// Distillation: the labels' loss and a teacher's, both softened by a temperature (Hinton et al. 2015).

// The largest of a row, and the sum of exponentials relative to it, divided by a temperature.
struct Soft {
    A max, total;
};

template <bool WIDE> __device__ __forceinline__ Soft soften(const T *row, int classes, A cooler) {
    const A lowest = -(A)__uint_as_float(0x7f800000u);
    A max = lowest, total = 0;
    for (int c = place<WIDE>(); c < classes; c += width<WIDE>()) {
        A x = widen(row[c]);
        if (x > max) max = x;
    }
    Soft all;
    all.max = max_of<WIDE>(max);
    for (int c = place<WIDE>(); c < classes; c += width<WIDE>()) total += exp_of((widen(row[c]) - all.max) * cooler);
    all.total = sum_of<WIDE>(total) + (all.max - all.max);
    return all;
}

template <bool WIDE> __device__ __forceinline__ void distilled(const T *logits, const T *taught, const u32 *labels, i64 rows, i64 columns, i64 of_taught, int classes, f64 temperature, f64 weight, f64 *parts, f64 *stats) {
    const A cooler = (A)(1.0 / temperature);
    f64 loss = 0;
    u32 right = 0;
    for (i64 r = first_row<WIDE>(); r < rows; r += row_step<WIDE>()) {
        u32 label = labels[r];
        if (label == IGNORE_INDEX) continue;
        if (label >= (u32)classes) {
            loss = (f64)__uint_as_float(0x7fc00000u);
            continue;
        }
        const T *row = logits + r * columns, *told = taught + r * of_taught;
        Softmax all = read_row<WIDE>(row, classes, (int)label);
        Soft soft = soften<WIDE>(row, classes, cooler), told_soft = soften<WIDE>(told, classes, cooler);
        A expected = 0;
        for (int c = place<WIDE>(); c < classes; c += width<WIDE>()) {
            A x = (widen(row[c]) - soft.max) * cooler, t = (widen(told[c]) - told_soft.max) * cooler;
            expected += exp_of(t) * (t - x);
        }
        expected = sum_of<WIDE>(expected);
        A of_label = widen(row[label]);
        f64 divergence = (f64)expected / (f64)told_soft.total + (f64)log_of(soft.total) - (f64)log_of(told_soft.total);
        f64 by_label = (f64)(log_of(all.total) - (of_label - all.max));
        loss += (1.0 - weight) * by_label + weight * temperature * temperature * divergence;
        if (of_label == all.max && !all.is_beaten && all.total == all.total) right++;
    }
    bool speaks = place<WIDE>() == 0;
    add_all(speaks ? loss : 0.0, speaks ? right : 0u, parts, stats);
}

extern "C" __global__ void distil(const T *logits, const T *taught, const u32 *labels, i64 rows, i64 columns, i64 of_taught, i64 classes, double temperature, double weight, f64 *parts, f64 *stats) {
    distilled<false>(logits, taught, labels, rows, columns, of_taught, (int)classes, temperature, weight, parts, stats);
}
extern "C" __global__ void distil_wide(const T *logits, const T *taught, const u32 *labels, i64 rows, i64 columns, i64 of_taught, i64 classes, double temperature, double weight, f64 *parts, f64 *stats) {
    distilled<true>(logits, taught, labels, rows, columns, of_taught, (int)classes, temperature, weight, parts, stats);
}

template <bool WIDE> __device__ __forceinline__ void taught_slopes(const T *taught, const u32 *labels, T *logits, i64 rows, i64 columns, i64 of_taught, int classes, f64 temperature, f64 weight, f64 scale) {
    const A cooler = (A)(1.0 / temperature);
    const A by_label = (A)(scale * (1.0 - weight)), by_teacher = (A)(scale * weight * temperature);
    for (i64 r = first_row<WIDE>(); r < rows; r += row_step<WIDE>()) {
        u32 label = labels[r];
        T *row = logits + r * columns;
        const T *told = taught + r * of_taught;
        for (int c = classes + place<WIDE>(); c < (int)columns; c += width<WIDE>()) row[c] = narrow<T>((A)0);
        if (label >= (u32)classes) {
            for (int c = place<WIDE>(); c < classes; c += width<WIDE>()) row[c] = narrow<T>((A)0);
            continue;
        }
        Soft all = soften<WIDE>(row, classes, (A)1), soft = soften<WIDE>(row, classes, cooler), told_soft = soften<WIDE>(told, classes, cooler);
        A hard_factor = by_label / all.total, soft_factor = by_teacher / soft.total, told_factor = by_teacher / told_soft.total;
        for (int c = place<WIDE>(); c < classes; c += width<WIDE>()) {
            A own = widen(row[c]) - all.max, t = (widen(told[c]) - told_soft.max) * cooler;
            A slope = hard_factor * exp_of(own);
            if ((u32)c == label) slope -= by_label;
            row[c] = narrow<T>(slope + soft_factor * exp_of(own * cooler) - told_factor * exp_of(t));
        }
    }
}

extern "C" __global__ void distil_gradient(const T *taught, const u32 *labels, T *logits, i64 rows, i64 columns, i64 of_taught, i64 classes, double temperature, double weight, double scale) {
    taught_slopes<false>(taught, labels, logits, rows, columns, of_taught, (int)classes, temperature, weight, scale);
}
extern "C" __global__ void distil_gradient_wide(const T *taught, const u32 *labels, T *logits, i64 rows, i64 columns, i64 of_taught, i64 classes, double temperature, double weight, double scale) {
    taught_slopes<true>(taught, labels, logits, rows, columns, of_taught, (int)classes, temperature, weight, scale);
}

// Squared errors. One block: a value a row is little work.
extern "C" __global__ void squared_error(const T *values, const f32 *labels, i64 rows, f64 *stats) {
    f64 squares = 0, sizes = 0;
    for (i64 r = threadIdx.x; r < rows; r += blockDim.x) {
        f64 error = (f64)widen(values[r]) - (f64)labels[r];
        squares += error * error;
        sizes += error < 0 ? -error : error;
    }
    squares = block_sum(squares);
    sizes = block_sum(sizes);
    if (threadIdx.x == 0) {
        stats[0] += squares;
        stats[1] += sizes;
    }
}

extern "C" __global__ void squared_error_gradient(const f32 *labels, T *values, i64 rows, double scale) {
    for (i64 r = (i64)blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += (i64)gridDim.x * blockDim.x) {
        f64 error = (f64)widen(values[r]) - (f64)labels[r];
        values[r] = narrow<T>((A)(2.0 * scale * error));
    }
}

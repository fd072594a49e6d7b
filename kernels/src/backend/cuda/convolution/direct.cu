// Convolution as a product of gathered patches and weights, without a matrix of patches: a block has a square of the result
// and takes both operands' parts into shared memory, some of the depth at a time; a thread has sixteen sums in registers.

// Side of a block's square, its depth at a time, and side of a thread's square.
#define SIDE 64
#define DEPTH 16
#define EACH_SIDE 4
// Elements from one row of depth to the next: a multiple of a run, with neighbours in different banks.
#define PITCH (SIDE + 4)
// Loads of a thread for each operand and step.
#define LOADS (SIDE * DEPTH / 256)

// A place in an image, or how far two are apart: in rows and columns, and in elements of what is read.
struct Spot {
    i64 offset;
    int y, x;
};
// Outside every image: any position relative to it is outside too.
#define NOWHERE (-(1 << 30))

// Where the window of an output begins; nowhere past the last output.
__device__ __forceinline__ Spot window_at(const Window<i64> &w, i64 number, i64 outputs) {
    Pixel<i64> output = pixel_at(number, w.out_height, w.out_width);
    i64 y = start_of(w, output.y), x = start_of(w, output.x);
    Spot spot = {number_of(output.image, y, x, w.height, w.width) * w.channels, (int)y, (int)x};
    if (number >= outputs) spot.y = NOWHERE;
    return spot;
}
// From where a window begins to what an element of a filter meets; nowhere past the last element.
__device__ __forceinline__ Spot element_at(const Window<i64> &w, i64 number, i64 elements) {
    i64 tap = quotient(number, w.channels), y = quotient(tap, w.size), x = tap - y * w.size;
    Spot spot = {(y * w.width + x) * w.channels + number - tap * w.channels, (int)y, (int)x};
    if (number >= elements) spot.y = NOWHERE;
    return spot;
}
// What is at a place and a distance from there; zero outside of the image.
__device__ __forceinline__ A seen(const T *from, const Spot &a, const Spot &b, int height, int width) {
    return is_in(a.y + b.y, height) && is_in(a.x + b.x, width) ? (A)widen(from[a.offset + b.offset]) : (A)0;
}

// The spots that the steps of depth are about, and where another operand has what goes with each.
struct Taps {
    int y[DEPTH], x[DEPTH];
    i64 offset[DEPTH], other[DEPTH];
    __device__ __forceinline__ void put(int k, const Spot &spot) {
        y[k] = spot.y;
        x[k] = spot.x;
        offset[k] = spot.offset;
    }
    __device__ __forceinline__ Spot get(int k) const {
        Spot spot = {offset[k], y[k], x[k]};
        return spot;
    }
};

// The product of `steps` steps: table(step, k) says what k of a step is about, left(step, to) and right(step, to) bring what
// the thread loads. The operands' places in shared memory are (k, row) by `left_by_depth` and `right_by_depth`: whether
// neighbouring threads load neighbours along the depth, or along the side.
template <bool LEFT_BY_DEPTH, bool RIGHT_BY_DEPTH, class Table, class Left, class Right>
__device__ __forceinline__ void multiply(i64 steps, A (&sums)[EACH_SIDE][EACH_SIDE], Table table, Left left, Right right) {
    // Read in runs of four.
    __shared__ __align__(4 * sizeof(A)) A a[DEPTH * PITCH], b[DEPTH * PITCH];
    int t = threadIdx.x, tx = t % 16 * EACH_SIDE, ty = t / 16 * EACH_SIDE;
    A from_left[LOADS], from_right[LOADS];
#pragma unroll
    for (int i = 0; i < EACH_SIDE * EACH_SIDE; ++i) sums[i / EACH_SIDE][i % EACH_SIDE] = 0;
    if (steps <= 0) return;
    if (t < DEPTH) table(0, t);
    __syncthreads();
    left(0, from_left);
    right(0, from_right);
    for (i64 step = 0; step < steps; ++step) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int by_depth = t % DEPTH * PITCH + t / DEPTH + i * (256 / DEPTH);
            int by_side = (t / SIDE + i * (256 / SIDE)) * PITCH + t % SIDE;
            a[LEFT_BY_DEPTH ? by_depth : by_side] = from_left[i];
            b[RIGHT_BY_DEPTH ? by_depth : by_side] = from_right[i];
        }
        if (t < DEPTH) table(step + 1, t);
        __syncthreads();
        if (step + 1 < steps) {
            left(step + 1, from_left);
            right(step + 1, from_right);
        }
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            Pack<A, EACH_SIDE> rows = *(const Pack<A, EACH_SIDE> *)(a + k * PITCH + ty);
            Pack<A, EACH_SIDE> columns = *(const Pack<A, EACH_SIDE> *)(b + k * PITCH + tx);
#pragma unroll
            for (int i = 0; i < EACH_SIDE * EACH_SIDE; ++i) {
                A &sum = sums[i / EACH_SIDE][i % EACH_SIDE];
                sum = fused(rows.at[i / EACH_SIDE], columns.at[i % EACH_SIDE], sum);
            }
        }
    }
}

// The patches of some pixels, along the depth: taps in order, channels innermost.
__device__ __forceinline__ void gather(const T *from, const Spot (&pixels)[LOADS], const Spot &tap, i64 height, i64 width,
                                       A (&to)[LOADS]) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) to[i] = seen(from, pixels[i], tap, (int)height, (int)width);
}

// Squares of pixels and filters.
extern "C" __global__ void convolution(const T *x, const T *weights, T *y, i64 batch, i64 filters, WINDOW_PARAMETERS) {
    __shared__ Taps taps;
    Window<i64> w = window_of<i64>(WINDOW);
    i64 count = batch * w.out_height * w.out_width, depth = size * size * channels, across = (filters + SIDE - 1) / SIDE;
    i64 top = (i64)blockIdx.x / across * SIDE, left = (i64)blockIdx.x % across * SIDE;
    int t = threadIdx.x, k = t % DEPTH, row = t / DEPTH;
    Spot pixels[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) pixels[i] = window_at(w, top + row + i * (256 / DEPTH), count);
    A sums[EACH_SIDE][EACH_SIDE];
    multiply<true, true>((depth + DEPTH - 1) / DEPTH, sums,
        [&](i64 step, int k) { taps.put(k, element_at(w, step * DEPTH + k, depth)); },
        [&](i64, A(&to)[LOADS]) { gather(x, pixels, taps.get(k), height, width, to); },
        [&](i64 step, A(&to)[LOADS]) {
            i64 at = step * DEPTH + k;
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                i64 filter = left + row + i * (256 / DEPTH);
                to[i] = filter < filters && at < depth ? (A)widen(weights[filter * depth + at]) : (A)0;
            }
        });
    i64 first = left + t % 16 * EACH_SIDE;
#pragma unroll
    for (int i = 0; i < EACH_SIDE; ++i) {
        i64 pixel = top + t / 16 * EACH_SIDE + i;
#pragma unroll
        for (int j = 0; j < EACH_SIDE; ++j) {
            if (pixel < count && first + j < filters) y[pixel * filters + first + j] = narrow<T>(sums[i][j]);
        }
    }
}

// Squares of pixels and channels, apart by the residues of a pixel's place modulo the stride (blockIdx.z, y), so that
// no product is with a zero between strides: a pixel at place + stride * n is reached by the taps first + stride * j,
// from the outputs base + n - j.
extern "C" __global__ void convolution_input_gradient(const T *dy, const T *weights, T *dx, i64 batch, i64 filters,
                                                      WINDOW_PARAMETERS) {
    __shared__ Taps taps;
    Window<i64> w = window_of<i64>(WINDOW);
    i64 place_y = blockIdx.z, place_x = blockIdx.y;
    i64 first_y = (place_y + padding) % stride, first_x = (place_x + padding) % stride;
    i64 base_y = (place_y + padding) / stride, base_x = (place_x + padding) / stride;
    i64 taps_y = first_y < size ? (size - first_y + stride - 1) / stride : 0;
    i64 taps_x = first_x < size ? (size - first_x + stride - 1) / stride : 0;
    i64 down = (height - place_y + stride - 1) / stride, along = (width - place_x + stride - 1) / stride;
    i64 count = batch * down * along, depth = taps_y * taps_x * filters, across = (channels + SIDE - 1) / SIDE;
    i64 top = (i64)blockIdx.x / across * SIDE, left = (i64)blockIdx.x % across * SIDE;
    if (top >= count) return;
    int t = threadIdx.x, k = t % DEPTH, row = t / DEPTH;
    Spot pixels[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        i64 number = top + row + i * (256 / DEPTH);
        Pixel<i64> pixel = pixel_at(number, down, along);
        i64 y = base_y + pixel.y, x = base_x + pixel.x;
        pixels[i].y = number < count ? (int)y : NOWHERE;
        pixels[i].x = (int)x;
        pixels[i].offset = number_of(pixel.image, y, x, w.out_height, w.out_width) * filters;
    }
    A sums[EACH_SIDE][EACH_SIDE];
    multiply<true, false>((depth + DEPTH - 1) / DEPTH, sums,
        [&](i64 step, int k) {
            i64 at = step * DEPTH + k, tap = quotient(at, filters), tap_y = taps_x ? quotient(tap, taps_x) : 0;
            i64 tap_x = tap - tap_y * taps_x, filter = at - tap * filters;
            Spot spot = {filter - (tap_y * w.out_width + tap_x) * filters, at < depth ? (int)-tap_y : NOWHERE, (int)-tap_x};
            taps.put(k, spot);
            i64 tap_of_filter = (first_y + tap_y * stride) * size + first_x + tap_x * stride;
            taps.other[k] = at < depth ? (filter * size * size + tap_of_filter) * channels : -1;
        },
        [&](i64, A(&to)[LOADS]) { gather(dy, pixels, taps.get(k), w.out_height, w.out_width, to); },
        [&](i64, A(&to)[LOADS]) {
            i64 channel = left + t % SIDE;
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                i64 from = taps.other[t / SIDE + i * (256 / SIDE)];
                to[i] = channel < channels && from >= 0 ? (A)widen(weights[from + channel]) : (A)0;
            }
        });
    i64 first = left + t % 16 * EACH_SIDE;
#pragma unroll
    for (int i = 0; i < EACH_SIDE; ++i) {
        i64 number = top + t / 16 * EACH_SIDE + i;
        Pixel<i64> pixel = pixel_at(number, down, along);
        i64 y = place_y + pixel.y * stride, x = place_x + pixel.x * stride;
        i64 to = number_of(pixel.image, y, x, height, width) * channels + first;
#pragma unroll
        for (int j = 0; j < EACH_SIDE; ++j) {
            if (number < count && first + j < channels) dx[to + j] = narrow<T>(sums[i][j]);
        }
    }
}

// Squares of filters and of elements of a filter; the pixels, in order, in parts of whole steps (blockIdx.y).
extern "C" __global__ void convolution_weight_gradient(const T *x, const T *dy, A *partials, W *dw, i64 batch,
                                                       i64 filters, WINDOW_PARAMETERS, int accumulate) {
    __shared__ Taps taps;
    Window<i64> w = window_of<i64>(WINDOW);
    i64 count = batch * w.out_height * w.out_width, elements = size * size * channels;
    i64 across = (elements + SIDE - 1) / SIDE;
    i64 top = (i64)blockIdx.x / across * SIDE, left = (i64)blockIdx.x % across * SIDE;
    i64 all = (count + DEPTH - 1) / DEPTH, part = blockIdx.y, parts = gridDim.y;
    i64 start = part * all / parts, end = (part + 1) * all / parts;
    int t = threadIdx.x;
    i64 filter = top + t % SIDE;
    Spot element = element_at(w, left + t % SIDE, elements);
    A sums[EACH_SIDE][EACH_SIDE];
    multiply<false, false>(end - start, sums,
        [&](i64 step, int k) { taps.put(k, window_at(w, (start + step) * DEPTH + k, count)); },
        [&](i64 step, A(&to)[LOADS]) {
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                i64 pixel = (start + step) * DEPTH + t / SIDE + i * (256 / SIDE);
                to[i] = filter < filters && pixel < count ? (A)widen(dy[pixel * filters + filter]) : (A)0;
            }
        },
        [&](i64, A(&to)[LOADS]) {
#pragma unroll
            for (int i = 0; i < LOADS; ++i) {
                to[i] = seen(x, taps.get(t / SIDE + i * (256 / SIDE)), element, (int)height, (int)width);
            }
        });
    i64 first = left + t % 16 * EACH_SIDE;
#pragma unroll
    for (int i = 0; i < EACH_SIDE; ++i) {
        i64 row = top + t / 16 * EACH_SIDE + i;
#pragma unroll
        for (int j = 0; j < EACH_SIDE; ++j) {
            if (row >= filters || first + j >= elements) continue;
            i64 at = row * elements + first + j;
            if (parts == 1) {
                put(dw + at, sums[i][j], accumulate);
            } else {
                partials[part * filters * elements + at] = sums[i][j];
            }
        }
    }
}
// The sums of all parts, in order: an element a thread.
extern "C" __global__ void convolution_weight_gradient_total(const A *partials, i64 parts, i64 n, W *dw, int accumulate) {
    EACH(i, n) {
        A sum = 0;
#pragma unroll 8
        for (i64 part = 0; part < parts; ++part) sum += partials[part * n + i];
        put(dw + i, sum, accumulate);
    }
}

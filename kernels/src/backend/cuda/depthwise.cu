// Depthwise convolution: every channel has a filter of its own. Input gradients are gathered: every pixel sums over the
// windows that contain it.

// Each thread computes a run of channels of an output.
extern "C" __global__ void depthwise(const T *x, const T *weights, T *y, i64 n, WINDOW_PARAMETERS, int form) {
    each_output(n, WINDOW, form, [=](auto run, const auto &w, auto at, const auto &output, auto channel) {
        A sums[LENGTH(run)];
        clear(sums);
        each_pixel_seen(w, output, [&](auto tap, auto pixel) {
            A values[LENGTH(run)], factors[LENGTH(run)];
            load(x + pixel * w.channels + channel, values);
            load(weights + tap * w.channels + channel, factors);
            add_product(sums, values, factors);
        });
        store(y + at, sums);
    });
}

// Each thread computes a run of channels of a pixel.
extern "C" __global__ void depthwise_input_gradient(const T *dy, const T *weights, T *dx, i64 n, WINDOW_PARAMETERS,
                                                    int form) {
    each_input(n, WINDOW, form, [=](auto run, const auto &w, auto at, const auto &pixel, auto channel) {
        A sums[LENGTH(run)];
        clear(sums);
        each_window_over(w, pixel, [&](auto tap, auto output) {
            A values[LENGTH(run)], factors[LENGTH(run)];
            load(dy + output * w.channels + channel, values);
            load(weights + tap * w.channels + channel, factors);
            add_product(sums, values, factors);
        });
        store(dx + at, sums);
    });
}

// Taps whose sums a thread has at once.
#define TAPS 9

template <int V, class I>
__device__ void sum_taps(const T *x, const T *dy, A *partials, W *dw, const Window<I> &w, i64 pixels, i64 across,
                         int accumulate) {
    Tile tile = tile_of<V>(w.channels, across);
    int size = (int)w.size, taps = size * size, first = (int)blockIdx.z * TAPS;
    i64 part = blockIdx.y, parts = gridDim.y;
    I ky[TAPS], kx[TAPS];
    A sums[TAPS][1][V];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        ky[k] = (I)((first + k) / size);
        kx[k] = (I)((first + k) % size);
        clear(sums[k][0]);
    }
    if (tile.is_inside) {
        i64 end = (part + 1) * pixels / parts;
        for (i64 number = part * pixels / parts + tile.lane; number < end; number += tile.lanes) {
            Pixel<I> output = pixel_at((I)number, w.out_height, w.out_width);
            A gradients[V];
            load(dy + number * w.channels + tile.column, gradients);
#pragma unroll
            for (int k = 0; k < TAPS; ++k) {
                I y = start_of(w, output.y) + ky[k], at_x = start_of(w, output.x) + kx[k];
                if (first + k < taps && is_in(y, w.height) && is_in(at_x, w.width)) {
                    A values[V];
                    load(x + number_of(output.image, y, at_x, w.height, w.width) * w.channels + tile.column, values);
                    add_product(sums[k][0], values, gradients);
                }
            }
        }
    }
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        if (first + k >= taps) break;
        add_lanes(tile, sums[k]);
        if (!tile.is_inside || tile.lane != 0) continue;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            i64 at = (i64)(first + k) * w.channels + tile.column + v;
            if (parts == 1) {
                put(dw + at, sums[k][0][v], accumulate);
            } else {
                partials[part * taps * w.channels + at] = sums[k][0][v];
            }
        }
    }
}

// A block has a tile of channels, some of the taps (blockIdx.z), and one of the parts of the pixels.
extern "C" __global__ void depthwise_weight_gradient(const T *x, const T *dy, A *partials, W *dw, i64 pixels,
                                                     WINDOW_PARAMETERS, i64 across, int accumulate, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        Window<I> w = window_of<I>(WINDOW);
        sum_taps<LENGTH(run), I>(x, dy, partials, dw, w, pixels, across, accumulate);
    });
}
// The sums of all parts.
extern "C" __global__ void depthwise_weight_gradient_total(const A *partials, i64 parts, i64 n, W *dw, int accumulate) {
    i64 at;
    f64 sums[1];
    if (total(partials, parts, n, at, sums)) put(dw + at, (A)sums[0], accumulate);
}

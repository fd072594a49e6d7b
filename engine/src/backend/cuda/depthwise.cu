// Depthwise convolution: every channel has a filter of its own. Gradients by the input are gathered: every pixel sums the
// windows that saw it.

// A run of channels of an output a thread.
extern "C" __global__ void depthwise(const T *x, const T *weights, T *y, i64 n, i64 height, i64 width, i64 channels,
                                     i64 size, i64 stride, i64 padding, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        each_place<V, I>((I)n, w.out_height, w.out_width, w.channels, [&](I at, const Place<I> &p) {
            Range<I> rows = inside(w, p.y, w.height), columns = inside(w, p.x, w.width);
            A sums[V];
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] = 0;
            for (I ky = rows.first; ky < rows.end; ++ky) {
                I line = (p.image * w.height + p.y * w.stride + ky - w.padding) * w.width;
                for (I kx = columns.first; kx < columns.end; ++kx) {
                    A values[V], factors[V];
                    load(x + (line + p.x * w.stride + kx - w.padding) * w.channels + p.channel, values);
                    load(weights + (ky * w.size + kx) * w.channels + p.channel, factors);
#pragma unroll
                    for (int v = 0; v < V; ++v) sums[v] += values[v] * factors[v];
                }
            }
            store(y + at, sums);
        });
    });
}

// A run of channels of a pixel a thread.
extern "C" __global__ void depthwise_input_gradient(const T *dy, const T *weights, T *dx, i64 n, i64 height, i64 width,
                                                    i64 channels, i64 size, i64 stride, i64 padding, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        each_place<V, I>((I)n, w.height, w.width, w.channels, [&](I at, const Place<I> &p) {
            Range<I> rows = covering(w, p.y, w.out_height), columns = covering(w, p.x, w.out_width);
            A sums[V];
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] = 0;
            for (I oy = rows.first; oy < rows.end; ++oy) {
                I ky = p.y + w.padding - oy * w.stride;
                for (I ox = columns.first; ox < columns.end; ++ox) {
                    I kx = p.x + w.padding - ox * w.stride;
                    A values[V], factors[V];
                    load(dy + ((p.image * w.out_height + oy) * w.out_width + ox) * w.channels + p.channel, values);
                    load(weights + (ky * w.size + kx) * w.channels + p.channel, factors);
#pragma unroll
                    for (int v = 0; v < V; ++v) sums[v] += values[v] * factors[v];
                }
            }
            store(dx + at, sums);
        });
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
#pragma unroll
        for (int v = 0; v < V; ++v) sums[k][0][v] = 0;
    }
    if (tile.is_inside) {
        i64 end = (part + 1) * pixels / parts;
        for (i64 pixel = part * pixels / parts + tile.lane; pixel < end; pixel += tile.lanes) {
            I ox = (I)pixel % w.out_width, rest = (I)pixel / w.out_width;
            I oy = rest % w.out_height, image = rest / w.out_height;
            A gradients[V];
            load(dy + pixel * w.channels + tile.column, gradients);
#pragma unroll
            for (int k = 0; k < TAPS; ++k) {
                I iy = oy * w.stride + ky[k] - w.padding, ix = ox * w.stride + kx[k] - w.padding;
                if (first + k < taps && is_in(iy, w.height) && is_in(ix, w.width)) {
                    A values[V];
                    load(x + ((image * w.height + iy) * w.width + ix) * w.channels + tile.column, values);
#pragma unroll
                    for (int v = 0; v < V; ++v) sums[k][0][v] += values[v] * gradients[v];
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
extern "C" __global__ void depthwise_weight_gradient(const T *x, const T *dy, A *partials, W *dw, i64 pixels, i64 height,
                                                     i64 width, i64 channels, i64 size, i64 stride, i64 padding,
                                                     i64 across, int accumulate, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        sum_taps<LENGTH(run), I>(x, dy, partials, dw, w, pixels, across, accumulate);
    });
}
// The sums of all parts.
extern "C" __global__ void depthwise_weight_gradient_total(const A *partials, i64 parts, i64 n, W *dw, int accumulate) {
    i64 at;
    f64 sums[1];
    if (total(partials, parts, n, at, sums)) put(dw + at, (A)sums[0], accumulate);
}

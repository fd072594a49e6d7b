// Pooling of windows, by the largest or the mean, of whole images, and the gradients. Gradients are gathered: every pixel
// sums the windows that saw it.

// The first of equals wins, padding never does, and a NaN wins over everything. A run of channels of an output a thread.
extern "C" __global__ void max_pool(const T *x, T *y, u8 *index, i64 n, i64 height, i64 width, i64 channels, i64 size,
                                    i64 stride, i64 padding, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        each_place<V, I>((I)n, w.out_height, w.out_width, w.channels, [&](I at, const Place<I> &p) {
            Range<I> rows = inside(w, p.y, w.height), columns = inside(w, p.x, w.width);
            A best[V];
            u8 winner[V];
            bool first = true;
            for (I ky = rows.first; ky < rows.end; ++ky) {
                I line = (p.image * w.height + p.y * w.stride + ky - w.padding) * w.width;
                for (I kx = columns.first; kx < columns.end; ++kx) {
                    A values[V];
                    load(x + (line + p.x * w.stride + kx - w.padding) * w.channels + p.channel, values);
                    u8 tap = (u8)(ky * w.size + kx);
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        if (first || (!(values[v] <= best[v]) && best[v] == best[v])) {
                            best[v] = values[v];
                            winner[v] = tap;
                        }
                    }
                    first = false;
                }
            }
            store(y + at, best);
            if (!index) return;
            Pack<u8, V> pack;
#pragma unroll
            for (int v = 0; v < V; ++v) pack.at[v] = winner[v];
            *(Pack<u8, V> *)(index + at) = pack;
        });
    });
}

// A run of channels of a pixel a thread.
extern "C" __global__ void max_pool_gradient(const T *dy, const u8 *index, T *dx, i64 n, i64 height, i64 width,
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
                for (I ox = columns.first; ox < columns.end; ++ox) {
                    I tap = (p.y + w.padding - oy * w.stride) * w.size + p.x + w.padding - ox * w.stride;
                    I from = ((p.image * w.out_height + oy) * w.out_width + ox) * w.channels + p.channel;
                    Pack<u8, V> winners = *(const Pack<u8, V> *)(index + from);
                    A values[V];
                    load(dy + from, values);
#pragma unroll
                    for (int v = 0; v < V; ++v) sums[v] += winners.at[v] == (u8)tap ? values[v] : (A)0;
                }
            }
            store(dx + at, sums);
        });
    });
}

// A run of channels of an output a thread.
extern "C" __global__ void average_pool(const T *x, T *y, i64 n, i64 height, i64 width, i64 channels, i64 size,
                                        i64 stride, i64 padding, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        A share = (A)(1.0 / (f64)(size * size));
        each_place<V, I>((I)n, w.out_height, w.out_width, w.channels, [&](I at, const Place<I> &p) {
            Range<I> rows = inside(w, p.y, w.height), columns = inside(w, p.x, w.width);
            A sums[V];
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] = 0;
            for (I ky = rows.first; ky < rows.end; ++ky) {
                I line = (p.image * w.height + p.y * w.stride + ky - w.padding) * w.width;
                for (I kx = columns.first; kx < columns.end; ++kx) {
                    A values[V];
                    load(x + (line + p.x * w.stride + kx - w.padding) * w.channels + p.channel, values);
#pragma unroll
                    for (int v = 0; v < V; ++v) sums[v] += values[v];
                }
            }
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] *= share;
            store(y + at, sums);
        });
    });
}

// A run of channels of a pixel a thread.
extern "C" __global__ void average_pool_gradient(const T *dy, T *dx, i64 n, i64 height, i64 width, i64 channels,
                                                 i64 size, i64 stride, i64 padding, int form) {
    by_form(form, [=](auto run, auto i) {
        typedef decltype(i) I;
        const int V = LENGTH(run);
        Window<I> w = window_of<I>(height, width, channels, size, stride, padding);
        A share = (A)(1.0 / (f64)(size * size));
        each_place<V, I>((I)n, w.height, w.width, w.channels, [&](I at, const Place<I> &p) {
            Range<I> rows = covering(w, p.y, w.out_height), columns = covering(w, p.x, w.out_width);
            A sums[V];
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] = 0;
            for (I oy = rows.first; oy < rows.end; ++oy) {
                for (I ox = columns.first; ox < columns.end; ++ox) {
                    A values[V];
                    load(dy + ((p.image * w.out_height + oy) * w.out_width + ox) * w.channels + p.channel, values);
#pragma unroll
                    for (int v = 0; v < V; ++v) sums[v] += values[v];
                }
            }
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] *= share;
            store(dx + at, sums);
        });
    });
}

template <int V> __device__ void mean_tile(const T *x, T *y, i64 batch, i64 pixels, i64 channels, i64 width) {
    Tile tile = tile_of<V>(channels, width);
    A share = (A)(1.0 / (f64)pixels);
    for (i64 image = blockIdx.y; image < batch; image += gridDim.y) {
        f64 totals[1][V];
        sum_rows(tile, image * pixels, (image + 1) * pixels, totals, [&](i64 row, A(&sums)[1][V]) {
            A values[V];
            load(x + row * channels + tile.column, values);
#pragma unroll
            for (int v = 0; v < V; ++v) sums[0][v] += values[v];
        });
        if (!tile.is_inside || tile.lane != 0) continue;
        A means[V];
#pragma unroll
        for (int v = 0; v < V; ++v) means[v] = (A)totals[0][v] * share;
        store(y + image * channels + tile.column, means);
    }
}
// A tile of channels of an image a block.
extern "C" __global__ void global_pool(const T *x, T *y, i64 batch, i64 pixels, i64 channels, i64 width, int wide) {
    if (wide) {
        mean_tile<4>(x, y, batch, pixels, channels, width);
    } else {
        mean_tile<1>(x, y, batch, pixels, channels, width);
    }
}

template <int V> __device__ void spread_tile(const T *dy, T *dx, i64 batch, i64 pixels, i64 channels, i64 width) {
    Tile tile = tile_of<V>(channels, width);
    if (!tile.is_inside) return;
    A share = (A)(1.0 / (f64)pixels);
    for (i64 image = blockIdx.y; image < batch; image += gridDim.y) {
        A values[V];
        load(dy + image * channels + tile.column, values);
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] *= share;
        for (i64 pixel = tile.lane; pixel < pixels; pixel += tile.lanes) {
            store(dx + (image * pixels + pixel) * channels + tile.column, values);
        }
    }
}
// A tile of channels of an image a block.
extern "C" __global__ void global_pool_gradient(const T *dy, T *dx, i64 batch, i64 pixels, i64 channels, i64 width,
                                                int wide) {
    if (wide) {
        spread_tile<4>(dy, dx, batch, pixels, channels, width);
    } else {
        spread_tile<1>(dy, dx, batch, pixels, channels, width);
    }
}

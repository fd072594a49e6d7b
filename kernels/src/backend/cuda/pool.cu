// Pooling of windows, by the largest or the mean, of whole images, and the gradients. Gradients are gathered: every pixel
// sums over the windows that contain it.

// The first of equal values wins, padding never wins, and a NaN wins over everything. Each thread takes a run of channels
// of an output.
extern "C" __global__ void max_pool(const T *x, T *y, u8 *index, i64 n, WINDOW_PARAMETERS, int form) {
    each_output(n, WINDOW, form, [=](auto run, const auto &w, auto at, const auto &output, auto channel) {
        const int V = LENGTH(run);
        A best[V];
        Pack<u8, V> winners;
        bool first = true;
        each_pixel_seen(w, output, [&](auto tap, auto pixel) {
            A values[V];
            load(x + pixel * w.channels + channel, values);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                if (first || (!(values[v] <= best[v]) && best[v] == best[v])) {
                    best[v] = values[v];
                    winners.at[v] = (u8)tap;
                }
            }
            first = false;
        });
        store(y + at, best);
        if (index) *(Pack<u8, V> *)(index + at) = winners;
    });
}

// Each thread takes a run of channels of a pixel.
extern "C" __global__ void max_pool_gradient(const T *dy, const u8 *index, T *dx, i64 n, WINDOW_PARAMETERS, int form) {
    each_input(n, WINDOW, form, [=](auto run, const auto &w, auto at, const auto &pixel, auto channel) {
        const int V = LENGTH(run);
        A sums[V];
        clear(sums);
        each_window_over(w, pixel, [&](auto tap, auto output) {
            auto from = output * w.channels + channel;
            Pack<u8, V> winners = *(const Pack<u8, V> *)(index + from);
            A values[V];
            load(dy + from, values);
#pragma unroll
            for (int v = 0; v < V; ++v) sums[v] += winners.at[v] == (u8)tap ? values[v] : (A)0;
        });
        store(dx + at, sums);
    });
}

// Each thread takes a run of channels of an output.
extern "C" __global__ void average_pool(const T *x, T *y, i64 n, WINDOW_PARAMETERS, int form) {
    A share = (A)(1.0 / (f64)(size * size));
    each_output(n, WINDOW, form, [=](auto run, const auto &w, auto at, const auto &output, auto channel) {
        A sums[LENGTH(run)];
        clear(sums);
        each_pixel_seen(w, output, [&](auto, auto pixel) {
            A values[LENGTH(run)];
            load(x + pixel * w.channels + channel, values);
            add_to(sums, values);
        });
        multiply_by(sums, share);
        store(y + at, sums);
    });
}

// Each thread takes a run of channels of a pixel.
extern "C" __global__ void average_pool_gradient(const T *dy, T *dx, i64 n, WINDOW_PARAMETERS, int form) {
    A share = (A)(1.0 / (f64)(size * size));
    each_input(n, WINDOW, form, [=](auto run, const auto &w, auto at, const auto &pixel, auto channel) {
        A sums[LENGTH(run)];
        clear(sums);
        each_window_over(w, pixel, [&](auto, auto output) {
            A values[LENGTH(run)];
            load(dy + output * w.channels + channel, values);
            add_to(sums, values);
        });
        multiply_by(sums, share);
        store(dx + at, sums);
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
            add_to(sums[0], values);
        });
        if (!tile.is_inside || tile.lane != 0) continue;
        A means[V];
#pragma unroll
        for (int v = 0; v < V; ++v) means[v] = (A)totals[0][v] * share;
        store(y + image * channels + tile.column, means);
    }
}
// Each block takes a tile of channels of an image.
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
        multiply_by(values, share);
        for (i64 pixel = tile.lane; pixel < pixels; pixel += tile.lanes) {
            store(dx + (image * pixels + pixel) * channels + tile.column, values);
        }
    }
}
// Each block takes a tile of channels of an image.
extern "C" __global__ void global_pool_gradient(const T *dy, T *dx, i64 batch, i64 pixels, i64 channels, i64 width,
                                                int wide) {
    if (wide) {
        spread_tile<4>(dy, dx, batch, pixels, channels, width);
    } else {
        spread_tile<1>(dy, dx, batch, pixels, channels, width);
    }
}

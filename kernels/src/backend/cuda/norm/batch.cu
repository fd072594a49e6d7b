// Batch normalisation over rows of channels, its gradient, and its form with fixed estimates: tiles of channels.
//
// Sums are of differences to the first row, so a mean far from zero costs no precision. Some rows at a time are summed in
// the type of arithmetic, and their sums in f64. Statistics are computed in f64.

template <int V> __device__ void sum_tile(const T *x, i64 rows, i64 columns, f64 *partials, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    A shift[V];
    if (tile.is_inside) load(x + tile.column, shift);
    sum_part<2, V>(rows, columns, width, partials, [&](i64 at, i64, i64, A(&sums)[2][V]) {
        A values[V];
        load(x + at, values);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            A distance = values[v] - shift[v];
            sums[0][v] += distance;
            sums[1][v] += distance * distance;
        }
    });
}
// Of each part of the rows: the sums of distances and of their squares.
extern "C" __global__ void batch_norm_parts(const T *x, i64 rows, i64 columns, f64 *partials, i64 width, int wide) {
    if (wide) {
        sum_tile<4>(x, rows, columns, partials, width);
    } else {
        sum_tile<1>(x, rows, columns, partials, width);
    }
}
// The statistics; running estimates move where they are given.
extern "C" __global__ void batch_norm_statistics(const T *x, const f64 *partials, i64 parts, i64 rows, i64 columns,
                                                 A *mean, A *inverse, A *running_mean, A *running_variance,
                                                 double epsilon, double momentum) {
    i64 j;
    f64 sums[2];
    if (!total(partials, parts, columns, j, sums)) return;
    f64 n = (f64)rows, offset = sums[0] / n, variance = sums[1] / n - offset * offset;
    f64 center = (f64)widen(x[j]) + offset;
    if (!(variance > 0)) variance = 0;
    mean[j] = (A)center;
    inverse[j] = (A)(1 / sqrt(variance + epsilon));
    if (running_mean) {
        f64 unbiased = variance * n / (rows > 1 ? n - 1 : 1);
        running_mean[j] = (A)((f64)running_mean[j] + momentum * (center - (f64)running_mean[j]));
        running_variance[j] = (A)((f64)running_variance[j] + momentum * (unbiased - (f64)running_variance[j]));
    }
}

template <int V>
__device__ void apply_tile(const T *x, T *y, const A *mean, const A *inverse, const W *weight, const W *bias, i64 rows,
                           i64 columns, i64 width, int adds) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    Normal<V> normal;
    normal.read(tile.column, mean, inverse, weight, bias);
    each_row(tile, rows, [&](i64 row) {
        i64 at = row * columns + tile.column;
        A values[V], before[V];
        load(x + at, values);
        if (adds) load(y + at, before);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = normal.of(v, values[v]);
            if (adds) values[v] += before[v];
        }
        store(y + at, values);
    });
}
// y may be x.
extern "C" __global__ void batch_norm_apply(const T *x, T *y, const A *mean, const A *inverse, const W *weight,
                                            const W *bias, i64 rows, i64 columns, i64 width, int adds, int wide) {
    if (wide) {
        apply_tile<4>(x, y, mean, inverse, weight, bias, rows, columns, width, adds);
    } else {
        apply_tile<1>(x, y, mean, inverse, weight, bias, rows, columns, width, adds);
    }
}

template <int V>
__device__ void sum_gradients(const T *x, const T *dy, const A *mean, i64 rows, i64 columns, f64 *partials, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    A center[V];
    if (tile.is_inside) {
#pragma unroll
        for (int v = 0; v < V; ++v) center[v] = mean[tile.column + v];
    }
    sum_part<2, V>(rows, columns, width, partials, [&](i64 at, i64, i64, A(&sums)[2][V]) {
        A values[V], gradients[V];
        load(x + at, values);
        load(dy + at, gradients);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sums[0][v] += gradients[v];
            sums[1][v] += gradients[v] * (values[v] - center[v]);
        }
    });
}
// Of each part of the rows: the sums of gradients and of their products with the distance from the mean.
extern "C" __global__ void batch_norm_gradient_parts(const T *x, const T *dy, const A *mean, i64 rows, i64 columns,
                                                     f64 *partials, i64 width, int wide) {
    if (wide) {
        sum_gradients<4>(x, dy, mean, rows, columns, partials, width);
    } else {
        sum_gradients<1>(x, dy, mean, rows, columns, partials, width);
    }
}
// The parameters' gradients, where they are wanted; and, where the first part's sums stood, what is taken off every
// gradient, and off it by the distance from the mean.
extern "C" __global__ void batch_norm_gradient_total(f64 *partials, i64 parts, i64 rows, i64 columns, const A *inverse,
                                                     W *dweight, W *dbias, int accumulate) {
    i64 j;
    f64 sums[2];
    if (!total(partials, parts, columns, j, sums)) return;
    f64 n = (f64)rows, scale = (f64)inverse[j];
    if (dweight) {
        put(dweight + j, (A)(sums[1] * scale), accumulate);
        put(dbias + j, (A)sums[0], accumulate);
    }
    partials[j] = sums[0] / n;
    partials[columns + j] = sums[1] * scale * scale / n;
}

template <int V>
__device__ void gradient_tile(const T *x, T *dy, const A *mean, const A *inverse, const W *weight, const f64 *offs,
                              i64 rows, i64 columns, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    A center[V], scale[V], off[V], slope[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        i64 j = tile.column + v;
        center[v] = mean[j];
        scale[v] = inverse[j] * widen(weight[j]);
        off[v] = (A)offs[j];
        slope[v] = (A)offs[columns + j];
    }
    each_row(tile, rows, [&](i64 row) {
        i64 at = row * columns + tile.column;
        A values[V], gradients[V];
        load(x + at, values);
        load(dy + at, gradients);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            gradients[v] = scale[v] * (gradients[v] - off[v] - (values[v] - center[v]) * slope[v]);
        }
        store(dy + at, gradients);
    });
}
extern "C" __global__ void batch_norm_gradient(const T *x, T *dy, const A *mean, const A *inverse, const W *weight,
                                               const f64 *offs, i64 rows, i64 columns, i64 width, int wide) {
    if (wide) {
        gradient_tile<4>(x, dy, mean, inverse, weight, offs, rows, columns, width);
    } else {
        gradient_tile<1>(x, dy, mean, inverse, weight, offs, rows, columns, width);
    }
}

template <int V>
__device__ void fixed_tile(T *y, const A *mean, const A *variance, const W *weight, const W *bias, A epsilon, i64 rows,
                           i64 columns, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    A center[V], scale[V], offset[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        i64 j = tile.column + v;
        center[v] = mean[j];
        scale[v] = widen(weight[j]) / sqrt_of(variance[j] + epsilon);
        offset[v] = widen(bias[j]);
    }
    each_row(tile, rows, [&](i64 row) {
        i64 at = row * columns + tile.column;
        A values[V];
        load(y + at, values);
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = fused(values[v] - center[v], scale[v], offset[v]);
        store(y + at, values);
    });
}
extern "C" __global__ void batch_norm_fixed(T *y, const A *mean, const A *variance, const W *weight, const W *bias,
                                            double epsilon, i64 rows, i64 columns, i64 width, int wide) {
    if (wide) {
        fixed_tile<4>(y, mean, variance, weight, bias, (A)epsilon, rows, columns, width);
    } else {
        fixed_tile<1>(y, mean, variance, weight, bias, (A)epsilon, rows, columns, width);
    }
}

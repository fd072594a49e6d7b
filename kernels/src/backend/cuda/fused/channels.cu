// Batch normalisation with a sum and a rectifier after it, and the gradient of both: tiles of channels. At the end there is
// nothing, or max(x, 0), or that up to 6: 0, 1, 2.

template <int V>
__device__ void then_tile(const T *x, const T *other, T *y, const A *mean, const A *inverse, const W *weight,
                          const W *bias, i64 rows, i64 columns, i64 width, int end) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    Normal<V> normal;
    normal.read(tile.column, mean, inverse, weight, bias);
    each_row(tile, rows, [&](i64 row) {
        i64 at = row * columns + tile.column;
        A values[V], others[V];
        load(x + at, values);
        if (other) load(other + at, others);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = normal.of(v, values[v]);
            if (other) values[v] = as_stored(values[v] + others[v]);
            if (end) values[v] = end == 1 ? Relu::value(values[v]) : Relu6::value(values[v]);
        }
        store(y + at, values);
    });
}
// y may be x or other.
extern "C" __global__ void batch_norm_then(const T *x, const T *other, T *y, const A *mean, const A *inverse,
                                           const W *weight, const W *bias, i64 rows, i64 columns, i64 width, int end,
                                           int wide) {
    if (wide) {
        then_tile<4>(x, other, y, mean, inverse, weight, bias, rows, columns, width, end);
    } else {
        then_tile<1>(x, other, y, mean, inverse, weight, bias, rows, columns, width, end);
    }
}

__device__ __forceinline__ A passed(int end, A y, A dy) {
    return end == 0 ? dy : end == 1 ? Relu::passed(y, dy) : Relu6::passed(y, dy);
}

template <int V>
__device__ void sum_passed(const T *x, const T *dy, const A *mean, const A *inverse, const W *weight, const W *bias,
                           i64 rows, i64 columns, f64 *partials, i64 width, int end) {
    Tile tile = tile_of<V>(columns, width);
    Normal<V> normal;
    if (tile.is_inside) normal.read(tile.column, mean, inverse, weight, bias);
    sum_part<2, V>(rows, columns, width, partials, [&](i64 at, i64, i64, A(&sums)[2][V]) {
        A values[V], gradients[V];
        load(x + at, values);
        load(dy + at, gradients);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            A gradient = passed(end, normal.of(v, values[v]), gradients[v]);
            sums[0][v] += gradient;
            sums[1][v] += gradient * (values[v] - normal.center[v]);
        }
    });
}
// Of each part of the rows: the sums of what passes of the gradients, and of its products with the distance from the mean.
extern "C" __global__ void batch_norm_then_gradient_parts(const T *x, const T *dy, const A *mean, const A *inverse,
                                                          const W *weight, const W *bias, i64 rows, i64 columns,
                                                          f64 *partials, i64 width, int end, int wide) {
    if (wide) {
        sum_passed<4>(x, dy, mean, inverse, weight, bias, rows, columns, partials, width, end);
    } else {
        sum_passed<1>(x, dy, mean, inverse, weight, bias, rows, columns, partials, width, end);
    }
}

template <int V>
__device__ void gradient_tile(const T *x, const T *dy, T *dx, const A *mean, const A *inverse, const W *weight, const W *bias,
                              const f64 *offs, i64 rows, i64 columns, i64 width, int end) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    Normal<V> normal;
    normal.read(tile.column, mean, inverse, weight, bias);
    A off[V], slope[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        off[v] = (A)offs[tile.column + v];
        slope[v] = (A)offs[columns + tile.column + v];
    }
    each_row(tile, rows, [&](i64 row) {
        i64 at = row * columns + tile.column;
        A values[V], gradients[V];
        load(x + at, values);
        load(dy + at, gradients);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            A gradient = passed(end, normal.of(v, values[v]), gradients[v]);
            gradients[v] = normal.scale[v] * (gradient - off[v] - (values[v] - normal.center[v]) * slope[v]);
        }
        store(dx + at, gradients);
    });
}
// dx may be dy.
extern "C" __global__ void batch_norm_then_gradient(const T *x, const T *dy, T *dx, const A *mean, const A *inverse,
                                                    const W *weight, const W *bias, const f64 *offs, i64 rows,
                                                    i64 columns, i64 width, int end, int wide) {
    if (wide) {
        gradient_tile<4>(x, dy, dx, mean, inverse, weight, bias, offs, rows, columns, width, end);
    } else {
        gradient_tile<1>(x, dy, dx, mean, inverse, weight, bias, offs, rows, columns, width, end);
    }
}

// A bias and its gradient: tiles of columns.

template <int V> __device__ void add_tile(const T *bias, T *y, i64 rows, i64 columns, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    A added[V];
    load(bias + tile.column, added);
    each_row(tile, rows, [&](i64 row) {
        A values[V];
        load(y + row * columns + tile.column, values);
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] += added[v];
        store(y + row * columns + tile.column, values);
    });
}
extern "C" __global__ void add_bias(const T *bias, T *y, i64 rows, i64 columns, i64 width, int wide) {
    if (wide) {
        add_tile<4>(bias, y, rows, columns, width);
    } else {
        add_tile<1>(bias, y, rows, columns, width);
    }
}

template <int V>
__device__ void sum_tile(const T *dy, i64 rows, i64 columns, f64 *partials, W *db, i64 width, int accumulate) {
    Tile tile = tile_of<V>(columns, width);
    i64 part = blockIdx.y, parts = gridDim.y;
    f64 totals[1][V];
    sum_rows(tile, part * rows / parts, (part + 1) * rows / parts, totals, [&](i64 row, A(&sums)[1][V]) {
        A values[V];
        load(dy + row * columns + tile.column, values);
#pragma unroll
        for (int v = 0; v < V; ++v) sums[0][v] += values[v];
    });
    if (!tile.is_inside || tile.lane != 0) return;
    for (int v = 0; v < V; ++v) {
        if (parts == 1) {
            put(db + tile.column + v, (A)totals[0][v], accumulate);
        } else {
            partials[part * columns + tile.column + v] = totals[0][v];
        }
    }
}
// The sums of each part of the rows; of all at once where there is one part.
extern "C" __global__ void bias_gradient(const T *dy, i64 rows, i64 columns, f64 *partials, W *db, i64 width,
                                         int accumulate, int wide) {
    if (wide) {
        sum_tile<4>(dy, rows, columns, partials, db, width, accumulate);
    } else {
        sum_tile<1>(dy, rows, columns, partials, db, width, accumulate);
    }
}
// The sums of all parts.
extern "C" __global__ void bias_gradient_total(const f64 *partials, i64 parts, i64 columns, W *db, int accumulate) {
    i64 column;
    f64 sums[1];
    if (total(partials, parts, columns, column, sums)) put(db + column, (A)sums[0], accumulate);
}

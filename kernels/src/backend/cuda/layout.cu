// Kernels that move elements from T to W. Between f64 and a 16-bit type they round through f32.

// A run a thread.
extern "C" __global__ void cast(const T *x, W *y, i64 n, int wide) {
    each_run(n, wide, [=](i64 i, auto run) {
        A values[LENGTH(run)];
        load(x + i, values);
        store(y + i, values);
    });
}

template <int V>
__device__ void copy_tile(const T *x, W *y, i64 rows, i64 columns, i64 from_stride, i64 to_stride, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    each_row(tile, rows, [&](i64 row) {
        A values[V];
        load(x + row * from_stride + tile.column, values);
        store(y + row * to_stride + tile.column, values);
    });
}
// Tiles of columns.
extern "C" __global__ void copy_columns(const T *x, W *y, i64 rows, i64 columns, i64 from_stride, i64 from_offset,
                                        i64 to_stride, i64 to_offset, i64 width, int wide) {
    x += from_offset;
    y += to_offset;
    if (wide) {
        copy_tile<4>(x, y, rows, columns, from_stride, to_stride, width);
    } else {
        copy_tile<1>(x, y, rows, columns, from_stride, to_stride, width);
    }
}

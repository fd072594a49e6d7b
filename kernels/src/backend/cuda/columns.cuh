// A matrix under the threads of a launch: blockIdx.x is a tile of columns, blockIdx.y some of the rows. A thread keeps its
// columns, a run of them, and steps down the rows; neighbouring threads have neighbouring columns.

#define BLOCK 256
// Rows summed in the type of arithmetic, before their sum goes to f64.
#define CHUNK 64

struct Tile {
    // The thread's first column.
    i64 column;
    // Threads across, and which of the rows that the block sees at once is the thread's.
    int width, lane, lanes;
    // Whether the thread has any columns.
    bool is_inside;
};

template <int V> __device__ __forceinline__ Tile tile_of(i64 columns, i64 width) {
    Tile tile;
    tile.width = (int)width;
    tile.lane = (int)threadIdx.x / tile.width;
    tile.lanes = BLOCK / tile.width;
    tile.column = ((i64)blockIdx.x * tile.width + (int)threadIdx.x % tile.width) * V;
    tile.is_inside = tile.lane < tile.lanes && tile.column < columns;
    return tile;
}

// Calls f(row, tile) for the thread's rows, of `rows` that all blocks along y share.
template <class F> __device__ __forceinline__ void each_row(const Tile &tile, i64 rows, F f) {
    if (!tile.is_inside) return;
    i64 step = (i64)gridDim.y * tile.lanes;
#pragma unroll 2
    for (i64 row = (i64)blockIdx.y * tile.lanes + tile.lane; row < rows; row += step) f(row);
}

// Adds up what the lanes of a column have, two by two; the sums are lane 0's. All threads of the block must take part.
template <int K, int V, class S> __device__ void add_lanes(const Tile &tile, S (&sums)[K][V]) {
    __shared__ S room[K * V * BLOCK];
    int at = threadIdx.x, reach = 1;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < K * V; ++i) room[i * BLOCK + at] = sums[i / V][i % V];
    while (reach < tile.lanes) reach *= 2;
    for (reach /= 2; reach > 0; reach /= 2) {
        __syncthreads();
        if (tile.lane < reach && tile.lane + reach < tile.lanes) {
#pragma unroll
            for (int i = 0; i < K * V; ++i) room[i * BLOCK + at] += room[i * BLOCK + at + reach * tile.width];
        }
    }
    // Each thread reads what it wrote itself.
#pragma unroll
    for (int i = 0; i < K * V; ++i) sums[i / V][i % V] = room[i * BLOCK + at];
}

// K sums over the rows from first to last, of what add(row, sums) adds. Lane 0 gets them. All threads must take part.
template <int K, int V, class F>
__device__ __forceinline__ void sum_rows(const Tile &tile, i64 first, i64 last, f64 (&totals)[K][V], F add) {
#pragma unroll
    for (int i = 0; i < K * V; ++i) totals[i / V][i % V] = 0;
    i64 row = first + tile.lane;
    i64 left = tile.is_inside && row < last ? (last - row + tile.lanes - 1) / tile.lanes : 0;
    while (left > 0) {
        int count = left < CHUNK ? (int)left : CHUNK;
        A sums[K][V];
#pragma unroll
        for (int i = 0; i < K * V; ++i) sums[i / V][i % V] = 0;
#pragma unroll 4
        for (int i = 0; i < count; ++i) {
            add(row, sums);
            row += tile.lanes;
        }
#pragma unroll
        for (int i = 0; i < K * V; ++i) totals[i / V][i % V] += sums[i / V][i % V];
        left -= count;
    }
    add_lanes(tile, totals);
}

// The same over the rows of part blockIdx.y, written to partials [parts, K, columns].
template <int K, int V, class F>
__device__ __forceinline__ void sum_part(i64 rows, i64 columns, i64 width, f64 *partials, F add) {
    Tile tile = tile_of<V>(columns, width);
    i64 part = blockIdx.y, parts = gridDim.y;
    f64 totals[K][V];
    sum_rows(tile, part * rows / parts, (part + 1) * rows / parts, totals, [&](i64 row, A(&sums)[K][V]) {
        add(row * columns + tile.column, row, tile.column, sums);
    });
    if (!tile.is_inside || tile.lane != 0) return;
#pragma unroll
    for (int i = 0; i < K * V; ++i) partials[(part * K + i / V) * columns + tile.column + i % V] = totals[i / V][i % V];
}

// Columns of a block that adds up parts: eight, thirty-two threads each.
#define TOTALS 8

// A column's K sums over all parts, in a fixed order. Whether the thread is the one that has them. All threads must
// take part.
template <int K, class S>
__device__ bool total(const S *partials, i64 parts, i64 columns, i64 &column, f64 (&sums)[K]) {
    Tile tile = tile_of<1>(columns, TOTALS);
    f64 totals[K][1];
#pragma unroll
    for (int k = 0; k < K; ++k) totals[k][0] = 0;
    if (tile.is_inside) {
#pragma unroll 4
        for (i64 part = tile.lane; part < parts; part += tile.lanes) {
#pragma unroll
            for (int k = 0; k < K; ++k) totals[k][0] += (f64)partials[(part * K + k) * columns + tile.column];
        }
    }
    add_lanes(tile, totals);
#pragma unroll
    for (int k = 0; k < K; ++k) sums[k] = totals[k][0];
    column = tile.column;
    return tile.is_inside && tile.lane == 0;
}

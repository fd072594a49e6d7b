// Sums with the bias and the dropout before them, by tiles of columns; with the norm of each row after them, by rows.

// What is added to an output, and what is dropped of it.
struct Summed {
    const T *other, *bias;
    u64 bound, key;
    A scale;

    // Makes the sums of some elements of a row, as they are stored.
    template <int V> __device__ __forceinline__ void add(A (&values)[V], i64 at, i64 column) const {
        A others[V], added[V];
        load(other + at, others);
        if (bias) load(bias + column, added);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (bias) values[v] = as_stored(values[v] + added[v]);
            if (bound) {
                const A kept = as_stored(rounded_product(values[v], scale));
                values[v] = random_bits(key, (u64)(at + v)) < bound ? (A)0 : kept;
            }
            values[v] = as_stored(values[v] + others[v]);
        }
    }
};

template <int V> __device__ void sum_tile(const Summed &of, T *y, i64 rows, i64 columns, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    each_row(tile, rows, [&](i64 row) {
        i64 at = row * columns + tile.column;
        A values[V];
        load(y + at, values);
        of.add(values, at, tile.column);
        store(y + at, values);
    });
}
// `bound` is the probability of zero, times 2^64.
extern "C" __global__ void sum(const T *other, const T *bias, T *y, i64 rows, i64 columns, u64 bound, double scale,
                               u64 key, i64 width, int wide) {
    Summed of = {other, bias, bound, key, (A)scale};
    if (wide) {
        sum_tile<4>(of, y, rows, columns, width);
    } else {
        sum_tile<1>(of, y, rows, columns, width);
    }
}

template <int G, int V>
__device__ void sum_normalise(const Summed &of, T *y, const W *weight, const W *offset, T *normed, A *mean, A *inverse,
                              i64 rows, i64 columns, A epsilon) {
    i64 step = (i64)gridDim.x * (BLOCK / G);
    for (i64 row = (i64)blockIdx.x * (BLOCK / G) + (int)threadIdx.x / G; row < rows; row += step) {
        T *sums = y + row * columns;
        A first = 0;
        // A thread reads again what it wrote itself.
        each_of_row<G, V>(columns, [&](i64 i) {
            A values[V];
            load(sums + i, values);
            of.add(values, row * columns + i, i);
            store(sums + i, values);
            if (i == 0) first = values[0];
        });
        first = mean ? group_sum<G>(first) : (A)0;
        normalise_row<G, V>(sums, first, weight, offset, normed + row * columns, mean ? mean + row : mean, inverse + row,
                            columns, epsilon);
    }
}
extern "C" __global__ void sum_row_norm(const T *other, const T *bias, T *y, const W *weight, const W *offset, T *normed,
                                        A *mean, A *inverse, i64 rows, i64 columns, u64 bound, double scale, u64 key,
                                        double epsilon, int by_block, int wide) {
    Summed of = {other, bias, bound, key, (A)scale};
    if (by_block && wide) {
        sum_normalise<BLOCK, 4>(of, y, weight, offset, normed, mean, inverse, rows, columns, (A)epsilon);
    } else if (by_block) {
        sum_normalise<BLOCK, 1>(of, y, weight, offset, normed, mean, inverse, rows, columns, (A)epsilon);
    } else if (wide) {
        sum_normalise<32, 4>(of, y, weight, offset, normed, mean, inverse, rows, columns, (A)epsilon);
    } else {
        sum_normalise<32, 1>(of, y, weight, offset, normed, mean, inverse, rows, columns, (A)epsilon);
    }
}

// A bias and the function after it, and the gradient of both: tiles of columns.

// The sum with the bias is stored as well, where there is a place for it: x may be that.
template <class Function, int V>
__device__ void value_tile(const T *x, const T *bias, T *y, T *sum, i64 rows, i64 columns, i64 width) {
    Tile tile = tile_of<V>(columns, width);
    if (!tile.is_inside) return;
    A added[V];
    load(bias + tile.column, added);
    each_row(tile, rows, [&](i64 row) {
        A values[V];
        i64 at = row * columns + tile.column;
        load(x + at, values);
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = as_stored(values[v] + added[v]);
        if (sum) store(sum + at, values);
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = Function::value(values[v]);
        store(y + at, values);
    });
}
// y may be x.
template <class Function>
__device__ __forceinline__ void values(const T *x, const T *bias, T *y, T *sum, i64 rows, i64 columns, i64 width,
                                       int wide) {
    if (wide) {
        value_tile<Function, 4>(x, bias, y, sum, rows, columns, width);
    } else {
        value_tile<Function, 1>(x, bias, y, sum, rows, columns, width);
    }
}

// The gradient of a rectifier, from its output.
template <class Function> struct Masks {
    static const bool adds = false;
    static __device__ __forceinline__ A of(A y, A dy) { return Function::passed(y, dy); }
};
// The gradient of a smooth function, from its input.
template <class Function> struct Slopes {
    static const bool adds = true;
    static __device__ __forceinline__ A of(A x, A dy) { return dy * Function::derivative(x); }
};

template <class Rule, int V>
__device__ void gradient_tile(const T *saved, const T *bias, T *dy, i64 rows, i64 columns, f64 *partials, W *db, i64 width,
                              int accumulate) {
    Tile tile = tile_of<V>(columns, width);
    i64 part = blockIdx.y, parts = gridDim.y;
    A added[V];
    clear(added);
    if (Rule::adds && tile.is_inside) load(bias + tile.column, added);
    f64 totals[1][V];
    sum_rows(tile, part * rows / parts, (part + 1) * rows / parts, totals, [&](i64 row, A(&sums)[1][V]) {
        i64 at = row * columns + tile.column;
        A of[V], gradients[V];
        load(saved + at, of);
        load(dy + at, gradients);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (Rule::adds) of[v] = as_stored(of[v] + added[v]);
            gradients[v] = as_stored(Rule::of(of[v], gradients[v]));
            sums[0][v] += gradients[v];
        }
        store(dy + at, gradients);
    });
    if (!db || !tile.is_inside || tile.lane != 0) return;
    for (int v = 0; v < V; ++v) {
        if (parts == 1) {
            put(db + tile.column + v, (A)totals[0][v], accumulate);
        } else {
            partials[part * columns + tile.column + v] = totals[0][v];
        }
    }
}
// The sums of each part of the rows; of all at once where there is one part.
template <class Rule>
__device__ __forceinline__ void gradients(const T *saved, const T *bias, T *dy, i64 rows, i64 columns, f64 *partials, W *db,
                                          i64 width, int accumulate, int wide) {
    if (wide) {
        gradient_tile<Rule, 4>(saved, bias, dy, rows, columns, partials, db, width, accumulate);
    } else {
        gradient_tile<Rule, 1>(saved, bias, dy, rows, columns, partials, db, width, accumulate);
    }
}
// The sums of all parts.
extern "C" __global__ void bias_function_gradient_total(const f64 *partials, i64 parts, i64 columns, W *db, int accumulate) {
    i64 column;
    f64 sums[1];
    if (total(partials, parts, columns, column, sums)) put(db + column, (A)sums[0], accumulate);
}

#define VALUES const T *x, const T *bias, T *y, T *sum, i64 rows, i64 columns, i64 width, int wide
#define GRADIENTS const T *saved, const T *bias, T *dy, i64 rows, i64 columns, f64 *partials, W *db, i64 width, int accumulate, int wide
#define KERNELS(name, Function, Rule) \
    extern "C" __global__ void bias_##name(VALUES) { values<Function>(x, bias, y, sum, rows, columns, width, wide); } \
    extern "C" __global__ void bias_##name##_gradient(GRADIENTS) { \
        gradients<Rule<Function>>(saved, bias, dy, rows, columns, partials, db, width, accumulate, wide); \
    }
#define SMOOTH_KERNELS(name, Function) KERNELS(name, Function, Slopes)
KERNELS(relu, Relu, Masks)
KERNELS(relu6, Relu6, Masks)
EACH_SMOOTH(SMOOTH_KERNELS)

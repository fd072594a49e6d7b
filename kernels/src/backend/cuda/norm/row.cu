// Normalisation of rows, by mean and variance or by the mean of squares, and the gradient. A row belongs to a warp, or to a
// whole block where it is long; where no mean is given there is none, and no bias.

template <int G, int V>
__device__ void normalise(const T *x, const W *weight, const W *bias, T *y, A *mean, A *inverse, i64 rows, i64 columns,
                          A epsilon) {
    i64 step = (i64)gridDim.x * (BLOCK / G);
    for (i64 row = (i64)blockIdx.x * (BLOCK / G) + (int)threadIdx.x / G; row < rows; row += step) {
        const T *from = x + row * columns;
        normalise_row<G, V>(from, mean ? (A)widen(from[0]) : (A)0, weight, bias, y + row * columns, mean ? mean + row : mean,
                            inverse + row, columns, epsilon);
    }
}
extern "C" __global__ void row_norm(const T *x, const W *weight, const W *bias, T *y, A *mean, A *inverse, i64 rows,
                                    i64 columns, double epsilon, int by_block, int wide) {
    if (by_block && wide) {
        normalise<BLOCK, 4>(x, weight, bias, y, mean, inverse, rows, columns, (A)epsilon);
    } else if (by_block) {
        normalise<BLOCK, 1>(x, weight, bias, y, mean, inverse, rows, columns, (A)epsilon);
    } else if (wide) {
        normalise<32, 4>(x, weight, bias, y, mean, inverse, rows, columns, (A)epsilon);
    } else {
        normalise<32, 1>(x, weight, bias, y, mean, inverse, rows, columns, (A)epsilon);
    }
}

// The gradient of each row in place of dy, plus the row of another gradient where one is given.
template <int G, int V>
__device__ void gradient_rows(const T *x, T *dy, const A *mean, const A *inverse, const W *weight, const T *other, i64 rows,
                              i64 columns) {
    A share = (A)(1.0 / (f64)columns);
    i64 step = (i64)gridDim.x * (BLOCK / G);
    for (i64 row = (i64)blockIdx.x * (BLOCK / G) + (int)threadIdx.x / G; row < rows; row += step) {
        const T *from = x + row * columns;
        T *to = dy + row * columns;
        A center = mean ? mean[row] : (A)0, scale = inverse[row], off = 0, slope = 0;
        A values[V], gradients[V], weights[V], others[V];
        clear(others);
        each_of_row<G, V>(columns, [&](i64 i) {
            load(from + i, values);
            load(to + i, gradients);
            load(weight + i, weights);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                A gradient = gradients[v] * weights[v];
                off += gradient;
                slope += gradient * ((values[v] - center) * scale);
            }
        });
        off = mean ? share * group_sum<G>(off) : (A)0;
        slope = share * group_sum<G>(slope);
        each_of_row<G, V>(columns, [&](i64 i) {
            load(from + i, values);
            load(to + i, gradients);
            load(weight + i, weights);
            if (other) load(other + row * columns + i, others);
#pragma unroll
            for (int v = 0; v < V; ++v) {
                A inner = gradients[v] * weights[v] - off - (values[v] - center) * scale * slope;
                gradients[v] = other ? as_stored(rounded_product(scale, inner)) + others[v] : scale * inner;
            }
            store(to + i, gradients);
        });
    }
}
#define GRADIENT const T *x, T *dy, const A *mean, const A *inverse, const W *weight, const T *other, i64 rows, i64 columns
extern "C" __global__ void row_norm_gradient(GRADIENT, int by_block, int wide) {
    if (by_block && wide) {
        gradient_rows<BLOCK, 4>(x, dy, mean, inverse, weight, other, rows, columns);
    } else if (by_block) {
        gradient_rows<BLOCK, 1>(x, dy, mean, inverse, weight, other, rows, columns);
    } else if (wide) {
        gradient_rows<32, 4>(x, dy, mean, inverse, weight, other, rows, columns);
    } else {
        gradient_rows<32, 1>(x, dy, mean, inverse, weight, other, rows, columns);
    }
}

template <int V>
__device__ void sum_gradients(const T *x, const T *dy, const A *mean, const A *inverse, i64 rows, i64 columns,
                              f64 *partials, i64 width) {
    sum_part<2, V>(rows, columns, width, partials, [=](i64 at, i64 row, i64, A(&sums)[2][V]) {
        A center = mean ? mean[row] : (A)0, scale = inverse[row];
        A values[V], gradients[V];
        load(x + at, values);
        load(dy + at, gradients);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            sums[0][v] += gradients[v] * ((values[v] - center) * scale);
            sums[1][v] += gradients[v];
        }
    });
}
// Tiles of columns. Of each part of the rows: the sums that the gradients by weight and bias are.
extern "C" __global__ void row_norm_gradient_parts(const T *x, const T *dy, const A *mean, const A *inverse, i64 rows,
                                                   i64 columns, f64 *partials, i64 width, int wide) {
    if (wide) {
        sum_gradients<4>(x, dy, mean, inverse, rows, columns, partials, width);
    } else {
        sum_gradients<1>(x, dy, mean, inverse, rows, columns, partials, width);
    }
}
extern "C" __global__ void row_norm_gradient_total(const f64 *partials, i64 parts, i64 columns, W *dweight, W *dbias,
                                                   int accumulate) {
    i64 j;
    f64 sums[2];
    if (!total(partials, parts, columns, j, sums)) return;
    put(dweight + j, (A)sums[0], accumulate);
    if (dbias) put(dbias + j, (A)sums[1], accumulate);
}

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

// What the gradient of a row is made of.
struct Slope {
    A center, scale, off, slope;
};
template <int G, int V>
__device__ __forceinline__ Slope slope_of(const T *x, const T *dy, const W *weight, bool has_mean, A center, A scale,
                                          i64 columns) {
    A off = 0, slope = 0, values[V], gradients[V], weights[V], share = (A)(1.0 / (f64)columns);
    each_of_row<G, V>(columns, [&](i64 i) {
        load(x + i, values);
        load(dy + i, gradients);
        load(weight + i, weights);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            A gradient = gradients[v] * weights[v];
            off += gradient;
            slope += gradient * ((values[v] - center) * scale);
        }
    });
    off = has_mean ? share * group_sum<G>(off) : (A)0;
    return {center, scale, off, share * group_sum<G>(slope)};
}
// The gradient of an element, plus another one where there is one.
__device__ __forceinline__ A sloped(const Slope &row, A value, A gradient, A weight, bool adds, A other) {
    A inner = gradient * weight - row.off - (value - row.center) * row.scale * row.slope;
    return adds ? as_stored(rounded_product(row.scale, inner)) + other : row.scale * inner;
}

// The gradient of each row in place of dy, plus the row of another gradient where one is given.
template <int G, int V>
__device__ void gradient_rows(const T *x, T *dy, const A *mean, const A *inverse, const W *weight, const T *other, i64 rows,
                              i64 columns) {
    i64 step = (i64)gridDim.x * (BLOCK / G);
    for (i64 row = (i64)blockIdx.x * (BLOCK / G) + (int)threadIdx.x / G; row < rows; row += step) {
        const T *from = x + row * columns;
        T *to = dy + row * columns;
        A values[V], gradients[V], weights[V], others[V];
        clear(others);
        const Slope own = slope_of<G, V>(from, to, weight, mean, mean ? mean[row] : (A)0, inverse[row], columns);
        each_of_row<G, V>(columns, [&](i64 i) {
            load(from + i, values);
            load(to + i, gradients);
            load(weight + i, weights);
            if (other) load(other + row * columns + i, others);
#pragma unroll
            for (int v = 0; v < V; ++v) gradients[v] = sloped(own, values[v], gradients[v], weights[v], other, others[v]);
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

// ---- The same, and the gradients by weight and bias, by one launch: a block a part of the rows.

// Rows that a block has at once, a warp each; and how many of them a thread reads before it writes.
#define AT_ONCE (BLOCK / 32)
#define READ 4

// Adds up `count` parts of n sums each, `step` parts from one to the next.
template <class F> __device__ __forceinline__ void add_up(const A *from, i64 count, i64 step, i64 n, F f) {
    for (i64 i = threadIdx.x; i < n; i += BLOCK) {
        f64 sum = 0;
#pragma unroll 8
        for (i64 part = 0; part < count; ++part) sum += (f64)__ldcg(from + part * step * n + i);
        f(i, sum);
    }
}

// What a block shares. Each sum is one thread's: those of its v-th columns lie one behind another.
struct Shared {
    f64 sums[2][SUMMED];
    Slope slopes[AT_ONCE];
};

template <int V>
__device__ __forceinline__ void gradient_part(GRADIENT, A *partials, W *dweight, W *dbias, int accumulate, Shared &shared) {
    auto &sums = shared.sums;
    auto &slopes = shared.slopes;
    const i64 part = blockIdx.x, parts = gridDim.x, last = (part + 1) * rows / parts;
    for (i64 c = (i64)threadIdx.x * V; c < columns; c += BLOCK * V)
        for (int v = 0; v < V; ++v) sums[0][v * (SUMMED / V) + c / V] = sums[1][v * (SUMMED / V) + c / V] = 0;
    for (i64 first = part * rows / parts; first < last; first += AT_ONCE) {
        // What was there has been read.
        __syncthreads();
        const i64 row = first + threadIdx.x / 32;
        if (row < last) {
            const A center = mean ? mean[row] : (A)0;
            Slope own = slope_of<32, V>(x + row * columns, dy + row * columns, weight, mean, center, inverse[row], columns);
            if (threadIdx.x % 32 == 0) slopes[threadIdx.x / 32] = own;
        }
        __syncthreads();
        const int count = last - first < AT_ONCE ? (int)(last - first) : AT_ONCE;
        for (i64 c = (i64)threadIdx.x * V; c < columns; c += BLOCK * V) {
            A weights[V], of_weight[V], of_bias[V];
            load(weight + c, weights);
            clear(of_weight);
            clear(of_bias);
            for (int from = 0; from < count; from += READ) {
                A values[READ][V], gradients[READ][V], others[READ][V];
#pragma unroll
                for (int r = 0; r < READ; ++r) {
                    const i64 at = (first + from + r) * columns + c;
                    clear(others[r]);
                    if (from + r >= count) continue;
                    load(x + at, values[r]);
                    load(dy + at, gradients[r]);
                    if (other) load(other + at, others[r]);
                }
#pragma unroll
                for (int r = 0; r < READ; ++r) {
                    if (from + r >= count) continue;
                    const Slope own = slopes[from + r];
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        of_weight[v] += gradients[r][v] * ((values[r][v] - own.center) * own.scale);
                        of_bias[v] += gradients[r][v];
                        gradients[r][v] = sloped(own, values[r][v], gradients[r][v], weights[v], other, others[r][v]);
                    }
                    store(dy + (first + from + r) * columns + c, gradients[r]);
                }
            }
#pragma unroll
            for (int v = 0; v < V; ++v) {
                sums[0][v * (SUMMED / V) + c / V] += of_weight[v];
                sums[1][v * (SUMMED / V) + c / V] += of_bias[v];
            }
        }
    }
    const i64 n = dbias ? 2 * columns : columns;
    auto write = [&](i64 i, f64 sum) { put(i < columns ? dweight + i : dbias + (i - columns), (A)sum, accumulate); };
    A *own = partials + part * n;
    for (i64 c = (i64)threadIdx.x * V; c < columns; c += BLOCK * V) {
        for (int v = 0; v < V; ++v) {
            for (int k = 0; k < (dbias ? 2 : 1); ++k) {
                const f64 sum = sums[k][v * (SUMMED / V) + c / V];
                if (parts == 1) write(k * columns + c + v, sum);
                else own[k * columns + c + v] = (A)sum;
            }
        }
    }
    if (parts == 1) return;
    // The last block of each group of parts adds up theirs, in place of the first; the last of these adds up all.
    const i64 group = part / GROUP, groups = (parts + GROUP - 1) / GROUP, begin = group * GROUP;
    const i64 members = parts - begin < GROUP ? parts - begin : GROUP;
    if (!is_last(group, members)) return;
    if (groups == 1) return add_up(partials, members, 1, n, write);
    A *to = partials + begin * n;
    add_up(to, members, 1, n, [&](i64 i, f64 sum) { to[i] = (A)sum; });
    if (is_last(GROUPS - 1, groups)) add_up(partials, groups, GROUP, n, write);
}
extern "C" __global__ void row_norm_gradients(GRADIENT, A *partials, W *dweight, W *dbias, int accumulate, int wide) {
    __shared__ Shared shared;
    if (wide) {
        gradient_part<4>(x, dy, mean, inverse, weight, other, rows, columns, partials, dweight, dbias, accumulate, shared);
    } else {
        gradient_part<1>(x, dy, mean, inverse, weight, other, rows, columns, partials, dweight, dbias, accumulate, shared);
    }
}

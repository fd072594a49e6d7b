// Matrix products on host memory, for blas.cpp and dnn.cpp.
#pragma once
#include <cstddef>

namespace sim {

enum Type { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 }; // cudaDataType
inline size_t bytes_of(Type t) { return t == F64 ? 8 : t == F32 ? 4 : 2; }

double load(const void *p, ptrdiff_t i, Type t);
void store(void *p, ptrdiff_t i, Type t, double v); // rounded once, to nearest even

// An operand by strides: element (i, j) is data[i * rows + j * columns].
struct Matrix {
    void *data;
    Type type;
    ptrdiff_t rows, columns;
};

// c = alpha a b + beta c, with a [m, k], b [k, n], c [m, n]. Sums are made in f32, or in f64 where `wide`; `tf32` rounds
// what is read to ten bits of fraction. c is not read where beta is 0. `team`: on all OS threads.
struct Product {
    size_t m, n, k;
    Matrix a, b, c;
    double alpha, beta;
    bool wide, tf32, team;
};
void multiply(const Product &p);

} // namespace sim

// Convolution in two dimensions on host memory, for dnn.cpp.
#pragma once
#include "gemm.h"

namespace sim {

enum Direction { FORWARD, TO_DATA, TO_FILTER };

// Everything by strides, so any order of the dimensions will do: x [n, c, h, w], w [k, c / groups, r, s], y [n, k, p, q].
struct Convolution {
    Direction direction;
    Type type;
    size_t n, c, h, w, k, r, s, p, q, groups;
    ptrdiff_t x_strides[4], w_strides[4], y_strides[4];
    int pad[2], stride[2], dilation[2];
    bool flipped;  // CUDNN_CONVOLUTION: the filter turned round
    bool tf32;
    size_t start;  // where sums begin: algorithms that are not deterministic take another each time
    double alpha, beta;
    void *x, *weights, *y;
};
void convolve(const Convolution &c);

} // namespace sim

// Convolution by unrolling: each image of a group becomes a matrix [c r s, p q], and the three directions are products with
// it. Sums are made in f32, or in f64 for f64, in one order (rotated by `start`).
#include "convolution.h"
#include "sim.h"

namespace sim {

template <class S> static constexpr Type type_of() { return sizeof(S) == 8 ? F64 : F32; }

template <class S> struct Part { // one image and one group
    const Convolution &v;
    size_t image, group;
    size_t c() const { return v.c / v.groups; }
    size_t k() const { return v.k / v.groups; }
    size_t taps() const { return v.r * v.s; }
    size_t rows() const { return c() * taps(); }
    size_t pixels() const { return v.p * v.q; }
    ptrdiff_t x_at(size_t c, size_t h, size_t w) const {
        auto *s = v.x_strides;
        return ptrdiff_t(image) * s[0] + ptrdiff_t(group * this->c() + c) * s[1] + ptrdiff_t(h) * s[2] + ptrdiff_t(w) * s[3];
    }
    ptrdiff_t y_at(size_t k, size_t pixel) const {
        auto *s = v.y_strides;
        return ptrdiff_t(image) * s[0] + ptrdiff_t(group * this->k() + k) * s[1] + ptrdiff_t(pixel / v.q) * s[2] + ptrdiff_t(pixel % v.q) * s[3];
    }
    // Each weight of the group in the order of the product, with its place among all.
    template <class Visit> void weights(Visit visit) const {
        auto *s = v.w_strides;
        size_t i = 0;
        for (size_t k = 0; k < this->k(); k++)
            for (size_t c = 0; c < this->c(); c++)
                for (size_t r = 0; r < v.r; r++)
                    for (size_t t = 0; t < v.s; t++) {
                        size_t down = v.flipped ? v.r - 1 - r : r, along = v.flipped ? v.s - 1 - t : t;
                        visit(i++, ptrdiff_t(group * this->k() + k) * s[0] + ptrdiff_t(c) * s[1] + ptrdiff_t(down) * s[2] + ptrdiff_t(along) * s[3]);
                    }
    }

    std::vector<S> read_x() const {
        std::vector<S> x(c() * v.h * v.w);
        size_t i = 0;
        for (size_t ch = 0; ch < c(); ch++)
            for (size_t h = 0; h < v.h; h++)
                for (size_t w = 0; w < v.w; w++) x[i++] = S(load(v.x, x_at(ch, h, w), v.type));
        return x;
    }
    std::vector<S> read_y() const {
        std::vector<S> y(k() * pixels());
        for (size_t ch = 0; ch < k(); ch++)
            for (size_t i = 0; i < pixels(); i++) y[ch * pixels() + i] = S(load(v.y, y_at(ch, i), v.type));
        return y;
    }
    std::vector<S> read_w() const {
        std::vector<S> w(k() * rows());
        weights([&](size_t i, ptrdiff_t at) { w[i] = S(load(v.weights, at, v.type)); });
        return w;
    }

    // Each place of the unrolled matrix that lies within the image, with its place in the image, by rows from `first` on.
    template <class Visit> void unroll(size_t first, Visit visit) const {
        for (size_t turn = 0; turn < rows(); turn++) {
            size_t row = (first + turn) % rows();
            size_t ch = row / taps();
            ptrdiff_t r = ptrdiff_t(row % taps() / v.s), t = ptrdiff_t(row % v.s);
            for (size_t p = 0; p < v.p; p++) {
                ptrdiff_t h = ptrdiff_t(p) * v.stride[0] - v.pad[0] + r * v.dilation[0];
                if (h < 0 || h >= ptrdiff_t(v.h)) continue;
                for (size_t q = 0; q < v.q; q++) {
                    ptrdiff_t w = ptrdiff_t(q) * v.stride[1] - v.pad[1] + t * v.dilation[1];
                    if (w < 0 || w >= ptrdiff_t(v.w)) continue;
                    visit(row * pixels() + p * v.q + q, (ch * v.h + size_t(h)) * v.w + size_t(w));
                }
            }
        }
    }
    std::vector<S> unrolled() const {
        std::vector<S> x = read_x(), to(rows() * pixels());
        unroll(0, [&](size_t into, size_t from) { to[into] = x[from]; });
        return to;
    }
};

template <class S> static Matrix plain(std::vector<S> &v, size_t columns) { return {v.data(), type_of<S>(), ptrdiff_t(columns), 1}; }
template <class S> static Matrix turned(std::vector<S> &v, size_t columns) { return {v.data(), type_of<S>(), 1, ptrdiff_t(columns)}; }

template <class S> static void mix(const Convolution &v, void *to, ptrdiff_t at, S sum) {
    S out = S(v.alpha) * sum;
    if (v.beta != 0) out += S(v.beta) * S(load(to, at, v.type));
    store(to, at, v.type, out);
}

template <class S> static void forward(const Convolution &v, Part<S> part, std::vector<S> &w) {
    std::vector<S> x = part.unrolled(), y(part.k() * part.pixels());
    multiply({part.k(), part.pixels(), part.rows(), plain(w, part.rows()), plain(x, part.pixels()), plain(y, part.pixels()),
              1, 0, sizeof(S) == 8, v.tf32, false});
    for (size_t k = 0; k < part.k(); k++)
        for (size_t i = 0; i < part.pixels(); i++) mix(v, v.y, part.y_at(k, i), y[k * part.pixels() + i]);
}

template <class S> static void to_data(const Convolution &v, Part<S> part, std::vector<S> &w) {
    std::vector<S> y = part.read_y(), spread(part.rows() * part.pixels()), x(part.c() * v.h * v.w);
    multiply({part.rows(), part.pixels(), part.k(), turned(w, part.rows()), plain(y, part.pixels()),
              plain(spread, part.pixels()), 1, 0, sizeof(S) == 8, v.tf32, false});
    part.unroll(v.start, [&](size_t from, size_t into) { x[into] += spread[from]; });
    size_t i = 0;
    for (size_t c = 0; c < part.c(); c++)
        for (size_t h = 0; h < v.h; h++)
            for (size_t t = 0; t < v.w; t++) mix(v, v.x, part.x_at(c, h, t), x[i++]);
}

template <class S> static void to_filter(const Convolution &v, size_t group, bool team) {
    Part<S> part{v, 0, group};
    std::vector<S> w(part.k() * part.rows());
    for (size_t turn = 0; turn < v.n; turn++) {
        part.image = (turn + v.start) % v.n;
        std::vector<S> x = part.unrolled(), y = part.read_y();
        multiply({part.k(), part.rows(), part.pixels(), plain(y, part.pixels()), turned(x, part.pixels()),
                  plain(w, part.rows()), 1, turn ? 1.0 : 0.0, sizeof(S) == 8, v.tf32, team});
    }
    part.weights([&](size_t i, ptrdiff_t at) { mix(v, v.weights, at, w[i]); });
}

template <class S> static void run(const Convolution &v) {
    if (v.direction == TO_FILTER) {
        if (v.groups == 1) return to_filter<S>(v, 0, true);
        return in_parallel(v.groups, [&](size_t g) { to_filter<S>(v, g, false); });
    }
    // All images share the weights of a group.
    std::vector<std::vector<S>> w(v.groups);
    in_parallel(v.groups, [&](size_t g) { w[g] = Part<S>{v, 0, g}.read_w(); });
    in_parallel(v.n * v.groups, [&](size_t i) {
        Part<S> part{v, i / v.groups, i % v.groups};
        v.direction == FORWARD ? forward<S>(v, part, w[part.group]) : to_data<S>(v, part, w[part.group]);
    });
}

void convolve(const Convolution &v) { v.type == F64 ? run<double>(v) : run<float>(v); }

} // namespace sim

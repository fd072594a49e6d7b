// Matrix products: tiles of the result, each packed and multiplied by a small kernel whose accumulators stay in registers.
// Every element's sum is made in one order, for any number of OS threads.
#include "gemm.h"
#include "sim.h"
#include <algorithm>
#include <cstring>

namespace sim {

static float half_to_float(uint16_t h) {
    uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023, bits;
    if (exponent == 31) bits = sign | 0x7f800000 | fraction << 13;
    else if (exponent) bits = sign | (exponent + 112) << 23 | fraction << 13;
    else {
        float tiny = float(fraction) * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t float_to_half(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return uint16_t(sign | 0x7e00);
    if (rest >= 0x477ff000) return uint16_t(sign | 0x7c00);
    if (rest < 0x38800000) {
        float magnitude;
        memcpy(&magnitude, &rest, 4);
        magnitude += 0.5f; // the unit of the last place is now that of the smallest half
        memcpy(&rest, &magnitude, 4);
        return uint16_t(sign | (rest - 0x3f000000));
    }
    return uint16_t(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
}

static float bf16_to_float(uint16_t h) {
    uint32_t bits = uint32_t(h) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t float_to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double load(const void *p, ptrdiff_t i, Type t) {
    switch (t) {
    case F64: return static_cast<const double *>(p)[i];
    case F32: return static_cast<const float *>(p)[i];
    case F16: return half_to_float(static_cast<const uint16_t *>(p)[i]);
    default: return bf16_to_float(static_cast<const uint16_t *>(p)[i]);
    }
}

void store(void *p, ptrdiff_t i, Type t, double v) {
    switch (t) {
    case F64: static_cast<double *>(p)[i] = v; break;
    case F32: static_cast<float *>(p)[i] = float(v); break;
    case F16: static_cast<uint16_t *>(p)[i] = float_to_half(float(v)); break;
    default: static_cast<uint16_t *>(p)[i] = float_to_bf16(float(v)); break;
    }
}

static float to_tf32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7f800000) == 0x7f800000) return f;
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&f, &bits, 4);
    return f;
}

static constexpr size_t TILE_M = 128, TILE_N = 64, TILE_K = 256, NR = 4;

template <class S> constexpr size_t MR = 64 / sizeof(S);

// acc [NR, MR] += b [k, NR] a [k, MR], all packed; `V` is as many numbers as the processor adds at once, and `N` of them
// are a row of MR.
template <class S, class V, size_t N>
static inline __attribute__((always_inline)) void multiply_add(size_t k, const S *a, const S *b, S *acc) {
    auto *va = reinterpret_cast<const V *>(a);
    auto *to = reinterpret_cast<V *>(acc);
    V sum[NR][N];
    for (size_t j = 0; j < NR; j++)
        for (size_t i = 0; i < N; i++) sum[j][i] = to[j * N + i];
    for (size_t p = 0; p < k; p++, va += N, b += NR)
#pragma GCC unroll 4
        for (size_t j = 0; j < NR; j++)
#pragma GCC unroll 4
            for (size_t i = 0; i < N; i++) sum[j][i] += va[i] * b[j];
    for (size_t j = 0; j < NR; j++)
        for (size_t i = 0; i < N; i++) to[j * N + i] = sum[j][i];
}

template <class S, size_t BYTES> struct Vec { typedef S V __attribute__((vector_size(BYTES))); };

template <class S> static void any_cpu(size_t k, const S *a, const S *b, S *acc) {
    multiply_add<S, typename Vec<S, 16>::V, 4>(k, a, b, acc);
}
#if defined(__x86_64__)
template <class S> __attribute__((target("avx2,fma"))) static void avx2(size_t k, const S *a, const S *b, S *acc) {
    multiply_add<S, typename Vec<S, 32>::V, 2>(k, a, b, acc);
}
template <class S> static void small_kernel(size_t k, const S *a, const S *b, S *acc) {
    static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    has ? avx2(k, a, b, acc) : any_cpu(k, a, b, acc);
}
#else
template <class S> static void small_kernel(size_t k, const S *a, const S *b, S *acc) { any_cpu(k, a, b, acc); }
#endif

// By rows where the lanes lie side by side, else lane by lane: each reads its numbers one after another where it can.
template <size_t LANES, class S, class Read>
static void pack_as(S *to, size_t count, size_t k, ptrdiff_t across, ptrdiff_t along, Read read) {
    for (size_t first = 0; first < count; first += LANES, to += LANES * k) {
        size_t here = std::min(LANES, count - first);
        ptrdiff_t from = ptrdiff_t(first) * across;
        if (here < LANES) std::fill_n(to, LANES * k, S(0));
        if (across != 1)
            for (size_t l = 0; l < here; l++)
                for (size_t p = 0; p < k; p++) to[p * LANES + l] = S(read(from + ptrdiff_t(l) * across + ptrdiff_t(p) * along));
        else if (here < LANES)
            for (size_t p = 0; p < k; p++)
                for (size_t l = 0; l < here; l++) to[p * LANES + l] = S(read(from + ptrdiff_t(l) + ptrdiff_t(p) * along));
        else
            for (size_t p = 0; p < k; p++)
#pragma GCC unroll 16
                for (size_t l = 0; l < LANES; l++) to[p * LANES + l] = S(read(from + ptrdiff_t(l) + ptrdiff_t(p) * along));
    }
}

// Panels of `LANES` rows, k long, zeros below the last row.
template <size_t LANES, class S>
static void pack(S *to, size_t count, size_t k, const Matrix &m, ptrdiff_t at, ptrdiff_t across, ptrdiff_t along, bool tf32) {
    auto *d = m.data;
    auto as = [&](auto read) { pack_as<LANES>(to, count, k, across, along, read); };
    switch (m.type) {
    case F64: return as([=](ptrdiff_t i) { return static_cast<double *>(d)[at + i]; });
    case F32:
        if (tf32) return as([=](ptrdiff_t i) { return to_tf32(static_cast<float *>(d)[at + i]); });
        return as([=](ptrdiff_t i) { return static_cast<float *>(d)[at + i]; });
    case F16: return as([=](ptrdiff_t i) { return half_to_float(static_cast<uint16_t *>(d)[at + i]); });
    case BF16: return as([=](ptrdiff_t i) { return bf16_to_float(static_cast<uint16_t *>(d)[at + i]); });
    }
}

template <class S> struct Room { // of one OS thread
    alignas(64) S a[TILE_M * TILE_K], b[TILE_N * TILE_K], acc[TILE_M * TILE_N];
};

template <class S> static void tile(const Product &p, size_t m0, size_t n0) {
    static thread_local std::unique_ptr<Room<S>> room;
    if (!room) room.reset(new Room<S>);
    size_t m = std::min(TILE_M, p.m - m0), n = std::min(TILE_N, p.n - n0);
    size_t mp = (m + MR<S> - 1) / MR<S>, np = (n + NR - 1) / NR;
    std::fill_n(room->acc, mp * np * MR<S> * NR, S(0));
    for (size_t k0 = 0; k0 < p.k; k0 += TILE_K) {
        size_t k = std::min(TILE_K, p.k - k0);
        pack<MR<S>>(room->a, m, k, p.a, ptrdiff_t(m0) * p.a.rows + ptrdiff_t(k0) * p.a.columns, p.a.rows, p.a.columns, p.tf32);
        pack<NR>(room->b, n, k, p.b, ptrdiff_t(n0) * p.b.columns + ptrdiff_t(k0) * p.b.rows, p.b.columns, p.b.rows, p.tf32);
        for (size_t j = 0; j < np; j++)
            for (size_t i = 0; i < mp; i++)
                small_kernel(k, room->a + i * MR<S> * k, room->b + j * NR * k, room->acc + (j * mp + i) * MR<S> * NR);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            S sum = room->acc[((j / NR) * mp + i / MR<S>) * MR<S> * NR + j % NR * MR<S> + i % MR<S>];
            ptrdiff_t at = ptrdiff_t(m0 + i) * p.c.rows + ptrdiff_t(n0 + j) * p.c.columns;
            S v = S(p.alpha) * sum;
            if (p.beta != 0) v += S(p.beta) * S(load(p.c.data, at, p.c.type));
            store(p.c.data, at, p.c.type, v);
        }
}

void multiply(const Product &p) {
    size_t tiles_m = (p.m + TILE_M - 1) / TILE_M, tiles_n = (p.n + TILE_N - 1) / TILE_N;
    auto one = [&](size_t i) {
        size_t m0 = i % tiles_m * TILE_M, n0 = i / tiles_m * TILE_N;
        p.wide ? tile<double>(p, m0, n0) : tile<float>(p, m0, n0);
    };
    if (p.team && p.m * p.n * p.k > 100000) return in_parallel(tiles_m * tiles_n, one);
    for (size_t i = 0; i < tiles_m * tiles_n; i++) one(i);
}

} // namespace sim

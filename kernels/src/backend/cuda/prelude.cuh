// The beginning of every module of kernels: types, conversions, sums over a warp and a block, random numbers.
//
// A module is this text and one .cu file, compiled at run time by NVRTC without any header. T is the type of the elements
// and W that of weights and their gradients where a kernel knows both; they are given as macros. Arithmetic is done in A:
// f64 for f64, f32 for everything narrower; a narrow type is rounded once, to nearest even, where it is stored.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef float f32;
typedef double f64;
struct __align__(2) bf16 { u16 bits; };
struct __align__(2) f16 { u16 bits; };

#ifndef T
#define T f32
#endif
#ifndef W
#define W T
#endif

template <class X> struct SumOf { typedef f32 type; };
template <> struct SumOf<f64> { typedef f64 type; };
typedef SumOf<T>::type A;

// ---- Conversions: widen(x) to what is computed in, narrow<X>(a) back.

__device__ __forceinline__ f64 widen(f64 x) { return x; }
__device__ __forceinline__ f32 widen(f32 x) { return x; }
__device__ __forceinline__ f32 widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

#ifdef PLIMSOLL_SIMULATED
__device__ __forceinline__ f32 half_to_float(u16 bits) {
    u32 sign = (u32)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
    if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0u) return __uint_as_float(sign | ((exponent + 112u) << 23) | (fraction << 13));
    f32 magnitude = (f32)fraction * 5.9604644775390625e-8f; // 2^-24
    return sign ? -magnitude : magnitude;
}
__device__ __forceinline__ u16 float_to_half(f32 x) {
    u32 bits = __float_as_uint(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (u16)(sign | 0x7fffu);
    if (rest >= 0x477ff000u) return (u16)(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        // Below the smallest normal number the steps are 2^-24 apart: adding 0.5 leaves the rounded count in the fraction.
        f32 shifted = __uint_as_float(rest) + 0.5f;
        return (u16)(sign | (__float_as_uint(shifted) - 0x3f000000u));
    }
    u32 odd = (rest >> 13) & 1u;
    return (u16)(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
}
#else
__device__ __forceinline__ f32 half_to_float(u16 bits) {
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ __forceinline__ u16 float_to_half(f32 x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif

// One instruction from compute capability 8.0 on, and integers before that. The bits are the same, except that every NaN is
// 0x7fff by the instruction and keeps its sign and upper bits by the integers.
#if !defined(PLIMSOLL_SIMULATED) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ u16 float_to_bf16(f32 x) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#else
__device__ __forceinline__ u16 float_to_bf16(f32 x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)((bits >> 16) | 0x40u);
    return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
#endif

__device__ __forceinline__ f32 widen(f16 x) { return half_to_float(x.bits); }

template <class X> __device__ __forceinline__ X narrow(f64 x);
template <> __device__ __forceinline__ f64 narrow<f64>(f64 x) { return x; }
template <> __device__ __forceinline__ f32 narrow<f32>(f64 x) { return (f32)x; }
template <> __device__ __forceinline__ bf16 narrow<bf16>(f64 x) {
    bf16 y;
    y.bits = float_to_bf16((f32)x);
    return y;
}
template <> __device__ __forceinline__ f16 narrow<f16>(f64 x) {
    f16 y;
    y.bits = float_to_half((f32)x);
    return y;
}
template <class X> __device__ __forceinline__ X narrow(f32 x);
template <> __device__ __forceinline__ f64 narrow<f64>(f32 x) { return x; }
template <> __device__ __forceinline__ f32 narrow<f32>(f32 x) { return x; }
template <> __device__ __forceinline__ bf16 narrow<bf16>(f32 x) {
    bf16 y;
    y.bits = float_to_bf16(x);
    return y;
}
template <> __device__ __forceinline__ f16 narrow<f16>(f32 x) {
    f16 y;
    y.bits = float_to_half(x);
    return y;
}

// Adds to what is stored, or overwrites it.
template <class X, class Y> __device__ __forceinline__ void put(X *to, Y value, bool accumulate) {
    *to = narrow<X>(accumulate ? (Y)(widen(*to) + value) : value);
}

// ---- Places: a launch may have fewer threads than elements.

__device__ __forceinline__ i64 first_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ i64 index_stride() { return (i64)gridDim.x * blockDim.x; }
// Most threads run this loop once. It is not unrolled: the compiler would unroll it four times, and divide 64 bits to count
// the rounds.
#define FEW_TIMES _Pragma("unroll 1")
#define EACH(i, n) FEW_TIMES for (i64 i = first_index(); i < (n); i += index_stride())

// Of numbers that are not negative. 64 bits are divided only where they are needed.
__device__ __forceinline__ u32 quotient(u32 a, u32 b) { return a / b; }
__device__ __forceinline__ i64 quotient(i64 a, i64 b) {
    return ((a | b) >> 32) == 0 ? (i64)((u32)a / (u32)b) : a / b;
}

// ---- Sums over all threads of a warp and of a block, in an order that never changes. All threads must take part, and
// all get the result. A block has a multiple of 32 threads, 1024 at the most.

#define ALL_LANES 0xffffffffu

template <class X> __device__ __forceinline__ X warp_sum(X x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}
// NaN wins.
template <class X> __device__ __forceinline__ X larger(X a, X b) { return a != a || a > b ? a : b; }
template <class X> __device__ __forceinline__ X warp_max(X x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x = larger(x, __shfl_xor_sync(ALL_LANES, x, lanes));
    return x;
}
template <class X> __device__ X block_sum(X x) {
    __shared__ X parts[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? parts[lane] : (X)0);
}
template <class X> __device__ X block_max(X x) {
    __shared__ X parts[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0) parts[warp] = x;
    __syncthreads();
    return warp_max(parts[lane < warps ? lane : 0]);
}

// ---- Random numbers: those of the engine's Rng, to the bit. The value at a counter depends on key and counter alone.

__device__ __forceinline__ u64 mix(u64 z) {
    z += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}
__device__ __forceinline__ u64 random_bits(u64 key, u64 counter) { return mix(mix(key ^ counter)); }
__device__ __forceinline__ f64 random_uniform(u64 key, u64 counter) {
    return (f64)(random_bits(key, counter) >> 11) * (1.0 / 9007199254740992.0);
}

// ---- Sines and cosines.

// Of an angle in radians. Half turns are subtracted exactly: sin() and cos() keep a table and room in local memory
// for angles past 10^5, and every thread of a device is given that room, used or not.
__device__ __forceinline__ void sine_and_cosine(f64 angle, f64 &sine, f64 &cosine) {
    // 1 / pi in two parts, and what is lost of the product with it.
    const f64 half_turns = angle * 0.3183098861837907;
    const f64 lost = fma(angle, -1.9678676675182486e-17, fma(angle, 0.3183098861837907, -half_turns)) * 3.141592653589793;
    f64 s, c;
    sincospi(half_turns, &s, &c);
    sine = fma(c, lost, s);
    cosine = fma(-s, lost, c);
}

// ---- Arithmetic under one name for both widths.

__device__ __forceinline__ f32 exp_of(f32 x) { return expf(x); }
__device__ __forceinline__ f64 exp_of(f64 x) { return exp(x); }
__device__ __forceinline__ f32 log_of(f32 x) { return logf(x); }
__device__ __forceinline__ f64 log_of(f64 x) { return log(x); }
__device__ __forceinline__ f32 sqrt_of(f32 x) { return sqrtf(x); }
__device__ __forceinline__ f64 sqrt_of(f64 x) { return sqrt(x); }
__device__ __forceinline__ f32 tanh_of(f32 x) { return tanhf(x); }
__device__ __forceinline__ f64 tanh_of(f64 x) { return tanh(x); }
__device__ __forceinline__ f32 erf_of(f32 x) { return erff(x); }
__device__ __forceinline__ f64 erf_of(f64 x) { return erf(x); }

// A product that is rounded before anything is added to it, as if it had been stored.
#ifdef PLIMSOLL_SIMULATED
template <class X> __device__ __forceinline__ X rounded_product(X a, X b) { return a * b; }
#else
__device__ __forceinline__ f32 rounded_product(f32 a, f32 b) { return __fmul_rn(a, b); }
__device__ __forceinline__ f64 rounded_product(f64 a, f64 b) { return __dmul_rn(a, b); }
#endif
// A number as it would be read again, had it been stored as an element.
__device__ __forceinline__ A as_stored(A x) { return (A)widen(narrow<T>(x)); }

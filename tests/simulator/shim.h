// What kernel source sees in place of the device compiler's built-ins, when g++ compiles it for the simulated GPU. Only
// what NVRTC offers without any header, so that source which compiles here compiles there. Left out on purpose: atomics of
// floating point (their order is not fixed), dynamic shared memory, half types.
#define PLIMSOLL_SIMULATED 1

static const SimRuntime *sim_runtime;
static thread_local SimIndices *sim_worker;
#define SIM_EXPORT extern "C" __attribute__((visibility("default")))
SIM_EXPORT void sim_bind(const SimRuntime *table) { sim_runtime = table; }
SIM_EXPORT void *sim_touch() { return &sim_worker; }

#define __host__
#define __device__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local

typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;

#define SIM_VECTOR(T, name, align2, align4)                                                                            \
    struct name##2 { T x, y; } __attribute__((aligned(align2)));                                                       \
    struct name##3 { T x, y, z; };                                                                                     \
    struct name##4 { T x, y, z, w; } __attribute__((aligned(align4)));                                                 \
    static inline name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                                           \
    static inline name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }                                   \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }
SIM_VECTOR(signed char, char, 2, 4)
SIM_VECTOR(unsigned char, uchar, 2, 4)
SIM_VECTOR(short, short, 4, 8)
SIM_VECTOR(unsigned short, ushort, 4, 8)
SIM_VECTOR(int, int, 8, 16)
SIM_VECTOR(unsigned, uint, 8, 16)
SIM_VECTOR(long long, longlong, 16, 16)
SIM_VECTOR(unsigned long long, ulonglong, 16, 16)
SIM_VECTOR(float, float, 8, 16)
SIM_VECTOR(double, double, 16, 16)
#undef SIM_VECTOR
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define threadIdx (*(const uint3 *)sim_worker->thread)
#define blockIdx (*(const uint3 *)sim_worker->block)
#define blockDim (*(const uint3 *)sim_worker->block_size)
#define gridDim (*(const uint3 *)sim_worker->grid_size)
static constexpr int warpSize = 32;

// ---- barriers and exchanges within a warp: the site (a count and the line) tells one from another

#define SIM_SITE ((__COUNTER__ + 1) << 16 | (__LINE__ & 0xffff))

#define SIM_FENCE() asm volatile("" ::: "memory")
static inline int sim_barrier(int site, int kind, int predicate) {
    SIM_FENCE();
    int r = sim_runtime->barrier(sim_worker, site, kind, predicate);
    SIM_FENCE();
    return r;
}
#define __syncthreads() ((void)sim_barrier(SIM_SITE, SIM_SYNC, 0))
#define __syncthreads_count(p) sim_barrier(SIM_SITE, SIM_COUNT, (p))
#define __syncthreads_and(p) sim_barrier(SIM_SITE, SIM_AND, (p))
#define __syncthreads_or(p) sim_barrier(SIM_SITE, SIM_OR, (p))

static inline unsigned long sim_warp(int site, int kind, unsigned mask, unsigned long value, int lane, int width) {
    SIM_FENCE();
    unsigned long r = sim_runtime->warp(sim_worker, site, kind, mask, value, lane, width);
    SIM_FENCE();
    return r;
}
template <class T> struct SimNumber { static constexpr bool is = false; };
#define SIM_NUMBER(T) template <> struct SimNumber<T> { static constexpr bool is = true; };
SIM_NUMBER(int) SIM_NUMBER(unsigned) SIM_NUMBER(long) SIM_NUMBER(unsigned long)
SIM_NUMBER(long long) SIM_NUMBER(unsigned long long) SIM_NUMBER(float) SIM_NUMBER(double)
template <class T> static inline T sim_shuffle(int site, int kind, unsigned mask, T value, int lane, int width = 32) {
    static_assert(SimNumber<T>::is, "a shuffle takes int, unsigned, long, long long, float or double");
    unsigned long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = sim_warp(site, kind, mask, bits, lane, width);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
#define __shfl_sync(...) sim_shuffle(SIM_SITE, SIM_SHUFFLE, __VA_ARGS__)
#define __shfl_xor_sync(...) sim_shuffle(SIM_SITE, SIM_SHUFFLE_XOR, __VA_ARGS__)
#define __shfl_down_sync(...) sim_shuffle(SIM_SITE, SIM_SHUFFLE_DOWN, __VA_ARGS__)
#define __shfl_up_sync(...) sim_shuffle(SIM_SITE, SIM_SHUFFLE_UP, __VA_ARGS__)
#define __ballot_sync(mask, p) ((unsigned)sim_warp(SIM_SITE, SIM_BALLOT, (mask), (p) != 0, 0, 32))
#define __any_sync(mask, p) ((int)(__ballot_sync((mask), (p)) != 0))
#define __all_sync(mask, p) ((int)(__ballot_sync((mask), !(p)) == 0))
#define SIM_FIRST_OR_FULL(mask, ...) mask
#define __syncwarp(...) ((void)sim_warp(SIM_SITE, SIM_SYNCWARP, SIM_FIRST_OR_FULL(__VA_ARGS__ __VA_OPT__(,) 0xffffffffu), 0, 0, 32))

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { SIM_FENCE(); }
static inline void __threadfence_system() { SIM_FENCE(); }
#define __trap() sim_runtime->trap(sim_worker, "__trap()")
#define assert(x) ((x) ? (void)0 : sim_runtime->trap(sim_worker, "assertion failed: " #x))
extern "C" int printf(const char *, ...);

// ---- atomics of integers

#define SIM_ATOMIC(T)                                                                                                  \
    static inline T atomicAdd(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }                        \
    static inline T atomicExch(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }                      \
    static inline T atomicAnd(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }                        \
    static inline T atomicOr(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }                          \
    static inline T atomicXor(T *p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }                        \
    static inline T atomicCAS(T *p, T seen, T v) {                                                                     \
        __atomic_compare_exchange_n(p, &seen, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                           \
        return seen;                                                                                                   \
    }                                                                                                                  \
    static inline T atomicMax(T *p, T v) {                                                                             \
        T old = *p;                                                                                                    \
        while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}      \
        return old;                                                                                                    \
    }                                                                                                                  \
    static inline T atomicMin(T *p, T v) {                                                                             \
        T old = *p;                                                                                                    \
        while (v < old && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}      \
        return old;                                                                                                    \
    }
SIM_ATOMIC(int)
SIM_ATOMIC(unsigned)
SIM_ATOMIC(unsigned long long)
#undef SIM_ATOMIC
static inline int atomicSub(int *p, int v) { return atomicAdd(p, -v); }
static inline unsigned atomicSub(unsigned *p, unsigned v) { return atomicAdd(p, 0u - v); }

// ---- bits

#define SIM_BITS(name, To, From)                                                                                       \
    static inline To name(From v) {                                                                                    \
        To r;                                                                                                          \
        __builtin_memcpy(&r, &v, sizeof r);                                                                            \
        return r;                                                                                                      \
    }
SIM_BITS(__float_as_uint, unsigned, float)
SIM_BITS(__uint_as_float, float, unsigned)
SIM_BITS(__float_as_int, int, float)
SIM_BITS(__int_as_float, float, int)
SIM_BITS(__double_as_longlong, long long, double)
SIM_BITS(__longlong_as_double, double, long long)
#undef SIM_BITS
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (v >> i & 1u) << (31 - i);
    return r;
}
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }

// ---- numbers

#define SIM_MATH1(name)                                                                                                   \
    extern "C" double name(double);                                                                                       \
    extern "C" float name##f(float);                                                                                      \
    static inline float name(float x) { return name##f(x); }
SIM_MATH1(sqrt) SIM_MATH1(cbrt) SIM_MATH1(exp) SIM_MATH1(exp2) SIM_MATH1(expm1) SIM_MATH1(log) SIM_MATH1(log2)
SIM_MATH1(log10) SIM_MATH1(log1p) SIM_MATH1(sin) SIM_MATH1(cos) SIM_MATH1(tan) SIM_MATH1(asin) SIM_MATH1(acos)
SIM_MATH1(atan) SIM_MATH1(sinh) SIM_MATH1(cosh) SIM_MATH1(tanh) SIM_MATH1(asinh) SIM_MATH1(acosh) SIM_MATH1(atanh)
SIM_MATH1(erf) SIM_MATH1(erfc) SIM_MATH1(tgamma) SIM_MATH1(lgamma) SIM_MATH1(fabs) SIM_MATH1(floor) SIM_MATH1(ceil)
SIM_MATH1(round) SIM_MATH1(rint) SIM_MATH1(trunc)
#define SIM_MATH2(name)                                                                                                   \
    extern "C" double name(double, double);                                                                               \
    extern "C" float name##f(float, float);                                                                               \
    static inline float name(float x, float y) { return name##f(x, y); }
SIM_MATH2(pow) SIM_MATH2(fmod) SIM_MATH2(atan2) SIM_MATH2(hypot) SIM_MATH2(fmin) SIM_MATH2(fmax) SIM_MATH2(copysign)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
static inline float ldexp(float x, int n) { return ldexpf(x, n); }
extern "C" void sincos(double, double *, double *);
extern "C" void sincosf(float, float *, float *);
// Of half turns: what is left of quarters of a turn is exact.
static inline void sincospi(double x, double *s, double *c) {
    double quarters = rint(2.0 * x), rest = 3.141592653589793 * (x - 0.5 * quarters);
    double sine = sin(rest), cosine = cos(rest);
    int quadrant = (int)fmod(quarters, 4.0) & 3;
    *s = quadrant & 1 ? cosine : sine;
    *c = quadrant & 1 ? sine : cosine;
    if (quadrant & 2) *s = -*s;
    if (quadrant == 1 || quadrant == 2) *c = -*c;
}
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
extern "C" int abs(int);
static inline long long abs(long long v) { return v < 0 ? -v : v; }
static inline double abs(double v) { return fabs(v); }
static inline float abs(float v) { return fabsf(v); }
#define SIM_TEST(f)                                                                                                    \
    static inline bool f(double x) { return __builtin_##f(x); }                                                        \
    static inline bool f(float x) { return __builtin_##f(x); }
SIM_TEST(isnan) SIM_TEST(isinf) SIM_TEST(isfinite) SIM_TEST(signbit)
#define SIM_MIN_MAX(T)                                                                                                 \
    static inline T min(T a, T b) { return b < a ? b : a; }                                                            \
    static inline T max(T a, T b) { return a < b ? b : a; }
SIM_MIN_MAX(int) SIM_MIN_MAX(unsigned) SIM_MIN_MAX(long) SIM_MIN_MAX(unsigned long) SIM_MIN_MAX(long long)
SIM_MIN_MAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
#define SIM_ROUNDED(suffix, T)                                                                                         \
    static inline T __##suffix##add_rn(T a, T b) { return a + b; }                                                     \
    static inline T __##suffix##sub_rn(T a, T b) { return a - b; }                                                     \
    static inline T __##suffix##mul_rn(T a, T b) { return a * b; }
SIM_ROUNDED(f, float)
SIM_ROUNDED(d, double)
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __expf(float x) { return expf(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }
static inline float __double2float_rn(double x) { return (float)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }

// ---- how the simulator calls a kernel

template <int... I> struct SimInts {};
template <class T> struct SimSize { static constexpr int of = (int)sizeof(T); };
template <class T> struct SimSize<T *> { static constexpr int of = -(int)sizeof(T *); };
template <class... P, int... I>
static inline __attribute__((always_inline)) void sim_call(void (*f)(P...), void **a, SimInts<I...>) {
    f(*(P *)a[I]...);
}
template <class... P> static inline __attribute__((always_inline)) void sim_call(void (*f)(P...), void **a) {
    sim_call(f, a, SimInts<__integer_pack(sizeof...(P))...>());
}
template <class... P> static inline const int *sim_sizes(void (*)(P...)) {
    static const int sizes[] = {SimSize<P>::of..., 0};
    return sizes;
}

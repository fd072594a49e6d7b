// cuBLASLt: matrix products with an epilogue (a bias, GELU that keeps what it is applied to, the gradients of both), queued on
// the stream that a call names. Refuses operands and workspaces that are not in live device memory, types that cuBLASLt does
// not combine, a workspace below the algorithm's or at an address that is no multiple of 256, an algorithm of another product,
// and operands that are less aligned than the algorithm was told. As documented, what GELU keeps has rows of a multiple of 8.
// Modelled: a handle costs 1 MiB of the context; an algorithm takes 4 KiB of workspace where it is given so much. Sums are in
// f32 (f64 for f64), that of a bias's gradient too; a bias is added, and GELU applied, before a sum is rounded. A workspace
// that was given is overwritten. PLIMSOLL_SIM_LT_REFUSES: what fails (create | heuristic | call, or gelu: its heuristic; after:N:
// each call behind the first N).
#include "gemm.h"
#include "sim.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

namespace sim {
namespace {

enum { FINE = 0, UNINITIALIZED = 1, INVALID = 7, EXECUTION_FAILED = 13, UNSUPPORTED = 15 };
enum { DEFAULT = 1, BIAS = 4, GELU_AUX_BIAS = 164, DGELU = 192, BGRADB = 512 }; // cublasLtEpilogue_t
static constexpr size_t HANDLE_COSTS = MIB, WORKSPACE = 4096;

struct LtHandle { int device = 0; unsigned age = 0; };
struct Layout { int type = 0; uint64_t rows = 0, columns = 0; int64_t ld = 0; };
struct Description {
    int compute = 0, scale = 0, ta = 0, tb = 0;
    uint32_t epilogue = DEFAULT;
    const void *bias = nullptr, *aux = nullptr;
    int64_t aux_ld = 0;
};
struct Wish { uint64_t workspace = 0; uint32_t schemes = 7, alignment[4] = {256, 256, 256, 256}; };
// What an algorithm's 64 bytes say.
struct Algorithm { uint64_t workspace, epilogue, m, n, k, alignment[3]; };

static std::set<void *> &lives() { static auto *s = new std::set<void *>; return *s; }
template <class T> static T *made(T *t) { lives().insert(t); return t; }
template <class T> static T *of(void *raw) { return lives().count(raw) ? static_cast<T *>(raw) : nullptr; }
template <class T> static int gone(void *raw) {
    Lock lock;
    if (!lives().erase(raw)) return INVALID;
    delete static_cast<T *>(raw);
    return FINE;
}

static bool refuses(const char *what) {
    static const char *told = getenv("PLIMSOLL_SIM_LT_REFUSES");
    return told && !strcmp(told, what);
}

// Whether all calls are refused that come from now on.
static bool is_over() {
    static const char *told = getenv("PLIMSOLL_SIM_LT_REFUSES");
    static long left = told && !strncmp(told, "after:", 6) ? atol(told + 6) : -1;
    return left == 0 || (left > 0 && left-- == 0);
}

// The product that descriptors describe; false: they do not fit.
struct Shape { size_t m, n, k; Matrix a, b, d; bool wide; };
static Matrix operand(const void *p, const Layout &l, bool transposed) {
    Matrix m{const_cast<void *>(p), Type(l.type), 1, ptrdiff_t(l.ld)};
    if (transposed) std::swap(m.rows, m.columns);
    return m;
}
static bool shape_of(const Description &of, const void *a, const Layout &A, const void *b, const Layout &B, void *d, const Layout &D, Shape &s) {
    s.m = of.ta ? A.columns : A.rows, s.k = of.ta ? A.rows : A.columns, s.n = of.tb ? B.rows : B.columns;
    if ((of.tb ? B.columns : B.rows) != s.k || D.rows != s.m || D.columns != s.n) return false;
    if (A.ld < int64_t(A.rows) || B.ld < int64_t(B.rows) || D.ld < int64_t(D.rows)) return false;
    s.a = operand(a, A, of.ta), s.b = operand(b, B, of.tb), s.d = operand(d, D, false);
    s.wide = of.compute == 70;
    return true;
}

static bool is_served(const Description &of, const Layout &A, const Layout &B, const Layout &D) {
    bool f32 = of.compute == 68 || of.compute == 77;
    if (A.type != B.type || (of.compute != 70 && !f32)) return false;
    if (of.compute == 70 ? A.type != F64 || D.type != F64 || of.scale != F64 : A.type == F64 || of.scale != F32) return false;
    if (D.type != A.type && !(D.type == F32 && (A.type == F16 || A.type == BF16))) return false;
    if (of.epilogue == GELU_AUX_BIAS || of.epilogue == DGELU) return of.aux_ld >= int64_t(D.rows) && of.aux_ld % 8 == 0;
    return of.epilogue == BIAS || of.epilogue == BGRADB || of.epilogue == DEFAULT;
}

static size_t bytes_of(const Layout &l) { return (size_t(l.ld) * (l.columns - 1) + l.rows) * bytes_of(Type(l.type)); }
static bool is_aligned(const void *p, uint64_t to) { return uintptr_t(p) % to == 0; }

static double gelu(double x, bool wide) {
    if (wide) return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    float f = float(x);
    return 0.5f * f * (1 + tanhf(0.79788456f * (f + 0.044715f * f * f * f)));
}

static double gelu_slope(double x, bool wide) {
    double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = wide ? tanh(inner) : tanhf(float(inner));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// The sums first, unrounded, then each element with its epilogue.
static void compute(const Shape &s, const Description &of, bool tf32, bool adds) {
    size_t count = s.m * s.n;
    std::vector<char> room(count * (s.wide ? 8 : 4));
    Type sum = s.wide ? F64 : F32;
    multiply({s.m, s.n, s.k, s.a, s.b, {room.data(), sum, 1, ptrdiff_t(s.m)}, 1, 0, s.wide, tf32, true});
    for (size_t j = 0; j < s.n; j++)
        for (size_t i = 0; i < s.m; i++) {
            double v = load(room.data(), ptrdiff_t(j * s.m + i), sum);
            if (of.epilogue == BIAS || of.epilogue == GELU_AUX_BIAS) {
                v += load(of.bias, ptrdiff_t(i), s.d.type);
                if (!s.wide) v = float(v);
            }
            if (of.epilogue == GELU_AUX_BIAS) {
                store(const_cast<void *>(of.aux), ptrdiff_t(j) * of.aux_ld + ptrdiff_t(i), s.d.type, v);
                v = gelu(v, s.wide);
            }
            if (of.epilogue == DGELU) v *= gelu_slope(load(of.aux, ptrdiff_t(j) * of.aux_ld + ptrdiff_t(i), s.d.type), s.wide);
            ptrdiff_t at = ptrdiff_t(j) * s.d.columns + ptrdiff_t(i);
            if (adds) v += load(s.d.data, at, s.d.type);
            store(s.d.data, at, s.d.type, v);
        }
    if (of.epilogue != BGRADB) return;
    for (size_t j = 0; j < s.n; j++) {
        double wide = 0;
        float narrow = 0;
        for (size_t p = 0; p < s.k; p++) {
            double x = load(s.b.data, ptrdiff_t(p) * s.b.rows + ptrdiff_t(j) * s.b.columns, s.b.type);
            wide += x, narrow += float(x);
        }
        store(const_cast<void *>(of.bias), ptrdiff_t(j), s.d.type, s.wide ? wide : narrow);
    }
}

} // namespace
} // namespace sim
using namespace sim;

API size_t cublasLtGetVersion() { return 130000; }
API size_t cublasLtGetCudartVersion() { return 13000; }
API int cublasLtCreate(void **handle) {
    Lock lock;
    Device *d = current();
    if (!d || d->fault || refuses("create") || !grow_context(*d, HANDLE_COSTS)) return UNINITIALIZED;
    library_starts(*d);
    auto *made_one = made(new LtHandle);
    made_one->device = current_index(), made_one->age = d->age;
    *handle = made_one;
    return FINE;
}
API int cublasLtDestroy(void *handle) {
    Lock lock;
    auto *h = of<LtHandle>(handle);
    if (!h) return UNINITIALIZED;
    Device &d = devices()[h->device];
    if (h->age == d.age) d.context -= std::min(d.context, HANDLE_COSTS);
    return gone<LtHandle>(handle);
}

API int cublasLtMatmulDescCreate(void **to, int compute, int scale) {
    Lock lock;
    auto *d = made(new Description);
    d->compute = compute, d->scale = scale;
    *to = d;
    return FINE;
}
API int cublasLtMatmulDescDestroy(void *raw) { return gone<Description>(raw); }
API int cublasLtMatmulDescSetAttribute(void *raw, int which, const void *from, size_t bytes) {
    Lock lock;
    auto *d = of<Description>(raw);
    if (!d || !from) return INVALID;
    auto take = [&](auto &to) { return bytes == sizeof to ? (memcpy(&to, from, bytes), FINE) : INVALID; };
    switch (which) { // CUBLASLT_MATMUL_DESC_*
    case 3: return take(d->ta);
    case 4: return take(d->tb);
    case 7: return take(d->epilogue);
    case 8: return take(d->bias);
    case 11: return take(d->aux);
    case 12: return take(d->aux_ld);
    }
    return INVALID;
}
API int cublasLtMatrixLayoutCreate(void **to, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    Lock lock;
    auto *l = made(new Layout);
    *l = {type, rows, columns, ld};
    *to = l;
    return FINE;
}
API int cublasLtMatrixLayoutDestroy(void *raw) { return gone<Layout>(raw); }
API int cublasLtMatmulPreferenceCreate(void **to) { Lock lock; *to = made(new Wish); return FINE; }
API int cublasLtMatmulPreferenceDestroy(void *raw) { return gone<Wish>(raw); }
API int cublasLtMatmulPreferenceSetAttribute(void *raw, int which, const void *from, size_t bytes) {
    Lock lock;
    auto *w = of<Wish>(raw);
    if (!w || !from) return INVALID;
    auto take = [&](auto &to) { return bytes == sizeof to ? (memcpy(&to, from, bytes), FINE) : INVALID; };
    switch (which) { // CUBLASLT_MATMUL_PREF_*
    case 1: return take(w->workspace);
    case 3: return take(w->schemes);
    case 5: case 6: case 7: case 8: return take(w->alignment[which - 5]);
    }
    return INVALID;
}

struct Found { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Algorithm) == 64 && sizeof(Found) == 96, "as cublasLt.h has them");

API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int asked,
                                       Found *found, int *count) {
    Lock lock;
    auto *about = of<Description>(description);
    auto *A = of<Layout>(a), *B = of<Layout>(b), *C = of<Layout>(c), *D = of<Layout>(d);
    auto *wish = of<Wish>(preference);
    *count = 0;
    if (!of<LtHandle>(handle) || !about || !A || !B || !C || !D || !wish || asked < 1) return INVALID;
    Shape s;
    if (!shape_of(*about, nullptr, *A, nullptr, *B, nullptr, *D, s)) return INVALID;
    bool has_gelu = about->epilogue == GELU_AUX_BIAS || about->epilogue == DGELU;
    bool told = refuses("heuristic") || (refuses("gelu") && has_gelu);
    if (told || !is_served(*about, *A, *B, *D)) return UNSUPPORTED;
    uint64_t workspace = wish->workspace >= WORKSPACE ? WORKSPACE : 0;
    const uint32_t *to = wish->alignment;
    *found = {{workspace, about->epilogue, s.m, s.n, s.k, {to[0], to[1], to[3]}}, workspace, FINE, 1, {}};
    *count = 1;
    return FINE;
}

API int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, void *la, const void *b, void *lb,
                       const void *beta, const void *c, void *lc, void *d, void *ld, const Algorithm *algorithm, void *workspace,
                       size_t workspace_bytes, void *stream) {
    Lock lock;
    auto *h = of<LtHandle>(handle);
    if (!h) return UNINITIALIZED;
    if (h->age != devices()[h->device].age) stale("a handle of cuBLASLt");
    auto *about = of<Description>(description);
    auto *A = of<Layout>(la), *B = of<Layout>(lb), *C = of<Layout>(lc), *D = of<Layout>(ld);
    if (!about || !A || !B || !C || !D || !alpha || !beta || !algorithm) return INVALID;
    Device *card = current();
    if (!card || card->fault) return EXECUTION_FAILED;
    Shape s;
    if (!shape_of(*about, a, *A, b, *B, d, *D, s)) return INVALID;
    if (refuses("call") || is_over() || !is_served(*about, *A, *B, *D)) return UNSUPPORTED;
    auto &by = *algorithm;
    if (by.epilogue != about->epilogue || by.m != s.m || by.n != s.n || by.k != s.k) return INVALID;
    if (!is_aligned(a, by.alignment[0]) || !is_aligned(b, by.alignment[1]) || !is_aligned(d, by.alignment[2])) return INVALID;
    if (workspace_bytes < by.workspace || (by.workspace && !is_aligned(workspace, 256))) return INVALID;
    auto number = [&](const void *p) { return s.wide ? *static_cast<const double *>(p) : *static_cast<const float *>(p); };
    // A product is added in place, and with the gradient of a bias only.
    bool adds = number(beta) == 1;
    if (number(alpha) != 1 || (number(beta) != 0 && !adds)) return UNSUPPORTED;
    if (adds && (c != d || about->epilogue != BGRADB)) return UNSUPPORTED;
    Stream *queue = stream_of(stream);
    if (!queue || library_is_refused(queue)) return EXECUTION_FAILED;
    if (check(*card, a, bytes_of(*A), "cuBLASLt, A") || check(*card, b, bytes_of(*B), "cuBLASLt, B")) return EXECUTION_FAILED;
    if (check(*card, d, bytes_of(*D), "cuBLASLt, D")) return EXECUTION_FAILED;
    size_t element = bytes_of(Type(D->type));
    size_t biases = about->epilogue == DEFAULT || about->epilogue == DGELU ? 0 : about->epilogue == BGRADB ? s.n : s.m;
    if (biases && !about->bias) return INVALID;
    if (biases && check(*card, about->bias, biases * element, "cuBLASLt, bias")) return EXECUTION_FAILED;
    if (about->epilogue == GELU_AUX_BIAS || about->epilogue == DGELU) {
        size_t kept = (size_t(about->aux_ld) * (s.n - 1) + s.m) * element;
        if (!is_aligned(about->aux, 16)) return INVALID;
        if (check(*card, about->aux, kept, "cuBLASLt, what GELU is applied to")) return EXECUTION_FAILED;
    }
    if (by.workspace && check(*card, workspace, by.workspace, "cuBLASLt, workspace")) return EXECUTION_FAILED;
    if (!first_use(*card, "product with an epilogue " + std::to_string(A->type))) return EXECUTION_FAILED;
    // The descriptors may change after the call.
    Description now = *about;
    size_t scribble = by.workspace;
    bool tf32 = now.compute == 77;
    Status lost = enqueue_kernel(queue, "matrix product with an epilogue", [=] {
        if (scribble) memset(workspace, 0xFF, scribble);
        compute(s, now, tf32, adds);
        return OK;
    });
    return lost ? EXECUTION_FAILED : FINE;
}

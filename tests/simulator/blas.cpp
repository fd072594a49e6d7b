// cuBLAS: matrix products in f64, f32, f16 and bf16, queued on the handle's stream. Refuses operands and workspaces that are
// not in live device memory, types that cuBLAS does not combine, and scalars in device memory. A workspace that was given
// and is smaller than 16 KiB fails every product; as documented, some would. As cards do, it says of a lack of memory that it
// did not start or that it failed.
// Modelled: the library costs 40 MiB of the context when first used and each handle 32 MiB, its own workspace. As
// documented, setting the stream goes back to that workspace. A workspace that was given is overwritten by every product.
#include "gemm.h"
#include "sim.h"
#include <algorithm>
#include <cstring>
#include <set>

namespace sim {

enum { FINE = 0, UNINITIALIZED = 1, ALLOC_FAILED = 3, INVALID = 7, EXECUTION_FAILED = 13, UNSUPPORTED = 15 };
static constexpr size_t LIBRARY = 40 * MIB, OWN_WORKSPACE = 32 * MIB, LEAST_WORKSPACE = 16 * 1024;

struct BlasHandle {
    int device = 0;
    unsigned age = 0; // of its context
    void *stream = nullptr;
    bool given = false; // a workspace, in place of its own
    void *workspace = nullptr;
    size_t workspace_bytes = 0;
    int math = 0, atomics = 0;
};
static std::set<BlasHandle *> &handles() { static auto *s = new std::set<BlasHandle *>; return *s; }
static BlasHandle *handle_of(void *h) {
    auto *handle = static_cast<BlasHandle *>(h);
    if (!handles().count(handle)) return nullptr;
    if (handle->age != devices()[handle->device].age) stale("a handle of cuBLAS");
    return handle;
}

struct Operand {
    const void *data;
    int type;
    long long ld, stride;
    int op;          // 0: as it lies (column-major), else transposed
    size_t rows, columns; // as it lies
};

static bool valid_type(int t) { return t == F32 || t == F64 || t == F16 || t == BF16; }

static int check_operand(Device &d, const Operand &o, size_t batches, const char *which) {
    if (o.ld < (long long)std::max<size_t>(1, o.rows)) return INVALID;
    if (o.rows == 0 || o.columns == 0 || batches == 0) return FINE;
    if (o.op < 0 || o.op > 2) return INVALID;
    size_t bytes = (size_t(o.ld) * (o.columns - 1) + o.rows + size_t(std::max(0ll, o.stride)) * (batches - 1)) * bytes_of(Type(o.type));
    return check(d, o.data, bytes, which) ? EXECUTION_FAILED : FINE;
}

static Matrix at(const Operand &o, size_t batch) {
    auto *data = static_cast<char *>(const_cast<void *>(o.data)) + ptrdiff_t(batch) * o.stride * ptrdiff_t(bytes_of(Type(o.type)));
    return o.op ? Matrix{data, Type(o.type), ptrdiff_t(o.ld), 1} : Matrix{data, Type(o.type), 1, ptrdiff_t(o.ld)};
}

// CUBLAS_COMPUTE_*: 32F, 32F_PEDANTIC, 32F_FAST_16F, 32F_FAST_16BF, 32F_FAST_TF32; 64F, 64F_PEDANTIC.
static bool sums_in_f32(int compute) { return compute == 68 || compute == 69 || compute == 74 || compute == 75 || compute == 77; }
static bool sums_in_f64(int compute) { return compute == 70 || compute == 71; }

static bool combined(int a, int b, int c, int compute) {
    if (a != b) return false;
    if (sums_in_f64(compute)) return a == F64 && c == F64;
    if (!sums_in_f32(compute) || a == F64) return false;
    return c == a || (c == F32 && (a == F16 || a == BF16));
}

static int queue(void *h, size_t m, size_t n, size_t k, const void *alpha, Operand a, Operand b, const void *beta, Operand c,
                 size_t batches, int compute) {
    Lock lock;
    BlasHandle *handle = handle_of(h);
    if (!handle) return UNINITIALIZED;
    Device *d = current();
    if (!d || d->fault || !alpha || !beta) return d && !d->fault ? INVALID : EXECUTION_FAILED;
    if (!valid_type(a.type) || !valid_type(b.type) || !valid_type(c.type) || !combined(a.type, b.type, c.type, compute)) return UNSUPPORTED;
    Stream *s = stream_of(handle->stream);
    if (!s || library_is_refused(s)) return EXECUTION_FAILED;
    if (int bad = check_operand(*d, a, k ? batches : 0, "cuBLAS, A")) return bad;
    if (int bad = check_operand(*d, b, k ? batches : 0, "cuBLAS, B")) return bad;
    if (int bad = check_operand(*d, c, batches, "cuBLAS, C")) return bad;
    if (handle->workspace && check(*d, handle->workspace, handle->workspace_bytes, "cuBLAS, workspace")) return EXECUTION_FAILED;
    if (!m || !n || !batches) return FINE;
    if (handle->given && handle->workspace_bytes < LEAST_WORKSPACE) return ALLOC_FAILED;
    bool wide = sums_in_f64(compute);
    double x = wide ? *static_cast<const double *>(alpha) : *static_cast<const float *>(alpha);
    double y = wide ? *static_cast<const double *>(beta) : *static_cast<const float *>(beta);
    bool tf32 = compute == 77 || (handle->math & 15) == 3;
    void *workspace = handle->workspace;
    size_t scribble = std::min<size_t>(handle->workspace_bytes, 4096);
    if (!first_use(*d, "matrix product " + std::to_string(a.type))) return EXECUTION_FAILED;
    Status lost = enqueue_kernel(s, "matrix product", [=] {
        if (workspace) memset(workspace, 0xFF, scribble);
        bool apart = batches > 1;
        auto one = [&](size_t i) { multiply({m, n, k, at(a, i), at(b, i), at(c, i), x, y, wide, tf32, !apart}); };
        if (apart && batches * m * n * k > 100000) in_parallel(batches, one);
        else for (size_t i = 0; i < batches; i++) one(i);
        return OK;
    });
    return lost ? EXECUTION_FAILED : FINE;
}

} // namespace sim
using namespace sim;

#define HANDLE(handle, h)                                                                                              \
    Lock lock_;                                                                                                        \
    BlasHandle *handle = handle_of(h);                                                                                     \
    if (!handle) return UNINITIALIZED

API int cublasCreate_v2(void **h) {
    Lock lock;
    Device *d = current();
    if (!d || d->fault) return UNINITIALIZED;
    if (!grow_context(*d, OWN_WORKSPACE + (d->has_blas ? 0 : LIBRARY))) return UNINITIALIZED;
    d->has_blas = true;
    library_starts(*d);
    auto *handle = new BlasHandle;
    handle->device = current_index();
    handle->age = d->age;
    handles().insert(handle);
    *h = handle;
    return FINE;
}
API int cublasDestroy_v2(void *h) {
    HANDLE(handle, h);
    Device &d = devices()[handle->device];
    d.context -= std::min(d.context, OWN_WORKSPACE);
    handles().erase(handle);
    delete handle;
    return FINE;
}
API int cublasSetStream_v2(void *h, void *stream) {
    HANDLE(handle, h);
    handle->stream = stream;
    handle->given = false;
    handle->workspace = nullptr;
    handle->workspace_bytes = 0;
    return FINE;
}
API int cublasGetStream_v2(void *h, void **stream) { HANDLE(handle, h); *stream = handle->stream; return FINE; }
API int cublasSetWorkspace_v2(void *h, void *workspace, size_t bytes) {
    HANDLE(handle, h);
    if (uintptr_t(workspace) % 256 && env("PLIMSOLL_SIM_GUARD", 0) == 0) return INVALID;
    if (bytes && !is_live(workspace, bytes)) {
        complain("cuBLAS, workspace: [%p, +%zu) does not lie in a live allocation", workspace, bytes);
        return INVALID;
    }
    handle->given = true;
    handle->workspace = bytes ? workspace : nullptr;
    handle->workspace_bytes = bytes;
    return FINE;
}
API int cublasSetMathMode(void *h, int mode) { HANDLE(handle, h); handle->math = mode; return FINE; }
API int cublasGetMathMode(void *h, int *mode) { HANDLE(handle, h); *mode = handle->math; return FINE; }
API int cublasSetAtomicsMode(void *h, int mode) { HANDLE(handle, h); handle->atomics = mode; return FINE; }
API int cublasGetAtomicsMode(void *h, int *mode) { HANDLE(handle, h); *mode = handle->atomics; return FINE; }
API int cublasSetPointerMode_v2(void *h, int mode) { HANDLE(handle, h); (void)handle; return mode == 0 ? FINE : UNSUPPORTED; }
API int cublasGetPointerMode_v2(void *h, int *mode) { HANDLE(handle, h); (void)handle; *mode = 0; return FINE; }
API int cublasGetVersion_v2(void *, int *version) { *version = 130000; return FINE; }
API int cublasGetProperty(int which, int *value) { *value = which == 0 ? 13 : 0; return FINE; }
API size_t cublasGetCudartVersion() { return 13000; }

API int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at, int lda,
                                   long long sa, const void *b, int bt, int ldb, long long sb, const void *beta, void *c, int ct,
                                   int ldc, long long sc, int batches, int compute, int) {
    if (m < 0 || n < 0 || k < 0 || batches < 0) return INVALID;
    size_t M = size_t(m), N = size_t(n), K = size_t(k);
    return queue(h, M, N, K, alpha, {a, at, lda, sa, ta, ta ? K : M, ta ? M : K}, {b, bt, ldb, sb, tb, tb ? N : K, tb ? K : N}, beta,
                 {c, ct, ldc, sc, 0, M, N}, size_t(batches), compute);
}
API int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int at, int lda, const void *b,
                     int bt, int ldb, const void *beta, void *c, int ct, int ldc, int compute, int algo) {
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, 0, 1, compute, algo);
}
API int cublasGemmStridedBatchedEx_64(void *h, int ta, int tb, long long m, long long n, long long k, const void *alpha, const void *a,
                                      int at, long long lda, long long sa, const void *b, int bt, long long ldb, long long sb,
                                      const void *beta, void *c, int ct, long long ldc, long long sc, long long batches, int compute, int) {
    if (m < 0 || n < 0 || k < 0 || batches < 0) return INVALID;
    size_t M = size_t(m), N = size_t(n), K = size_t(k);
    return queue(h, M, N, K, alpha, {a, at, lda, sa, ta, ta ? K : M, ta ? M : K}, {b, bt, ldb, sb, tb, tb ? N : K, tb ? K : N}, beta,
                 {c, ct, ldc, sc, 0, M, N}, size_t(batches), compute);
}
API int cublasGemmEx_64(void *h, int ta, int tb, long long m, long long n, long long k, const void *alpha, const void *a, int at,
                        long long lda, const void *b, int bt, long long ldb, const void *beta, void *c, int ct, long long ldc, int compute, int algo) {
    return cublasGemmStridedBatchedEx_64(h, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, 0, 1, compute, algo);
}
API int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                       const float *beta, float *c, int ldc) {
    return cublasGemmEx(h, ta, tb, m, n, k, alpha, a, F32, lda, b, F32, ldb, beta, c, F32, ldc, 68, 0);
}
API int cublasDgemm_v2(void *h, int ta, int tb, int m, int n, int k, const double *alpha, const double *a, int lda, const double *b, int ldb,
                       const double *beta, double *c, int ldc) {
    return cublasGemmEx(h, ta, tb, m, n, k, alpha, a, F64, lda, b, F64, ldb, beta, c, F64, ldc, 70, 0);
}
API int cublasSgemmStridedBatched(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, long long sa,
                                  const float *b, int ldb, long long sb, const float *beta, float *c, int ldc, long long sc, int batches) {
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, F32, lda, sa, b, F32, ldb, sb, beta, c, F32, ldc, sc, batches, 68, 0);
}
API int cublasDgemmStridedBatched(void *h, int ta, int tb, int m, int n, int k, const double *alpha, const double *a, int lda, long long sa,
                                  const double *b, int ldb, long long sb, const double *beta, double *c, int ldc, long long sc, int batches) {
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, F64, lda, sa, b, F64, ldb, sb, beta, c, F64, ldc, sc, batches, 70, 0);
}

static const char *const *words(int status) {
#define WORD(value, name, text) case value: { static const char *const w[] = {name, text}; return w; }
    switch (status) {
        WORD(FINE, "CUBLAS_STATUS_SUCCESS", "success")
        WORD(UNINITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized")
        WORD(ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed")
        WORD(INVALID, "CUBLAS_STATUS_INVALID_VALUE", "an invalid numerical value was used as an argument")
        WORD(EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute")
        WORD(UNSUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the operation is not supported")
    }
    static const char *const unknown[] = {"CUBLAS_STATUS_UNKNOWN", "unknown status"};
    return unknown;
}
API const char *cublasGetStatusName(int status) { return words(status)[0]; }
API const char *cublasGetStatusString(int status) { return words(status)[1]; }

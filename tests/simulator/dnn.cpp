// cuDNN: convolution in two dimensions, three directions, by strides, with groups. Refuses shapes that do not belong
// together, layouts and types that cuDNN does not combine (f64 with channels last is one), tensors of 2^31 elements, a
// workspace smaller than the algorithm's, and memory that is not live. As documented, the default math of f32 may use TF32
// and here does: CUDNN_FMA_MATH alone keeps f32. Proposes ways that it then refuses, as cards were seen to: INDEXED where
// the filters are odd in number.
// Modelled: the library costs 60 MiB of the context; which algorithms there are for a shape, their workspaces and their
// ranks. Algorithms that cuDNN calls not deterministic sum in another order at each call. A workspace that was given is
// overwritten.
#include "convolution.h"
#include "sim.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

namespace sim {

enum { FINE = 0, UNINITIALIZED = 1001, BAD = 2000, MISMATCH = 2008, UNSUPPORTED = 3000, EXECUTION_FAILED = 5000 };
static constexpr size_t LIBRARY = 60 * MIB;

struct DnnHandle {
    int device = 0;
    unsigned age = 0; // of its context
    void *stream = nullptr;
};
static DnnHandle *handle_of(void *h) {
    auto *handle = static_cast<DnnHandle *>(h);
    if (handle && handle->age != devices()[handle->device].age) stale("a handle of cuDNN");
    return handle;
}
struct Tensor { bool set = false; int type = 0; size_t d[4] = {}; ptrdiff_t s[4] = {}; };
struct Filter { bool set = false; int type = 0, format = 0; size_t d[4] = {}; };
struct Shape {
    bool set = false;
    int pad[2] = {}, stride[2] = {1, 1}, dilation[2] = {1, 1}, mode = 1, compute = 0, math = 0, groups = 1;
};

static thread_local std::string last_error;
static int refuse(int status, const char *why) {
    last_error = why;
    if (tracing()) complain("cuDNN: %s", why);
    return status;
}

// cudnnDataType_t: float, double, half, bfloat16.
static bool type_of(int t, Type &out) {
    switch (t) {
    case 0: out = F32; return true;
    case 1: out = F64; return true;
    case 2: out = F16; return true;
    case 9: out = BF16; return true;
    }
    return false;
}

static void strides(bool channels_last, const size_t *d, ptrdiff_t *s) {
    auto c = ptrdiff_t(d[1]), h = ptrdiff_t(d[2]), w = ptrdiff_t(d[3]);
    if (channels_last) s[0] = h * w * c, s[1] = 1, s[2] = w * c, s[3] = c;
    else s[0] = c * h * w, s[1] = h * w, s[2] = w, s[3] = 1;
}

static size_t extent(const size_t *d, const ptrdiff_t *s) {
    ptrdiff_t last = 0;
    for (int i = 0; i < 4; i++) last += ptrdiff_t(d[i] - 1) * s[i];
    return size_t(last) + 1;
}

static int output_size(const Tensor &x, const Filter &w, const Shape &v, int i) {
    int spread = int(w.d[2 + i] - 1) * v.dilation[i] + 1, room = int(x.d[2 + i]) + 2 * v.pad[i] - spread;
    return room < 0 ? 0 : room / v.stride[i] + 1;
}

// Fills `c` with what the descriptors say, or says why they do not fit.
static int describe(const Tensor *x, const Filter *w, const Shape *v, const Tensor *y, Convolution &c) {
    if (!x || !w || !v || !y || !x->set || !w->set || !v->set || !y->set) return refuse(BAD, "a descriptor is not set");
    Type type;
    if (!type_of(x->type, type)) return refuse(UNSUPPORTED, "a type that is not simulated");
    if (x->type != w->type || x->type != y->type) return refuse(UNSUPPORTED, "x, w and y have different types");
    if (v->compute != (type == F64 ? 1 : 0)) return refuse(UNSUPPORTED, "sums are made in double for double, in float for the others");
    size_t groups = size_t(v->groups);
    if (v->groups < 1 || x->d[1] != w->d[1] * groups || w->d[0] % groups) return refuse(MISMATCH, "channels, filters and groups do not fit");
    if (y->d[0] != x->d[0] || y->d[1] != w->d[0] || int(y->d[2]) != output_size(*x, *w, *v, 0) || int(y->d[3]) != output_size(*x, *w, *v, 1))
        return refuse(MISMATCH, "y is not the shape that x and w give");
    bool last = w->format == 1;
    if (last && type == F64) return refuse(UNSUPPORTED, "doubles have channels first");
    if (last && ((x->s[1] != 1 && x->d[1] > 1) || (y->s[1] != 1 && y->d[1] > 1)))
        return refuse(UNSUPPORTED, "a filter with channels last takes tensors with channels last");
    c.type = type;
    c.n = x->d[0], c.c = x->d[1], c.h = x->d[2], c.w = x->d[3];
    c.k = w->d[0], c.r = w->d[2], c.s = w->d[3], c.p = y->d[2], c.q = y->d[3], c.groups = groups;
    std::copy_n(x->s, 4, c.x_strides);
    std::copy_n(y->s, 4, c.y_strides);
    strides(last, w->d, c.w_strides);
    for (int i = 0; i < 2; i++) c.pad[i] = v->pad[i], c.stride[i] = v->stride[i], c.dilation[i] = v->dilation[i];
    c.flipped = v->mode == 0;
    c.tf32 = type == F32 && v->math != 3;
    return FINE;
}

// ---- algorithms

enum Method { DIRECT, INDEXED, UNROLLED, FFT, FFT_TILES, WINOGRAD, WINOGRAD_APART, ABSENT };
struct Algorithm { Method method; bool deterministic; };

// By the numbers of cudnnConvolution{Fwd,BwdData,BwdFilter}Algo_t.
static const std::vector<Algorithm> &algorithms(Direction direction) {
    static const std::vector<Algorithm> of[] = {
        {{DIRECT, true}, {INDEXED, true}, {UNROLLED, true}, {ABSENT, true}, {FFT, true}, {FFT_TILES, true}, {WINOGRAD, true}, {WINOGRAD_APART, true}},
        {{DIRECT, false}, {INDEXED, true}, {FFT, true}, {FFT_TILES, true}, {WINOGRAD, true}, {WINOGRAD_APART, true}},
        {{DIRECT, false}, {INDEXED, true}, {FFT, true}, {UNROLLED, false}, {ABSENT, true}, {WINOGRAD_APART, true}, {FFT_TILES, true}},
    };
    return of[direction];
}

static bool supports(const Convolution &c, Direction direction, int algorithm, size_t &bytes) {
    auto &all = algorithms(direction);
    if (algorithm < 0 || size_t(algorithm) >= all.size()) return false;
    bool plain = c.stride[0] == 1 && c.stride[1] == 1 && c.dilation[0] == 1 && c.dilation[1] == 1 && c.groups == 1 && !c.flipped;
    bool channels_first = c.x_strides[3] == 1, square3 = c.r == 3 && c.s == 3, narrow = c.type == F32 || c.type == F16;
    bytes = 0;
    switch (all[size_t(algorithm)].method) {
    case DIRECT: return true;
    case INDEXED: bytes = round_up(16 * (c.p * c.q + c.c / c.groups * c.r * c.s), 512); return true;
    case UNROLLED: bytes = round_up(c.c * c.r * c.s * c.p * c.q * bytes_of(c.type), 512); return channels_first && c.groups == 1;
    case FFT:
        bytes = (c.n * c.c + c.k * c.c + c.n * c.k) * (c.h + c.r) * (c.w + c.s) * 8;
        return plain && channels_first && c.type == F32 && c.h + c.r <= 256 && c.w + c.s <= 256;
    case FFT_TILES:
        bytes = (c.n * c.c + c.k * c.c + c.n * c.k) * 32 * 32 * 8;
        return plain && channels_first && c.type == F32 && c.r <= 32 && c.s <= 32;
    case WINOGRAD: return plain && channels_first && square3 && c.type == F32;
    case WINOGRAD_APART:
        bytes = round_up(64 * (c.c * c.k + c.n * ((c.p + 1) / 2) * ((c.q + 1) / 2) * (c.c + c.k)), 512);
        return plain && square3 && narrow && channels_first;
    case ABSENT: return false;
    }
    return false;
}

struct Performance {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};

// The fastest first, by rank: more workspace is taken to be faster; what is not supported comes last with its status.
static int rank_algorithms(const Convolution &c, Direction direction, int asked, int *given, Performance *out) {
    if (asked < 1 || !given || !out) return refuse(BAD, "room for at least one algorithm is needed");
    std::vector<Performance> list;
    auto &all = algorithms(direction);
    for (int i = 0; i < int(all.size()); i++) {
        Performance p = {};
        p.algorithm = i;
        p.status = supports(c, direction, i, p.memory) ? FINE : UNSUPPORTED;
        if (p.status) p.memory = 0;
        p.time = p.status ? -1.0f : 1.0f / float(1 + all[size_t(i)].method);
        p.determinism = all[size_t(i)].deterministic;
        p.math = c.type == F16 || c.type == BF16 ? 1 : c.tf32 || env("PLIMSOLL_SIM_DNN_MATH", 0) ? 0 : 3;
        list.push_back(p);
    }
    std::stable_sort(list.begin(), list.end(), [](auto &a, auto &b) { return a.status != b.status ? a.status < b.status : a.time < b.time; });
    *given = std::min(asked, int(list.size()));
    std::copy_n(list.begin(), *given, out);
    return FINE;
}

static int workspace_of(const Convolution &c, Direction direction, int algorithm, size_t *bytes) {
    return supports(c, direction, algorithm, *bytes) ? FINE : refuse(UNSUPPORTED, "the algorithm does not serve this shape");
}

static int queue(DnnHandle *h, Convolution c, const void *alpha, const void *beta, int algorithm, void *workspace, size_t given) {
    Lock lock;
    Device *d = current();
    if (!h || !d) return UNINITIALIZED;
    if (d->fault) return EXECUTION_FAILED;
    if (!alpha || !beta) return refuse(BAD, "no scalars");
    size_t needed = 0;
    if (int bad = workspace_of(c, c.direction, algorithm, &needed)) return bad;
    if (algorithms(c.direction)[size_t(algorithm)].method == INDEXED && c.k % 2) return refuse(UNSUPPORTED, "proposed, but not served");
    if (given < needed) return refuse(UNSUPPORTED, "the workspace is smaller than the algorithm's");
    if (needed && check(*d, workspace, given, "cuDNN, workspace")) return EXECUTION_FAILED;
    size_t one = bytes_of(c.type), xd[] = {c.n, c.c, c.h, c.w}, wd[] = {c.k, c.c / c.groups, c.r, c.s}, yd[] = {c.n, c.k, c.p, c.q};
    if (check(*d, c.x, extent(xd, c.x_strides) * one, "cuDNN, x") || check(*d, c.weights, extent(wd, c.w_strides) * one, "cuDNN, w") ||
        check(*d, c.y, extent(yd, c.y_strides) * one, "cuDNN, y"))
        return EXECUTION_FAILED;
    c.alpha = c.type == F64 ? *static_cast<const double *>(alpha) : *static_cast<const float *>(alpha);
    c.beta = c.type == F64 ? *static_cast<const double *>(beta) : *static_cast<const float *>(beta);
    static size_t calls = 0;
    c.start = algorithms(c.direction)[size_t(algorithm)].deterministic ? 0 : ++calls;
    Stream *s = stream_of(h->stream);
    if (!s || library_is_refused(s)) return EXECUTION_FAILED;
    if (!first_use(*d, "convolution " + std::to_string(c.direction) + " " + std::to_string(algorithm) + " " + std::to_string(c.type)))
        return refuse(EXECUTION_FAILED, "no memory for the kernel");
    Status lost = enqueue_kernel(s, "convolution", [=] {
        if (needed) memset(workspace, 0xFF, std::min<size_t>(needed, 4096));
        convolve(c);
        return OK;
    });
    return lost ? EXECUTION_FAILED : FINE;
}

template <class D> static D *as(void *p) { return static_cast<D *>(p); }

} // namespace sim
using namespace sim;

API size_t cudnnGetVersion() { return size_t(env("PLIMSOLL_SIM_DNN", 92000)); }
API size_t cudnnGetMaxDeviceVersion() { return 1200; }
API size_t cudnnGetCudartVersion() { return 13000; }
API int cudnnGetProperty(int which, int *value) { *value = which == 0 ? 9 : which == 1 ? 20 : 0; return FINE; }
API const char *cudnnGetErrorString(int status) {
    switch (status) {
    case FINE: return "CUDNN_STATUS_SUCCESS";
    case UNINITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case BAD: return "CUDNN_STATUS_BAD_PARAM";
    case MISMATCH: return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case UNSUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    }
    return "CUDNN_UNKNOWN_STATUS";
}
API void cudnnGetLastErrorString(char *text, size_t room) {
    snprintf(text, room, "%s", last_error.c_str());
    last_error.clear();
}

API int cudnnCreate(void **h) {
    Lock lock;
    Device *d = current();
    if (!d || d->fault) return UNINITIALIZED;
    if (!d->has_dnn && !grow_context(*d, LIBRARY)) return refuse(UNINITIALIZED, "no memory for the library");
    d->has_dnn = true;
    library_starts(*d);
    *h = new DnnHandle{current_index(), d->age};
    return FINE;
}
API int cudnnDestroy(void *h) { Lock lock; delete handle_of(h); return FINE; }
API int cudnnSetStream(void *h, void *stream) { if (!h) return BAD; as<DnnHandle>(h)->stream = stream; return FINE; }
API int cudnnGetStream(void *h, void **stream) { if (!h) return BAD; *stream = as<DnnHandle>(h)->stream; return FINE; }

API int cudnnCreateTensorDescriptor(void **t) { *t = new Tensor; return FINE; }
API int cudnnDestroyTensorDescriptor(void *t) { delete as<Tensor>(t); return FINE; }
API int cudnnSetTensor4dDescriptorEx(void *t, int type, int n, int c, int h, int w, int sn, int sc, int sh, int sw) {
    Type known;
    if (!t || n < 1 || c < 1 || h < 1 || w < 1 || sn < 1 || sc < 1 || sh < 1 || sw < 1) return refuse(BAD, "sizes and strides are 1 or more");
    if (!type_of(type, known)) return refuse(UNSUPPORTED, "a type that is not simulated");
    size_t last = size_t(n - 1) * size_t(sn) + size_t(c - 1) * size_t(sc) + size_t(h - 1) * size_t(sh) + size_t(w - 1) * size_t(sw);
    if (last >= (size_t(1) << 31) - 1) return refuse(UNSUPPORTED, "2^31 elements or more");
    *as<Tensor>(t) = Tensor{true, type, {size_t(n), size_t(c), size_t(h), size_t(w)}, {sn, sc, sh, sw}};
    return FINE;
}
API int cudnnSetTensor4dDescriptor(void *t, int format, int type, int n, int c, int h, int w) {
    if (n < 1 || c < 1 || h < 1 || w < 1 || format < 0 || format > 1) return refuse(BAD, "a size or a format");
    size_t d[] = {size_t(n), size_t(c), size_t(h), size_t(w)};
    ptrdiff_t s[4];
    strides(format == 1, d, s);
    if (size_t(n) * c * h * w >= (size_t(1) << 31)) return refuse(UNSUPPORTED, "2^31 elements or more");
    return cudnnSetTensor4dDescriptorEx(t, type, n, c, h, w, int(s[0]), int(s[1]), int(s[2]), int(s[3]));
}
API int cudnnSetTensorNdDescriptor(void *t, int type, int dims, const int *d, const int *s) {
    if (dims != 4) return refuse(UNSUPPORTED, "four dimensions are simulated");
    return cudnnSetTensor4dDescriptorEx(t, type, d[0], d[1], d[2], d[3], s[0], s[1], s[2], s[3]);
}
API int cudnnSetTensorNdDescriptorEx(void *t, int format, int type, int dims, const int *d) {
    if (dims != 4) return refuse(UNSUPPORTED, "four dimensions are simulated");
    return cudnnSetTensor4dDescriptor(t, format, type, d[0], d[1], d[2], d[3]);
}
API int cudnnCreateFilterDescriptor(void **f) { *f = new Filter; return FINE; }
API int cudnnDestroyFilterDescriptor(void *f) { delete as<Filter>(f); return FINE; }
API int cudnnSetFilter4dDescriptor(void *f, int type, int format, int k, int c, int r, int s) {
    Type known;
    if (!f || k < 1 || c < 1 || r < 1 || s < 1 || format < 0 || format > 1) return refuse(BAD, "a size or a format");
    if (!type_of(type, known)) return refuse(UNSUPPORTED, "a type that is not simulated");
    *as<Filter>(f) = Filter{true, type, format, {size_t(k), size_t(c), size_t(r), size_t(s)}};
    return FINE;
}
API int cudnnSetFilterNdDescriptor(void *f, int type, int format, int dims, const int *d) {
    if (dims != 4) return refuse(UNSUPPORTED, "four dimensions are simulated");
    return cudnnSetFilter4dDescriptor(f, type, format, d[0], d[1], d[2], d[3]);
}
API int cudnnCreateConvolutionDescriptor(void **v) { *v = new Shape; return FINE; }
API int cudnnDestroyConvolutionDescriptor(void *v) { delete as<Shape>(v); return FINE; }
API int cudnnSetConvolution2dDescriptor(void *v, int ph, int pw, int sh, int sw, int dh, int dw, int mode, int compute) {
    if (!v || ph < 0 || pw < 0 || sh < 1 || sw < 1 || dh < 1 || dw < 1 || mode < 0 || mode > 1) return refuse(BAD, "a parameter of the convolution");
    Shape &s = *as<Shape>(v);
    s.set = true;
    s.pad[0] = ph, s.pad[1] = pw, s.stride[0] = sh, s.stride[1] = sw, s.dilation[0] = dh, s.dilation[1] = dw;
    s.mode = mode;
    s.compute = compute;
    return FINE;
}
API int cudnnSetConvolutionNdDescriptor(void *v, int dims, const int *p, const int *s, const int *d, int mode, int compute) {
    if (dims != 2) return refuse(UNSUPPORTED, "two dimensions are simulated");
    return cudnnSetConvolution2dDescriptor(v, p[0], p[1], s[0], s[1], d[0], d[1], mode, compute);
}
API int cudnnSetConvolutionMathType(void *v, int math) { if (!v) return BAD; as<Shape>(v)->math = math; return FINE; }
API int cudnnGetConvolutionMathType(void *v, int *math) { if (!v) return BAD; *math = as<Shape>(v)->math; return FINE; }
API int cudnnSetConvolutionGroupCount(void *v, int n) { if (!v || n < 1) return BAD; as<Shape>(v)->groups = n; return FINE; }
API int cudnnGetConvolutionGroupCount(void *v, int *n) { if (!v) return BAD; *n = as<Shape>(v)->groups; return FINE; }
API int cudnnGetConvolution2dForwardOutputDim(void *v, void *x, void *w, int *n, int *c, int *h, int *wide) {
    if (!v || !x || !w || !as<Shape>(v)->set || !as<Tensor>(x)->set || !as<Filter>(w)->set) return refuse(BAD, "a descriptor is not set");
    *n = int(as<Tensor>(x)->d[0]);
    *c = int(as<Filter>(w)->d[0]);
    *h = output_size(*as<Tensor>(x), *as<Filter>(w), *as<Shape>(v), 0);
    *wide = output_size(*as<Tensor>(x), *as<Filter>(w), *as<Shape>(v), 1);
    return FINE;
}

#define DESCRIBE(c, x, w, v, y)                                                                                        \
    Convolution c = {};                                                                                                \
    if (int bad = describe(as<Tensor>(x), as<Filter>(w), as<Shape>(v), as<Tensor>(y), c)) return bad
API int cudnnGetConvolutionForwardAlgorithmMaxCount(void *, int *n) { *n = int(algorithms(FORWARD).size()); return FINE; }
API int cudnnGetConvolutionBackwardDataAlgorithmMaxCount(void *, int *n) { *n = int(algorithms(TO_DATA).size()); return FINE; }
API int cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(void *, int *n) { *n = int(algorithms(TO_FILTER).size()); return FINE; }
API int cudnnGetConvolutionForwardAlgorithm_v7(void *, void *x, void *w, void *v, void *y, int asked, int *given, Performance *out) {
    DESCRIBE(c, x, w, v, y);
    return rank_algorithms(c, FORWARD, asked, given, out);
}
API int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *, void *w, void *y, void *v, void *x, int asked, int *given, Performance *out) {
    DESCRIBE(c, x, w, v, y);
    return rank_algorithms(c, TO_DATA, asked, given, out);
}
API int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, void *x, void *y, void *v, void *w, int asked, int *given, Performance *out) {
    DESCRIBE(c, x, w, v, y);
    return rank_algorithms(c, TO_FILTER, asked, given, out);
}
API int cudnnGetConvolutionForwardWorkspaceSize(void *, void *x, void *w, void *v, void *y, int algorithm, size_t *bytes) {
    DESCRIBE(c, x, w, v, y);
    return workspace_of(c, FORWARD, algorithm, bytes);
}
API int cudnnGetConvolutionBackwardDataWorkspaceSize(void *, void *w, void *y, void *v, void *x, int algorithm, size_t *bytes) {
    DESCRIBE(c, x, w, v, y);
    return workspace_of(c, TO_DATA, algorithm, bytes);
}
API int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *, void *x, void *y, void *v, void *w, int algorithm, size_t *bytes) {
    DESCRIBE(c, x, w, v, y);
    return workspace_of(c, TO_FILTER, algorithm, bytes);
}

static int start(void *h, Direction direction, Convolution c, const void *x, const void *w, const void *y, const void *alpha, const void *beta,
                 int algorithm, void *workspace, size_t bytes) {
    c.direction = direction;
    c.x = const_cast<void *>(x);
    c.weights = const_cast<void *>(w);
    c.y = const_cast<void *>(y);
    return queue(handle_of(h), c, alpha, beta, algorithm, workspace, bytes);
}
API int cudnnConvolutionForward(void *h, const void *alpha, void *xd, const void *x, void *wd, const void *w, void *v, int algorithm,
                                void *workspace, size_t bytes, const void *beta, void *yd, void *y) {
    DESCRIBE(c, xd, wd, v, yd);
    return start(h, FORWARD, c, x, w, y, alpha, beta, algorithm, workspace, bytes);
}
API int cudnnConvolutionBackwardData(void *h, const void *alpha, void *wd, const void *w, void *yd, const void *y, void *v, int algorithm,
                                     void *workspace, size_t bytes, const void *beta, void *xd, void *x) {
    DESCRIBE(c, xd, wd, v, yd);
    return start(h, TO_DATA, c, x, w, y, alpha, beta, algorithm, workspace, bytes);
}
API int cudnnConvolutionBackwardFilter(void *h, const void *alpha, void *xd, const void *x, void *yd, const void *y, void *v, int algorithm,
                                       void *workspace, size_t bytes, const void *beta, void *wd, void *w) {
    DESCRIBE(c, xd, wd, v, yd);
    return start(h, TO_FILTER, c, x, w, y, alpha, beta, algorithm, workspace, bytes);
}

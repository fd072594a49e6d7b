// Cards and their contexts: how many, how large, what they answer, what is held of them. Holds nothing of what a program
// allocates. Modelled: a context costs a fixed number of MiB, taken when the primary context is first retained. The
// libraries' runtime retains it too and never releases it, so that a program's own release does not end it, but a reset.
#include "sim.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <tuple>

namespace sim {

std::recursive_mutex &big_lock() { static auto *m = new std::recursive_mutex; return *m; }

long env(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, nullptr, 10) : otherwise;
}

bool tracing() { static bool on = env("PLIMSOLL_SIM_TRACE", 0) != 0; return on; }

void complain(const char *format, ...) {
    char line[1024];
    va_list rest;
    va_start(rest, format);
    vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    fprintf(stderr, "simulated GPU: %s\n", line);
}

static unsigned long long calls;
static std::map<std::string, unsigned long long> &calls_by_name() {
    static auto *m = new std::map<std::string, unsigned long long>;
    return *m;
}
void count_call(const char *name) {
    ++calls_by_name()[name];
    static bool told = env("PLIMSOLL_SIM_CALLS", 0) != 0;
    static bool once = told && !atexit([] { complain("%llu calls", calls); });
    (void)once;
    calls += strncmp(name, "cuMemPool", 9) != 0;
}

std::vector<Device> &devices() {
    static auto *all = new std::vector<Device>(env("PLIMSOLL_SIM_DEVICES", 1) + env("PLIMSOLL_SIM_HIDDEN", 0));
    return *all;
}

// Those that are hidden from CUDA come last.
static size_t shown() { return devices().size() - size_t(env("PLIMSOLL_SIM_HIDDEN", 0)); }

// By bus they lie the other way round than by CUDA's numbers.
static int bus(int dev) { return int(devices().size()) - dev; }

std::string card_name(int index) {
    const char *first = getenv("PLIMSOLL_SIM_NAME");
    if (!index) return first ? first : "Simulated GPU";
    return "Simulated GPU " + std::string(1, char('A' + index));
}

static thread_local int at = -1;
int current_index() { return at; }
Device *current() { return at >= 0 && devices()[at].retained ? &devices()[at] : nullptr; }

size_t total_bytes() { return size_t(env("PLIMSOLL_SIM_TOTAL_MIB", 8192)) * MIB; }

size_t others_bytes() {
    long mib = env("PLIMSOLL_SIM_OTHERS_MIB", 0);
    if (const char *path = getenv("PLIMSOLL_SIM_OTHERS_FILE")) {
        if (FILE *f = fopen(path, "r")) {
            long read = 0;
            if (fscanf(f, "%ld", &read) == 1) mib = read;
            fclose(f);
        }
    }
    return size_t(mib) * MIB;
}

bool card_has_room(const Device &d, size_t bytes) { return d.mine() + others_bytes() + bytes <= total_bytes(); }

bool grow_context(Device &d, size_t bytes) {
    if (!card_has_room(d, bytes)) return false;
    d.context += bytes;
    return true;
}

// Code is loaded lazily by real drivers (CUDA_MODULE_LOADING=LAZY): what is first used costs memory then, not at the start.
bool first_use(Device &d, const std::string &what) {
    static long kib = env("PLIMSOLL_SIM_LAZY_KIB", 0);
    static auto *seen = new std::set<std::tuple<Device *, unsigned, std::string>>;
    if (!kib || seen->count({&d, d.age, what})) return true;
    if (!grow_context(d, size_t(kib) * 1024)) return false;
    seen->insert({&d, d.age, what});
    return true;
}

void library_starts(Device &d) {
    if (!d.runtime) d.retains++;
    d.runtime = true;
}

static bool started = false;
static Status exists(int dev) {
    if (!started) return NOT_INITIALIZED;
    return dev >= 0 && size_t(dev) < shown() ? OK : INVALID_DEVICE;
}

static Status retain(int dev) {
    Device &d = devices()[dev];
    if (!d.retained) {
        if (d.fault) return d.fault;
        if (!grow_context(d, size_t(env("PLIMSOLL_SIM_CONTEXT_MIB", 300)) * MIB)) return OUT_OF_MEMORY;
        d.retained = true;
        if (!d.null_stream) {
            d.null_stream = new Stream;
            d.null_stream->device = dev;
            d.streams.push_back(d.null_stream);
        }
        d.null_stream->age = d.age;
    }
    d.retains++;
    return OK;
}

// Everything of the context goes: plain allocations, page-locked memory, queued work, handles, the fault. Pools and what
// was taken of them belong to the device and stay, as is seen of drivers (JuliaGPU/CUDA.jl, issue 1579).
static void reset(Device &d) {
    for (Stream *s : d.streams) s->queue.clear(), s->executed = s->enqueued;
    reset_captures(d);
    reset_pools(d);
    reset_memory(d);
    d.context = d.plain_bytes = d.code_bytes = d.code_held = 0;
    d.has_blas = d.has_dnn = false;
    if (!env("PLIMSOLL_SIM_STAYS_LOST", 0)) d.fault = OK;
    d.retained = false;
    d.age++;
}

// A context is the device's number plus one.
static void *context_handle(int dev) { return reinterpret_cast<void *>(uintptr_t(dev) + 1); }

} // namespace sim
using namespace sim;

API int cuInit(unsigned) {
    Lock lock;
    if (!shown()) return NO_DEVICE;
    started = true;
    return OK;
}
API int cuDriverGetVersion(int *v) { *v = 13000; return OK; }
API int cuDeviceGetCount(int *n) { if (!started) return NOT_INITIALIZED; *n = int(shown()); return OK; }
API int cuDeviceGet(int *dev, int ordinal) {
    if (Status s = exists(ordinal)) return s;
    *dev = ordinal;
    return OK;
}
API int cuDeviceGetName(char *name, int len, int dev) {
    if (Status s = exists(dev)) return s;
    snprintf(name, size_t(len), "%s", card_name(dev).c_str());
    return OK;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int dev) {
    if (Status s = exists(dev)) return s;
    *bytes = total_bytes();
    return OK;
}
API int cuDeviceGetUuid_v2(unsigned char *uuid, int dev) {
    if (Status s = exists(dev)) return s;
    memcpy(uuid, "PLIMSOLL-SIM-GPU", 16);
    uuid[15] = (unsigned char)dev;
    return OK;
}
API int cuDeviceGetUuid(unsigned char *uuid, int dev) { return cuDeviceGetUuid_v2(uuid, dev); }
API int cuDeviceGetPCIBusId(char *id, int len, int dev) {
    if (Status s = exists(dev)) return s;
    snprintf(id, size_t(len), "0000:%02X:00.0", bus(dev));
    return OK;
}

// The answers are a small Hopper's.
API int cuDeviceGetAttribute(int *value, int attribute, int dev) {
    if (Status s = exists(dev)) return s;
    static const std::map<int, int> known = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {9, 65536},
        {10, 32}, {11, 2147483647}, {12, 65536}, {13, 1500000}, {14, 512}, {15, 1}, {16, 16}, {19, 1}, {31, 1},
        {36, 2000000}, {37, 256}, {38, 8 << 20}, {39, 2048}, {40, 2}, {41, 1}, {75, 9}, {76, 0}, {78, 1}, {79, 1},
        {80, 1}, {81, 233472}, {82, 65536}, {87, 2}, {90, 1}, {95, 1}, {97, 49152}, {99, 1}, {106, 32},
        {111, 1024}, {115, 1}, {119, 0}, {120, 0}, {121, 0}, {122, 0},
    };
    if (attribute == 102) { *value = has_virtual_memory(); return OK; }
    if (attribute == 33) { *value = bus(dev); return OK; }
    auto it = known.find(attribute);
    *value = it == known.end() ? 0 : it->second;
    return attribute < 1 || attribute > 160 ? INVALID_VALUE : OK;
}

API int cuDevicePrimaryCtxRetain(void **ctx, int dev) {
    Lock lock;
    if (Status s = exists(dev)) return s;
    if (Status s = retain(dev)) return s;
    *ctx = context_handle(dev);
    return OK;
}
API int cuDevicePrimaryCtxRelease_v2(int dev) {
    Lock lock;
    if (Status s = exists(dev)) return s;
    Device &d = devices()[dev];
    if (!d.retains) return INVALID_CONTEXT;
    if (--d.retains == 0 && d.retained) {
        finish_all(d);
        reset(d);
    }
    return OK;
}
API int cuDevicePrimaryCtxReset_v2(int dev) {
    Lock lock;
    if (Status s = exists(dev)) return s;
    reset(devices()[dev]);
    return OK;
}
API int cuDevicePrimaryCtxSetFlags_v2(int dev, unsigned flags) {
    if (Status s = exists(dev)) return s;
    devices()[dev].flags = flags;
    return OK;
}
API int cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active) {
    Lock lock;
    if (Status s = exists(dev)) return s;
    *flags = devices()[dev].flags;
    *active = devices()[dev].retained;
    return OK;
}
API int cuCtxSetCurrent(void *ctx) {
    Lock lock;
    if (!ctx) { at = -1; return OK; }
    int dev = int(reinterpret_cast<uintptr_t>(ctx)) - 1;
    if (dev < 0 || size_t(dev) >= devices().size() || !devices()[dev].retained) return INVALID_CONTEXT;
    at = dev;
    return OK;
}
API int cuCtxGetCurrent(void **ctx) { *ctx = at < 0 ? nullptr : context_handle(at); return OK; }
API int cuCtxPushCurrent_v2(void *ctx) { return cuCtxSetCurrent(ctx); }
API int cuCtxPopCurrent_v2(void **ctx) { if (ctx) cuCtxGetCurrent(ctx); at = -1; return OK; }
API int cuCtxGetDevice(int *dev) { if (at < 0) return INVALID_CONTEXT; *dev = at; return OK; }
API int cuCtxSetFlags(unsigned flags) { SIM_DEVICE(d); d->flags = flags; return OK; }
API int cuCtxGetFlags(unsigned *flags) { SIM_DEVICE(d); *flags = d->flags; return OK; }
API int cuCtxGetApiVersion(void *, unsigned *version) { *version = 13000; return OK; }
API int cuCtxSetLimit(int, size_t) { SIM_DEVICE(d); return OK; }
API int cuCtxGetLimit(size_t *value, int) { SIM_DEVICE(d); *value = 1024; return OK; }
API int cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return OK; }
API int cuCtxSynchronize() { SIM_DEVICE(d); SIM_NOT_IN_CAPTURE(d); return finish_all(*d); }

// Not the driver's: how often a function of this name was called in this process.
API unsigned long long plimsoll_sim_calls(const char *name) {
    Lock lock;
    auto it = calls_by_name().find(name);
    return it == calls_by_name().end() ? 0 : it->second;
}

API int cuMemGetInfo_v2(size_t *free, size_t *total) {
    SIM_DEVICE(d);
    *total = total_bytes();
    size_t used = d->mine() + others_bytes();
    *free = used < *total ? *total - used : 0;
    return OK;
}

static const char *const *words(int status) {
#define ERROR(name, text) case name: { static const char *const w[] = {"CUDA_ERROR_" #name, text}; return w; }
    switch (status) {
    case OK: { static const char *const w[] = {"CUDA_SUCCESS", "no error"}; return w; }
        ERROR(INVALID_VALUE, "invalid argument")
        ERROR(OUT_OF_MEMORY, "out of memory")
        ERROR(NOT_INITIALIZED, "initialization error")
        ERROR(NO_DEVICE, "no CUDA-capable device is detected")
        ERROR(INVALID_DEVICE, "invalid device ordinal")
        ERROR(INVALID_IMAGE, "device kernel image is invalid")
        ERROR(INVALID_CONTEXT, "invalid device context")
        ERROR(INVALID_PTX, "a PTX JIT compilation failed")
        ERROR(UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.")
        ERROR(INVALID_HANDLE, "invalid resource handle")
        ERROR(NOT_FOUND, "named symbol not found")
        ERROR(NOT_READY, "device not ready")
        ERROR(ILLEGAL_ADDRESS, "an illegal memory access was encountered")
        ERROR(LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")
        ERROR(LAUNCH_FAILED, "unspecified launch failure")
        ERROR(NOT_SUPPORTED, "operation not supported")
        ERROR(UNKNOWN, "unknown error")
    case CAPTURE_UNSUPPORTED: { static const char *const w[] = {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}; return w; }
    case CAPTURE_INVALIDATED: { static const char *const w[] = {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}; return w; }
    case CAPTURE_UNMATCHED: { static const char *const w[] = {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"}; return w; }
    case CAPTURE_ISOLATION: { static const char *const w[] = {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"}; return w; }
    case GRAPH_UPDATE_FAILURE: { static const char *const w[] = {"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"}; return w; }
    }
    return nullptr;
}
API int cuGetErrorName(int status, const char **name) {
    auto w = words(status);
    *name = w ? w[0] : nullptr;
    return w ? OK : INVALID_VALUE;
}
API int cuGetErrorString(int status, const char **text) {
    auto w = words(status);
    *text = w ? w[1] : nullptr;
    return w ? OK : INVALID_VALUE;
}

// NVML: what the machine's monitor says. The bytes of this process are context, libraries, code, plain allocations and
// what its pools reserve; those of the others are PLIMSOLL_SIM_OTHERS_MIB. Only a process that holds a context is listed.
// Its numbers of cards run against CUDA's, as they may: NVML counts by bus, CUDA from the fastest card down.
#include "sim.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace sim;

enum { FINE = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, NOT_THERE = 6, TOO_SMALL = 7,
       UNKNOWN_ERROR = 999 };
static int users = 0;

struct Process { unsigned pid; unsigned long long bytes; unsigned gpu, compute; };
struct Process1 { unsigned pid; unsigned long long bytes; };
struct Memory { unsigned long long total, free, used; };
struct Memory2 { unsigned version; unsigned long long total, reserved, free, used; };

// A handle is CUDA's number plus one; with WHOLE, the card that the part is of (PLIMSOLL_SIM_MIG).
static constexpr uintptr_t WHOLE = 0x1000;
static bool in_parts() { return env("PLIMSOLL_SIM_MIG", 0) != 0; }
static bool is_whole(void *device) { return reinterpret_cast<uintptr_t>(device) & WHOLE; }

static int card(void *device, Device **d) {
    auto n = reinterpret_cast<uintptr_t>(device) & ~WHOLE;
    if (!users) return UNINITIALIZED;
    if (n < 1 || n > devices().size()) return INVALID;
    *d = &devices()[n - 1];
    return FINE;
}
static void *handle_at(unsigned index) {
    uintptr_t n = devices().size() - index;
    return reinterpret_cast<void *>(in_parts() ? n | WHOLE : n);
}
#define CARD(d, handle)                                                                                                \
    Lock lock_;                                                                                                        \
    Device *d = nullptr;                                                                                               \
    if (int bad = card(handle, &d)) return bad

API int nvmlInit_v2() {
    Lock lock;
    if (int bad = int(env("PLIMSOLL_SIM_NVML_FAILS", 0))) return bad;
    users++;
    return FINE;
}
API int nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
API int nvmlShutdown() { Lock lock; if (!users) return UNINITIALIZED; users--; return FINE; }
API const char *nvmlErrorString(int result) {
    switch (result) {
    case FINE: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID: return "Invalid Argument";
    case UNSUPPORTED: return "Not Supported";
    case NOT_THERE: return "Not Found";
    case TOO_SMALL: return "Insufficient Size";
    }
    return "Unknown Error";
}
static const char *driver() {
    const char *version = getenv("PLIMSOLL_SIM_DRIVER");
    return version ? version : "580.0.0";
}
API int nvmlSystemGetDriverVersion(char *text, unsigned n) { snprintf(text, n, "%s", driver()); return FINE; }
API int nvmlSystemGetNVMLVersion(char *text, unsigned n) { snprintf(text, n, "13.580.0.0"); return FINE; }
API int nvmlSystemGetCudaDriverVersion(int *v) { *v = 13000; return FINE; }
API int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13000; return FINE; }
API int nvmlDeviceGetCount_v2(unsigned *n) {
    if (!users) return UNINITIALIZED;
    *n = unsigned(devices().size());
    return FINE;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    if (!users) return UNINITIALIZED;
    if (i >= devices().size()) return INVALID;
    *device = handle_at(i);
    return FINE;
}
API int nvmlDeviceGetIndex(void *device, unsigned *i) {
    CARD(d, device);
    *i = unsigned(devices().size() - 1 - (d - devices().data()));
    return FINE;
}
API int nvmlDeviceGetName(void *device, char *text, unsigned n) {
    CARD(d, device);
    snprintf(text, n, "%s", card_name(int(d - devices().data())).c_str());
    return FINE;
}

// The same bytes as cuDeviceGetUuid's; of a card in parts, that is a part's, and the card has another.
static void uuid_text(int i, bool whole, char *text, unsigned n) {
    unsigned char u[17] = "PLIMSOLL-SIM-GPU";
    u[15] = (unsigned char)i;
    if (whole) u[0] = 'W';
    std::string out = in_parts() && !whole ? "MIG-" : "GPU-";
    for (int k = 0; k < 16; k++) {
        char two[4];
        snprintf(two, sizeof two, "%02x", u[k]);
        if (k == 4 || k == 6 || k == 8 || k == 10) out += "-";
        out += two;
    }
    snprintf(text, n, "%s", out.c_str());
}
API int nvmlDeviceGetUUID(void *device, char *text, unsigned n) {
    CARD(d, device);
    uuid_text(int(d - devices().data()), is_whole(device), text, n);
    return FINE;
}
API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (!users) return UNINITIALIZED;
    for (size_t i = 0; i < devices().size(); i++) {
        for (bool whole : {false, true}) {
            char text[96];
            uuid_text(int(i), whole, text, sizeof text);
            if (strcmp(text, uuid) || (whole && !in_parts())) continue;
            *device = reinterpret_cast<void *>(whole ? (i + 1) | WHOLE : i + 1);
            return FINE;
        }
    }
    return NOT_THERE;
}
// "0000:01:00.0", as cuDeviceGetPCIBusId says it, or with the domain in eight digits.
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
    if (!users) return UNINITIALIZED;
    unsigned domain = 0, bus = 0;
    if (sscanf(id, "%x:%x", &domain, &bus) != 2 || bus < 1 || bus > devices().size()) return NOT_THERE;
    *device = handle_at(bus - 1);
    return FINE;
}

API int nvmlDeviceGetMemoryInfo(void *device, Memory *m) {
    CARD(d, device);
    m->total = total_bytes();
    m->used = d->mine() + others_bytes();
    m->free = m->used < m->total ? m->total - m->used : 0;
    return FINE;
}
API int nvmlDeviceGetMemoryInfo_v2(void *device, Memory2 *m) {
    Memory first;
    if (int bad = nvmlDeviceGetMemoryInfo(device, &first)) return bad;
    m->total = first.total;
    m->reserved = 0;
    m->free = first.free;
    m->used = first.used;
    return FINE;
}

// This process, if it holds a context, and one that stands for the others, if they hold anything. Who computes on a part
// is told of the part alone.
static int processes(void *device, Device &d, unsigned *n, std::vector<Process> &out) {
    const char *deaf = getenv("PLIMSOLL_SIM_DEAF_FILE");
    if (deaf && !access(deaf, F_OK)) return UNKNOWN_ERROR;
    if (is_whole(device)) return NO_PERMISSION;
    bool told = env("PLIMSOLL_SIM_UNTOLD", 0) == 0;
    bool none = env("PLIMSOLL_SIM_CONTAINER", 0) != 0;
    auto bytes = [=](size_t held) { return !told ? ~0ull : none ? 0ull : (unsigned long long)held; };
    if (d.retained) out.push_back({unsigned(env("PLIMSOLL_SIM_PID", getpid())), bytes(d.mine()), ~0u, ~0u});
    if (size_t others = others_bytes()) out.push_back({1, bytes(others), ~0u, ~0u});
    unsigned room = *n;
    *n = unsigned(out.size());
    return room < out.size() ? TOO_SMALL : FINE;
}
// Drivers 535.43 to 535.98 write larger entries than the header of any other says (XuehaiPan/nvitop, issue 88).
struct ProcessOf535 { Process process; unsigned long long is_protected; };
API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, Process *infos) {
    CARD(d, device);
    std::vector<Process> all;
    if (int bad = processes(device, *d, n, all)) return bad;
    unsigned minor = 0;
    bool larger = sscanf(driver(), "535.%u", &minor) == 1 && minor >= 43 && minor <= 98;
    for (size_t i = 0; i < all.size() && infos; i++) {
        if (larger) reinterpret_cast<ProcessOf535 *>(infos)[i] = {all[i], 0};
        else infos[i] = all[i];
    }
    return FINE;
}
API int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *n, Process *infos) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, n, infos);
}
API int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *n, Process1 *infos) {
    CARD(d, device);
    std::vector<Process> all;
    if (int bad = processes(device, *d, n, all)) return bad;
    for (size_t i = 0; i < all.size() && infos; i++) infos[i] = {all[i].pid, all[i].bytes};
    return FINE;
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *n, Process *) { CARD(d, device); *n = 0; return FINE; }
API int nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, unsigned *n, Process *) { CARD(d, device); *n = 0; return FINE; }
API int nvmlDeviceGetGraphicsRunningProcesses(void *device, unsigned *n, Process1 *) { CARD(d, device); *n = 0; return FINE; }
API int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) { CARD(d, device); rates[0] = rates[1] = 0; return FINE; }
API int nvmlDeviceGetTemperature(void *device, int, unsigned *celsius) { CARD(d, device); *celsius = 40; return FINE; }
API int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { CARD(d, device); *milliwatts = 50000; return FINE; }
API int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { CARD(d, device); *major = 9; *minor = 0; return FINE; }

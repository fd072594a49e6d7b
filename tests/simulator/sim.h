// The simulated GPU: what its files share. One library stands in for the driver (libcuda), the run-time compiler
// (libnvrtc), cuBLAS, cuBLASLt, cuDNN and NVML, so that a program's kernels, host code and memory limits run for real on a
// machine without a card. Its state is in this process only.
//
// Device memory is host memory. Work is DEFERRED: a stream is a queue, and it runs only where something forces it (see
// stream.cpp). Every rule of the driver that is only modelled says so where it is written.
//
// Build it by hand from the repository's root; a program started with LD_LIBRARY_PATH=target/sim sees the card:
//   d=target/sim; mkdir -p $d && g++ -std=c++17 -O2 -w -shared -fPIC -fvisibility=hidden -pthread -Itests/simulator tests/simulator/*.cpp -o $d/libsimulator.so -Wl,-z,nodelete -ldl && for n in cuda.so cuda.so.1 nvrtc.so nvrtc.so.13 cublas.so cublas.so.13 cublasLt.so cublasLt.so.13 cudnn.so cudnn.so.9 cudnn_graph.so.9 cudnn_ops.so.9 cudnn_cnn.so.9 nvidia-ml.so nvidia-ml.so.1; do ln -sf libsimulator.so $d/lib$n; done
//
// Environment:
//   PLIMSOLL_SIM_DEVICES       how many cards (1)
//   PLIMSOLL_SIM_HIDDEN        how many more NVML sees and CUDA does not, as with CUDA_VISIBLE_DEVICES (0)
//   PLIMSOLL_SIM_TOTAL_MIB     memory of each card (8192)
//   PLIMSOLL_SIM_CONTEXT_MIB   what a context costs (300)
//   PLIMSOLL_SIM_OTHERS_MIB    what other processes hold of each card (0)
//   PLIMSOLL_SIM_OTHERS_FILE   a file that holds that number instead, read again at every growth and question
//   PLIMSOLL_SIM_LAZY_KIB      what the first launch of each kernel and convolution adds to the context (0)
//   PLIMSOLL_SIM_FAIL_ALLOC    n: the n-th allocation of device memory fails, once
//   PLIMSOLL_SIM_FAIL_KERNEL   n: the n-th kernel (a library's too) fails when it runs, and the context is lost
//   PLIMSOLL_SIM_FAULT_FILE    a file with lines "allocation n" and "kernel n": the same, counted from when it is found;
//                              it is read once and removed
//   PLIMSOLL_SIM_FAULT         the error that a kernel fails with (700: illegal address)
//   PLIMSOLL_SIM_STAYS_LOST    1: a context that is made anew is lost as well
//   PLIMSOLL_SIM_NAME          what the first card is called (Simulated GPU)
//   PLIMSOLL_SIM_POOL_STEP_MIB what a pool's growth above 32 MiB is rounded up to (2)
//   PLIMSOLL_SIM_POOL_JOINS    1: what a pool holds lies in one range of addresses, so what is free joins
//   PLIMSOLL_SIM_POOL_COUNTS   1: used are the bytes that were asked for; else pieces of 512
//   PLIMSOLL_SIM_POOL_LIMIT    a pool's limit: exact | up or down (rounded to the step) | fits (the last growth is smaller)
//   PLIMSOLL_SIM_VIRTUAL       0: a device without virtual memory of the driver
//   PLIMSOLL_SIM_VIRTUAL_REFUSES  what fails of it: reserve (no addresses) | create | map | access | tell (of mappings)
//   PLIMSOLL_SIM_LT_REFUSES    what fails of cuBLASLt: create | heuristic | call | gelu (its heuristic) | after:N (later calls)
//   PLIMSOLL_SIM_DNN           the version that cuDNN says it is (92000)
//   PLIMSOLL_SIM_DNN_MATH      1: cuDNN proposes the default math where only that of f32 was asked for
//   PLIMSOLL_SIM_UNTOLD        1: NVML does not tell memory by process
//   PLIMSOLL_SIM_CONTAINER     1: NVML tells 0 bytes for each process
//   PLIMSOLL_SIM_DEAF_FILE     a file; while it is there, NVML fails where it is asked for processes
//   PLIMSOLL_SIM_PID           the number that NVML gives this process (its own): a container's are not the host's
//   PLIMSOLL_SIM_MIG           1: each card that CUDA sees is a part of one that NVML counts (MIG)
//   PLIMSOLL_SIM_NVML_FAILS    the error that NVML does not start with (0: it starts)
//   PLIMSOLL_SIM_DRIVER        the driver's version (580.0.0)
//   CUDA_LAUNCH_BLOCKING       1: as the driver's own, a launch returns when its kernel is done, a library's too
//   PLIMSOLL_SIM_GRAPH_KIB     what an executable graph takes of the card for each of its nodes (64)
//   PLIMSOLL_SIM_GRAPH_REFUSES what fails of graphs: capture | library (its calls end a capture) | instantiate | update | launch
//   PLIMSOLL_SIM_ORDER         last (others run only as far as an event demands) | first (others run ahead) (last)
//   PLIMSOLL_SIM_GUARD         1: every allocation of a pool ends at a page that faults, and is unmapped when freed
//   PLIMSOLL_SIM_WORKERS       OS threads that run blocks (the machine's, at most 8)
//   PLIMSOLL_SIM_CACHE         folder of compiled kernels (`compiled` next to the library; empty: none)
//   PLIMSOLL_SIM_TRACE         1: every piece of work on stderr, as it runs
//   PLIMSOLL_SIM_CALLS         1: at the end of the process, how many calls it made of the driver, but for counters of pools,
//                              and how many of libraries that queue work, on stderr
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace sim {

// The driver's own numbers (cuda.h).
enum Status : int {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, INVALID_PTX = 218, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400,
    NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903,
    CAPTURE_ISOLATION = 905, GRAPH_UPDATE_FAILURE = 910, UNKNOWN = 999,
};

constexpr size_t MIB = size_t(1) << 20;
inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct Stream;
struct Pool;
struct Capture;

struct Op {
    std::function<Status()> run;     // empty: a wait
    Stream *on = nullptr;            // a wait: for this stream
    uint64_t upto = 0;               // to have come this far
    const char *name = "wait";
};

// A queue of work. Never freed: waits of other streams may name it.
struct Stream {
    int device = 0;
    bool blocking = true;            // ordered against the null stream
    bool destroyed = false;
    int id = 0;
    unsigned age = 0;                // of its context
    std::deque<Op> queue;
    uint64_t enqueued = 0, executed = 0;
    Capture *capture = nullptr;      // what is queued goes there, and does not run
};

// A live allocation of device memory.
struct Block {
    size_t bytes = 0;                // as rounded by the allocator that gave it
    Pool *pool = nullptr;            // none: cuMemAlloc
    int device = 0;
    uintptr_t home = 0;              // its place in the pool: elsewhere where PLIMSOLL_SIM_GUARD is set
    size_t home_bytes = 0;
    size_t counted = 0;              // as used
    bool is_mapped = false;          // chunks that are mapped into a range
};

struct Device {
    bool retained = false;           // there is a context
    int retains = 0;                 // survives a reset
    bool runtime = false;            // among the retains is the one of the libraries' runtime, which is never released
    unsigned age = 0;                // how many contexts were before this one
    unsigned flags = 0;
    Status fault = OK;               // sticky, until the context is reset
    size_t context = 0;              // context, libraries, modules
    size_t code_bytes = 0;           // of live modules
    size_t code_held = 0;            // what the context has for them, in steps of 2 MiB; never less
    bool has_blas = false, has_dnn = false; // the libraries are in the context
    size_t plain_bytes = 0;          // cuMemAlloc, in granules of 512 bytes
    size_t chunk_bytes = 0;          // cuMemCreate
    Stream *null_stream = nullptr;
    Pool *default_pool = nullptr, *pool = nullptr;
    std::vector<Pool *> pools;
    std::vector<Stream *> streams;   // the null stream first
    size_t reserved() const;         // of all pools
    size_t mine() const { return context + round_up(plain_bytes, 2 * MIB) + chunk_bytes + reserved(); }
};

// One lock for the whole simulation. Work runs under it, on the thread that forces it.
std::recursive_mutex &big_lock();
struct Lock { std::lock_guard<std::recursive_mutex> held{big_lock()}; };

long env(const char *name, long otherwise);
bool tracing();
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

// device.cpp
std::vector<Device> &devices();
Device *current();                                       // of this thread, or none
int current_index();
std::string card_name(int index);                        // one differs from the next
size_t total_bytes();
size_t others_bytes();
bool card_has_room(const Device &d, size_t bytes);
bool grow_context(Device &d, size_t bytes);
bool first_use(Device &d, const std::string &what);      // PLIMSOLL_SIM_LAZY_KIB; whether there is room for it
void library_starts(Device &d);                          // its runtime retains the context
void count_call(const char *name);                       // PLIMSOLL_SIM_CALLS
#define SIM_DEVICE(d)                                                                                                  \
    sim::Lock lock_;                                                                                                   \
    sim::count_call(__func__);                                                                                         \
    sim::Device *d = sim::current();                                                                                   \
    if (!d) return sim::INVALID_CONTEXT;                                                                               \
    if (d->fault) return d->fault

// A call that the driver does not serve while a stream of the context is captured.
#define SIM_NOT_IN_CAPTURE(d)                                                                                          \
    if (sim::Status bad_ = sim::not_in_capture(*d)) return bad_

// fault.cpp
bool injected_failure();                                 // of an allocation
Status injected_fault();                                 // of a kernel
Status failed(Device &d, Status why);                    // makes it sticky
[[noreturn]] void stale(const char *what);               // a handle whose context is no more

// stream.cpp
Stream *stream_of(void *handle);                         // none: no such stream
void enqueue(Stream *s, const char *name, std::function<Status()> run);
Status enqueue_kernel(Stream *s, const char *name, std::function<Status()> run); // which may be told to fail
void enqueue_wait(Stream *s, Stream *on, uint64_t upto);
void run_to(Stream *s, uint64_t upto);
Status finish(Stream *s);                                // all of it, then what synchronising does
Status finish_all(Device &d);

// graph.cpp
bool captured(Stream *s, const char *name, const std::function<Status()> &run, bool is_kernel); // whether it was taken
bool library_is_refused(Stream *s);                      // in a capture, where it is told to be
Status not_in_capture(Device &d);                        // ends every capture of the device, as calls do that may not be in one
Status invalidate(Stream *s, Status why);                // ends the capture of this stream, if there is one
void reset_captures(Device &d);

// module.cpp: the arguments are those of now.
Status kernel_work(Device &d, void *function, const unsigned (&extents)[6], unsigned shared, void **params, void **extra,
                   std::function<Status()> &run, const char *&name);

// memory.cpp
std::map<uintptr_t, Block> &live();
bool is_live(const void *p, size_t bytes);               // [p, p + bytes) within one live allocation
bool is_device(const void *p);                           // in or at the end of a live allocation
bool is_locked_host(const void *p);
void *map_memory(size_t bytes);
void unmap_memory(void *p, size_t bytes);
void reset_memory(Device &d);                            // what belongs to the context
Status check(Device &d, const void *p, size_t bytes, const char *whose); // complains and makes the fault sticky

// virtual.cpp
bool has_virtual_memory();                               // PLIMSOLL_SIM_VIRTUAL
Status tell_mapping(uintptr_t at, int attribute, void *told); // of a pointer (cuda.h)

// pool.cpp
void trim_after_sync(Device &d);
void reset_pools(Device &d);                             // they survive their context
Status free_to_pool(void *p, Stream *s);

// launch.cpp: runs a grid of one kernel. `entry(worker, params)` is one thread.
struct Grid { unsigned grid[3], block[3]; };
using Entry = void (*)(void *worker, void **params);
struct Code {
    void *library = nullptr;
    uint64_t id = 0;
    void *(*touch)() = nullptr;
};
Status run_grid(const Grid &g, const Code &code, Entry entry, void **params, const char *name);
const void *runtime_table();
void in_parallel(size_t pieces, const std::function<void(size_t)> &piece);

// nvrtc.cpp
bool image_of(const void *data, std::string &library, Status &why);

} // namespace sim

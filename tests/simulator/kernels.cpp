// Launching: how a grid runs. The threads of a block are fibers on one OS thread; blocks spread over OS threads. A fiber
// runs threads one after another until one has to wait (a barrier or an exchange within a warp); then the next fiber goes
// on with the threads not yet started. So a kernel without barriers costs a call a thread.
//
// Diagnosed, and LAUNCH_FAILED: a barrier that some threads of the block never reach or reach at another line; an exchange
// within a warp that some lanes never reach, or that asks a lane outside its mask. Diagnosed, and ILLEGAL_ADDRESS: a fault
// of the processor inside a kernel. Shared memory is thread-local memory of the OS thread and is filled with 0xFF before
// each block. Threads start in ascending order in blocks of even index and in descending order in the others, so that a
// missing barrier shows in one of them.
#include "sim.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <thread>
#include "runtime.h"
#if !defined(__x86_64__) && !defined(__aarch64__)
#error "fibers are written for x86-64 and aarch64"
#endif

namespace sim {

// Saves what a function may not change, stores the stack pointer in *from, goes on at `to`.
extern "C" void sim_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(
.text
.hidden sim_switch
.globl sim_switch
.type sim_switch,@function
sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size sim_switch,.-sim_switch
)");
static void *first_frame(char *top, void (*go)()) {
    auto **sp = reinterpret_cast<void **>(top);
    *--sp = nullptr;                 // where `go` would return to; also aligns its frame
    *--sp = reinterpret_cast<void *>(go);
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    return sp;
}
#else
asm(R"(
.text
.hidden sim_switch
.globl sim_switch
.type sim_switch,%function
sim_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size sim_switch,.-sim_switch
)");
static void *first_frame(char *top, void (*go)()) {
    auto **sp = reinterpret_cast<void **>(top - 160);
    memset(sp, 0, 160);
    sp[11] = reinterpret_cast<void *>(go);
    return sp;
}
#endif

static constexpr size_t STACK = 256 << 10;

enum State : char { FRESH, READY, BARRIER, WARP, DONE };

struct Fiber {
    char *stack = nullptr;
    void *sp = nullptr;
};

struct Thread {
    Fiber *fiber = nullptr;
    State state = FRESH;
    int site = 0;                    // of the barrier or exchange it waits at (shim.h)
    int kind = 0, lane = 0, width = 0;
    unsigned mask = 0;
    uint64_t value = 0, result = 0;
};

// One OS thread's side of a launch. Its first member is what the shim reads (runtime.h).
struct Worker {
    SimIndices seen;
    std::vector<Fiber *> idle;
    std::vector<Thread> threads;
    unsigned count = 0;              // threads of a block
    unsigned started = 0, live = 0;
    unsigned running = 0;
    bool descending = false;
    void *scheduler = nullptr;       // its stack pointer while a fiber runs
    Fiber *fiber = nullptr;
    int vote = 0, vote_kind = 0;
    const Grid *grid = nullptr;
    Entry entry = nullptr;
    void **params = nullptr;
    const char *name = "";
    Status fault = OK;
    void *fault_address = nullptr;
    char *spare_stack = nullptr;
    std::map<uint64_t, std::pair<void *, size_t>> shared; // by code: this OS thread's shared memory of it
};

static std::mutex &stash_lock() { static auto *m = new std::mutex; return *m; }
static std::vector<Fiber *> &stash() { static auto *s = new std::vector<Fiber *>; return *s; }

// Idle fibers outlive the OS thread that made them.
struct Seat {
    Worker *w = nullptr;
    ~Seat() {
        if (!w) return;
        std::lock_guard<std::mutex> held(stash_lock());
        stash().insert(stash().end(), w->idle.begin(), w->idle.end());
    }
};
static thread_local Worker *here = nullptr;
static thread_local Seat seat;

static void place(Worker &w, unsigned t) {
    w.running = t;
    const unsigned *b = w.grid->block;
    if (b[1] == 1 && b[2] == 1) {
        w.seen.thread[0] = t;
        w.seen.thread[1] = w.seen.thread[2] = 0;
        return;
    }
    w.seen.thread[0] = t % b[0];
    w.seen.thread[1] = t / b[0] % b[1];
    w.seen.thread[2] = t / b[0] / b[1];
}

static void to_scheduler(Worker &w) {
    Fiber *f = w.fiber;
    sim_switch(&f->sp, w.scheduler);
}

// Not inlined: a fiber may go on on another OS thread, where `here` lies elsewhere.
static __attribute__((noinline)) Worker &whose() {
    asm volatile("");
    return *here;
}

// A fiber's life: threads not yet started, one after another; then it is idle.
static void fiber_main() {
    for (;;) {
        Worker &w = whose();
        while (w.started < w.count) {
            unsigned i = w.started++;
            unsigned t = w.descending ? w.count - 1 - i : i;
            w.threads[t].fiber = w.fiber;
            w.threads[t].state = READY;
            place(w, t);
            w.entry(&w, w.params);
            w.threads[w.running].state = DONE;
            w.live--;
        }
        w.idle.push_back(w.fiber);
        to_scheduler(w);
    }
}

static Fiber *take_fiber(Worker &w) {
    if (!w.idle.empty()) {
        Fiber *f = w.idle.back();
        w.idle.pop_back();
        return f;
    }
    {
        std::lock_guard<std::mutex> held(stash_lock());
        if (!stash().empty()) {
            Fiber *f = stash().back();
            stash().pop_back();
            return f;
        }
    }
    auto *f = new Fiber;
    f->stack = static_cast<char *>(map_memory(STACK));
    if (!f->stack) return nullptr;
    // Stacks begin at different places of a page, lest they compete for the same lines of the cache.
    static std::atomic<unsigned> made{0};
    f->sp = first_frame(f->stack + STACK - 320 * (made++ % 12), fiber_main);
    return f;
}

static void resume(Worker &w, Fiber *f) {
    w.fiber = f;
    sim_switch(&w.scheduler, f->sp);
}

static void wait_here(Worker &w, State state, int site) {
    Thread &t = w.threads[w.running];
    t.state = state;
    t.site = site;
    to_scheduler(w);
}

static int line_of(int site) { return site & 0xffff; }

static void fail(Worker &w, Status why) {
    if (!w.fault) w.fault = why;
}

// ---- what kernels call (through the table of runtime.h)

static int at_barrier(void *worker, int site, int kind, int predicate) {
    auto &w = *static_cast<Worker *>(worker);
    w.threads[w.running].kind = kind;
    w.threads[w.running].value = predicate != 0;
    unsigned me = w.running;
    wait_here(w, BARRIER, site);
    return int(w.threads[me].result);
}

static uint64_t in_warp(void *worker, int site, int kind, unsigned mask, uint64_t value, int lane, int width) {
    auto &w = *static_cast<Worker *>(worker);
    unsigned me = w.running;
    Thread &t = w.threads[me];
    t.kind = kind;
    t.mask = mask;
    t.value = value;
    t.lane = lane;
    t.width = width;
    wait_here(w, WARP, site);
    return w.threads[me].result;
}

static void trap(void *worker, const char *text) {
    auto &w = *static_cast<Worker *>(worker);
    complain("kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", w.name, w.seen.block[0], w.seen.block[1],
             w.seen.block[2], w.seen.thread[0], w.seen.thread[1], w.seen.thread[2], text);
    fail(w, LAUNCH_FAILED);
    to_scheduler(w);
}

const void *runtime_table() {
    static const SimRuntime table = {at_barrier, in_warp, trap};
    return &table;
}

// ---- the scheduler

static int source_lane(const Thread &t, int lane, int width) {
    int base = lane / width * width, in = lane - base, from = lane;
    switch (t.kind) {
    case SIM_SHUFFLE: from = base + (t.lane & (width - 1)); break;
    case SIM_SHUFFLE_XOR: from = lane ^ t.lane; if (from >= base + width) from = lane; break;
    case SIM_SHUFFLE_DOWN: from = in + t.lane < width ? lane + t.lane : lane; break;
    case SIM_SHUFFLE_UP: from = in - t.lane >= 0 ? lane - t.lane : lane; break;
    }
    return from;
}

// Lets the lanes of a warp go on if all that are named by their mask have come. False: not yet.
static bool release_warp(Worker &w, unsigned warp) {
    unsigned first = warp * 32, lanes = std::min(32u, w.count - first);
    unsigned exist = lanes == 32 ? ~0u : (1u << lanes) - 1, waiting = 0;
    for (unsigned i = 0; i < lanes; i++)
        if (w.threads[first + i].state == WARP) waiting |= 1u << i;
    bool any = false;
    for (unsigned i = 0; i < lanes; i++) {
        const Thread &t = w.threads[first + i];
        if (t.state != WARP) continue;
        unsigned mask = t.mask & exist;
        if (!(mask >> i & 1)) {
            complain("kernel %s, line %d: lane %u is outside its own mask", w.name, line_of(t.site), i);
            fail(w, LAUNCH_FAILED);
            return false;
        }
        if ((waiting & mask) != mask) continue;
        uint64_t ballot = 0;
        bool agree = true;
        for (unsigned j = 0; j < lanes; j++)
            if (mask >> j & 1) {
                const Thread &o = w.threads[first + j];
                agree = agree && o.site == t.site && o.kind == t.kind && (o.mask & exist) == mask;
                ballot |= uint64_t(o.value != 0) << j;
            }
        if (!agree) {
            complain("kernel %s: lanes of a warp meet at different exchanges (line %d and another)", w.name, line_of(t.site));
            fail(w, LAUNCH_FAILED);
            return false;
        }
        for (unsigned j = 0; j < lanes; j++) {
            if (!(mask >> j & 1)) continue;
            Thread &o = w.threads[first + j];
            if (o.kind == SIM_BALLOT) { o.result = ballot; continue; }
            if (o.kind == SIM_SYNCWARP) continue;
            int from = source_lane(o, int(j), o.width);
            if (from < 0 || unsigned(from) >= lanes || !(mask >> from & 1)) {
                complain("kernel %s, line %d: lane %u reads lane %d, which takes no part", w.name, line_of(o.site), j, from);
                fail(w, LAUNCH_FAILED);
                return false;
            }
            o.result = w.threads[first + from].value;
        }
        for (unsigned j = 0; j < lanes; j++)
            if (mask >> j & 1) w.threads[first + j].state = READY;
        any = true;
    }
    return any;
}

static bool release_barrier(Worker &w) {
    unsigned waiting = 0, gone = 0, sum = 0;
    int site = 0, other = 0;
    for (Thread &t : w.threads) {
        if (t.state == BARRIER) {
            waiting++;
            sum += unsigned(t.value);
            if (!site) site = t.site;
            else if (t.site != site) other = t.site;
        }
        gone += t.state == DONE;
    }
    if (!waiting) return false;
    if (waiting != w.count || other) {
        if (other) complain("kernel %s: threads of a block wait at different barriers, lines %d and %d", w.name, line_of(site),
                            line_of(other));
        else if (waiting + gone == w.count) complain("kernel %s, line %d: %u threads of %u have returned before the barrier", w.name,
                                                  line_of(site), gone, w.count);
        else complain("kernel %s, line %d: some threads wait at a barrier, others for lanes of their warp", w.name, line_of(site));
        fail(w, LAUNCH_FAILED);
        return false;
    }
    for (Thread &t : w.threads) {
        t.state = READY;
        t.result = t.kind == SIM_COUNT ? sum : t.kind == SIM_AND ? sum == w.count : sum != 0;
    }
    return true;
}

static void run_ready(Worker &w, unsigned warp) {
    unsigned first = warp * 32, lanes = std::min(32u, w.count - first);
    for (unsigned i = 0; i < lanes && !w.fault; i++) {
        unsigned t = first + (w.descending ? lanes - 1 - i : i);
        if (w.threads[t].state != READY) continue;
        place(w, t);
        resume(w, w.threads[t].fiber);
    }
}

// Lanes that wait for lanes which have come to something else: nobody can let them go.
static void stuck(Worker &w) {
    for (unsigned t = 0; t < w.count; t++)
        if (w.threads[t].state == WARP) {
            complain("kernel %s, line %d: lanes of a warp are missing at an exchange (thread %u waits)", w.name, line_of(w.threads[t].site), t);
            break;
        }
    fail(w, LAUNCH_FAILED);
}

static void run_block(Worker &w) {
    w.threads.assign(w.count, Thread{});
    w.started = 0;
    w.live = w.count;
    while (w.started < w.count && !w.fault) {
        Fiber *f = take_fiber(w);
        if (!f) { complain("no memory for the stacks of kernel %s", w.name); fail(w, LAUNCH_OUT_OF_RESOURCES); return; }
        resume(w, f);
    }
    unsigned warps = (w.count + 31) / 32;
    while (w.live && !w.fault) {
        bool moved = false;
        for (unsigned i = 0; i < warps && !w.fault; i++) {
            unsigned warp = w.descending ? warps - 1 - i : i;
            run_ready(w, warp);
            while (!w.fault && release_warp(w, warp)) run_ready(w, warp), moved = true;
        }
        if (!w.live || w.fault) break;
        if (release_barrier(w)) continue;
        if (!w.fault && !moved) stuck(w);
    }
    if (w.fault) { // the fibers of unfinished threads are abandoned where they stand
        for (Thread &t : w.threads) if (t.fiber && t.state != DONE) t.fiber = nullptr;
    }
}

// ---- faults of the processor inside a kernel

static struct sigaction before_us[2];

extern "C" void sim_fault_landing() {
    Worker &w = *here;
    complain("kernel %s, block (%u, %u, %u), thread (%u, %u, %u): memory access out of bounds at %p", w.name,
             w.seen.block[0], w.seen.block[1], w.seen.block[2], w.seen.thread[0], w.seen.thread[1], w.seen.thread[2], w.fault_address);
    fail(w, ILLEGAL_ADDRESS);
    to_scheduler(w);
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    Worker *w = here;
    if (!w || !w->fiber) {
        const struct sigaction &old = before_us[signal == SIGBUS];
        if (old.sa_flags & SA_SIGINFO) return old.sa_sigaction(signal, info, context);
        sigaction(signal, &old, nullptr);
        return;
    }
    w->fault_address = info->si_addr;
    auto *c = static_cast<ucontext_t *>(context);
    auto top = uintptr_t(w->spare_stack + STACK) - 64;
#if defined(__x86_64__)
    c->uc_mcontext.gregs[REG_RSP] = greg_t(top - 8);
    c->uc_mcontext.gregs[REG_RIP] = greg_t(uintptr_t(&sim_fault_landing));
#else
    c->uc_mcontext.sp = top;
    c->uc_mcontext.pc = uintptr_t(&sim_fault_landing);
#endif
}

static void watch_faults(Worker &w) {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction ours = {};
        ours.sa_sigaction = on_fault;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &ours, &before_us[0]);
        sigaction(SIGBUS, &ours, &before_us[1]);
    });
    w.spare_stack = static_cast<char *>(map_memory(STACK));
    stack_t now = {};
    if (sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE)) {
        stack_t alternate = {};
        alternate.ss_sp = map_memory(64 << 10);
        alternate.ss_size = 64 << 10;
        sigaltstack(&alternate, nullptr);
    }
}

static Worker &my_worker() {
    if (!here) {
        here = seat.w = new Worker;
        watch_faults(*here);
    }
    return *here;
}

// ---- OS threads

struct Team {
    std::mutex m;
    std::condition_variable wake, done;
    const std::function<void(size_t)> *piece = nullptr;
    std::atomic<size_t> next{0};
    size_t pieces = 0, helpers = 0, busy = 0;
    uint64_t round = 0;
};

static void work(Team &t, const std::function<void(size_t)> &piece, size_t pieces) {
    for (size_t i; (i = t.next.fetch_add(1)) < pieces;) piece(i);
}

static Team &team() {
    static Team *t = [] {
        auto *t = new Team;
        long cores = std::max(1u, std::thread::hardware_concurrency());
        long workers = std::max(1l, env("PLIMSOLL_SIM_WORKERS", std::min(8l, cores)));
        t->helpers = size_t(workers - 1);
        for (size_t i = 0; i < t->helpers; i++)
            std::thread([t] {
                uint64_t seen = 0;
                std::unique_lock<std::mutex> held(t->m);
                for (;;) {
                    t->wake.wait(held, [&] { return t->round != seen; });
                    seen = t->round;
                    auto piece = t->piece;
                    size_t pieces = t->pieces;
                    held.unlock();
                    work(*t, *piece, pieces);
                    held.lock();
                    if (--t->busy == 0) t->done.notify_all();
                }
            }).detach();
        return t;
    }();
    return *t;
}

// All pieces, in any order, on any of the OS threads; returns when they are done. Called under the big lock.
void in_parallel(size_t pieces, const std::function<void(size_t)> &piece) {
    Team &t = team();
    if (pieces <= 1 || t.helpers == 0) {
        for (size_t i = 0; i < pieces; i++) piece(i);
        return;
    }
    {
        std::lock_guard<std::mutex> held(t.m);
        t.piece = &piece;
        t.pieces = pieces;
        t.next = 0;
        t.busy = t.helpers;
        t.round++;
    }
    t.wake.notify_all();
    work(t, piece, pieces);
    std::unique_lock<std::mutex> held(t.m);
    t.done.wait(held, [&] { return t.busy == 0; });
}

// Where this OS thread keeps the thread-local memory of a library, and how much of it there is.
static std::pair<void *, size_t> find_shared(void *library) {
    struct link_map *map = nullptr;
    void *data = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) || dlinfo(library, RTLD_DI_TLS_DATA, &data) || !data) return {nullptr, 0};
    struct Find { uintptr_t base; size_t bytes; } find = {map->l_addr, 0};
    dl_iterate_phdr([](struct dl_phdr_info *info, size_t, void *arg) {
        auto *f = static_cast<Find *>(arg);
        if (info->dlpi_addr != f->base) return 0;
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_type == PT_TLS) f->bytes = info->dlpi_phdr[i].p_memsz;
        return 1;
    }, &find);
    return {data, find.bytes};
}

static std::pair<void *, size_t> shared_memory(Worker &w, const Code &code) {
    auto it = w.shared.find(code.id);
    if (it != w.shared.end()) return it->second;
    code.touch(); // makes this OS thread's copy
    return w.shared[code.id] = find_shared(code.library);
}

Status run_grid(const Grid &g, const Code &code, Entry entry, void **params, const char *name) {
    size_t blocks = size_t(g.grid[0]) * g.grid[1] * g.grid[2];
    unsigned count = g.block[0] * g.block[1] * g.block[2];
    std::atomic<int> fault{OK};
    size_t pieces = blocks * count < 4096 ? 1 : std::min<size_t>(blocks, 64);
    in_parallel(pieces, [&](size_t piece) {
        Worker &w = my_worker();
        w.grid = &g;
        w.entry = entry;
        w.params = params;
        w.name = name;
        w.count = count;
        memcpy(w.seen.grid_size, g.grid, sizeof g.grid);
        memcpy(w.seen.block_size, g.block, sizeof g.block);
        auto [shared, shared_bytes] = shared_memory(w, code);
        for (size_t b = blocks * piece / pieces; b < blocks * (piece + 1) / pieces && !fault; b++) {
            w.seen.block[0] = unsigned(b % g.grid[0]);
            w.seen.block[1] = unsigned(b / g.grid[0] % g.grid[1]);
            w.seen.block[2] = unsigned(b / g.grid[0] / g.grid[1]);
            w.descending = b % 2;
            if (shared) memset(shared, 0xFF, shared_bytes);
            w.fault = OK;
            run_block(w);
            w.fiber = nullptr;
            if (w.fault) fault = w.fault;
        }
    });
    return Status(fault.load());
}

} // namespace sim

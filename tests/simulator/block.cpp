// One block: its threads are fibers on one OS thread. A fiber runs threads one after another until one has to wait (a
// barrier or an exchange within a warp); then the next fiber goes on with the threads not yet started. So a kernel without
// barriers costs a call a thread.
//
// Diagnosed, and LAUNCH_FAILED: a barrier that some threads of the block never reach or reach at another line; an exchange
// within a warp that some lanes never reach, or that asks a lane outside its mask. (A card newer than 2017 lets threads that
// have returned miss a barrier; older ones and a careful reader do not.) Threads go in ascending order in blocks of even
// index and in descending order in the others, so that a missing barrier shows in one of them.
#include "worker.h"
#include <algorithm>
#include <atomic>

namespace sim {

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
Worker *this_worker() { return here; }
Worker *make_worker() { return here = seat.w = new Worker; }

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

void to_scheduler(Worker &w) {
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

void fail(Worker &w, Status why) {
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

void run_block(Worker &w) {
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

} // namespace sim

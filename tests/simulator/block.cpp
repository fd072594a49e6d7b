// One block: its threads are fibers on one OS thread. A fiber runs threads one after another until one has to wait (a
// barrier or an exchange within a warp); then the next fiber goes on with the threads not yet started. So a kernel without
// barriers costs a call a thread. Who waits goes straight to the next that can run, its own warp first; who comes last lets
// the others go and goes on itself.
//
// Diagnosed, and LAUNCH_FAILED: a barrier that some threads of the block never reach or reach at another line; an exchange
// within a warp that some lanes never reach, or that asks a lane outside its mask. (Cards since 2017 let threads that have
// returned miss a barrier; the simulation does not.) Threads go in ascending order in blocks of even index and in descending
// order in the others, so that a missing barrier shows in one of them.
#include "worker.h"
#include <algorithm>

namespace sim {

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

static unsigned order(const Worker &w, unsigned i) { return w.descending ? w.count - 1 - i : i; }
static unsigned first_of(const Worker &w, unsigned bits) {
    return unsigned(w.descending ? 31 - __builtin_clz(bits) : __builtin_ctz(bits));
}
static unsigned lanes_of(const Worker &w, unsigned warp) {
    unsigned lanes = std::min(32u, w.count - warp * 32);
    return lanes == 32 ? ~0u : (1u << lanes) - 1;
}

// ---- from one to the next

static void switch_to(Worker &w, Fiber *f) {
    void **from = w.fiber ? &w.fiber->sp : &w.scheduler;
    w.fiber = f;
    sim_switch(from, f->sp);
}

void to_scheduler(Worker &w) {
    Fiber *f = w.fiber;
    w.fiber = nullptr;
    sim_switch(&f->sp, w.scheduler);
}

// To a lane of this warp that may go on. False: there is none.
static bool resume_lane(Worker &w, unsigned warp) {
    unsigned bits = w.ready[warp];
    if (!bits) return false;
    unsigned lane = first_of(w, bits), t = warp * 32 + lane;
    if (!(w.ready[warp] &= ~(1u << lane))) w.ready_warps &= ~(1u << warp);
    w.threads[t].state = READY;
    place(w, t);
    switch_to(w, w.threads[t].fiber);
    return true;
}

// To a lane of any warp. False: no lane can go on.
static bool resume_any(Worker &w) { return w.ready_warps && resume_lane(w, first_of(w, w.ready_warps)); }

static void make_ready(Worker &w, unsigned warp, unsigned lanes) {
    if (!lanes) return;
    w.ready[warp] |= lanes;
    w.ready_warps |= 1u << warp;
}

// Not inlined: a fiber may go on on another OS thread, which has another worker.
static __attribute__((noinline)) Worker &whose() {
    asm volatile("");
    return *this_worker();
}

// A fiber's life: threads not yet started, one after another. After each, those of its warp that can go on; in the end it
// is idle.
static void fiber_main() {
    for (;;) {
        Worker &w = whose();
        bool is_idle = false;
        while (!is_idle && w.started < w.count) {
            unsigned t = order(w, w.started++);
            w.threads[t].fiber = w.fiber;
            w.threads[t].state = READY;
            place(w, t);
            w.entry(&w, w.params);
            w.threads[w.running].state = DONE;
            w.live--;
            is_idle = w.ready[w.running / 32] != 0;
        }
        w.idle.push_back(w.fiber);
        if (!resume_lane(w, w.running / 32) && !resume_any(w)) to_scheduler(w);
    }
}

// What a thread does that has to wait.
static void pass_on(Worker &w) {
    if (resume_lane(w, w.running / 32)) return;
    if (w.started < w.count) {
        if (Fiber *f = take_fiber(w, fiber_main)) return switch_to(w, f);
        complain("no memory for the stacks of kernel %s", w.name);
        fail(w, LAUNCH_OUT_OF_RESOURCES);
    } else if (resume_any(w)) {
        return;
    }
    to_scheduler(w);
}

static int line_of(int site) { return site & 0xffff; }

void fail(Worker &w, Status why) {
    if (!w.fault) w.fault = why;
}

// Ends the launch from within a thread; the fibers of unfinished threads are abandoned where they stand.
static void give_up(Worker &w) {
    fail(w, LAUNCH_FAILED);
    to_scheduler(w);
}

// ---- what kernels call (through the table of runtime.h)

static void release_barrier(Worker &w, int site) {
    for (const Thread &t : w.threads)
        if (t.site != site) {
            complain("kernel %s: threads of a block wait at different barriers, lines %d and %d", w.name, line_of(site), line_of(t.site));
            return give_up(w);
        }
    w.decided = w.votes;
    w.at_barrier = w.votes = 0;
    for (unsigned warp = 0; warp * 32 < w.count; warp++) make_ready(w, warp, lanes_of(w, warp));
    unsigned me = w.running;
    if (!(w.ready[me / 32] &= ~(1u << me % 32))) w.ready_warps &= ~(1u << me / 32);
    w.threads[me].state = READY;
}

static int at_barrier(void *worker, int site, int kind, int predicate) {
    auto &w = *static_cast<Worker *>(worker);
    Thread &t = w.threads[w.running];
    t.state = BARRIER;
    t.site = site;
    w.votes += predicate != 0;
    if (++w.at_barrier == w.count) release_barrier(w, site);
    else pass_on(w);
    return kind == SIM_COUNT ? int(w.decided) : kind == SIM_AND ? w.decided == w.count : w.decided != 0;
}

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

// All lanes of the mask have come: what each gets. False: they do not agree.
static bool exchange(Worker &w, unsigned first, unsigned mask, const Thread &t) {
    uint64_t ballot = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        const Thread &o = w.threads[first + unsigned(__builtin_ctz(rest))];
        if (o.site != t.site || o.mask != t.mask) {
            complain("kernel %s: lanes of a warp meet at different exchanges, lines %d and %d", w.name, line_of(t.site), line_of(o.site));
            return false;
        }
        ballot |= uint64_t(o.value != 0) << __builtin_ctz(rest);
    }
    if (t.kind == SIM_SYNCWARP) return true;
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned lane = unsigned(__builtin_ctz(rest));
        Thread &o = w.threads[first + lane];
        if (o.kind == SIM_BALLOT) {
            o.result = ballot;
            continue;
        }
        int from = source_lane(o, int(lane), o.width);
        if (unsigned(from) >= 32 || !(mask >> from & 1)) {
            complain("kernel %s, line %d: lane %u reads lane %d, which takes no part", w.name, line_of(o.site), lane, from);
            return false;
        }
        o.result = w.threads[first + unsigned(from)].value;
    }
    return true;
}

static uint64_t in_warp(void *worker, int site, int kind, unsigned mask, uint64_t value, int lane, int width) {
    auto &w = *static_cast<Worker *>(worker);
    unsigned warp = w.running / 32, me = 1u << w.running % 32, needed = mask & lanes_of(w, warp);
    Thread &t = w.threads[w.running];
    t.state = WARP;
    t.site = site;
    t.kind = kind;
    t.mask = mask;
    t.value = value;
    t.lane = lane;
    t.width = width;
    w.waiting[warp] |= me;
    if (!(mask & me)) {
        complain("kernel %s, line %d: a lane is outside its own mask", w.name, line_of(site));
        give_up(w);
    } else if ((w.waiting[warp] & needed) != needed) {
        pass_on(w);
    } else {
        if (!exchange(w, warp * 32, needed, t)) give_up(w);
        w.waiting[warp] &= ~needed;
        make_ready(w, warp, needed & ~me);
        t.state = READY;
    }
    return t.result;
}

static void trap(void *worker, const char *text) {
    auto &w = *static_cast<Worker *>(worker);
    complain("kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", w.name, w.seen.block[0], w.seen.block[1],
             w.seen.block[2], w.seen.thread[0], w.seen.thread[1], w.seen.thread[2], text);
    give_up(w);
}

const void *runtime_table() {
    static const SimRuntime table = {at_barrier, in_warp, trap};
    return &table;
}

// ---- the block

// No lane can go on: why.
static void explain(Worker &w) {
    unsigned gone = 0, line = 0, lane_line = 0;
    for (const Thread &t : w.threads) {
        gone += t.state == DONE;
        if (t.state == BARRIER) line = unsigned(line_of(t.site));
        if (t.state == WARP) lane_line = unsigned(line_of(t.site));
    }
    if (lane_line && line)
        complain("kernel %s: some threads wait at the barrier of line %u, others for lanes of their warp in line %u", w.name,
                 line, lane_line);
    else if (lane_line) complain("kernel %s, line %u: lanes of a warp are missing at an exchange", w.name, lane_line);
    else complain("kernel %s, line %u: %u threads of %u have returned before the barrier", w.name, line, gone, w.count);
    fail(w, LAUNCH_FAILED);
}

void run_block(Worker &w) {
    w.threads.assign(w.count, Thread{});
    w.started = 0;
    w.live = w.count;
    w.at_barrier = w.votes = w.ready_warps = 0;
    std::fill_n(w.ready, 32, 0u);
    std::fill_n(w.waiting, 32, 0u);
    w.fiber = nullptr;
    Fiber *f = take_fiber(w, fiber_main);
    if (!f) {
        complain("no memory for the stacks of kernel %s", w.name);
        return fail(w, LAUNCH_OUT_OF_RESOURCES);
    }
    switch_to(w, f);
    if (w.live && !w.fault) explain(w);
}

} // namespace sim

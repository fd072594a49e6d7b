// Fibers and the threads of a block, shared by fiber.cpp, block.cpp and launch.cpp.
#pragma once
#include "runtime.h"
#include "sim.h"

namespace sim {

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
    unsigned running = 0;            // the thread
    unsigned ready[32] = {}, waiting[32] = {}; // of each warp: lanes that may go on; lanes at an exchange
    unsigned ready_warps = 0;
    unsigned at_barrier = 0, votes = 0, decided = 0;
    bool descending = false;
    void *scheduler = nullptr;       // its stack pointer while a fiber runs
    Fiber *fiber = nullptr;
    const Grid *grid = nullptr;
    Entry entry = nullptr;
    void **params = nullptr;
    const char *name = "";
    Status fault = OK;
    void *fault_address = nullptr;
    char *spare_stack = nullptr;
    std::map<uint64_t, std::pair<void *, size_t>> shared; // by code: this OS thread's shared memory of it
};

// fiber.cpp: saves what a function may not change, stores the stack pointer in *from, goes on at `to`.
extern "C" void sim_switch(void **from, void *to);
Fiber *take_fiber(Worker &w, void (*main)()); // none: no memory
Worker *this_worker();                   // of this OS thread, or none
Worker *make_worker();

// block.cpp
void fail(Worker &w, Status why);
void to_scheduler(Worker &w);            // leaves the fiber where it stands
void run_block(Worker &w);

} // namespace sim

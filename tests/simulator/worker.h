// Fibers and the threads of a block, shared by switch.cpp, block.cpp and launch.cpp.
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
    unsigned running = 0;
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

// switch.cpp: saves what a function may not change, stores the stack pointer in *from, goes on at `to`.
extern "C" void sim_switch(void **from, void *to);
void *first_frame(char *top, void (*go)());

// block.cpp
Worker *this_worker();                   // of this OS thread, or none
Worker *make_worker();
void fail(Worker &w, Status why);
void to_scheduler(Worker &w);            // leaves the fiber where it stands
void run_block(Worker &w);

} // namespace sim

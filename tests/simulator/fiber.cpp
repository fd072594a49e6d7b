// Fibers: stacks that outlive the OS thread that made them, and the way from one to another: what a function may not change
// is saved on the old stack and loaded from the new.
#include "worker.h"
#include <atomic>
#include <cstring>
#if !defined(__x86_64__) && !defined(__aarch64__)
#error "fibers are written for x86-64 and aarch64"
#endif

namespace sim {

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
void *first_frame(char *top, void (*go)()) {
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
void *first_frame(char *top, void (*go)()) {
    auto **sp = reinterpret_cast<void **>(top - 160);
    memset(sp, 0, 160);
    sp[11] = reinterpret_cast<void *>(go);
    return sp;
}
#endif

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

Fiber *take_fiber(Worker &w, void (*main)()) {
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
    f->sp = first_frame(f->stack + STACK - 320 * (made++ % 12), main);
    return f;
}

} // namespace sim

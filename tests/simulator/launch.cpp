// A launch: blocks spread over OS threads. A fault of the processor inside a kernel is named and becomes ILLEGAL_ADDRESS.
// Shared memory is thread-local memory of the OS thread, filled with 0xFF before each block.
#include "worker.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <thread>

namespace sim {

// ---- faults of the processor inside a kernel

static struct sigaction before_us[2];

extern "C" void sim_fault_landing() {
    Worker &w = *this_worker();
    complain("kernel %s, block (%u, %u, %u), thread (%u, %u, %u): memory access out of bounds at %p", w.name,
             w.seen.block[0], w.seen.block[1], w.seen.block[2], w.seen.thread[0], w.seen.thread[1], w.seen.thread[2], w.fault_address);
    fail(w, ILLEGAL_ADDRESS);
    to_scheduler(w);
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    Worker *w = this_worker();
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
    if (!this_worker()) watch_faults(*make_worker());
    return *this_worker();
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

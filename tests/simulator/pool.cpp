// Memory pools (the stream-ordered allocator). A pool holds segments of the card and gives pieces of them.
//
// What is documented and kept (CUDA Programming Guide, "Stream-Ordered Memory Allocator"; Driver API,
// CUmemPool_attribute): memory freed in a stream may be given again in that stream at once; to another stream when the
// free has run, or after a wait that the pool inserts when it cannot grow; what is held above the release threshold goes
// back at the next synchronisation; the high-water marks can only be set to 0, which sets them to the present value.
// What is only a model: pieces are multiples of 512 bytes; segments are 32 MiB, or the request rounded up to 2 MiB where
// that is larger; best fit; neighbours that are free join; a segment goes back whole; `maxSize` bounds what is reserved,
// to the byte. (The driver can map scattered pages together; this pool cannot, so it refuses rather more.)
//
// Where programs have seen drivers behave otherwise, that is a switch (manners.h).
//
// Memory that was never written holds bytes 0xFF, which is a NaN in every float type.
#include "manners.h"
#include "sim.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unordered_set>

namespace sim {

static constexpr size_t GRANULE = 512, SEGMENT = 32 * MIB;

struct Free {
    size_t bytes;
    std::vector<std::pair<Stream *, uint64_t>> after; // frees that must have run before another stream may have it
    bool filled;                                      // 0xFF throughout, once those frees have run
};

struct Pool {
    int device = 0;
    size_t max_bytes = SIZE_MAX;                      // of what is reserved
    uint64_t threshold = 0;
    bool is_destroyed = false;                        // its handle is no longer one
    int reuse[4] = {0, 1, 1, 1};
    size_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
    std::map<uintptr_t, size_t> segments;
    std::map<uintptr_t, Free> free;
    uintptr_t range = 0, top = 0;                     // where segments join: addresses, and those not yet used
};

static std::unordered_set<Pool *> &pools() { static auto *s = new std::unordered_set<Pool *>; return *s; }

size_t Device::reserved() const {
    size_t sum = 0;
    for (Pool *p : pools) sum += p->reserved;
    return sum;
}

static void prune(Free &f) {
    auto done = [](auto &x) { return x.first->executed >= x.second; };
    f.after.erase(std::remove_if(f.after.begin(), f.after.end(), done), f.after.end());
}

// Smallest piece that is large enough; among them the lowest. `any`: also what other streams are not done with.
static uintptr_t best_fit(Pool &p, size_t bytes, Stream *s, bool any) {
    uintptr_t best = 0;
    size_t best_bytes = SIZE_MAX;
    for (auto &[at, f] : p.free) {
        if (f.bytes < bytes || f.bytes >= best_bytes) continue;
        prune(f);
        bool mine = std::all_of(f.after.begin(), f.after.end(), [s](auto &x) { return x.first == s; });
        if (mine || any) best = at, best_bytes = f.bytes;
    }
    return best;
}

// Segments that join lie in one range, which is large enough for every growth of a test.
static constexpr size_t RANGE = size_t(1) << 40;

static size_t free_at_top(Pool &p) {
    auto last = p.free.empty() ? p.free.end() : std::prev(p.free.end());
    return last != p.free.end() && last->first + last->second.bytes == p.top ? last->second.bytes : 0;
}

static void put_back(Pool &p, uintptr_t at, Free f);

static void *map_segment(Pool &p, size_t bytes) {
    if (!manners().joins) return map_memory(bytes);
    if (!p.range) {
        void *range = mmap(nullptr, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) return nullptr;
        p.range = p.top = uintptr_t(range);
    }
    if (p.top + bytes > p.range + RANGE) return nullptr;
    void *at = reinterpret_cast<void *>(p.top);
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE)) return nullptr;
    p.top += bytes;
    return at;
}

static void unmap_segment(Pool &p, uintptr_t at, size_t bytes) {
    if (!manners().joins) return unmap_memory(reinterpret_cast<void *>(at), bytes);
    mmap(reinterpret_cast<void *>(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at + bytes == p.top) p.top = at;
}

static bool grow(Pool &p, size_t bytes) {
    // A segment that joins has to be as large as what the free memory before it lacks.
    size_t lacks = manners().joins ? bytes - std::min(bytes, free_at_top(p)) : bytes;
    size_t segment = lacks <= SEGMENT ? SEGMENT : round_up(lacks, manners().step);
    Device &d = devices()[p.device];
    size_t left = p.max_bytes - std::min(p.max_bytes, p.reserved);
    if (segment > left && manners().limit == Limit::FITS) segment = left / LARGE * LARGE;
    if (segment > left || segment < lacks) return false;
    if (!card_has_room(d, segment)) return false;
    void *at = map_segment(p, segment);
    if (!at) return false;
    p.segments[uintptr_t(at)] = segment;
    put_back(p, uintptr_t(at), Free{segment, {}, false});
    p.reserved += segment;
    p.reserved_high = std::max(p.reserved_high, p.reserved);
    return true;
}

static bool guarded() { static bool on = env("PLIMSOLL_SIM_GUARD", 0) != 0; return on; }

static void enqueue_fill(Stream *s, const char *name, uintptr_t at, size_t bytes) {
    enqueue(s, name, [=] { memset(reinterpret_cast<void *>(at), 0xFF, bytes); return OK; });
}

// Memory of its own that ends where a page faults; the pool keeps the account as if it were its piece.
static void *guard_page_after(size_t asked, Block block) {
    auto *pages = static_cast<char *>(map_memory(asked));
    if (!pages) return nullptr;
    uintptr_t at = uintptr_t(pages) + round_up(asked, 4096) - block.bytes;
    live()[at] = block;
    memset(reinterpret_cast<void *>(at), 0xFF, block.bytes);
    return reinterpret_cast<void *>(at);
}

static Status allocate(Pool &p, size_t asked, Stream *s, void **out) {
    if (asked == 0) return INVALID_VALUE;
    if (injected_failure()) return OUT_OF_MEMORY;
    size_t bytes = round_up(asked, GRANULE);
    uintptr_t at = best_fit(p, bytes, s, false);
    if (!at && grow(p, bytes)) at = best_fit(p, bytes, s, false);
    if (!at && p.reuse[3]) at = best_fit(p, bytes, s, true);
    if (!at) return OUT_OF_MEMORY;
    Free f = std::move(p.free[at]);
    p.free.erase(at);
    prune(f);
    for (auto &[on, upto] : f.after) enqueue_wait(s, on, upto);
    if (f.bytes > bytes) p.free[at + bytes] = Free{f.bytes - bytes, f.after, f.filled};
    size_t counted = manners().counts_requests ? asked : bytes;
    p.used += counted;
    p.used_high = std::max(p.used_high, p.used);
    if (guarded()) {
        *out = guard_page_after(asked, Block{round_up(asked, 16), &p, p.device, at, bytes, counted});
        return *out ? OK : OUT_OF_MEMORY;
    }
    live()[at] = Block{bytes, &p, p.device, at, bytes, counted};
    // At once where no work queued can know this memory, so that other streams see it too.
    if (!f.filled && f.after.empty()) memset(reinterpret_cast<void *>(at), 0xFF, bytes);
    else if (!f.filled) enqueue_fill(s, "fill new memory", at, bytes);
    *out = reinterpret_cast<void *>(at);
    return OK;
}

static bool same_segment(Pool &p, uintptr_t a, uintptr_t b) {
    return manners().joins || p.segments.upper_bound(a) == p.segments.upper_bound(b);
}

static void join(Free &into, const Free &other) {
    into.bytes += other.bytes;
    into.filled = into.filled && other.filled;
    for (auto &x : other.after) {
        auto same = std::find_if(into.after.begin(), into.after.end(), [&](auto &y) { return y.first == x.first; });
        if (same == into.after.end()) into.after.push_back(x);
        else same->second = std::max(same->second, x.second);
    }
}

static void put_back(Pool &p, uintptr_t at, Free f) {
    auto next = p.free.lower_bound(at);
    if (next != p.free.end() && next->first == at + f.bytes && same_segment(p, at, next->first)) {
        join(f, next->second);
        next = p.free.erase(next);
    }
    if (next != p.free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second.bytes == at && same_segment(p, before->first, at)) {
            join(before->second, f);
            return;
        }
    }
    p.free[at] = std::move(f);
}

Status free_to_pool(void *ptr, Stream *s) {
    auto it = live().find(uintptr_t(ptr));
    if (it == live().end() || !it->second.pool) {
        complain("cuMemFreeAsync of %p, which is not a live allocation", ptr);
        return INVALID_VALUE;
    }
    Pool &p = *it->second.pool;
    Block b = it->second;
    live().erase(it);
    p.used -= b.counted;
    if (b.home == uintptr_t(ptr)) {
        enqueue_fill(s, "fill freed memory", b.home, b.bytes);
    } else {
        auto *pages = reinterpret_cast<void *>(uintptr_t(ptr) / 4096 * 4096);
        enqueue(s, "unmap freed memory", [=] { unmap_memory(pages, b.bytes); return OK; });
    }
    put_back(p, b.home, Free{b.home_bytes, {{s, s->enqueued}}, true});
    return OK;
}

// Gives free segments back, highest address first, until no more than `keep` is reserved. A free piece may hold several.
static void trim(Pool &p, size_t keep) {
    std::vector<std::pair<uintptr_t, size_t>> all(p.segments.rbegin(), p.segments.rend());
    for (auto [at, bytes] : all) {
        if (p.reserved <= keep) break;
        auto it = p.free.upper_bound(at);
        if (it == p.free.begin()) continue;
        auto [start, f] = *--it;
        prune(f);
        if (!f.after.empty() || start + f.bytes < at + bytes) continue;
        p.free.erase(it);
        if (start < at) p.free[start] = Free{at - start, {}, f.filled};
        if (size_t rest = start + f.bytes - at - bytes) p.free[at + bytes] = Free{rest, {}, f.filled};
        unmap_segment(p, at, bytes);
        p.segments.erase(at);
        p.reserved -= bytes;
    }
}

void trim_after_sync(Device &d) {
    for (size_t i = 0; i < d.pools.size(); i++) {
        Pool *p = d.pools[i];
        if (p->reserved > p->threshold) trim(*p, p->threshold);
        if (p->is_destroyed && p->used == 0 && p->reserved == 0) {
            d.pools.erase(d.pools.begin() + ptrdiff_t(i--));
            if (p->range) munmap(reinterpret_cast<void *>(p->range), RANGE);
            delete p;
        }
    }
}

// The work that was queued is gone, the filling of what was freed too.
void reset_pools(Device &d) {
    for (Pool *p : d.pools)
        for (auto &[at, f] : p->free) f.after.clear(), f.filled = false;
}

static Pool *make_pool(int dev, size_t max_bytes) {
    auto *p = new Pool;
    p->device = dev;
    if (max_bytes) {
        size_t step = manners().step;
        bool up = manners().limit == Limit::UP, down = manners().limit == Limit::DOWN;
        p->max_bytes = up ? round_up(max_bytes, step) : down ? max_bytes / step * step : max_bytes;
    }
    devices()[dev].pools.push_back(p);
    pools().insert(p);
    return p;
}

static Pool *default_pool(int dev) {
    Device &d = devices()[dev];
    if (!d.default_pool) d.default_pool = make_pool(dev, 0);
    if (!d.pool) d.pool = d.default_pool;
    return d.default_pool;
}

static bool valid(void *pool) { return pools().count(static_cast<Pool *>(pool)) != 0; }
static bool exists(int dev) { return dev >= 0 && size_t(dev) < devices().size(); }

// CUmemPoolProps of CUDA 13.
struct Props {
    int allocation, handles, location, id;
    void *security;
    size_t max_bytes;
    unsigned short usage;
    unsigned char rest[54];
};

} // namespace sim
using namespace sim;

API int cuMemPoolCreate(void **pool, const Props *props) {
    SIM_DEVICE(d);
    if (!props || props->allocation != 1 || props->location != 1 || !exists(props->id)) return INVALID_VALUE;
    for (unsigned char c : props->rest)
        if (c) return INVALID_VALUE;
    *pool = make_pool(props->id, props->max_bytes);
    return OK;
}
// Returns at once. As documented, the memory goes back when all of it is freed and the frees have run.
API int cuMemPoolDestroy(void *pool) {
    SIM_DEVICE(d);
    auto *p = static_cast<Pool *>(pool);
    if (!valid(p) || p == devices()[p->device].default_pool) return INVALID_VALUE;
    Device &owner = devices()[p->device];
    if (p->used) complain("a pool is destroyed while %zu bytes of it are allocated", p->used);
    if (owner.pool == p) owner.pool = owner.default_pool;
    p->is_destroyed = true;
    p->threshold = 0;
    pools().erase(p);
    return OK;
}
API int cuMemPoolTrimTo(void *pool, size_t keep) {
    SIM_DEVICE(d);
    if (!valid(pool)) return INVALID_VALUE;
    trim(*static_cast<Pool *>(pool), keep);
    return OK;
}
API int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
    SIM_DEVICE(d);
    if (!valid(pool)) return INVALID_VALUE;
    auto *p = static_cast<Pool *>(pool);
    auto *n = static_cast<uint64_t *>(value);
    switch (attribute) {
    case 1: case 2: case 3: *static_cast<int *>(value) = p->reuse[attribute]; return OK;
    case 4: *n = p->threshold; return OK;
    case 5: *n = p->reserved; return OK;
    case 6: *n = p->reserved_high; return OK;
    case 7: *n = p->used; return OK;
    case 8: *n = p->used_high; return OK;
    }
    return INVALID_VALUE;
}
API int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
    SIM_DEVICE(d);
    if (!valid(pool)) return INVALID_VALUE;
    auto *p = static_cast<Pool *>(pool);
    auto n = attribute <= 3 ? 0 : *static_cast<uint64_t *>(value);
    switch (attribute) {
    case 1: case 2: case 3: p->reuse[attribute] = *static_cast<int *>(value); return OK;
    case 4: p->threshold = n; return OK;
    case 6: if (n) return INVALID_VALUE; p->reserved_high = p->reserved; return OK;
    case 8: if (n) return INVALID_VALUE; p->used_high = p->used; return OK;
    }
    return INVALID_VALUE;
}
API int cuMemPoolSetAccess(void *pool, const void *, size_t) { Lock lock; return valid(pool) ? OK : INVALID_VALUE; }

API int cuMemAllocFromPoolAsync(void **ptr, size_t bytes, void *pool, void *stream) {
    SIM_DEVICE(d);
    Stream *s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    if (!valid(pool)) return INVALID_VALUE;
    if (Status bad = invalidate(s, CAPTURE_UNSUPPORTED)) return bad;
    return allocate(*static_cast<Pool *>(pool), bytes, s, ptr);
}
API int cuMemAllocAsync(void **ptr, size_t bytes, void *stream) {
    SIM_DEVICE(d);
    default_pool(current_index());
    return cuMemAllocFromPoolAsync(ptr, bytes, d->pool, stream);
}
API int cuMemFreeAsync(void *ptr, void *stream) {
    SIM_DEVICE(d);
    Stream *s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    if (Status bad = invalidate(s, CAPTURE_UNSUPPORTED)) return bad;
    return free_to_pool(ptr, s);
}
API int cuDeviceGetDefaultMemPool(void **pool, int dev) {
    Lock lock;
    if (!exists(dev)) return INVALID_DEVICE;
    *pool = default_pool(dev);
    return OK;
}
API int cuDeviceGetMemPool(void **pool, int dev) {
    Lock lock;
    if (!exists(dev)) return INVALID_DEVICE;
    default_pool(dev);
    *pool = devices()[dev].pool;
    return OK;
}
API int cuDeviceSetMemPool(int dev, void *pool) {
    Lock lock;
    if (!exists(dev)) return INVALID_DEVICE;
    if (!valid(pool) || static_cast<Pool *>(pool)->device != dev) return INVALID_VALUE;
    default_pool(dev);
    devices()[dev].pool = static_cast<Pool *>(pool);
    return OK;
}

// Virtual memory: ranges of addresses, chunks of the card, and chunks mapped into ranges.
//
// What is documented and kept (CUDA Driver API, "Virtual Memory Management"): sizes and addresses are multiples of the
// granularity; a range that has a mapping is not freed, and a mapped address is not mapped again; a mapping is accessible
// once its device was given access; whole mappings are unmapped; a handle may be released while it is mapped, and its memory
// goes back with the last mapping; a pointer has its mapping's start and size as attributes. What is only a model: which
// error a refusal is (INVALID_VALUE; that of a handle that is none is undefined); chunks survive their context, as pools do;
// a chunk has one mapping, from its start to its end (a second one is NOT_SUPPORTED here).
//
// PLIMSOLL_SIM_VIRTUAL=0 is a device without any of it; PLIMSOLL_SIM_VIRTUAL_REFUSES is a driver that fails in one call.
#include "sim.h"
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace sim {

bool has_virtual_memory() { static bool has = env("PLIMSOLL_SIM_VIRTUAL", 1) != 0; return has; }

static bool refuses(const char *what) {
    static const char *told = getenv("PLIMSOLL_SIM_VIRTUAL_REFUSES");
    return told && !strcmp(told, what);
}

static constexpr size_t GRANULARITY = 2 * MIB;
static bool is_whole(size_t n) { return n % GRANULARITY == 0; }

struct Chunk { size_t bytes; int device; bool is_held, is_mapped; };
struct Mapping { size_t bytes; uint64_t handle; bool is_accessible; };

static std::map<uintptr_t, size_t> &ranges() { static auto *m = new std::map<uintptr_t, size_t>; return *m; }
static std::map<uint64_t, Chunk> &chunks() { static auto *m = new std::map<uint64_t, Chunk>; return *m; }
static std::map<uintptr_t, Mapping> &mappings() { static auto *m = new std::map<uintptr_t, Mapping>; return *m; }

// The range that [at, at + bytes) lies in, or none.
static const std::pair<const uintptr_t, size_t> *range_of(uintptr_t at, size_t bytes) {
    auto it = ranges().upper_bound(at);
    if (it == ranges().begin()) return nullptr;
    --it;
    size_t before = at - it->first;
    return before <= it->second && bytes <= it->second - before ? &*it : nullptr;
}

static bool has_mapping(uintptr_t at, size_t bytes) {
    auto it = mappings().lower_bound(at + bytes);
    if (it == mappings().begin()) return false;
    --it;
    return it->first + it->second.bytes > at;
}

// Whether [at, at + bytes) is made of whole mappings, without a gap.
static bool is_whole_mappings(uintptr_t at, size_t bytes) {
    uintptr_t end = at + bytes;
    for (auto it = mappings().find(at); at < end; ++it) {
        if (it == mappings().end() || it->first != at) return false;
        at += it->second.bytes;
    }
    return at == end;
}

// What is only a model: an address of a range where nothing is mapped tells of the range, as programs have seen of its size
// (NVIDIA/DALI, pull request 3064).
Status tell_mapping(uintptr_t at, int attribute, void *told) {
    auto *range = range_of(at, 1);
    if (!range || refuses("tell")) return INVALID_VALUE;
    auto it = mappings().upper_bound(at);
    bool is_mapped = it != mappings().begin() && at - std::prev(it)->first < std::prev(it)->second.bytes;
    if (is_mapped) --it;
    switch (attribute) {
    case 13: *static_cast<bool *>(told) = is_mapped; return OK;
    case 18: *static_cast<size_t *>(told) = is_mapped ? it->second.bytes : range->second; return OK;
    case 19: *static_cast<uintptr_t *>(told) = is_mapped ? it->first : range->first; return OK;
    }
    return NOT_SUPPORTED;
}

// What lies behind each other and is accessible is one allocation to kernels and copies.
static void tell_live(uintptr_t range, size_t bytes) {
    live().erase(live().lower_bound(range), live().lower_bound(range + bytes));
    Block *last = nullptr;
    uintptr_t end = 0;
    auto upto = mappings().lower_bound(range + bytes);
    for (auto it = mappings().lower_bound(range); it != upto; ++it) {
        auto &[at, mapping] = *it;
        if (!mapping.is_accessible) continue;
        if (last && at == end) {
            last->bytes += mapping.bytes;
        } else {
            Block block;
            block.bytes = mapping.bytes;
            block.device = chunks().at(mapping.handle).device;
            block.is_mapped = true;
            last = &(live()[at] = block);
        }
        end = at + mapping.bytes;
    }
}

// The memory of a chunk that nothing names any more goes back to the card.
static void forget(uint64_t handle) {
    Chunk &chunk = chunks().at(handle);
    if (chunk.is_held || chunk.is_mapped) return;
    devices()[chunk.device].chunk_bytes -= chunk.bytes;
    chunks().erase(handle);
}

} // namespace sim
using namespace sim;

// The driver's structures (cuda.h).
struct Location { int type, id; };
struct Properties { int type, handle_types; Location location; void *security; unsigned char flags[8]; };
struct Access { Location location; int flags; };

static Status refused(const Properties *p) {
    bool is_right = p && p->type == 1 && p->handle_types == 0 && p->location.type == 1;
    if (!is_right) return INVALID_VALUE;
    return size_t(p->location.id) < devices().size() ? OK : INVALID_DEVICE;
}

#define SIM_VIRTUAL(d)                                                                                                 \
    SIM_DEVICE(d);                                                                                                     \
    if (!has_virtual_memory()) return NOT_SUPPORTED

API int cuMemGetAllocationGranularity(size_t *granularity, const Properties *properties, int) {
    SIM_VIRTUAL(d);
    if (Status s = refused(properties)) return s;
    *granularity = GRANULARITY;
    return OK;
}

API int cuMemAddressReserve(uintptr_t *at, size_t bytes, size_t alignment, uintptr_t, unsigned long long flags) {
    SIM_VIRTUAL(d);
    bool is_right = bytes && is_whole(bytes) && !(alignment & (alignment - 1)) && alignment <= GRANULARITY && !flags;
    if (!is_right) return INVALID_VALUE;
    if (refuses("reserve")) return OUT_OF_MEMORY; // of addresses
    size_t room = bytes + 2 * GRANULARITY; // a granule before and behind faults
    void *found = mmap(nullptr, room + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) return OUT_OF_MEMORY;
    uintptr_t from = round_up(uintptr_t(found), GRANULARITY), end = uintptr_t(found) + room + GRANULARITY;
    if (from > uintptr_t(found)) munmap(found, from - uintptr_t(found));
    if (end > from + room) munmap(reinterpret_cast<void *>(from + room), end - from - room);
    *at = from + GRANULARITY;
    ranges()[*at] = bytes;
    return OK;
}

API int cuMemAddressFree(uintptr_t at, size_t bytes) {
    SIM_VIRTUAL(d);
    auto it = ranges().find(at);
    if (it == ranges().end() || it->second != bytes || has_mapping(at, bytes)) return INVALID_VALUE;
    munmap(reinterpret_cast<void *>(at - GRANULARITY), bytes + 2 * GRANULARITY);
    ranges().erase(it);
    return OK;
}

API int cuMemCreate(uint64_t *handle, size_t bytes, const Properties *properties, unsigned long long flags) {
    SIM_VIRTUAL(d);
    if (Status s = refused(properties)) return s;
    if (!bytes || !is_whole(bytes) || flags) return INVALID_VALUE;
    if (refuses("create")) return NOT_SUPPORTED;
    if (injected_failure()) return OUT_OF_MEMORY;
    Device &owner = devices()[properties->location.id];
    if (!card_has_room(owner, bytes)) return OUT_OF_MEMORY;
    static uint64_t last = 0;
    owner.chunk_bytes += bytes;
    chunks()[++last] = Chunk{bytes, properties->location.id, true, false};
    *handle = last;
    return OK;
}

API int cuMemRelease(uint64_t handle) {
    SIM_VIRTUAL(d);
    auto it = chunks().find(handle);
    if (it == chunks().end() || !it->second.is_held) return INVALID_VALUE;
    it->second.is_held = false;
    forget(handle);
    return OK;
}

API int cuMemMap(uintptr_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
    SIM_VIRTUAL(d);
    auto it = chunks().find(handle);
    if (it == chunks().end() || !it->second.is_held || offset || flags) return INVALID_VALUE;
    if (!bytes || !is_whole(at) || !is_whole(bytes) || bytes > it->second.bytes) return INVALID_VALUE;
    if (!range_of(at, bytes) || has_mapping(at, bytes)) return INVALID_VALUE;
    if (it->second.is_mapped || bytes != it->second.bytes || refuses("map")) return NOT_SUPPORTED;
    it->second.is_mapped = true;
    mappings()[at] = Mapping{bytes, handle, false};
    return OK;
}

API int cuMemSetAccess(uintptr_t at, size_t bytes, const Access *access, size_t count) {
    SIM_VIRTUAL(d);
    if (!bytes || !access || count != 1 || access->location.type != 1) return INVALID_VALUE;
    if (access->flags != 3 || access->location.id != current_index() || refuses("access")) return NOT_SUPPORTED;
    auto *range = range_of(at, bytes);
    if (!range || !is_whole_mappings(at, bytes)) return INVALID_VALUE;
    for (auto it = mappings().find(at); it != mappings().end() && it->first < at + bytes; ++it) {
        if (it->second.is_accessible) continue;
        auto *memory = reinterpret_cast<void *>(it->first);
        if (mprotect(memory, it->second.bytes, PROT_READ | PROT_WRITE)) return OUT_OF_MEMORY;
        memset(memory, 0xFF, it->second.bytes);
        it->second.is_accessible = true;
    }
    tell_live(range->first, range->second);
    return OK;
}

// Work that is queued and uses the memory then faults: the driver does not wait for it.
API int cuMemUnmap(uintptr_t at, size_t bytes) {
    SIM_VIRTUAL(d);
    auto *range = range_of(at, bytes);
    if (!bytes || !range || !is_whole_mappings(at, bytes)) return INVALID_VALUE;
    mmap(reinterpret_cast<void *>(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (auto it = mappings().find(at); it != mappings().end() && it->first < at + bytes;) {
        uint64_t handle = it->second.handle;
        it = mappings().erase(it);
        chunks().at(handle).is_mapped = false;
        tell_live(range->first, range->second);
        forget(handle);
    }
    return OK;
}

// Memory outside pools, and copies: plain allocations, page-locked host memory, copies and fills. Refuses every copy that
// does not lie within one live allocation (ILLEGAL_ADDRESS, sticky). Copies follow the rules of the driver
// ("API synchronization behavior"): from pageable memory the source is read at the call; from page-locked memory it is
// read when the copy RUNS; to pageable memory the call returns when the copy is done.
#include "sim.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace sim {

std::map<uintptr_t, Block> &live() { static auto *m = new std::map<uintptr_t, Block>; return *m; }
struct Locked { size_t bytes; int device; };
static std::map<uintptr_t, Locked> &page_locked() { static auto *m = new std::map<uintptr_t, Locked>; return *m; }

static const std::pair<const uintptr_t, Block> *block_at(uintptr_t p) {
    auto it = live().upper_bound(p);
    return it == live().begin() ? nullptr : &*std::prev(it);
}

bool is_live(const void *ptr, size_t bytes) {
    auto p = uintptr_t(ptr);
    auto *b = block_at(p);
    return b && p - b->first <= b->second.bytes && bytes <= b->second.bytes - (p - b->first);
}

bool is_device(const void *p) { return is_live(p, 0); }

Status check(Device &d, const void *p, size_t bytes, const char *whose) {
    if (is_live(p, bytes)) return OK;
    complain("%s: [%p, +%zu) does not lie in a live allocation", whose, p, bytes);
    return failed(d, ILLEGAL_ADDRESS);
}

// Pages between pages that fault.
void *map_memory(size_t bytes) {
    size_t pages = round_up(bytes, 4096);
    void *at = mmap(nullptr, pages + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    char *inside = static_cast<char *>(at) + 4096;
    if (mprotect(inside, pages, PROT_READ | PROT_WRITE)) {
        munmap(at, pages + 8192);
        return nullptr;
    }
    return inside;
}

void unmap_memory(void *p, size_t bytes) {
    munmap(static_cast<char *>(p) - 4096, round_up(bytes, 4096) + 8192);
}

template <class M, class F> static void unmap_where(M &blocks, F goes) {
    for (auto it = blocks.begin(); it != blocks.end();) {
        if (goes(it->second)) {
            unmap_memory(reinterpret_cast<void *>(it->first), it->second.bytes);
            it = blocks.erase(it);
        } else ++it;
    }
}

void reset_memory(Device &d) {
    int dev = int(&d - devices().data());
    unmap_where(live(), [dev](const Block &b) { return b.device == dev && !b.pool && !b.is_mapped; });
    unmap_where(page_locked(), [dev](const Locked &l) { return l.device == dev; });
}

bool is_locked_host(const void *p) {
    auto it = page_locked().upper_bound(uintptr_t(p));
    if (it == page_locked().begin()) return false;
    --it;
    return uintptr_t(p) - it->first < it->second.bytes;
}

} // namespace sim
using namespace sim;

#define SIM_STREAM(s, handle)                                                                                          \
    Stream *s = stream_of(handle);                                                                                     \
    if (!s) return INVALID_HANDLE
#define SIM_CHECK(d, p, n)                                                                                             \
    if (Status bad = check(*d, p, n, __func__)) return bad

API int cuMemAlloc_v2(void **ptr, size_t asked) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    if (asked == 0) return INVALID_VALUE;
    if (injected_failure()) return OUT_OF_MEMORY;
    size_t bytes = round_up(asked, 512);
    size_t before = round_up(d->plain_bytes, 2 * MIB), after = round_up(d->plain_bytes + bytes, 2 * MIB);
    if (!card_has_room(*d, after - before)) return OUT_OF_MEMORY;
    void *at = map_memory(bytes);
    if (!at) return OUT_OF_MEMORY;
    memset(at, 0xFF, bytes);
    d->plain_bytes += bytes;
    live()[uintptr_t(at)] = Block{bytes, nullptr, current_index()};
    *ptr = at;
    return OK;
}
// Waits for everything, as the driver does.
API int cuMemFree_v2(void *ptr) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    if (!ptr) return OK;
    auto it = live().find(uintptr_t(ptr));
    if (it == live().end() || it->second.is_mapped) return INVALID_VALUE;
    if (it->second.pool) {
        Status s = free_to_pool(ptr, d->null_stream);
        return s ? s : finish_all(*d);
    }
    Block b = it->second;
    live().erase(it);
    finish_all(*d);
    unmap_memory(ptr, b.bytes);
    devices()[b.device].plain_bytes -= b.bytes;
    return d->fault;
}

API int cuMemHostAlloc(void **ptr, size_t bytes, unsigned) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    if (bytes == 0) return INVALID_VALUE;
    void *at = map_memory(bytes);
    if (!at) return OUT_OF_MEMORY;
    memset(at, 0xFF, bytes);
    page_locked()[uintptr_t(at)] = {bytes, current_index()};
    *ptr = at;
    return OK;
}
API int cuMemAllocHost_v2(void **ptr, size_t bytes) { return cuMemHostAlloc(ptr, bytes, 0); }
API int cuMemHostGetDevicePointer_v2(void **, void *, unsigned) { return NOT_SUPPORTED; }
API int cuMemHostGetFlags(unsigned *flags, void *) { *flags = 0; return OK; }
API int cuMemFreeHost(void *ptr) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    auto it = page_locked().find(uintptr_t(ptr));
    if (it == page_locked().end()) return INVALID_VALUE;
    for (Device &each : devices()) finish_all(each);
    unmap_memory(ptr, it->second.bytes);
    page_locked().erase(it);
    return OK;
}

API int cuMemcpyHtoDAsync_v2(void *dst, const void *src, size_t n, void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (n == 0) return OK;
    SIM_CHECK(d, dst, n);
    if (is_locked_host(src)) {
        enqueue(s, "copy to device, page-locked", [=] { memcpy(dst, src, n); return OK; });
        return OK;
    }
    auto bytes = static_cast<const char *>(src);
    auto staged = std::make_shared<std::vector<char>>(bytes, bytes + n);
    enqueue(s, "copy to device, staged", [=] { memcpy(dst, staged->data(), n); return OK; });
    return OK;
}
API int cuMemcpyHtoD_v2(void *dst, const void *src, size_t n) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    if (n == 0) return OK;
    SIM_CHECK(d, dst, n);
    enqueue(d->null_stream, "copy to device", [=] { memcpy(dst, src, n); return OK; });
    return finish(d->null_stream);
}
API int cuMemcpyDtoHAsync_v2(void *dst, const void *src, size_t n, void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (n == 0) return OK;
    SIM_CHECK(d, src, n);
    // Into pageable memory the call would have to wait.
    if (s->capture && !is_locked_host(dst)) return invalidate(s, CAPTURE_UNSUPPORTED);
    enqueue(s, "copy to host", [=] { memcpy(dst, src, n); return OK; });
    return is_locked_host(dst) ? OK : finish(s);
}
API int cuMemcpyDtoH_v2(void *dst, const void *src, size_t n) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    if (n == 0) return OK;
    SIM_CHECK(d, src, n);
    enqueue(d->null_stream, "copy to host", [=] { memcpy(dst, src, n); return OK; });
    return finish(d->null_stream);
}
API int cuMemcpyDtoDAsync_v2(void *dst, const void *src, size_t n, void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (n == 0) return OK;
    SIM_CHECK(d, dst, n);
    SIM_CHECK(d, src, n);
    enqueue(s, "copy on device", [=] { memmove(dst, src, n); return OK; });
    return OK;
}
API int cuMemcpyDtoD_v2(void *dst, const void *src, size_t n) { return cuMemcpyDtoDAsync_v2(dst, src, n, nullptr); }

API int cuMemsetD8Async(void *dst, unsigned char value, size_t n, void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (n == 0) return OK;
    SIM_CHECK(d, dst, n);
    enqueue(s, "fill", [=] { memset(dst, value, n); return OK; });
    return OK;
}
API int cuMemsetD8_v2(void *dst, unsigned char value, size_t n) { return cuMemsetD8Async(dst, value, n, nullptr); }
API int cuMemsetD32Async(void *dst, unsigned value, size_t n, void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (n == 0) return OK;
    if (uintptr_t(dst) % 4) return INVALID_VALUE;
    SIM_CHECK(d, dst, n * 4);
    enqueue(s, "fill", [=] { std::fill_n(static_cast<unsigned *>(dst), n, value); return OK; });
    return OK;
}
API int cuMemsetD32_v2(void *dst, unsigned value, size_t n) { return cuMemsetD32Async(dst, value, n, nullptr); }
// Only CU_POINTER_ATTRIBUTE_MEMORY_TYPE (host 1, device 2), and MAPPED, MAPPING_SIZE and MAPPING_BASE_ADDR of a range.
API int cuPointerGetAttribute(void *data, int attribute, void *ptr) {
    Lock lock;
    if (attribute == 13 || attribute == 18 || attribute == 19) return tell_mapping(uintptr_t(ptr), attribute, data);
    if (attribute != 2) return NOT_SUPPORTED;
    if (!is_device(ptr) && !is_locked_host(ptr)) return INVALID_VALUE;
    *static_cast<unsigned *>(data) = is_device(ptr) ? 2 : 1;
    return OK;
}

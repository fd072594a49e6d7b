// Modules and launches: an image (nvrtc.cpp) becomes loaded code, a launch becomes a piece of work of a stream. Refuses a
// pointer argument that is neither null nor in a live allocation, sizes that no card takes, and dynamic shared memory.
// Modelled: code costs the bytes of its image, and the context grows by 2 MiB for each 2 MiB of it and never shrinks.
#include "sim.h"
#include "runtime.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_set>

namespace sim {

struct Module;
struct Function {
    Module *module = nullptr;
    std::string name;
    Entry entry = nullptr;
    const int *params = nullptr; // their sizes, negative where a pointer; 0 ends them
};
struct Module {
    Code code;
    int file = -1;               // of the image, open while it is loaded
    size_t bytes = 0;
    int device = 0;
    unsigned age = 0;            // of its context
    std::map<std::string, Function> functions;
};
static std::unordered_set<Module *> &modules() { static auto *s = new std::unordered_set<Module *>; return *s; }
static Module *module_of(void *handle) {
    auto *m = static_cast<Module *>(handle);
    if (!modules().count(m)) return nullptr;
    if (m->age != devices()[m->device].age) stale("a module");
    return m;
}
static std::unordered_set<Function *> &functions() { static auto *s = new std::unordered_set<Function *>; return *s; }

static void *open_library(const std::string &bytes, int &kept) {
    int fd = memfd_create("simulated kernels", 0);
    if (fd < 0) return nullptr;
    for (size_t at = 0; at < bytes.size();) {
        ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
        if (n <= 0) break;
        at += size_t(n);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        complain("an image does not load: %s", dlerror());
        close(fd);
    }
    kept = fd; // dlopen knows libraries by their paths: the next must have another
    return library;
}

static bool charge_code(Device &d, size_t bytes) {
    size_t need = round_up(d.code_bytes + bytes, 2 * MIB);
    if (need > d.code_held) {
        if (!grow_context(d, need - d.code_held)) return false;
        d.code_held = need;
    }
    d.code_bytes += bytes;
    return true;
}

static Status load(const void *image, Module **out) {
    Device &d = *current();
    std::string library;
    Status why = INVALID_IMAGE;
    if (!image_of(image, library, why)) return why;
    if (!charge_code(d, library.size())) return OUT_OF_MEMORY;
    int file = -1;
    void *opened = open_library(library, file);
    if (!opened) return INVALID_IMAGE;
    auto bind = reinterpret_cast<void (*)(const void *)>(dlsym(opened, "sim_bind"));
    auto touch = reinterpret_cast<void *(*)()>(dlsym(opened, "sim_touch"));
    if (!bind || !touch) return INVALID_IMAGE;
    bind(runtime_table());
    static uint64_t ids = 0;
    auto *m = new Module;
    m->code = Code{opened, ++ids, touch};
    m->file = file;
    m->bytes = library.size();
    m->device = current_index();
    m->age = d.age;
    modules().insert(m);
    *out = m;
    return OK;
}

static bool sane(const Grid &g) {
    size_t threads = size_t(g.block[0]) * g.block[1] * g.block[2];
    return threads >= 1 && threads <= 1024 && g.block[2] <= 64 && g.grid[0] >= 1 && g.grid[1] >= 1 && g.grid[2] >= 1 &&
           g.grid[0] <= 2147483647u && g.grid[1] <= 65535 && g.grid[2] <= 65535;
}

// The arguments as they are now, each in eight bytes or more of its own.
struct Arguments {
    std::vector<uint64_t> words;
    std::vector<void *> at;
};

static Status copy_arguments(const Function &f, void **given, Arguments &to) {
    std::vector<size_t> offsets;
    for (const int *p = f.params; *p; p++) {
        offsets.push_back(to.words.size());
        size_t n = size_t(std::abs(*p)), i = size_t(p - f.params);
        to.words.resize(to.words.size() + (n + 7) / 8);
        memcpy(&to.words[offsets.back()], given[i], n);
        void *ptr = nullptr;
        if (*p < 0) memcpy(&ptr, given[i], sizeof ptr);
        if (ptr && !is_device(ptr) && !is_locked_host(ptr)) {
            complain("kernel %s, argument %zu: %p is not device memory", f.name.c_str(), i, ptr);
            return ILLEGAL_ADDRESS;
        }
    }
    for (size_t o : offsets) to.at.push_back(&to.words[o]);
    return OK;
}

Status kernel_work(Device &d, void *function, const unsigned (&extents)[6], unsigned shared, void **params, void **extra,
                   std::function<Status()> &run, const char *&name) {
    auto *f = static_cast<Function *>(function);
    if (!functions().count(f)) return INVALID_HANDLE;
    if (f->module->age != d.age) stale("a kernel");
    Grid g{{extents[0], extents[1], extents[2]}, {extents[3], extents[4], extents[5]}};
    if (!sane(g) || shared || extra || (!params && *f->params)) {
        complain("kernel %s: a launch that is refused: grid %u x %u x %u, block %u x %u x %u, %u bytes of dynamic shared memory",
                 f->name.c_str(), extents[0], extents[1], extents[2], extents[3], extents[4], extents[5], shared);
        return INVALID_VALUE;
    }
    auto arguments = std::make_shared<Arguments>();
    if (Status bad = copy_arguments(*f, params, *arguments)) return failed(d, bad);
    if (!first_use(d, f->name)) return OUT_OF_MEMORY;
    name = f->name.c_str();
    run = [=] { return run_grid(g, f->module->code, f->entry, arguments->at.data(), f->name.c_str()); };
    return OK;
}

} // namespace sim
using namespace sim;

API int cuModuleLoadData(void **module, const void *image) {
    SIM_DEVICE(d);
    return load(image, reinterpret_cast<Module **>(module));
}
API int cuModuleLoadDataEx(void **module, const void *image, unsigned, int *, void **) {
    return cuModuleLoadData(module, image);
}
API int cuModuleGetFunction(void **function, void *module, const char *name) {
    SIM_DEVICE(d);
    Module *m = module_of(module);
    if (!m) return INVALID_HANDLE;
    auto entry = dlsym(m->code.library, (std::string("sim_entry_") + name).c_str());
    auto params = dlsym(m->code.library, (std::string("sim_params_") + name).c_str());
    if (!entry || !params) return NOT_FOUND;
    Function &f = m->functions[name];
    f = Function{m, name, reinterpret_cast<Entry>(entry), reinterpret_cast<const int *(*)()>(params)()};
    functions().insert(&f);
    *function = &f;
    return OK;
}
// Waits for the work that may use it.
API int cuModuleUnload(void *module) {
    SIM_DEVICE(d);
    Module *m = module_of(module);
    if (!m) return INVALID_HANDLE;
    modules().erase(m);
    finish_all(*d);
    for (auto &[name, f] : m->functions) functions().erase(&f);
    dlclose(m->code.library);
    close(m->file);
    Device &owner = devices()[m->device];
    owner.code_bytes -= std::min(m->bytes, owner.code_bytes);
    delete m;
    return OK;
}
API int cuModuleGetGlobal_v2(void **, size_t *, void *, const char *) { return NOT_FOUND; }

// CU_FUNC_ATTRIBUTE_*: the largest block, registers, and the versions; nothing else is known of a function.
API int cuFuncGetAttribute(int *value, int attribute, void *function) {
    Lock lock;
    if (!functions().count(static_cast<Function *>(function))) return INVALID_HANDLE;
    *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : attribute == 5 || attribute == 6 ? 90 : 0;
    return OK;
}
API int cuFuncSetAttribute(void *function, int, int) {
    Lock lock;
    return functions().count(static_cast<Function *>(function)) ? OK : INVALID_HANDLE;
}
API int cuFuncSetCacheConfig(void *function, int) { return cuFuncSetAttribute(function, 0, 0); }
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int block, size_t) {
    *blocks = block > 0 ? 2048 / block : 0;
    return OK;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, void *f, int block, size_t n, unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, n);
}
API int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, void *, size_t (*)(int), size_t, int limit) {
    *block = limit > 0 ? std::min(limit, 1024) : 1024;
    *grid = 32;
    return OK;
}

API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **params, void **extra) {
    SIM_DEVICE(d);
    Stream *s = stream_of(stream);
    if (!s) return INVALID_HANDLE;
    std::function<Status()> run;
    const char *name;
    if (Status bad = kernel_work(*d, function, {gx, gy, gz, bx, by, bz}, shared, params, extra, run, name)) return bad;
    return enqueue_kernel(s, name, std::move(run));
}

// A program that asks for its entry points by name finds what dlsym finds.
API int cuGetProcAddress_v2(const char *symbol, void **function, int, uint64_t, int *status) {
    for (const char *suffix : {"_v4", "_v3", "_v2", ""}) {
        *function = dlsym(RTLD_DEFAULT, (std::string(symbol) + suffix).c_str());
        if (!*function) {
            Dl_info self;
            if (!dladdr(reinterpret_cast<void *>(&cuGetProcAddress_v2), &self)) break;
            void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
            if (library) *function = dlsym(library, (std::string(symbol) + suffix).c_str());
            if (library) dlclose(library);
        }
        if (*function) break;
    }
    if (status) *status = *function ? 0 : 1;
    return *function ? OK : NOT_FOUND;
}

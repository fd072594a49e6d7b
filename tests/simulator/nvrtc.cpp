// The run-time compiler: kernel source to an image, by g++. The source is preceded by runtime.h and shim.h, preprocessed,
// searched for `__global__ void name(`, and compiled to a shared library with one entry per kernel. No header can be
// included but those given to nvrtcCreateProgram. An image is text (so that it travels as PTX does): a line with the
// number of the ABI, the length and a hash, then the library in base 64. Refuses options NVRTC does not know.
//
// Without contraction of a * b + c and for the plain architecture: an image may be read on another machine.
#include "sim.h"
#include "runtime.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

asm(R"(
.section .rodata
.balign 8
sim_shim_text:
.incbin "runtime.h"
.incbin "shim.h"
.byte 0
.text
)");
extern "C" const char sim_shim_text[] __attribute__((visibility("hidden")));

namespace sim {

enum Result { NVRTC_OK = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };

struct Program {
    std::string source, name, log, image;
    std::vector<std::pair<std::string, std::string>> headers;
    std::vector<std::string> defines;
};
static std::set<Program *> &programs() { static auto *s = new std::set<Program *>; return *s; }

static uint64_t hash(const std::string &text, uint64_t h = 0xcbf29ce484222325u) {
    for (unsigned char c : text) h = (h ^ c) * 0x100000001b3u;
    return h;
}

// ---- images

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char MAGIC[] = "// simulated GPU image, ABI ";

static std::string to_image(const std::string &library) {
    char head[128];
    snprintf(head, sizeof head, "%s%d, bytes %zu, hash %016llx\n", MAGIC, SIM_ABI, library.size(),
             (unsigned long long)hash(library));
    std::string out = head;
    for (size_t i = 0; i < library.size(); i += 3) {
        unsigned v = 0;
        for (size_t j = 0; j < 3; j++) v = v << 8 | (i + j < library.size() ? (unsigned char)library[i + j] : 0);
        for (int shift = 18; shift >= 0; shift -= 6) out += ALPHABET[v >> shift & 63];
    }
    return out;
}

bool image_of(const void *data, std::string &library, Status &why) {
    auto *text = static_cast<const char *>(data);
    int abi = 0;
    size_t bytes = 0;
    unsigned long long wanted = 0;
    why = INVALID_IMAGE;
    if (strncmp(text, MAGIC, sizeof MAGIC - 1)) return false;
    if (sscanf(text + sizeof MAGIC - 1, "%d, bytes %zu, hash %llx", &abi, &bytes, &wanted) != 3) return false;
    why = UNSUPPORTED_PTX_VERSION;
    if (abi != SIM_ABI) return false;
    why = INVALID_PTX;
    static const auto values = [] {
        std::vector<signed char> v(256, -1);
        for (int i = 0; i < 64; i++) v[(unsigned char)ALPHABET[i]] = (signed char)i;
        return v;
    }();
    unsigned held = 0, bits = 0;
    for (const char *c = strchr(text, '\n') + 1; library.size() < bytes; c++) {
        int v = values[(unsigned char)*c];
        if (v < 0) return false;
        held = held << 6 | unsigned(v);
        if ((bits += 6) >= 8) library += char(held >> (bits -= 8) & 255);
    }
    return hash(library) == wanted;
}

// ---- files and g++

static std::string read_file(const std::string &path) {
    std::string text;
    if (FILE *f = fopen(path.c_str(), "rb")) {
        char piece[65536];
        for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;) text.append(piece, n);
        fclose(f);
    }
    return text;
}

static bool write_file(const std::string &path, const std::string &text) {
    FILE *f = fopen(path.c_str(), "wb");
    if (!f) return false;
    bool whole = fwrite(text.data(), 1, text.size(), f) == text.size();
    return fclose(f) == 0 && whole;
}

struct Folder {
    std::string path;
    std::vector<std::string> files;
    Folder() {
        const char *base = getenv("TMPDIR");
        path = std::string(base && *base ? base : "/tmp") + "/simulated-nvrtc-XXXXXX";
        if (!mkdtemp(&path[0])) path.clear();
    }
    ~Folder() {
        for (auto &f : files) unlink(f.c_str());
        if (!path.empty()) rmdir(path.c_str());
    }
    std::string file(const std::string &name) {
        files.push_back(path + "/" + name);
        return files.back();
    }
};

// Runs a program that does not find this library; what it says goes to `log`.
static bool run(const std::vector<std::string> &words, const std::string &log) {
    std::vector<char *> argv;
    for (auto &w : words) argv.push_back(const_cast<char *>(w.c_str()));
    argv.push_back(nullptr);
    std::vector<char *> environment;
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "LD_LIBRARY_PATH=", 16)) environment.push_back(*e);
    environment.push_back(nullptr);
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(out, 1);
        dup2(out, 2);
        execvpe(argv[0], argv.data(), environment.data());
        dprintf(2, "%s was not found: the simulated GPU compiles kernels with it\n", argv[0]);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// ---- compiling

// The names of kernels in preprocessed source.
static std::vector<std::string> kernels(const std::string &text) {
    std::vector<std::string> names;
    static const std::string word = "__global__";
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
        at += word.size();
        size_t open = text.find('(', at);
        if (open == std::string::npos) break;
        size_t end = text.find_last_not_of(" \t\n", open - 1) + 1, begin = end;
        while (begin > at && (isalnum((unsigned char)text[begin - 1]) || text[begin - 1] == '_')) begin--;
        std::string name = text.substr(begin, end - begin);
        if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
}

static std::string entries(const std::string &text) {
    std::string out = "\n# 1 \"entries\"\n";
    for (auto &n : kernels(text))
        out += "extern \"C\" __attribute__((visibility(\"default\"))) void sim_entry_" + n +
               "(void *worker, void **a) { sim_worker = (SimIndices *)worker; sim_call(" + n + ", a); }\n" +
               "extern \"C\" __attribute__((visibility(\"default\"))) const int *sim_params_" + n +
               "() { return sim_sizes(" + n + "); }\n";
    return out;
}

static const std::vector<std::string> FIRST = {"g++", "-std=c++17", "-E", "-nostdinc", "-nostdinc++", "-x", "c++"};
static const std::vector<std::string> SECOND = {
    "g++", "-std=c++17", "-O2", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
    "-fno-math-errno", "-fno-strict-aliasing", "-ffp-contract=off", "-fno-asynchronous-unwind-tables",
    "-nodefaultlibs", "-D__global__="};

static std::string compiled_folder() {
    if (const char *given = getenv("PLIMSOLL_SIM_CACHE")) return given;
    Dl_info self;
    if (!dladdr(reinterpret_cast<void *>(&image_of), &self)) return "";
    std::string path = self.dli_fname;
    size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash) + "/compiled";
}

static std::string whole_source(const Program &p) {
    std::string text = sim_shim_text;
    for (auto &d : p.defines) {
        size_t eq = d.find('=');
        text += "#define " + d.substr(0, eq) + " " + (eq == std::string::npos ? "1" : d.substr(eq + 1)) + "\n";
    }
    return text + "#line 1 \"" + p.name + "\"\n" + p.source + "\n";
}

static bool build(Program &p, const std::string &text, std::string &library) {
    Folder folder;
    if (folder.path.empty()) { p.log += "no folder for temporary files"; return false; }
    std::string source = folder.file("source.cpp"), flat = folder.file("flat.cpp"), out = folder.file("kernels.so"),
                log = folder.file("log");
    for (auto &[name, body] : p.headers) write_file(folder.file(name), body);
    auto first = FIRST, second = SECOND;
    first.insert(first.end(), {"-I", folder.path, source, "-o", flat});
    bool fine = write_file(source, text) && run(first, log);
    if (fine) {
        std::string preprocessed = read_file(flat);
        second.insert(second.end(), {flat, "-o", out, "-lm", "-lc", "-lgcc"});
        fine = write_file(flat, preprocessed + entries(preprocessed)) && run(second, log);
    }
    p.log += read_file(log);
    library = read_file(out);
    return fine && !library.empty();
}

static Result compile(Program &p) {
    std::string text = whole_source(p), key = text;
    for (auto &w : SECOND) key += w + " ";
    for (auto &[name, body] : p.headers) key += name + body;
#if defined(__x86_64__)
    key += "x86-64";
#endif
    char name[64];
    snprintf(name, sizeof name, "/%016llx%016llx", (unsigned long long)hash(key), (unsigned long long)hash(key, 88172645463325252u));
    std::string folder = compiled_folder(), place = folder + name;
    if (!folder.empty()) p.image = read_file(place);
    std::string library;
    Status why;
    if (!p.image.empty() && image_of(p.image.c_str(), library, why)) return NVRTC_OK;
    p.image.clear();
    if (!build(p, text, library)) return COMPILATION;
    p.image = to_image(library);
    if (!folder.empty()) {
        mkdir(folder.c_str(), 0777);
        std::string aside = place + "." + std::to_string(getpid()) + "." + std::to_string(uintptr_t(&p));
        if (!write_file(aside, p.image) || rename(aside.c_str(), place.c_str())) unlink(aside.c_str());
    }
    return NVRTC_OK;
}

// ---- options

static bool starts(const std::string &s, const char *with) { return s.rfind(with, 0) == 0; }

static bool ignored(const std::string &o) {
    static const std::set<std::string> known = {
        "--gpu-architecture", "-arch", "--std", "-std", "--fmad", "-fmad", "--ftz", "-ftz", "--prec-div", "-prec-div",
        "--prec-sqrt", "-prec-sqrt", "--use_fast_math", "-use_fast_math", "--maxrregcount", "-maxrregcount",
        "--restrict", "-restrict", "--extra-device-vectorization", "-extra-device-vectorization", "--default-device",
        "-default-device", "--disable-warnings", "-w", "--device-debug", "-G", "--generate-line-info", "-lineinfo",
        "--relocatable-device-code", "-rdc", "--dopt", "-dopt", "--ptxas-options", "-Xptxas", "--device-int128",
        "--builtin-move-forward", "--builtin-initializer-list", "--minimal", "--split-compile", "--no-source-include",
        "--diag-suppress", "-diag-suppress", "--display-error-number", "--no-display-error-number", "--time", "--dlto",
    };
    return known.count(o.substr(0, o.find('='))) != 0;
}

static Result take_options(Program &p, int n, const char *const *given) {
    p.defines = {};
    std::string architecture = "75";
    for (int i = 0; i < n; i++) {
        std::string o = given[i];
        auto next = [&] { return i + 1 < n ? std::string(given[++i]) : std::string(); };
        if (starts(o, "-arch=") || starts(o, "--gpu-architecture="))
            architecture = o.substr(o.rfind('_') + 1);
        if (o == "-D" || o == "--define-macro") p.defines.push_back(next());
        else if (starts(o, "-D")) p.defines.push_back(o.substr(2));
        else if (starts(o, "--define-macro=")) p.defines.push_back(o.substr(15));
        else if (o == "-I" || o == "--include-path" || o == "-Xptxas" || o == "--ptxas-options") next();
        else if (!starts(o, "-I") && !starts(o, "--include-path=") && !ignored(o)) {
            p.log += "nvrtc: error: unrecognized option " + o + " found\n";
            return INVALID_OPTION;
        }
    }
    p.defines.push_back("__CUDA_ARCH__=" + std::to_string(atoi(architecture.c_str()) * 10));
    return NVRTC_OK;
}

} // namespace sim
using namespace sim;

static const int ARCHITECTURES[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

API int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return NVRTC_OK; }
API int nvrtcGetNumSupportedArchs(int *n) { *n = int(sizeof ARCHITECTURES / sizeof *ARCHITECTURES); return NVRTC_OK; }
API int nvrtcGetSupportedArchs(int *archs) { memcpy(archs, ARCHITECTURES, sizeof ARCHITECTURES); return NVRTC_OK; }

API int nvrtcCreateProgram(void **program, const char *source, const char *name, int n, const char *const *headers,
                           const char *const *names) {
    Lock lock;
    if (!source) return INVALID_INPUT;
    auto *p = new Program;
    p->source = source;
    p->name = name ? name : "default_program";
    for (int i = 0; i < n; i++) p->headers.push_back({names[i], headers[i]});
    programs().insert(p);
    *program = p;
    return NVRTC_OK;
}
#define PROGRAM(p, handle)                                                                                             \
    Lock lock_;                                                                                                        \
    auto *p = static_cast<Program *>(handle);                                                                          \
    if (!programs().count(p)) return INVALID_PROGRAM
API int nvrtcCompileProgram(void *program, int n, const char *const *options) {
    PROGRAM(p, program);
    p->log.clear();
    if (Result r = take_options(*p, n, options)) return r;
    return compile(*p);
}
API int nvrtcGetPTXSize(void *program, size_t *bytes) {
    PROGRAM(p, program);
    if (p->image.empty()) return INVALID_PROGRAM;
    *bytes = p->image.size() + 1;
    return NVRTC_OK;
}
API int nvrtcGetPTX(void *program, char *text) {
    PROGRAM(p, program);
    if (p->image.empty()) return INVALID_PROGRAM;
    memcpy(text, p->image.c_str(), p->image.size() + 1);
    return NVRTC_OK;
}
API int nvrtcGetCUBINSize(void *program, size_t *bytes) { return nvrtcGetPTXSize(program, bytes); }
API int nvrtcGetCUBIN(void *program, char *bytes) { return nvrtcGetPTX(program, bytes); }
API int nvrtcGetProgramLogSize(void *program, size_t *bytes) {
    PROGRAM(p, program);
    *bytes = p->log.size() + 1;
    return NVRTC_OK;
}
API int nvrtcGetProgramLog(void *program, char *text) {
    PROGRAM(p, program);
    memcpy(text, p->log.c_str(), p->log.size() + 1);
    return NVRTC_OK;
}
API int nvrtcDestroyProgram(void **program) {
    PROGRAM(p, *program);
    programs().erase(p);
    delete p;
    *program = nullptr;
    return NVRTC_OK;
}
API int nvrtcAddNameExpression(void *, const char *) { return NVRTC_OK; }
API int nvrtcGetLoweredName(void *, const char *expression, const char **name) { *name = expression; return NVRTC_OK; }
API const char *nvrtcGetErrorString(int result) {
    switch (result) {
    case NVRTC_OK: return "NVRTC_SUCCESS";
    case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    }
    return "NVRTC_ERROR unknown";
}

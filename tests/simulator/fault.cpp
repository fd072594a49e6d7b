// Faults on demand: an allocation that is refused, a kernel that fails when it runs. A kernel's failure is sticky: the
// context is lost, and every later call on it says so until the context is destroyed. What the driver's manual says of
// such errors is that the process has to start again; drivers are seen to serve a context that is made anew, and
// PLIMSOLL_SIM_STAYS_LOST is the driver that does not.
#include "sim.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace sim {

// How many more until the one that fails; 0: none does.
struct Orders {
    long allocation = env("PLIMSOLL_SIM_FAIL_ALLOC", 0), kernel = env("PLIMSOLL_SIM_FAIL_KERNEL", 0);
};

static Orders &orders() {
    static Orders o;
    const char *path = getenv("PLIMSOLL_SIM_FAULT_FILE");
    FILE *f = path ? fopen(path, "r") : nullptr;
    if (!f) return o;
    char what[16];
    long n;
    while (fscanf(f, "%15s %ld", what, &n) == 2) {
        if (!strcmp(what, "allocation")) o.allocation = n;
        else if (!strcmp(what, "kernel")) o.kernel = n;
        else complain("%s asks for a fault that is not known: %s", path, what);
    }
    fclose(f);
    unlink(path);
    return o;
}

bool injected_failure() {
    Orders &o = orders();
    return o.allocation > 0 && --o.allocation == 0;
}

Status injected_fault() {
    Orders &o = orders();
    return o.kernel > 0 && --o.kernel == 0 ? Status(env("PLIMSOLL_SIM_FAULT", ILLEGAL_ADDRESS)) : OK;
}

Status failed(Device &d, Status why) {
    if (!d.fault) d.fault = why;
    return why;
}

void stale(const char *what) {
    complain("%s of a context that is no more: a real driver crashes here", what);
    abort();
}

} // namespace sim

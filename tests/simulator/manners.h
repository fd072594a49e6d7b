// How the pools of a driver behave where it is not documented and programs have seen it differ: each is a switch (sim.h
// lists them), and the engine has to predict all of them.
// - pools that hold multiples of 32 MiB: 84,490,059,776 bytes reserved (rapidsai/rmm, issue 1245), 5.656 and 10.406 GiB
//   (printed by JuliaGPU/CUDA.jl): PLIMSOLL_SIM_POOL_STEP_MIB;
// - a pool without a limit takes address space as large as the card (NVIDIA/cuda-python, cuda_core/tests), so segments may
//   lie behind each other and join: PLIMSOLL_SIM_POOL_JOINS;
// - used bytes that are not a multiple of 512 (rmm 1245: 53,514,136,688): PLIMSOLL_SIM_POOL_COUNTS;
// - a pool with a limit of 2 MiB serves blocks of 2 KiB (cuda_core/tests), so a limit is rounded up, or the last growth is
//   smaller; it may be rounded down elsewhere: PLIMSOLL_SIM_POOL_LIMIT.
#pragma once
#include "sim.h"
#include <cstdlib>
#include <cstring>

namespace sim {

constexpr size_t LARGE = 2 * MIB;    // the least step of a growth above 32 MiB

enum class Limit { EXACT, UP, DOWN, FITS };
inline Limit limit_of(const char *text) {
    if (!text || !strcmp(text, "exact")) return Limit::EXACT;
    if (!strcmp(text, "up")) return Limit::UP;
    if (!strcmp(text, "down")) return Limit::DOWN;
    if (!strcmp(text, "fits")) return Limit::FITS;
    complain("PLIMSOLL_SIM_POOL_LIMIT is exact, up, down or fits, and not %s", text);
    abort();
}
// How this driver's pools behave where it is not documented.
struct Manners {
    size_t step = size_t(env("PLIMSOLL_SIM_POOL_STEP_MIB", LARGE / MIB)) * MIB;
    bool joins = env("PLIMSOLL_SIM_POOL_JOINS", 0) != 0;
    bool counts_requests = env("PLIMSOLL_SIM_POOL_COUNTS", 0) != 0;
    Limit limit = limit_of(getenv("PLIMSOLL_SIM_POOL_LIMIT"));
};
inline const Manners &manners() { static const Manners m; return m; }

} // namespace sim

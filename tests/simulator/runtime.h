// What the simulator and the compiled kernels agree on. Read by both: by the simulator, and as part of shim.h by kernels.
// Change the ABI number with anything here: images of another number are refused.
#define SIM_ABI 1

extern "C" {

struct SimIndices {
    unsigned thread[3], block[3], block_size[3], grid_size[3];
};

enum { SIM_SHUFFLE, SIM_SHUFFLE_XOR, SIM_SHUFFLE_DOWN, SIM_SHUFFLE_UP, SIM_BALLOT, SIM_SYNCWARP };
enum { SIM_SYNC, SIM_COUNT, SIM_AND, SIM_OR };

struct SimRuntime {
    int (*barrier)(void *worker, int site, int kind, int predicate);
    unsigned long (*warp)(void *worker, int site, int kind, unsigned mask, unsigned long value, int lane, int width);
    void (*trap)(void *worker, const char *text);
};

}

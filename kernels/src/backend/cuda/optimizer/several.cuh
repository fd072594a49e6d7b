// The tensors of several parameters, and the update of each by its blocks.

struct Parameter {
    const T *grad;
    W *weight, *first, *second;
    void *copy;
    i64 n;
};
static_assert(sizeof(Table<Parameter>) == MOST * (6 * 8 + 4), "as the host lays it out");
#define TENSORS Table<Parameter> all, int is_half
#define UPDATE(rule) update_own(rule, all, is_half)

template <class R> __device__ __forceinline__ void update_own(const R &rule, const Table<Parameter> &all, int is_half) {
    const int tensor = tensor_of_block(all);
    const i64 block = blockIdx.x - first_block(all, tensor), own = block * blockDim.x + threadIdx.x;
    const i64 threads = (i64)blocks_of(all, tensor) * blockDim.x;
    const Parameter &p = all.of[tensor];
    bf16 *low = is_half ? (bf16 *)0 : (bf16 *)p.copy;
    f16 *half = is_half ? (f16 *)p.copy : (f16 *)0;
    update_tensor(rule, p.grad, p.weight, p.first, p.second, low, half, p.n, own, threads);
}

// The tensors of one parameter, and its update by all threads of the launch.

#define TENSORS const T *grad, W *weight, W *first, W *second, bf16 *low, f16 *half, i64 n
#define UPDATE(rule) update_tensor(rule, grad, weight, first, second, low, half, n, first_index(), index_stride())

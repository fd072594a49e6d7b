// Attention of new positions over kept keys and values. A block has one query of one head; `logits` has room for every place
// of each. A row of `kept` is the keys of a position and then its values.

extern "C" __global__ void attention_cached(const T *qkv, const T *kept, T *y, A *logits, i64 heads, i64 kv_heads, i64 head_dim, i64 seen, i64 places, i64 reach, A scale) {
    __shared__ A room[256];
    const i64 row = blockIdx.x / heads, head = blockIdx.x % heads, shared = head / (heads / kv_heads);
    const i64 stride = 2 * kv_heads * head_dim, last = seen + row, first = last < reach ? 0 : last - reach + 1;
    const T *query = qkv + (row * (heads + 2 * kv_heads) + head) * head_dim;
    const T *keys = kept + shared * head_dim, *values = keys + kv_heads * head_dim;
    A *own = logits + (i64)blockIdx.x * places;
    T *result = y + (row * heads + head) * head_dim;
    // A warp a key.
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    A top = -(A)__uint_as_float(0x7f800000u);
    for (i64 key = first + warp; key <= last; key += warps) {
        A sum = 0;
        for (i64 d = lane; d < head_dim; d += 32) sum += widen(query[d]) * widen(keys[key * stride + d]);
        sum = warp_sum(sum) * scale;
        if (lane == 0) own[key] = sum;
        top = larger(top, sum);
    }
    // Its barriers come after the logits of all warps.
    top = block_max(top);
    A total = 0;
    for (i64 key = first + threadIdx.x; key <= last; key += blockDim.x) {
        const A weight = exp_of(own[key] - top);
        own[key] = weight;
        total += weight;
    }
    total = block_sum(total);
    // Rows of threads share the keys, neighbours along the elements of a value.
    int across = 32;
    while (across < head_dim && across < blockDim.x) across *= 2;
    const int parts = blockDim.x / across, part = threadIdx.x / across;
    for (i64 from = 0; from < head_dim; from += across) {
        const i64 d = from + threadIdx.x % across;
        A sum = 0;
        if (d < head_dim)
            for (i64 key = first + part; key <= last; key += parts) sum += own[key] * widen(values[key * stride + d]);
        __syncthreads();
        room[threadIdx.x] = sum;
        __syncthreads();
        if (part == 0 && d < head_dim) {
            for (int other = 1; other < parts; other++) sum += room[other * across + threadIdx.x];
            result[d] = narrow<T>(sum / total);
        }
    }
}

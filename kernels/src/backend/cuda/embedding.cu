// Rows of a table by token, and their gradient. `sorted` are pairs of a token and its place, the token above.

extern "C" __global__ void embedding(const u32 *tokens, const T *table, T *y, i64 rows, i64 width, i64 vocabulary, int wide) {
    const T nothing = narrow<T>((A)__uint_as_float(0x7fc00000u));
    each_run_of_rows(rows, width, wide, [=](i64 r, i64 c, auto run) {
        i64 token = tokens[r];
        Pack<T, LENGTH(run)> values;
#pragma unroll
        for (int v = 0; v < LENGTH(run); ++v) values.at[v] = nothing;
        if (token < vocabulary) values = *(const Pack<T, LENGTH(run)> *)(table + token * width + c);
        *(Pack<T, LENGTH(run)> *)(y + r * width + c) = values;
    });
}

extern "C" __global__ void embedding_clear(W *table, i64 n) {
    EACH(i, n) table[i] = narrow<W>((A)0);
}

// A block of 8 warps: the tokens whose first place is among 32 sorted ones, in 128 columns. Each warp adds up every 8th row
// of a token, then the warps' sums are added.
extern "C" __global__ void embedding_gradient(const u64 *sorted, const T *dy, W *table, i64 rows, i64 width, i64 vocabulary, int accumulate) {
    __shared__ A sums[8][128];
    const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
    const i64 start = (i64)blockIdx.x * 32, own = start + lane;
    bool is_first = own < rows && (own == 0 || sorted[own] >> 32 != sorted[own - 1] >> 32);
    const u32 firsts = __ballot_sync(ALL_LANES, is_first);
    for (i64 left = (i64)blockIdx.y * 128; left < width; left += (i64)gridDim.y * 128) {
        for (u32 rest = firsts; rest != 0; rest &= rest - 1) {
            const i64 begin = start + __ffs(rest) - 1;
            const u64 token = sorted[begin] >> 32;
            if ((i64)token >= vocabulary) continue;
            A sum[4] = {0, 0, 0, 0};
            bool goes_on = true;
            for (i64 p = begin + warp; goes_on; p += 32) {
                u64 pairs[4];
                #pragma unroll
                for (int j = 0; j < 4; j++) pairs[j] = p + 8 * j < rows ? sorted[p + 8 * j] : ~0ULL;
                #pragma unroll
                for (int j = 0; j < 4; j++) {
                    goes_on = p + 8 * j < rows && pairs[j] >> 32 == token;
                    const T *row = dy + (i64)(u32)pairs[j] * width + left + lane;
                    #pragma unroll
                    for (int v = 0; v < 4; v++)
                        if (goes_on && left + lane + 32 * v < width) sum[v] += widen(row[32 * v]);
                }
            }
            #pragma unroll
            for (int v = 0; v < 4; v++) sums[warp][lane + 32 * v] = sum[v];
            __syncthreads();
            if (thread < 128 && left + thread < width) {
                A total = 0;
                for (int w = 0; w < 8; w++) total += sums[w][thread];
                put(table + (i64)token * width + left + thread, total, accumulate != 0);
            }
            __syncthreads();
        }
    }
}

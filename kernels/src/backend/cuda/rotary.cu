// Rotary embedding.

#define PAIRS 128

// A block a position, of some sequences: a row of threads a head, neighbours along its pairs. Angles are made in
// f64: those of a pair are 2^rate times those of the pair before.
extern "C" __global__ void rotary(T *qkv, i64 batch, i64 length, i64 packed, i64 heads, i64 half, i64 origin, double rate, int is_inverse) {
    __shared__ A sines[PAIRS], cosines[PAIRS];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    const i64 position = blockIdx.x;
    for (i64 first = 0; first < half; first += PAIRS) {
        const int pairs = half - first < PAIRS ? (int)(half - first) : PAIRS;
        __syncthreads();
        for (int i = thread; i < pairs; i += threads) {
            f64 sine, cosine;
            sine_and_cosine((f64)(origin + position) * exp2((f64)(first + i) * rate), sine, cosine);
            sines[i] = (A)(is_inverse ? -sine : sine);
            cosines[i] = (A)cosine;
        }
        __syncthreads();
        for (i64 sequence = blockIdx.y; sequence < batch; sequence += gridDim.y) {
            T *row = qkv + (sequence * length + position) * packed + first;
            for (i64 head = threadIdx.y; head < heads; head += blockDim.y) {
                T *at = row + head * 2 * half;
                for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
                    A x = widen(at[i]), y = widen(at[half + i]);
                    at[i] = narrow<T>(x * cosines[i] - y * sines[i]);
                    at[half + i] = narrow<T>(x * sines[i] + y * cosines[i]);
                }
            }
        }
    }
}

// What cuDNN leaves to do.

// Adds a narrow gradient of weights to a wider one, or overwrites it.
extern "C" __global__ void add_wider(const T *x, W *y, i64 n, int accumulate) {
    EACH(i, n) put(y + i, widen(x[i]), accumulate);
}

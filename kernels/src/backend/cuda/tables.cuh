// A launch that works on several tensors: up to MOST of them, each with blocks of its own, told by its arguments.

// What is told of each, and the block behind its last one. Behind the last tensor, that of the launch.
template <class Row> struct Table {
    Row of[MOST];
    u32 end[MOST];
};

// The tensor of this block.
template <class Row> __device__ __forceinline__ int tensor_of_block(const Table<Row> &table) {
    int low = 0, high = MOST - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (table.end[middle] <= blockIdx.x) low = middle + 1;
        else high = middle;
    }
    return low;
}
// Its first block, and how many it has.
template <class Row> __device__ __forceinline__ u32 first_block(const Table<Row> &table, int tensor) {
    return tensor > 0 ? table.end[tensor - 1] : 0;
}
template <class Row> __device__ __forceinline__ u32 blocks_of(const Table<Row> &table, int tensor) {
    return table.end[tensor] - first_block(table, tensor);
}

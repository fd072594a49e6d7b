//! Scratch of products of 8-bit integers.

use crate::backend::{cpu::int8::Blocks, ops::Window};

/// Blocks of threads of a GPU that each find a range of their own.
pub(in crate::backend) const CUDA_RANGES: usize = 256;

/// Scratch of a product on the CPU: for every piece that is worked on at once, the patches of its pixels and their sums.
pub(in crate::backend) fn product(w: &Window, threads: usize) -> usize {
    let blocks = Blocks::new(w);
    let at_once = if blocks.is_parallel { threads.clamp(1, blocks.pieces().max(1)) } else { 1 };
    at_once * (blocks.patch_elements() * size_of::<i16>() + blocks.sum_elements() * size_of::<i32>())
}

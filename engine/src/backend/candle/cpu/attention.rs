//! How attention is cut into blocks, and the room that takes.

use crate::backend::AttentionShape;

/// Positions of a block of queries, and of a block of keys.
const BLOCK: usize = 64;

/// Bytes that attention takes on `threads` threads, its gradient with `is_gradient`; elements of arithmetic have `width`.
pub(in crate::backend) fn room(s: &AttentionShape, is_gradient: bool, width: usize, threads: usize) -> usize {
    let block = BLOCK.min(s.length.next_multiple_of(16));
    let pieces = s.batch * s.kv_heads * s.length.div_ceil(BLOCK);
    let strips = if is_gradient { 10 } else { 4 };
    let squares = if is_gradient { 2 } else { 1 };
    let of_a_piece = strips * block * s.head_dim.next_multiple_of(16) + squares * block * block + 4 * block;
    // The sums over keys of each query's probabilities times their gradients.
    let shared = if is_gradient { s.batch * s.heads * s.length } else { 0 };
    (shared + threads.clamp(1, pieces.max(1)) * of_a_piece) * width
}

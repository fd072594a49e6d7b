//! How far values may go.
//!
//! Owns the limits that more than one place has to know; a limit that only one rule knows stands with the rule.

use crate::bytes::Bytes;

/// The most units of a layer, or filters of a block.
pub const MAX_WIDTH: usize = 1 << 16;
/// The most layers or blocks.
pub const MAX_DEPTH: usize = 10_000;
/// Layers a residual network may have.
pub const RESNETS: [usize; 4] = [18, 34, 50, 101];
/// The least width multiplier.
pub const MIN_MULTIPLIER: f64 = 0.1;
/// The largest width multiplier.
pub const MAX_MULTIPLIER: f64 = 4.0;
/// The most heads of attention.
pub(crate) const MAX_HEADS: usize = 1024;
/// The most samples of one forward pass, and the most passes before an update.
pub const MAX_BATCH: usize = 1 << 20;
/// The least side of a generated image: less shows no shape.
pub const MIN_SIDE: usize = 12;
/// The largest side of a generated image.
pub const MAX_SIDE: usize = 512;
/// The most steps of a run.
pub const MAX_STEPS: u64 = 1_000_000_000;
/// The largest budget.
pub const MAX_BUDGET: Bytes = Bytes::gib(1 << 20);
/// The largest buffer for libraries on a GPU.
pub const MAX_WORKSPACE: Bytes = Bytes::gib(64);
/// The most samples that are generated (600 MB of pixels of 32 x 32).
pub const MAX_SAMPLES: usize = 200_000;
/// The most threads that make samples.
pub(crate) const MAX_WORKERS: u64 = 256;
/// The most threads that kernels run on.
pub(crate) const MAX_THREADS: u64 = 1024;
/// The most batches that are made ahead.
pub(crate) const MAX_PREFETCH: u64 = 1024;
/// The longest sequence.
pub const MAX_LENGTH: usize = 1 << 16;
/// The fewest tokens that a generated chain has: as many tokens can follow one.
pub const MIN_VOCABULARY: usize = 4;
/// The most tokens there can be.
pub const MAX_VOCABULARY: usize = 1 << 20;
/// The largest modulus: a million pairs.
pub const MAX_MODULUS: usize = 1000;

//! Rules of scratch that several families share: the only other place that computes its bytes is a family's own file.
//!
//! The executor books scratch in the ledger around a launch, and the kernel stays within it; a test of every kernel on
//! the CPU measures that it does. Always holds: the rules need no device, so that a machine without a GPU plans for
//! one.

pub(in crate::backend) mod gemm;
pub(in crate::backend) mod int8;
pub(in crate::backend) mod on_cpu;
pub(in crate::backend) mod split_reduction;

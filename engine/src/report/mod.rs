//! Data that leave the program: comparisons, locks of predicted peaks, traces of a step, series in the formats of other
//! programs.
//!
//! Owns their content and their formats. Always holds: every figure comes from a plan or from a kept run, and nothing here
//! plans by itself or draws. The caller that asks for a file writes it.

pub mod comparison;
pub mod curves;
pub mod kept;
pub mod lock;
pub mod tables;
pub mod tensorboard;
pub mod trace;

pub use comparison::{Comparison, Ran, Subject};
pub use kept::Kept;
pub use lock::Lock;

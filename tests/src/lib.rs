//! Whole-program tests, and what they share: the simulated GPU, on Linux.

#[cfg(target_os = "linux")]
mod simulator;

#[cfg(target_os = "linux")]
pub use simulator::{on_simulated_gpu, simulated_gpu};

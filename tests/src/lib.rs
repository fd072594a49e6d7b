//! Whole-program tests, and what they share: the simulated GPU.

mod simulator;

pub use simulator::{on_simulated_gpu, simulated_gpu};

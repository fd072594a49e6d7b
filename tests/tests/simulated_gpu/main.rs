//! The simulated GPU itself: that it refuses, orders and computes as these tests, and through them the engine's, rely on.

mod gpu;
mod kernels;
mod libraries;
mod memory;
mod streams;

//! The simulated GPU itself: that it refuses, orders and computes as these tests, and through them the engine's, rely on.
#![cfg(target_os = "linux")]

mod epilogues;
mod gpu;
mod graphs;
mod kernels;
mod libraries;
mod manners;
mod memory;
mod streams;
mod virtual_memory;

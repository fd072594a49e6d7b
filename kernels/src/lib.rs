//! Plimsoll's kernels: the ops of a training step, on processors and GPUs, and the ledger of the memory that they take.
//!
//! An [`Executor`](backend::Executor) is a [`Backend`](backend::Backend) and a [`Ledger`](memory::Ledger): it checks shapes,
//! books and allocates outputs and scratch, and launches kernels. The backends are the processor, NVIDIA GPUs, and the dry
//! run, which allocates nothing.
//!
//! Nothing here knows a setting, a layer or a file of data. The engine (`plimsoll-engine`) stands on this package, and shows
//! its modules under its own name. It is a package of its own because half of the engine's machine code is kernels: they are
//! compiled once, and not again when a layer or the planner changes.
//!
//! The page `engine/ARCHITECTURE.md` has the laws, the layers with their order, and the glossary.

pub mod backend;
pub mod bytes;
pub mod cache;
pub mod device;
pub mod error;
pub mod layer_path;
pub mod memory;
pub mod rng;
pub mod suggest;
pub mod sync;
pub mod tensor;
pub mod whole_file;
pub mod words;

pub use bytes::Bytes;
pub use error::{Error, Result};

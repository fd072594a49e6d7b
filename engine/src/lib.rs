//! Plimsoll's engine: neural-network training whose memory is predicted by running it dry.
//!
//! # The one idea
//!
//! One training step ([`step`]) is written once, generic over a [`backend::Backend`]. [`backend::Cpu`] runs it
//! with real tensors on the processor, `backend::Cuda` on an NVIDIA GPU; [`backend::DryRun`] runs it with tensors that have
//! a shape, a dtype and a shared buffer, but no elements. Allocating writes to the [`memory::Ledger`], dropping the last
//! handle writes the free. So a prediction is the dry run of the very step that will train, and there is no second formula
//! to drift from the code.
//!
//! The laws, the layers with their order, and the words stand on the page `engine/ARCHITECTURE.md`.
//!
//! # The way down
//!
//! - [`experiment`]: what a user chooses; also the preset format.
//! - [`plan`]: from an experiment to a [`plan::Plan`], by a dry run; what would fit; how long it takes.
//! - [`step`]: THE training step: forward, backward, update, evaluation.
//! - [`train`]: the [`train::Trainer`] thread that runs it and tells the outside by events.
//! - [`models`] are chains of [`nn`] layers; a layer holds its forward pass and, beside it, its gradient rule.
//! - [`autograd`]: the tape, which frees what it saved as it walks back, and checkpointed segments.
//! - [`optim`]: one kernel a parameter, in place.
//! - [`backend`]: the op vocabulary; an [`backend::Executor`] allocates, books scratch and launches kernels.
//! - [`memory`]: the ledger (predicted, and the budget's refusal) and the probe (measured); neither knows the other.
//! - [`data`]: sources, and the loader thread that prepares batches.
//! - [`hardware`]: what is in this machine, and what it says of itself.
//! - [`device`]: which cards can be planned for, and what a run is for.
//! - [`selftest`]: whether a device computes what it should, from the program alone; experiments drawn at random.
//!
//! # What always holds
//!
//! - A prediction is never below what is measured: what the probe counts beside tensors and scratch on the processor is
//!   the engine's [`memory::bookkeeping`], which a dry run counts and every prediction includes; on a GPU the ledger places
//!   every block in a model of the driver's pool.
//! - The ledger refuses what would cross the budget before anything is allocated; the run then drops everything.
//! - Tensors never leave the thread they were made on; only host numbers do.
//! - The same seed gives the same run, with and without checkpointing, on any number of threads.

pub mod autograd;
pub mod backend;
pub mod bytes;
mod cache;
pub mod data;
pub mod device;
pub mod error;
pub mod experiment;
pub mod hardware;
pub mod layer_path;
pub mod memory;
pub mod models;
pub mod nn;
pub mod optim;
pub mod plan;
pub mod rng;
pub mod selftest;
pub mod step;
mod suggest;
mod sync;
pub mod tensor;
pub mod train;
mod whole_file;
mod words;

pub use bytes::Bytes;
pub use error::{Error, Result};
pub use experiment::Experiment;

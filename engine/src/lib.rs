//! Plimsoll's engine: neural-network training whose memory is predicted by running it dry.
//!
//! # The one idea
//!
//! One training step is written once, generic over a backend. The backend `Cpu` runs it with real tensors on the processor,
//! and `Cuda` on an NVIDIA GPU. The backend `DryRun` runs it with tensors that have a shape, a dtype and a shared buffer, but
//! no elements. An allocation writes to the [`memory::Ledger`], and the drop of the last handle writes the free. So a
//! prediction is the dry run of the very step that will train, and no second formula can drift from the code.
//!
//! The page `engine/ARCHITECTURE.md` has the laws, the layers with their order, and the glossary.
//!
//! # The public modules
//!
//! - [`experiment`]: the user's choices, and the preset format.
//! - [`plan`]: from an experiment to a [`plan::Plan`] by a dry run; which changes would fit; how long a run takes.
//! - [`train`]: the [`train::Trainer`], a thread that runs the step and reports by events.
//! - [`report`]: data for other programs: comparisons, locks, traces, series.
//! - [`interop`]: models of other programs: weights in, weights out.
//! - [`store`]: kept runs: their settings, predictions, series and events, in a database.
//! - [`hardware`]: the devices of this machine, and the figures that they report.
//! - [`device`]: the cards that can be planned for, and the target of a run.
//! - [`data`]: the sources, and the loader thread that prepares batches.
//! - [`memory`]: categories, phases and timelines (predicted), and the probe (measured).
//! - [`mod@code`]: the machine code of the engine, which a program lets be mapped at its start.
//! - [`selftest`]: checks of a device's results; experiments drawn at random.
//! - [`whole_file`]: files that are written whole or not at all.
//! - [`mod@bytes`] and [`error`]: sizes as text, and every error as data.
//!
//! # Inside
//!
//! The modules below are hidden from this documentation. They are `pub` because the integration tests and the benchmarks run
//! single kernels, layers and steps; they may change at any time.
//!
//! - `step`: the training step: forward, backward, update, evaluation.
//! - `models`: chains of `nn` layers. A layer holds its forward pass and, next to it, its gradient rule.
//! - `autograd`: the tape, which frees saved tensors as it walks back, checkpointed segments, and the key-value cache of a
//!   continued text.
//! - `optim`: one kernel for each parameter, in place.
//! - `backend`: the ops. Its `Executor` allocates, books scratch and launches kernels.
//! - `header`: the header of a safetensors file.
//! - `layer_path`, `rng`, `tensor`: the names of layers, counter-based randomness, shapes and types.
//!
//! # Guarantees
//!
//! - A prediction is never below the measurement. On the processor, the probe counts tensors, scratch and the engine's
//!   [`memory::bookkeeping`]; a dry run counts the bookkeeping too, and every prediction includes it. On a GPU, the ledger
//!   places every block in a model of the driver's pool.
//! - The ledger refuses an allocation that would cross the budget before it is made; the run then drops everything.
//! - Tensors never leave the thread they were made on; only host numbers do.
//! - The same seed gives the same run, with and without checkpointing, on any number of threads.

// Hidden from the documentation only: the lints that ask for documentation and for `# Errors` still read these modules.
#[cfg_attr(doc, doc(hidden))]
pub mod autograd;
pub mod code;
pub mod data;
pub mod experiment;
pub mod hardware;
#[cfg_attr(doc, doc(hidden))]
pub mod header;
pub mod interop;
#[cfg_attr(doc, doc(hidden))]
pub mod models;
#[cfg_attr(doc, doc(hidden))]
pub mod nn;
#[cfg_attr(doc, doc(hidden))]
pub mod optim;
pub mod plan;
pub mod report;
pub mod selftest;
#[cfg_attr(doc, doc(hidden))]
pub mod step;
pub mod store;
pub mod train;

// The modules of the kernels' package, under the engine's name.
#[cfg_attr(doc, doc(hidden))]
pub use plimsoll_kernels::{backend, layer_path, rng, tensor};
#[cfg_attr(doc, doc(inline))]
pub use plimsoll_kernels::{bytes, device, error, memory, whole_file};
pub(crate) use plimsoll_kernels::{cache, suggest, sync};

pub use bytes::Bytes;
pub use error::{Error, Result};
pub use experiment::Experiment;

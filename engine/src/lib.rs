//! Plimsoll's engine: neural-network training whose memory is predicted by running it dry.
//!
//! One training step is written once, generic over a [`backend::Backend`]. [`backend::Candle`] runs it with real
//! tensors; [`backend::DryRun`] runs it with tensors that have a shape, a dtype and a shared buffer, but no elements.
//! Allocating writes to the [`memory::Ledger`], dropping the last handle writes the free. So a prediction is the dry run
//! of the very step that will train, and there is no second formula to drift from the code.

pub mod backend;
pub mod bytes;
pub mod data;
pub mod device;
pub mod error;
pub mod experiment;
pub mod memory;
pub mod plan;
pub mod rng;
pub mod train;

pub use bytes::Bytes;
pub use error::{Error, Result};
pub use experiment::Experiment;

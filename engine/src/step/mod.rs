//! THE training step: the one piece of code that trains, and whose dry run is the prediction.
//!
//! Owns the [`Session`], which is everything that a run keeps between steps: the model, the optimizer's state, the loss
//! scale, and the training set where it lies on the device. Always holds: a session is generic over its backend, so a real
//! run and a dry one take the same path. Refuses allocations that would cross the budget, by the ledger of its executor.

mod bookkeeping;
mod channels;
mod compress;
mod device_dataset;
mod diagnosis;
pub mod load;
mod loss;
mod loss_scale;
mod micro_batch;
mod on_device;
mod output;
pub mod restore;
pub mod save;
pub mod schedule;
mod session;
mod slots;
mod smaller;
pub(crate) mod stored;
mod teacher;
mod update;
mod writing;

pub use bookkeeping::bookkeeping;
pub use compress::Compressed;
pub use loss::See;
pub use micro_batch::{Blank, MicroBatch};
pub use output::{PendingStep, StepOutput};
pub use session::Session;
pub(crate) use session::workspace;
pub use slots::Counters;
pub(crate) use slots::STATE;
pub use smaller::{Became, SmallerSize, whole_bytes};
pub use stored::Stored;
pub use teacher::Teaching;
pub use writing::Writing;

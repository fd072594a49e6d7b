//! Training: the step, the thread that runs it, and what it tells the outside.

pub mod command;
pub mod event;
#[cfg(feature = "cuda")]
pub(crate) mod gpu;
mod loss;
mod loss_scale;
mod place;
#[cfg(feature = "cuda")]
mod process;
mod resident;
mod run;
mod schedule;
pub mod step;
pub mod trainer;
mod voice;

pub use command::{Command, Start};
pub use event::{Event, Latest, Outcome, Refusal, RunId, StepRecord, Summary};
pub use trainer::Trainer;

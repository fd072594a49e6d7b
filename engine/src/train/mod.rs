//! Training: the thread that runs steps, and the events it sends.

mod checkpoint;
pub mod command;
pub mod event;
mod event_sink;
#[cfg(feature = "cuda")]
pub(crate) mod gpu;
mod keep;
mod memory_sampler;
#[cfg(feature = "cuda")]
mod process;
mod run;
mod run_loop;
mod saver;
pub mod trainer;
mod worker;

pub use checkpoint::Checkpoint;
pub use command::{Command, Start};
pub use event::{Event, Latest, Outcome, Refusal, RunId, StepRecord, Summary};
pub use keep::{Keep, SaveReason};
pub use trainer::Trainer;

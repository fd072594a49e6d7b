//! Training: the step, the thread that runs it, and what it tells the outside.

pub mod event;
pub mod trainer;

pub use event::{Event, Latest, Outcome, Refusal, StepRecord, Summary};
pub use trainer::{Command, Start, Trainer};

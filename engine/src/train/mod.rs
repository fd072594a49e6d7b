//! Training: the thread that runs steps, and the events it sends.

#[cfg(feature = "cuda")]
mod attention_check;
#[cfg(feature = "cuda")]
mod card_facts;
mod checkpoint;
pub(crate) mod claim;
pub mod command;
pub mod event;
mod event_sink;
mod fed;
#[cfg(feature = "cuda")]
pub(crate) mod gpu;
mod keep;
#[cfg(feature = "cuda")]
mod kernel_rates;
#[cfg(feature = "cuda")]
mod loaded;
mod memory_sampler;
#[cfg(feature = "cuda")]
mod process;
mod refused;
mod run;
mod run_loop;
mod saver;
mod tester;
pub mod trainer;
mod worker;

pub use crate::{models::FactoredSize, optim::Stripped, step::Compressed};
#[cfg(feature = "cuda")]
pub use card_facts::{CardFacts, card_facts};
pub use checkpoint::Checkpoint;
pub use command::{Command, Start};
pub use event::{Event, Feeding, HostUse, Latest, Outcome, RanBy, Refusal, RunId, StepRecord, Summary};
pub use keep::{Folder, Keep, RecordFirst, SaveReason};
#[cfg(feature = "cuda")]
pub use kernel_rates::{KernelRate, kernel_rates};
pub use tester::{
    Answer, Answers, Cached, Evaluation, Likely, OfClass, Reply, Sampling, Say, Shown, Tester, Took, Tried,
    WeightsFrom, Written,
};
pub use trainer::Trainer;

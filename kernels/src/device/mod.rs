//! Facts about devices that need not be here: cards, and the target of a run.
//!
//! Owns the [`Profile`] of a card, those that ship, the [`Processor`] as far as memory depends on it, and the [`Target`] of
//! a run. `hardware` of the engine finds the devices of this machine.

mod description;
pub mod graphs;
mod pool_policy;
mod processor;
pub mod profile;
pub mod target;

pub use description::Description;
pub use pool_policy::PoolPolicy;
pub use processor::{Instructions, Processor, cpu_threads};
pub use profile::Profile;
pub use target::Target;

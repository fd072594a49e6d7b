//! How full a GPU is, by all processes and by this one, when this process opens it.
//!
//! Owns the look at a GPU before it is first opened. It stands for the whole process because the driver's libraries do:
//! they keep what they took of a GPU until the process ends.

use std::collections::BTreeMap;

use crate::{
    bytes::Bytes,
    hardware::{Figure, gpu, host_pid},
    sync::Mutex,
};

/// How full a GPU was, and who computed on it, before this process opened it.
#[derive(Debug, Clone)]
pub(crate) struct UsageBefore {
    /// Bytes in use by all processes.
    pub(crate) used: Figure<Bytes>,
    /// The driver's numbers for the processes that computed.
    numbers: Figure<Vec<u32>>,
}

/// How the GPU of this name was before this process first opened it. A later look would count what the libraries of this
/// process keep.
pub(crate) fn before(uuid: &str) -> UsageBefore {
    static FIRST: Mutex<BTreeMap<String, UsageBefore>> = Mutex::new(BTreeMap::new());
    let look = || UsageBefore { used: gpu::used(uuid), numbers: gpu::numbers(uuid) };
    FIRST.lock().entry(uuid.to_owned()).or_insert_with(look).clone()
}

/// What the driver says that this process holds of a GPU that it has just opened.
///
/// # Errors
/// Why it does not tell.
pub(crate) fn reported(uuid: &str, before: &UsageBefore) -> Figure<Bytes> {
    if let Ok(before) = &before.numbers {
        host_pid::find(before, &gpu::numbers(uuid)?);
    }
    let held = gpu::process(uuid)?;
    if held == Bytes::ZERO {
        return Err("the driver does not list this process".to_owned());
    }
    Ok(held)
}

//! How full a GPU is, by all processes and by this one, when this process opens it.
//!
//! Owns the look at a GPU before it is first opened. A [`Machine`](crate::hardware::Machine) carries it from then on,
//! because the driver's libraries keep their memory on a GPU until the process ends. A later look would count that memory as
//! others'.

use crate::{
    bytes::Bytes,
    hardware::{Figure, gpu, host_pid},
};

/// The use of a GPU, and the processes that computed on it, before this process opened it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UsageBefore {
    /// Bytes in use by all processes.
    pub(crate) used: Figure<Bytes>,
    /// The driver's numbers for the processes that computed.
    numbers: Figure<Vec<u32>>,
}

impl UsageBefore {
    /// How the GPU of this name is now, which this process must not have opened yet.
    pub(super) fn now(uuid: &str) -> Self {
        Self { used: gpu::used(uuid), numbers: gpu::numbers(uuid) }
    }
}

/// The bytes that this process holds of a GPU that it has just opened, as the driver reports them.
///
/// # Errors
/// The reason why the driver does not say.
pub(crate) fn reported(uuid: &str, before: &UsageBefore) -> Figure<Bytes> {
    if let Ok(before) = &before.numbers {
        host_pid::find(before, &gpu::numbers(uuid)?);
    }
    held(uuid, before)
}

/// The bytes that this process holds of a GPU that it opened, as the driver reports them. In a container the driver may list
/// the process with 0 bytes (NVIDIA/open-gpu-kernel-modules, pull request 614). The bytes taken of the GPU since this
/// process opened it are the same figure then, as long as no other process computes on it.
///
/// # Errors
/// Why it is not known.
pub(crate) fn held(uuid: &str, before: &UsageBefore) -> Figure<Bytes> {
    let told = gpu::process(uuid)?;
    if told > Bytes::ZERO {
        return Ok(told);
    }
    let is_alone = before.numbers.as_ref().is_ok_and(Vec::is_empty) && gpu::numbers(uuid)?.len() == 1;
    let before = before.used.as_ref().ok().filter(|_| is_alone);
    let grown = before.map(|before| gpu::used(uuid).map(|used| used.saturating_sub(*before))).transpose()?;
    grown.filter(|grown| *grown > Bytes::ZERO).ok_or_else(|| {
        "the driver reports 0 bytes for this process, as in some containers, and others may use the GPU".to_owned()
    })
}

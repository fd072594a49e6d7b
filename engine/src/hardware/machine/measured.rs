//! A machine whose processor, process or free memory was measured.

use std::sync::Arc;

use super::Machine;
use crate::{
    backend::Rates,
    bytes::Bytes,
    hardware::{RunKind, Touched, seen_runs::SeenRuns},
    memory::{host::FreeMemory, probe},
};

impl Machine {
    /// The same machine with measured rates of the processor.
    #[must_use]
    pub fn with_rates(&self, rates: Rates) -> Self {
        self.changed(|known| known.rates = rates)
    }

    /// The same machine with another size of the process before a run.
    #[must_use]
    pub fn with_process_base(&self, bytes: Bytes) -> Self {
        self.changed(|known| known.process_base = bytes)
    }

    /// The same machine with the size that this process has now, which must be before its first run.
    #[must_use]
    pub fn with_process_measured(&self) -> Self {
        self.with_process(resident(), Touched::Little)
    }

    /// The same machine with the size that this process has now without `held` bytes of data. No run may be going on.
    #[must_use]
    pub(crate) fn with_process_beside(&self, held: Bytes, touched: Touched) -> Self {
        self.with_process(resident().saturating_sub(held), touched)
    }

    /// The same machine with the size that this process has now between two runs, `held` bytes of data of the last one included.
    /// A change of a percent or two, or of less than a MiB, does not count.
    #[must_use]
    pub(crate) fn with_process_between_runs(&self, held: Bytes) -> Self {
        let (known, now) = (self.0.process_base, resident().saturating_sub(held));
        let changed = now.saturating_sub(known).max(known.saturating_sub(now));
        if changed < Bytes::mib(1).max(Bytes(known.0 / 64)) { self.clone() } else { self.with_process_base(now) }
    }

    fn with_process(&self, base: Bytes, touched: Touched) -> Self {
        let code = probe::code();
        self.changed(|known| (known.process_base, known.begun.touched, known.code) = (base, touched, code))
    }

    /// The same machine for a process that shows a window.
    #[must_use]
    pub(crate) fn with_window(&self) -> Self {
        self.changed(|known| known.begun.has_window = true)
    }

    /// The same machine after a run of this kind, for which [`process_in_a_run`](Self::process_in_a_run) of the machine `before`
    /// counted on `bytes`, and with which the process came to `process`.
    #[must_use]
    pub(crate) fn with_run_seen(&self, before: &Self, run: RunKind<'_>, bytes: Bytes, process: Bytes) -> Self {
        let (allowed, grown) = (before.allowed(run, bytes), process.saturating_sub(before.0.process_base));
        let seen = Arc::new(SeenRuns::after(run, before.0.begun, allowed, grown));
        self.changed(|known| known.seen = seen)
    }

    /// The same machine with another amount of memory that the system can give; a change of a few percent does not count.
    #[must_use]
    pub fn with_free_memory(&self, free: Option<FreeMemory>) -> Self {
        let is_near = self.0.free_memory.zip(free).is_some_and(|(known, free)| known.is_near(&free));
        self.changed(|known| known.free_memory = if is_near { known.free_memory } else { free })
    }

    /// The same machine with the memory that the system can give now, plus `held` bytes of data, which are freed before other
    /// data come. It must be between runs.
    #[must_use]
    pub fn with_free_memory_measured(&self, held: Bytes) -> Self {
        self.with_free_memory(FreeMemory::now().map(|free| FreeMemory { bytes: free.bytes + held, ..free }))
    }
}

/// Resident bytes of this process.
fn resident() -> Bytes {
    probe::process().map(|process| process.resident).unwrap_or_default()
}

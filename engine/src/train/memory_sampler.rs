//! The measured memory of a run: in addition to the bytes that were alive before it, in stretches and as a whole.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use crate::{
    bytes::Bytes,
    memory::probe::{Measure, Reading},
    plan::Peak,
};

/// How often the memory of a whole step is read op by op.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// How often the operating system is asked for the size of the process.
const PROCESS_EVERY: Duration = Duration::from_millis(200);

/// Measured memory of a run, above the idle level.
pub(super) struct MemorySampler {
    meter: Rc<dyn Measure>,
    idle: Reading,
    peak: Peak,
    read_process: Box<dyn Fn() -> Bytes>,
    process_read: Option<Instant>,
    process: Bytes,
    sampled: Option<Instant>,
}

impl MemorySampler {
    pub(super) fn new(meter: Rc<dyn Measure>, idle: Reading, read_process: Box<dyn Fn() -> Bytes>) -> Self {
        meter.reset_peak();
        Self {
            meter,
            idle,
            peak: Peak::default(),
            read_process,
            process_read: None,
            process: Bytes::ZERO,
            sampled: None,
        }
    }

    /// Whether this step's memory is to be read op by op.
    pub(super) fn is_sample_due(&mut self) -> bool {
        let due = self.sampled.is_none_or(|at| at.elapsed() >= SAMPLE_EVERY);
        if due {
            self.sampled = Some(Instant::now());
        }
        due
    }

    /// The highest memory since the last call, `earlier` high-water marks of the same stretch included.
    pub(super) fn read(&mut self, earlier: Bytes) -> Peak {
        let reading = self.meter.peak();
        self.meter.reset_peak();
        if self.process_read.is_none_or(|at| at.elapsed() >= PROCESS_EVERY) {
            self.process = (self.read_process)();
            self.process_read = Some(Instant::now());
        }
        let now = Peak {
            live: reading.live.max(earlier).saturating_sub(self.idle.live),
            reserved: reading.reserved.saturating_sub(self.idle.reserved),
            process: self.process,
        };
        self.peak = self.peak.max(now);
        now
    }

    /// The highest memory so far.
    pub(super) fn peak(&self) -> Peak {
        self.peak
    }

    /// The highest memory of the run; the last reading of the process is a fresh one.
    pub(super) fn finish(&mut self) -> Peak {
        self.process_read = None;
        self.read(Bytes::ZERO);
        self.peak
    }

    /// The counter of the memory.
    pub(super) fn meter(&self) -> Rc<dyn Measure> {
        Rc::clone(&self.meter)
    }

    /// The bytes that were alive before the run.
    pub(super) fn idle(&self) -> Bytes {
        self.idle.live
    }
}

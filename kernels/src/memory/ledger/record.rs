//! The record that an account keeps of its events: nothing, a recording, or a log.

use super::{
    event_log::EventLog,
    recorder::{Block, Recorder},
    repetition::Repeated,
};
use crate::memory::allocator::Allocator;

/// Index of a block that is in no recording.
pub(super) const UNRECORDED: u32 = u32::MAX;

/// The record of events.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be bookkeeping that only some runs have")]
pub(super) enum Record {
    /// Nothing is recorded.
    None,
    /// A recording of the figures that a plan shows of a pass.
    Recorder(Recorder),
    /// Everything in order, to be recorded once the bookkeeping is known.
    Log(Box<EventLog>),
}

impl Record {
    pub(super) fn born(&mut self, block: Block) -> u32 {
        match self {
            Self::None => UNRECORDED,
            Self::Recorder(recorder) => recorder.born(block),
            Self::Log(log) => log.born(block),
        }
    }

    pub(super) fn died(&mut self, index: u32) {
        match self {
            Self::None => {}
            Self::Recorder(recorder) => recorder.died(index),
            Self::Log(log) => log.died(index),
        }
    }

    pub(super) fn renamed(&mut self, index: u32, label: &'static str) -> u32 {
        match self {
            Self::None => index,
            Self::Recorder(recorder) => recorder.renamed(index, label),
            Self::Log(log) => {
                log.renamed(index, label);
                index
            }
        }
    }

    pub(super) fn begin_micro_batch(&mut self, left_out: Repeated) {
        match self {
            Self::None => {}
            Self::Recorder(recorder) => recorder.begin_micro_batch(left_out),
            Self::Log(log) => log.begin_micro_batch(left_out),
        }
    }

    /// Makes room for so many ops more.
    pub(super) fn expect(&mut self, ops: usize) {
        match self {
            Self::Recorder(recorder) => recorder.expect(ops),
            Self::None | Self::Log(_) => {}
        }
    }

    pub(super) fn fed(&mut self, bytes: u64, allocator: &Allocator) {
        match self {
            Self::Recorder(recorder) => recorder.fed(bytes, allocator),
            Self::None | Self::Log(_) => {}
        }
    }

    pub(super) fn holds(&mut self, allocator: &Allocator) {
        match self {
            Self::Recorder(recorder) => recorder.holds(allocator),
            Self::None | Self::Log(_) => {}
        }
    }
}

//! A step that was measured op by op, as it is kept.
//!
//! Owns its form. Always holds: it reads back as it was written; a step of an earlier program, which kept no ways, has none.
//! Refuses steps of more ops than a column holds, and bytes that are not a step.

use std::sync::Arc;

use super::columns::{Columns, MOST, Reader};
use crate::{bytes::Bytes, train::Latest};

/// A step that was measured op by op.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeasuredStep {
    /// Its number; 0 if no step was measured so.
    pub step: u64,
    /// The highest bytes alive during each op.
    pub bytes: Vec<Bytes>,
    /// The way in which each op ran, where ops of its kind run in one of several; empty for the others, and without an entry if
    /// there is none such.
    pub ways: Vec<String>,
}

/// Such a step that has yet to be written.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) step: u64,
    bytes: Arc<[Bytes]>,
    ways: Arc<[&'static str]>,
}

impl Measured {
    /// The newest one; `None` before the first.
    pub(super) fn of(latest: &Latest) -> Option<Self> {
        let (bytes, ways) = (Arc::clone(&latest.measured_step), Arc::clone(&latest.ways));
        (!bytes.is_empty()).then_some(Self { step: latest.measured_in_step, bytes, ways })
    }

    /// Its bytes in the store; `None` if that is more than is kept.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let count = u32::try_from(self.bytes.len()).ok().filter(|count| *count as usize <= MOST)?;
        let mut columns = Columns::new();
        columns.ints(self.bytes.iter().map(|bytes| bytes.0));
        // A program that knows no ways reads no farther.
        if self.ways.len() == self.bytes.len() {
            columns.words(self.ways.iter().copied());
        }
        Some([&count.to_le_bytes()[..], &columns.finish()].concat())
    }
}

impl MeasuredStep {
    /// Reads [`Measured::to_bytes`]; `None` for other bytes.
    pub(super) fn from_bytes(step: u64, bytes: &[u8]) -> Option<Self> {
        let (count, columns) = bytes.split_first_chunk()?;
        let mut reader = Reader::new(columns, u32::from_le_bytes(*count) as usize)?;
        let bytes = reader.ints()?.into_iter().map(Bytes).collect();
        let ways = if reader.is_at_end() { Vec::new() } else { reader.words()? };
        Some(Self { step, bytes, ways: ways.into_iter().map(str::to_owned).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(count: u64, ways: &[&'static str]) -> Measured {
        Measured { step: 7, bytes: (0..count).map(|op| Bytes(op * 1000)).collect(), ways: ways.into() }
    }

    #[test]
    fn a_step_is_read_as_it_was_measured() {
        for ways in [&["", "cuDNN", ""][..], &[]] {
            let bytes = measured(3, ways).to_bytes().expect("few ops");
            let read = MeasuredStep::from_bytes(7, &bytes).expect("a step");
            assert_eq!((read.step, &read.bytes), (7, &[0, 1000, 2000].map(Bytes).to_vec()));
            assert_eq!(read.ways, ways);
            assert_eq!(MeasuredStep::from_bytes(7, &bytes[..bytes.len() - 1]), None);
        }
        assert!(measured(MOST as u64 + 1, &[]).to_bytes().is_none());
    }

    #[test]
    fn a_program_that_knows_no_ways_reads_the_bytes() {
        let bytes = measured(2, &["cuDNN", ""]).to_bytes().expect("few ops");
        // As it does.
        let (count, columns) = bytes.split_first_chunk().expect("a count");
        let read = Reader::new(columns, u32::from_le_bytes(*count) as usize).and_then(|mut reader| reader.ints());
        assert_eq!(read, Some(vec![0, 1000]));
    }

    #[test]
    fn a_step_without_ways_is_written_as_before() {
        let bytes = measured(2, &[]).to_bytes().expect("few ops");
        let mut column = Columns::new();
        column.ints([0, 1000].into_iter());
        assert_eq!(bytes, [&2u32.to_le_bytes()[..], &column.finish()].concat());
    }
}

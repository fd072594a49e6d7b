//! Saving: a session as one safetensors file, tensor by tensor.
//!
//! The file is the header's length (eight bytes), the header in JSON, and the elements of all tensors without a gap, as
//! <https://huggingface.co/docs/safetensors> has it, so that other programs read the weights. Always holds: no buffer is as
//! large as a tensor; on the processor its elements go to the file from where they lie, on a GPU through a few parts of
//! page-locked memory of a bounded size. The buffers through which a file is written are booked as scratch.

use std::hint::black_box;

use serde::Serialize;

use super::{
    Session,
    slots::{Counters, Slot, slots},
};
use crate::{
    backend::Backend,
    error::{Error, Result},
    memory::{Category, Part, Phase},
    nn::Layer,
};

/// Where a session is written.
pub trait Sink {
    /// Takes the next bytes of the length and the header.
    ///
    /// # Errors
    /// Fails when they cannot be written.
    fn head(&mut self, bytes: &[u8]) -> Result<()>;

    /// Takes the next bytes of the elements.
    ///
    /// # Errors
    /// Fails when they cannot be written.
    fn elements(&mut self, bytes: &[u8]) -> Result<()>;

    /// Whether it keeps nothing, so that the header need not be written out after it was measured.
    fn keeps_nothing(&self) -> bool {
        false
    }
}

/// A sink that keeps nothing, for a dry run.
#[derive(Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn head(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn elements(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn keeps_nothing(&self) -> bool {
        true
    }
}

/// A sink that counts the bytes of a header.
struct Counted(u64);

impl Sink for Counted {
    fn head(&mut self, bytes: &[u8]) -> Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }

    fn elements(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// A tensor's entry in the header.
#[derive(Serialize)]
struct Entry<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    /// Where its elements begin and end, after the header.
    data_offsets: [u64; 2],
}

impl Entry<'_> {
    /// Bytes of its text after a comma and the name of its tensor, which is a model's own and mostly needs no escapes. A model of
    /// many layers has tens of thousands of entries, and a dry run counts them without writing them.
    fn size(&self, name: &str) -> Result<u64> {
        const AROUND: usize = ",:{'dtype':'','shape':[],'data_offsets':[,]}".len();
        let is_plain = name.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'));
        let name = if is_plain { name.len() + 2 } else { quoted(name)?.len() };
        let digits = |number: u64| number.checked_ilog10().unwrap_or_default() as usize + 1;
        let shape: usize = self.shape.iter().map(|extent| digits(*extent as u64)).sum();
        let commas = self.shape.len().saturating_sub(1);
        let offsets: usize = self.data_offsets.into_iter().map(digits).sum();
        Ok((AROUND + name + self.dtype.len() + shape + commas + offsets) as u64)
    }
}

/// Bytes of the buffer that small pieces of a file gather in.
pub const WRITE_BUFFER: usize = 8 << 10;

/// The beginning of every header: the checksum of the file, in eight digits, is known only when all of it is written.
const BEGINNING: &str = "{\"__metadata__\":{\"checksum\":\"";
/// Where the checksum is in a file.
pub const CHECKSUM_AT: u64 = 8 + BEGINNING.len() as u64;
/// The placeholder that stands there at first, and is added up in the checksum's place.
pub const NO_CHECKSUM: &str = "00000000";

impl<B: Backend> Session<B> {
    /// The numbers that are stored with the tensors.
    pub fn counters(&self) -> Counters {
        let passes = self.model.leaves().into_iter().filter_map(Layer::passes).map(std::cell::Cell::get);
        Counters {
            updates: self.updates,
            loss_scale: self.loss_scale.history(),
            passes: passes.collect(),
            is_thinned: self.is_thinned(),
        }
    }

    /// Writes everything that decides how training goes on to `to`. The header has `facts` as well, which are texts by name.
    ///
    /// # Errors
    /// [`Error::Budget`] when the buffers for writing would cross the budget, the failures of the device, and the errors of
    /// `to`.
    pub fn save(&self, facts: &[(&str, String)], to: &mut dyn Sink) -> Result<()> {
        let (executor, ledger) = (&self.executor, self.executor.ledger());
        ledger.set_phase(Phase::Saving);
        ledger.enter(Part::Saving);
        ledger.set_op("save");
        // On a GPU it is memory of the host.
        let is_gpu = executor.backend().target().is_gpu();
        let buffer =
            (!is_gpu).then(|| ledger.take(WRITE_BUFFER as u64, Category::Scratch, "write buffer")).transpose()?;
        let mut counted = Counted(0);
        self.preamble(facts, &mut counted)?;
        let (entries, longest) = self.size_of_entries()?;
        let size = counted.0 + entries + 1;
        let length = size.next_multiple_of(8);
        to.head(&length.to_le_bytes())?;
        // Made in a dry run as well, because it is a part of the bookkeeping.
        let mut text = black_box(Vec::with_capacity(longest as usize));
        if !to.keeps_nothing() {
            self.preamble(facts, to)?;
            self.entries(&mut text, to)?;
            to.head(b"}")?;
        }
        drop(text);
        to.head(&[b' '; 8][..(length - size) as usize])?;
        self.slots().try_for_each(|slot| {
            let _layer = executor.enter(slot.layer);
            let tensor = slot.tensor(executor, &self.experiment.optimizer)?;
            executor.save(&tensor, &mut |bytes| to.elements(bytes))
        })?;
        drop(buffer);
        Ok(())
    }

    /// The tensors that are written.
    fn slots(&self) -> impl Iterator<Item = Slot<'_, B>> {
        slots(&self.model, &self.experiment.optimizer, self.pruning.as_ref(), self.updates > 0)
    }

    /// Writes the header up to its first tensor.
    fn preamble(&self, facts: &[(&str, String)], to: &mut dyn Sink) -> Result<()> {
        to.head(BEGINNING.as_bytes())?;
        to.head(NO_CHECKSUM.as_bytes())?;
        to.head(b"\"")?;
        for (name, text) in facts {
            to.head(format!(",{}:\"", quoted(name)?).as_bytes())?;
            // Line by line: a long text is never there twice.
            for line in text.split_inclusive('\n') {
                let quoted = quoted(line)?;
                to.head(&quoted.as_bytes()[1..quoted.len() - 1])?;
            }
            to.head(b"\"")?;
        }
        to.head(b"}")
    }

    /// Bytes of the entries of all tensors, and of the longest.
    fn size_of_entries(&self) -> Result<(u64, u64)> {
        let (mut all, mut longest) = (0, 0);
        self.each_entry(|name, entry| {
            let size = entry.size(name)?;
            (all, longest) = (all + size, size.max(longest));
            Ok(())
        })?;
        Ok((all, longest))
    }

    /// Writes the entries of all tensors, each by way of `text`.
    fn entries(&self, text: &mut Vec<u8>, to: &mut dyn Sink) -> Result<()> {
        self.each_entry(|name, entry| {
            text.clear();
            text.push(b',');
            serde_json::to_writer(&mut *text, name).map_err(unwritable)?;
            text.push(b':');
            serde_json::to_writer(&mut *text, &entry).map_err(unwritable)?;
            to.head(text)
        })
    }

    /// Calls `see` for each tensor, with its name and its entry.
    fn each_entry(&self, mut see: impl FnMut(&str, Entry<'_>) -> Result<()>) -> Result<()> {
        // The name's text is used again for the next tensor.
        let (mut begin, mut name) = (0, String::new());
        self.slots().try_for_each(|slot| {
            let end = begin + (slot.shape.elements() * slot.dtype.size()) as u64;
            let dtype = slot.dtype.safetensors_name();
            let entry = Entry { dtype, shape: slot.shape.dims(), data_offsets: [begin, end] };
            begin = end;
            name.clear();
            slot.add_name(&mut name, self.executor.ledger());
            see(&name, entry)
        })
    }
}

/// A text in JSON.
fn quoted(text: &str) -> Result<String> {
    serde_json::to_string(text).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::Misused(error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_entry_is_as_long_as_it_is_said_to_be(
            name in prop_oneof!["[a-z0-9._]{0,40}", ".{0,40}"],
            shape in prop::collection::vec(prop_oneof![0..12_usize, any::<usize>()], 0..5),
            data_offsets in prop::array::uniform2(prop_oneof![0..2000_u64, any::<u64>()]),
        ) {
            let entry = Entry { dtype: "BF16", shape: &shape, data_offsets };
            let text = format!(",{}:{}", quoted(&name).expect("a text"), serde_json::to_string(&entry).expect("an entry"));
            prop_assert_eq!(entry.size(&name).expect("a text"), text.len() as u64);
        }
    }
}

//! The tensors of a checkpoint, as a session takes them.
//!
//! Refuses a tensor of another shape or type, and the state of an optimizer that earlier versions kept in another form.

use std::io::{Read, Seek, SeekFrom};

use super::{Checkpoint, WORDS};
use crate::{
    backend::{DType, Shape},
    bytes::counted,
    error::{Error, Result},
    header::{Element, Place, unreadable},
    step::{STATE, restore::Source},
    whole_file,
};

/// The types, in a file and here, of the scales of `flash-adamw` that earlier versions wrote. No other state is f16.
const WIDER_SCALES: (Element, DType) = (Element::Of(DType::F32), DType::F16);
/// Why those are not read.
const OF_WIDER_SCALES: &str = "has scales of flash-adamw in f32, as an earlier version of this program kept them, and this one \
                               keeps their roots in f16; go on with that version, or begin a run with these weights (--set \
                               weights.path=FILE)";

/// A checkpoint as a session reads it.
pub(super) struct Reader<'a> {
    checkpoint: &'a Checkpoint,
    name: String,
    left: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint) -> Self {
        Self { checkpoint, name: String::new(), left: 0 }
    }
}

impl Source for Reader<'_> {
    fn find(&mut self, name: &str, shape: Shape, dtype: DType) -> Result<()> {
        let Checkpoint { path, file, header, .. } = self.checkpoint;
        let place = format!("tensor {name}");
        let Some(Place { element: found, shape: extents, begin, bytes }) = header.tensors.get(name) else {
            return Err(self.checkpoint.of_another(place, "is not there".to_owned()));
        };
        let has_extents = extents.iter().copied().eq(shape.dims().iter().map(|extent| *extent as u64));
        if has_extents && name.starts_with(STATE) && (*found, dtype) == WIDER_SCALES {
            return Err(Error::file_at(path, place, OF_WIDER_SCALES));
        }
        if !has_extents || *found != Element::Of(dtype) {
            let found = format!("{} {extents:?}", found.shown());
            let message = format!("is {found}, and the experiment has {} {:?}", dtype.name(), shape.dims());
            return Err(self.checkpoint.of_another(place, message));
        }
        let mut file = file;
        file.seek(SeekFrom::Start(*begin)).map_err(|error| unreadable(path, &error))?;
        name.clone_into(&mut self.name);
        self.left = *bytes;
        Ok(())
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        let Checkpoint { path, file, .. } = self.checkpoint;
        let mut file = file;
        if to.len() as u64 > self.left {
            return Err(Error::Misused(format!("more of {} was asked for than there is", self.name)));
        }
        self.left -= to.len() as u64;
        file.read_exact(to).map_err(|error| {
            let message = format!("cannot be read: {}; {}", whole_file::reason(&error), WORDS.mend);
            Error::file_at(path, format!("tensor {}", self.name), message)
        })
    }

    fn is_all(&self, tensors: usize, passes: usize) -> Result<()> {
        let Checkpoint { header, counters, .. } = self.checkpoint;
        if header.tensors.len() != tensors {
            let own = counted(header.tensors.len() as u64, "tensor");
            let message = format!("has {own}, and the experiment {tensors}");
            return Err(self.checkpoint.of_another("header".to_owned(), message));
        }
        if counters.passes.len() != passes {
            let own = counted(counters.passes.len() as u64, "dropout layer");
            let message = format!("has {own}, and the experiment {passes}");
            return Err(self.checkpoint.of_another("header, dropout_passes".to_owned(), message));
        }
        Ok(())
    }
}

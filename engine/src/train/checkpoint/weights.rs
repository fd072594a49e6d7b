//! The weights of a checkpoint alone, as other programs load them.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::Path,
};

use serde_json::{Map, Value, json};

use super::{Checkpoint, READ, write::unwritable};
use crate::{
    bytes::Bytes,
    error::Result,
    experiment::weights::{
        known::SCALING,
        own::{CLASS_NAMES, PIXELS, PREFIX},
    },
    header::{self, Place},
    whole_file,
};

/// The prefix of the names of the optimizer's state.
const STATE: &str = "optimizer.";

impl Checkpoint {
    /// Writes a safetensors file with the weights and the running statistics under their names, without the optimizer's
    /// state; the size of the file. The elements go through a buffer of 64 KiB. The old file at `path` stays until the new
    /// one is whole.
    ///
    /// # Errors
    /// Fails if the checkpoint cannot be read any more, and when the system takes no more.
    pub fn write_weights(&self, path: impl AsRef<Path>) -> Result<Bytes> {
        let path = path.as_ref();
        whole_file::write_with(path, |file| self.copy_weights(file), || {}).map_err(|error| unwritable(path, &error))
    }

    /// The weights in the order of the file.
    fn weights(&self) -> Vec<(&str, &Place)> {
        let named = self.header.tensors.iter().map(|(name, place)| (name.as_str(), place));
        let mut weights: Vec<_> = named.filter(|(name, _)| !name.starts_with(STATE)).collect();
        weights.sort_by_key(|(name, place)| (place.begin, *name));
        weights
    }

    fn copy_weights(&self, to: &mut File) -> io::Result<Bytes> {
        let weights = self.weights();
        let head = self.head_of(&weights);
        let mut to = BufWriter::new(to);
        to.write_all(&(head.len() as u64).to_le_bytes())?;
        to.write_all(head.as_bytes())?;
        let (mut from, mut bytes) = (&self.file, vec![0; READ]);
        let mut size = 8 + head.len() as u64;
        for (_, place) in &weights {
            from.seek(SeekFrom::Start(place.begin))?;
            let mut left = place.bytes;
            while left > 0 {
                let part = &mut bytes[..left.min(READ as u64) as usize];
                from.read_exact(part)?;
                to.write_all(part)?;
                left -= part.len() as u64;
            }
            size += place.bytes;
        }
        to.flush()?;
        Ok(Bytes(size))
    }

    /// The header: texts, then where each tensor lies.
    fn head_of(&self, weights: &[(&str, &Place)]) -> String {
        // Loaders ask for the name of the framework whose order of elements it is.
        let mut facts = json!({ "format": "pt", "plimsoll_step": self.step().to_string() });
        for name in ["experiment", PIXELS, SCALING, CLASS_NAMES] {
            if let Some(text) = self.header.facts.get(name) {
                facts[format!("{PREFIX}{name}")] = text.as_str().into();
            }
        }
        let mut head = Map::new();
        head.insert("__metadata__".to_owned(), facts);
        let mut at = 0;
        for (name, place) in weights {
            let offsets = [at, at + place.bytes];
            let entry = json!({ "dtype": place.element.name(), "shape": place.shape, "data_offsets": offsets });
            head.insert((*name).to_owned(), entry);
            at += place.bytes;
        }
        header::padded(Value::from(head).to_string())
    }
}

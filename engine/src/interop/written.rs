//! A safetensors file that is written tensor by tensor from elements that lie elsewhere.
//!
//! Always holds: the file stands under its name only when it is whole; nothing larger than one tensor is held.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use serde_json::{Map, Value, json};

use super::layout::View;
use crate::{
    bytes::Bytes,
    error::{Error, Result},
    header,
    tensor::DType,
    whole_file::{self, reason},
};

/// Elements that are converted at a time.
const PART: usize = 16 << 10;

/// A tensor to write.
pub(super) struct Entry<'a> {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) view: View,
    pub(super) from: Elements<'a>,
}

/// Where the elements of a tensor come from.
pub(super) enum Elements<'a> {
    /// The elements lie somewhere, in this type.
    There(&'a [u8], DType),
    /// The elements are made, in the type of the entry.
    Made(Box<dyn Fn() -> Vec<u8> + 'a>),
}

/// Writes `entries` at `path`; the size of the file.
///
/// # Errors
/// Fails when the system takes no more.
pub(super) fn write(path: &Path, entries: &[Entry<'_>]) -> Result<Bytes> {
    let failed = |error: io::Error| Error::file(path, format!("cannot be written: {}", reason(&error)));
    whole_file::write_with(path, |file| put(file, entries), || {}).map_err(failed)
}

fn put(file: &mut File, entries: &[Entry<'_>]) -> io::Result<Bytes> {
    let head = head_of(entries);
    let mut file = BufWriter::new(file);
    file.write_all(&(head.len() as u64).to_le_bytes())?;
    file.write_all(head.as_bytes())?;
    let mut size = 8 + head.len() as u64;
    for Entry { dtype, view, from, .. } in entries {
        let made;
        let (bytes, own) = match from {
            Elements::There(bytes, own) => (*bytes, *own),
            Elements::Made(make) => {
                made = make();
                (&made[..], *dtype)
            }
        };
        let mut part = vec![0; PART * dtype.size()];
        let mut at = 0;
        while at < view.elements() {
            let count = (view.elements() - at).min(PART);
            let part = &mut part[..count * dtype.size()];
            view.convert(bytes, own, at, part, *dtype);
            file.write_all(part)?;
            at += count;
            size += part.len() as u64;
        }
    }
    file.flush()?;
    Ok(Bytes(size))
}

fn head_of(entries: &[Entry<'_>]) -> String {
    // Loaders ask for the name of the framework whose order of elements it is.
    let facts = json!({ "format": "pt", "producer": "plimsoll" });
    let tensor = |entry: &Entry<'_>| {
        let bytes = entry.view.elements() * entry.dtype.size();
        Tensor { name: entry.name.clone(), element: entry.dtype.safetensors_name(), shape: entry.shape.clone(), bytes }
    };
    head(facts, entries.iter().map(tensor))
}

/// A tensor as the header of a file has it.
pub(super) struct Tensor {
    pub(super) name: String,
    /// The name of its type.
    pub(super) element: &'static str,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: usize,
}

/// The header of a file with `facts` and, one behind the other, these tensors.
pub(super) fn head(facts: Value, tensors: impl IntoIterator<Item = Tensor>) -> String {
    let mut head = Map::new();
    head.insert("__metadata__".to_owned(), facts);
    let mut at = 0;
    for Tensor { name, element, shape, bytes } in tensors {
        let end = at + bytes;
        head.insert(name, json!({ "dtype": element, "shape": shape, "data_offsets": [at, end] }));
        at = end;
    }
    header::padded(Value::from(head).to_string())
}

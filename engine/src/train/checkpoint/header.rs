//! The header of a safetensors file: which tensors it has, where, and the texts beside them.
//!
//! Refuses, with the place, whatever does not follow from the size of the file: nothing is allocated by a length that was
//! not held against that size, and no more than [`MOST`] bytes.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use serde::Deserialize;

use crate::{
    backend::DType,
    bytes::Bytes,
    error::{Error, Result},
    step::save::dtype_name,
    whole_file::reason,
};

/// The longest header that is read.
const MOST: u64 = 32 << 20;

const MEND: &str = "take another checkpoint of the run";

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) dtype: DType,
    pub(super) shape: Vec<u64>,
    /// Where its elements begin in the file.
    pub(super) begin: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

/// What a file says of itself, held against its size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub(super) facts: HashMap<String, String>,
    pub(super) tensors: HashMap<String, Place>,
    /// Where the elements of the first tensor begin.
    pub(super) elements_at: u64,
}

/// The header as it is written.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "__metadata__", default)]
    facts: HashMap<String, String>,
    #[serde(flatten)]
    tensors: HashMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Reads the header of the file at `path`, which is open.
///
/// # Errors
/// A file that is no safetensors file, that was cut short, or whose tensors overlap or leave gaps.
pub(super) fn read(path: &Path, file: &File) -> Result<Header> {
    let size = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    let foreign =
        |message: String| Error::file(path, format!("{message}; choose a checkpoint (.safetensors) of a run"));
    if size < 8 {
        return Err(foreign(format!("is {size} bytes long, and a checkpoint is longer: it was cut short or is none")));
    }
    let mut file = file;
    let mut length = [0; 8];
    file.seek(SeekFrom::Start(0)).map_err(|error| unreadable(path, &error))?;
    file.read_exact(&mut length).map_err(|error| unreadable(path, &error))?;
    let length = u64::from_le_bytes(length);
    if length > size - 8 || length > MOST {
        let message = format!(
            "has {size} bytes and says that its header has {length}: it was cut short, or is no safetensors file"
        );
        return Err(foreign(message));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(|error| unreadable(path, &error))?;
    let written: Written = serde_json::from_slice(&text).map_err(|error| {
        let place = format!("header, column {}", error.column());
        Error::file_at(path, place, format!("is no safetensors file, or was damaged: {error}; {MEND}"))
    })?;
    let elements_at = 8 + length;
    let tensors = places(path, written.tensors, elements_at, size)?;
    Ok(Header { facts: written.facts, tensors, elements_at })
}

/// Where the tensors are, each held against the size of the file: they follow each other without a gap to its end.
fn places(path: &Path, entries: HashMap<String, Entry>, elements_at: u64, size: u64) -> Result<HashMap<String, Place>> {
    let mut all: Vec<(String, Entry)> = entries.into_iter().collect();
    all.sort_by_key(|(_, entry)| entry.data_offsets);
    let (mut end, mut places) = (0, HashMap::new());
    for (name, Entry { dtype, shape, data_offsets: [begin, after] }) in all {
        let wrong = |message: String| {
            Err(Error::file_at(path, format!("tensor {name}"), format!("{message}; the file is damaged: {MEND}")))
        };
        let Some(dtype) = of_name(&dtype) else {
            return wrong(format!("has elements of type {dtype}, which no checkpoint has"));
        };
        let elements = shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        let Some(bytes) = elements.and_then(|elements| elements.checked_mul(dtype.size() as u64)) else {
            return wrong(format!("has the shape {shape:?}, which is larger than any file"));
        };
        if begin != end || after.checked_sub(begin) != Some(bytes) {
            return wrong(format!("lies at {begin} to {after}, and {bytes} bytes are due at {end}"));
        }
        end = after;
        places.insert(name, Place { dtype, shape, begin: elements_at + begin, bytes });
    }
    match size.checked_sub(elements_at) {
        Some(there) if there == end => Ok(places),
        Some(there) if there > end => {
            let message = format!("has {} after its last tensor; the file is damaged: {MEND}", Bytes(there - end));
            Err(Error::file_at(path, format!("byte {}", elements_at + end), message))
        }
        _ => {
            let message = format!(
                "ends here, and its tensors need {} more: it was cut short; {MEND}",
                Bytes(elements_at + end - size)
            );
            Err(Error::file_at(path, format!("byte {size}"), message))
        }
    }
}

fn of_name(name: &str) -> Option<DType> {
    [DType::F64, DType::F32, DType::Bf16, DType::F16, DType::U32, DType::U8]
        .into_iter()
        .find(|d| dtype_name(*d) == name)
}

/// A file that the system does not give.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::file(path, format!("cannot be read: {}", reason(error)))
}

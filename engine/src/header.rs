//! The header of a safetensors file: which tensors it has, where, and the texts with them.
//!
//! Always holds: every tensor of a header lies inside the file, and none over another. Refuses, with the place, everything that
//! does not agree with the size of the file: no allocation is made from a length that was not compared with that size, and none
//! is larger than 32 MiB.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use serde::Deserialize;

use crate::{
    bytes::Bytes,
    error::{Error, Result},
    tensor::DType,
    whole_file::reason,
};

/// The longest header that is read.
const MOST: u64 = 32 << 20;

/// The words that a reader of headers uses for a file in its messages.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// What the file should be, such as `a checkpoint`.
    pub what: &'static str,
    /// What to do if it is something else.
    pub choose: &'static str,
    /// What to do if it is damaged.
    pub mend: &'static str,
    /// Whether it may have elements of types that only other programs have.
    pub takes_others: bool,
}

/// The words for a file of weights, from any program.
pub const WEIGHTS: Words = Words {
    what: "a file of weights",
    choose: "choose a .safetensors file of weights",
    mend: "fetch or save it again",
    takes_others: true,
};

/// The type of a tensor's elements in a file: the engine's, and those that only other programs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// A type that tensors here have.
    Of(DType),
    /// Another type, such as the whole numbers that count batches: its name, and its bits.
    Other(&'static str, u64),
}

/// The types that only other programs have.
const OTHERS: [(&str, u64); 15] = [
    ("BOOL", 8),
    ("I8", 8),
    ("I16", 16),
    ("U16", 16),
    ("I32", 32),
    ("I64", 64),
    ("U64", 64),
    ("C64", 64),
    ("F8_E4M3", 8),
    ("F8_E5M2", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
];

impl Element {
    /// The type of this name in a header.
    fn of_name(name: &str) -> Option<Self> {
        let own = [DType::F64, DType::F32, DType::Bf16, DType::F16, DType::U32, DType::U8];
        let own = own.into_iter().find(|dtype| dtype.safetensors_name() == name).map(Self::Of);
        own.or_else(|| OTHERS.into_iter().find(|(other, _)| *other == name).map(|(name, bits)| Self::Other(name, bits)))
    }

    /// The name in a header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Of(dtype) => dtype.safetensors_name(),
            Self::Other(name, _) => name,
        }
    }

    /// The name on screen.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Of(dtype) => dtype.name(),
            Self::Other(name, _) => name,
        }
    }

    /// The type, where weights may have it.
    pub fn of_weights(self) -> Option<DType> {
        match self {
            Self::Of(dtype @ (DType::F64 | DType::F32 | DType::Bf16 | DType::F16)) => Some(dtype),
            Self::Of(DType::U32 | DType::U8) | Self::Other(..) => None,
        }
    }

    fn bits(self) -> u64 {
        match self {
            Self::Of(dtype) => 8 * dtype.size() as u64,
            Self::Other(_, bits) => bits,
        }
    }
}

/// The text of a saved run that says whether channels were taken out of its model.
pub(crate) const THINNED: &str = "channels_taken_out";

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The type of its elements.
    pub element: Element,
    /// The tensor's extents.
    pub shape: Vec<u64>,
    /// Where its elements begin in the file.
    pub begin: u64,
    /// The tensor's bytes.
    pub bytes: u64,
}

/// The header of a safetensors file, checked against the file's size.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The texts stored with the tensors.
    pub facts: HashMap<String, String>,
    /// The tensors by name.
    pub tensors: HashMap<String, Place>,
    /// Where the elements of the first tensor begin.
    pub elements_at: u64,
}

/// The header as it is written.
#[derive(Deserialize)]
#[serde(expecting = "an object with a tensor for each name")]
struct Written {
    #[serde(rename = "__metadata__", default)]
    facts: HashMap<String, String>,
    #[serde(flatten)]
    tensors: HashMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with dtype, shape and data_offsets")]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Reads the header of the file at `path`, which is open.
///
/// # Errors
/// A file that is not a safetensors file, that was cut short, or whose tensors overlap or leave gaps.
pub fn read(path: &Path, file: &File, words: Words) -> Result<Header> {
    let size = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    let foreign = |message: String| Error::file(path, format!("{message}; {}", words.choose));
    if size < 8 {
        let what = words.what;
        return Err(foreign(format!("is {size} bytes long, and {what} is longer: it was cut short or is not one")));
    }
    let mut file = file;
    let mut length = [0; 8];
    file.seek(SeekFrom::Start(0)).map_err(|error| unreadable(path, &error))?;
    file.read_exact(&mut length).map_err(|error| unreadable(path, &error))?;
    if let Some(what) = mistaken(path) {
        return Err(foreign(format!("is not a safetensors file, but {what}")));
    }
    let length = u64::from_le_bytes(length);
    if length > size - 8 || length > MOST {
        let message = format!(
            "has {size} bytes and says that its header has {length}: it was cut short, or is not a safetensors file"
        );
        return Err(foreign(message));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(|error| unreadable(path, &error))?;
    let written: Written = serde_json::from_slice(&text).map_err(|error| {
        let place = format!("header, column {}", error.column());
        Error::file_at(path, place, format!("is not a safetensors file, or was damaged: {error}; {}", words.mend))
    })?;
    let elements_at = 8 + length;
    let tensors = places(path, written.tensors, elements_at, size, words)?;
    Ok(Header { facts: written.facts, tensors, elements_at })
}

/// The kind of a file by its first bytes, if its name says otherwise.
fn mistaken(path: &Path) -> Option<&'static str> {
    const POINTER: &[u8] = b"version https://git-lfs";
    let mut first = [0; POINTER.len()];
    // A shorter file ends in zeros.
    File::open(path).and_then(|mut file| file.read(&mut first)).ok()?;
    match first {
        _ if first == POINTER => {
            Some("a pointer of Git LFS to one, which stands for the file until it is fetched (git lfs pull)")
        }
        [b'<', b'!' | b'h' | b'H', ..] => Some("a page of the web, fetched in its place: fetch the file itself"),
        [b'P', b'K', 3, 4, ..] => Some("a zip archive, as PyTorch saves pickled weights: save them as safetensors"),
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("packed: unpack it"),
        _ => None,
    }
}

/// The most characters of a tensor's name in a message.
const MOST_SHOWN: usize = 80;

/// A tensor's name for a message: on one line, and not longer than that.
pub fn shown(name: &str) -> String {
    let plain =
        name.chars().take(MOST_SHOWN).map(|sign| if sign.is_control() { char::REPLACEMENT_CHARACTER } else { sign });
    let text: String = plain.collect();
    if name.chars().nth(MOST_SHOWN).is_some() { format!("{text}…") } else { text }
}

/// Where the tensors are, each compared with the size of the file: they follow each other without a gap to its end.
fn places(
    path: &Path,
    entries: HashMap<String, Entry>,
    elements_at: u64,
    size: u64,
    words: Words,
) -> Result<HashMap<String, Place>> {
    let Words { what, mend, takes_others, .. } = words;
    let mut all: Vec<(String, Entry)> = entries.into_iter().collect();
    all.sort_by_key(|(_, entry)| entry.data_offsets);
    let (mut end, mut places) = (0, HashMap::new());
    for (name, Entry { dtype, shape, data_offsets: [begin, after] }) in all {
        let wrong = |message: String| {
            Err(Error::file_at(
                path,
                format!("tensor {}", shown(&name)),
                format!("{message}; the file is damaged: {mend}"),
            ))
        };
        let is_taken = |element: &Element| takes_others || matches!(element, Element::Of(_));
        let Some(element) = Element::of_name(&dtype).filter(is_taken) else {
            return wrong(format!("has elements of type {}, which {what} never has", shown(&dtype)));
        };
        let elements = shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
        let Some(bytes) = elements.and_then(|elements| elements.checked_mul(element.bits())).map(|bits| bits / 8)
        else {
            return wrong(format!("has the shape {shape:?}, which is larger than any file"));
        };
        if begin != end || after.checked_sub(begin) != Some(bytes) {
            return wrong(format!("lies at {begin} to {after}, and {bytes} bytes are due at {end}"));
        }
        end = after;
        places.insert(name, Place { element, shape, begin: elements_at.saturating_add(begin), bytes });
    }
    match size.checked_sub(elements_at) {
        Some(there) if there == end => Ok(places),
        Some(there) if there > end => {
            let message = format!("has {} after its last tensor; the file is damaged: {mend}", Bytes(there - end));
            Err(Error::file_at(path, format!("byte {}", elements_at + end), message))
        }
        _ => {
            let message = format!(
                "ends here, and its tensors need {} more: it was cut short; {mend}",
                Bytes(end.saturating_sub(size - elements_at))
            );
            Err(Error::file_at(path, format!("byte {size}"), message))
        }
    }
}

/// A file that the system does not give.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::file(path, format!("cannot be read: {}", reason(error)))
}

/// The text of a header with spaces at its end, so that the elements after it begin at a multiple of eight bytes.
pub(crate) fn padded(mut text: String) -> String {
    // A width in a format has 16 bits, and a header is longer where there are many tensors.
    let room = text.len().next_multiple_of(8) - text.len();
    text.reserve_exact(room);
    text.extend(std::iter::repeat_n(' ', room));
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn refused(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.safetensors");
        fs::write(&path, bytes).expect("writable");
        read(&path, &File::open(&path).expect("there"), WEIGHTS).expect_err("no weights").to_string()
    }

    fn of_header(text: &str) -> String {
        refused(&[&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat())
    }

    #[test]
    fn a_header_is_padded_however_long_it_is() {
        for (length, whole) in
            [(0, 0), (1, 8), (8, 8), (65_535, 65_536), (1 << 20, 1 << 20), ((1 << 20) + 1, (1 << 20) + 8)]
        {
            let text = "x".repeat(length);
            let padded = padded(text.clone());
            assert!(padded.len() == whole && padded.trim_end() == text);
        }
    }

    #[test]
    fn what_is_no_file_of_weights_is_called_what_it_is() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
        for (bytes, what) in [
            (&pointer[..], "but a pointer of Git LFS to one"),
            (b"<!DOCTYPE html><html></html>", "but a page of the web"),
            (b"PK\x03\x04 and so on", "but a zip archive"),
            (b"\x1f\x8b\x08 and so on", "but packed: unpack it"),
        ] {
            let said = refused(bytes);
            assert!(said.contains(what) && said.ends_with(WEIGHTS.choose), "{said}");
        }
        let said = of_header("[1]");
        assert!(said.contains("expected an object with a tensor for each name"), "{said}");
    }

    #[test]
    fn a_name_is_told_on_one_line_and_in_short() {
        let name = format!("a\\n{}", "b".repeat(100_000));
        let entry = "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,8]}";
        let said = of_header(&format!("{{\"{name}\":{entry}}}"));
        assert!(said.len() < 500 && said.contains("tensor a\u{fffd}bbb") && said.contains('…'), "{said}");
        assert_eq!(shown("block1.conv.weight"), "block1.conv.weight");
    }
}

//! The file a preset lies in: reading its bytes, and writing them so that a failed save leaves the old file whole.
//!
//! Refuses files that are not regular, files over [`MAX_BYTES`], and files of other programs, each by its name.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use super::to_text;
use crate::{
    bytes::Bytes,
    error::{Error, Result},
    experiment::{Experiment, check::check, weights},
    whole_file::{self, Place, reason},
};

/// The largest preset that is read.
pub const MAX_BYTES: u64 = 1 << 20;

const OPENED: &str = "choose a preset (.toml) or a model's config.json";

/// The text of a file.
pub(super) fn text_of(path: &Path) -> Result<String> {
    let failed = |error: io::Error| Error::file(path, format!("cannot be read: {}", reason(&error)));
    let about = fs::metadata(path).map_err(failed)?;
    if about.is_dir() {
        return Err(folder(path));
    }
    if !about.is_file() {
        return Err(Error::file(path, format!("is a pipe or a device, not a file; {OPENED}")));
    }
    text_from(File::open(path).map_err(failed)?, path)
}

/// The text of the configuration in a model's folder.
pub(super) fn text_of_config(path: &Path) -> Result<String> {
    if path.is_dir() {
        return Err(Error::file(
            path,
            "is a folder in place of the file that describes the model of the weights; fetch it again",
        ));
    }
    text_of(path)
}

/// The error for a folder without `config.json`. It says what to do with the folder.
pub(crate) fn folder(path: &Path) -> Error {
    let has_weights = || {
        let names = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        names.into_iter().any(|name| name.extension().is_some_and(|ending| ending == "safetensors"))
    };
    let message = if path.join(weights::ADAPTERS).is_file() {
        "is a folder of adapters, which say nothing about the model that they belong to; open the folder of that model, or \
         export the run whole (`plimsoll export RUN --format huggingface --merge`) and open that"
            .to_owned()
    } else if has_weights() {
        format!(
            "is a folder of weights without a {}, which describes their model; put the model's next to them, or choose a \
             preset of the same sizes and begin with them (--set weights.path={})",
            weights::CONFIG,
            path.display()
        )
    } else {
        "is a folder; choose a preset (.toml) or a model's config.json in it".to_owned()
    };
    Error::file(path, message)
}

/// The text that a reader gives; `path` is for messages.
pub(super) fn text_from(reader: impl Read, path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::file(path, format!("cannot be read: {}", reason(&error))))?;
    if let Some((kind, mend)) = other_program(path, &bytes) {
        return Err(Error::file(path, format!("is {kind}; {mend}; {OPENED}")));
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large(path));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("is not UTF-8 text; save it as UTF-8; {OPENED}");
        Error::file_at(path, format!("byte {at}"), message)
    })
}

pub(super) fn too_large(path: &Path) -> Error {
    Error::file(path, format!("is larger than {}, and a preset is smaller", Bytes(MAX_BYTES)))
}

/// The kind of a file of another program, and what to do with it.
fn other_program(path: &Path, bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const WEIGHTS: &str = "open the config.json that lies in the same folder";
    const DATA: &str = "choose data in the experiment: Data, Source in the window; data.kind and data.path in a preset";
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    // A header's length in eight bytes, then the header, in JSON.
    let has_header = |bytes: &[u8]| {
        let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length));
        bytes.get(8) == Some(&b'{') && length.is_some_and(|length| length < 1 << 32)
    };
    match extension.as_deref() {
        Some("safetensors") => return Some(("a file of weights (safetensors)", WEIGHTS)),
        Some("gguf") => return Some(("a file of weights (GGUF)", WEIGHTS)),
        Some("csv" | "tsv") => return Some(("a table of values", DATA)),
        Some("parquet") => return Some(("a table (Parquet)", DATA)),
        Some("pt" | "pth" | "ckpt" | "bin" | "npz" | "npy") => return Some(("a file of tensors", WEIGHTS)),
        _ => {}
    }
    match bytes {
        bytes if has_header(bytes) => Some(("a file of weights (safetensors)", WEIGHTS)),
        [b'G', b'G', b'U', b'F', ..] => Some(("a file of weights (GGUF)", WEIGHTS)),
        [b'P', b'K', 3, 4, ..] => Some(("a ZIP archive", "unpack it")),
        [0x1f, 0x8b, ..] => Some(("a gzip archive", "unpack it")),
        [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] => Some(("an image", DATA)),
        _ => None,
    }
}

/// Writes a preset, whole or not at all.
///
/// # Errors
/// Fails for an experiment that could not be read back, and for a file that cannot be written. The old file at `path` is
/// then as before.
pub fn write(path: impl AsRef<Path>, experiment: &Experiment) -> Result<()> {
    let path = path.as_ref();
    if let Some(problem) = check(experiment, None).into_iter().next() {
        return Err(problem.into());
    }
    // Through a link, the file it leads to is replaced, not the link.
    let Place::File(target) = Place::of(path) else {
        return Err(Error::file(path, "is a pipe or a device, not a file; choose a name that ends in .toml"));
    };
    let failed = |error: &io::Error| {
        let kept = if target.exists() { "; the file is as it was before" } else { "; nothing was written" };
        Error::file(path, format!("cannot be saved: {}{kept}", reason(error)))
    };
    if fs::metadata(&target).is_ok_and(|old| old.permissions().readonly()) {
        return Err(Error::file(path, "is write-protected; save under another name, or lift the protection"));
    }
    if target.file_name().is_none() {
        return Err(Error::file(path, "is not a file name; choose one that ends in .toml"));
    }
    whole_file::write_durably(&target, to_text(experiment).as_bytes()).map_err(|error| failed(&error))
}

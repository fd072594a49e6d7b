//! The folder of files that can be made again: compiled kernels, measurements of a device.
//!
//! Holds: a file in it is whole or not there, however many programs write at once. Refuses nothing: without a folder, or
//! with a full disk, the files are made again next time.

use std::{
    fs,
    path::{Path, PathBuf},
};

use etcetera::{BaseStrategy, base_strategy};

use crate::whole_file;

/// The folder for one kind of thing, made if it must be; `None` if the system has no place for it.
pub(crate) fn folder(kind: &str) -> Option<PathBuf> {
    let folder = base_strategy::choose_native_strategy().ok()?.cache_dir().join("plimsoll").join(kind);
    fs::create_dir_all(&folder).ok().map(|()| folder)
}

/// Writes a file, if it can be written.
pub(crate) fn write(place: &Path, bytes: &[u8]) {
    // A file that is not kept is made again next time.
    let _ = whole_file::write(place, bytes);
}

//! The folder of what can be made again: compiled kernels, what was measured on a device.
//!
//! Holds: a file in it is whole or not there, however many programs write at once. Refuses nothing: without a folder, or
//! with a full disk, what was to be kept is made again next time.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder for one kind of thing, made if it must be; `None` where the system has no place for it.
pub(crate) fn folder(kind: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || if cfg!(windows) { variable("LOCALAPPDATA") } else { Some(variable("HOME")?.join(".cache")) };
    let folder = variable("XDG_CACHE_HOME").or_else(home)?.join("plimsoll").join(kind);
    fs::create_dir_all(&folder).ok().map(|()| folder)
}

/// Writes a file aside and then in its place.
pub(crate) fn write(place: &Path, bytes: &[u8]) {
    let aside = place.with_extension(std::process::id().to_string());
    if fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, place)).is_err() {
        // What is left of it is in nobody's way.
        let _ = fs::remove_file(&aside);
    }
}

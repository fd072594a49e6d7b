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
pub fn folder(kind: &str) -> Option<PathBuf> {
    let folder = base_strategy::choose_native_strategy().ok()?.cache_dir().join("plimsoll").join(kind);
    fs::create_dir_all(&folder).ok().map(|()| folder)
}

/// Reads a file, if it can be read. A pipe in its place is not waited for.
pub fn read(place: &Path) -> Option<Vec<u8>> {
    fs::metadata(place).ok()?.is_file().then(|| fs::read(place).ok())?
}

/// Writes a file, if it can be written.
pub fn write(place: &Path, bytes: &[u8]) {
    // A file that is not kept is made again next time.
    let _ = whole_file::write(place, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("kept");
        assert_eq!(read(&place), None);
        write(&place, b"kept");
        assert_eq!(read(&place).as_deref(), Some(&b"kept"[..]));
        assert_eq!(read(folder.path()), None);
        #[cfg(unix)]
        {
            let pipe = folder.path().join("pipe");
            let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
            assert!(made.success());
            assert_eq!(read(&pipe), None, "nobody writes to it");
        }
    }
}

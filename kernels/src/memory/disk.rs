//! The free space of a disk.
//!
//! Refuses nothing: a system that does not report it has no figure.

use std::path::Path;

use crate::bytes::Bytes;

/// Space for this user's files on the disk of `folder`, or of the nearest folder around it that exists; `None` if the system
/// does not report it.
pub fn free_at(folder: &Path) -> Option<Bytes> {
    folder.ancestors().find(|folder| folder.is_dir()).and_then(free)
}

#[cfg(unix)]
fn free(folder: &Path) -> Option<Bytes> {
    let about = rustix::fs::statvfs(folder).ok()?;
    Some(Bytes(about.f_bavail.saturating_mul(about.f_frsize)))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<Bytes> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_room_of_the_one_around_it() {
        let folder = tempfile::tempdir().expect("a folder");
        if cfg!(unix) {
            assert!(free_at(folder.path()).is_some_and(|free| free > Bytes::ZERO));
            assert!(free_at(&folder.path().join("a/b")).is_some());
        }
    }
}

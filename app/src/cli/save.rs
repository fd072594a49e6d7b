//! Files that commands write: whole or not at all, and never over another without `--force`.
//!
//! Always holds: through a link the file behind it is written, and a pipe or a device receives the bytes and is not
//! replaced. Refuses folders, disks and sockets, and the files of a store of runs.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use plimsoll_engine::whole_file::{self, Place};

use crate::{cli::out, files::is_outside_stores};

/// Standard output.
const STDOUT: &str = "-";

/// Whether a place is standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// Refuses a place where a file stands, before any work is done for it.
///
/// # Errors
/// A file that is there, without `force`; a folder, a disk, a socket; a place in a store of runs.
pub(super) fn can_be_written(path: &Path, force: bool) -> anyhow::Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    is_outside_stores(path)?;
    let shown = path.display();
    if let Err(error) = path.symlink_metadata()
        && error.kind() == io::ErrorKind::InvalidFilename
    {
        anyhow::bail!("{shown}: cannot be written: {}", whole_file::reason(&error));
    }
    match Place::of(path) {
        Place::File(file) if file.is_dir() => anyhow::bail!("{shown}: is a folder; name a file in it"),
        Place::File(file) if !force && file.symlink_metadata().is_ok() => {
            anyhow::bail!("{shown}: already exists; write --force to replace it, or name another file")
        }
        Place::File(_) | Place::Stream => Ok(()),
        Place::Other => anyhow::bail!("{shown}: is a disk or a socket, not a file; name a file"),
    }
}

/// Refuses a place in a folder that is not there, before any work is done for it.
///
/// # Errors
/// A folder that is not there.
pub(super) fn has_folder(path: &Path) -> anyhow::Result<()> {
    let Place::File(file) = Place::of(path) else { return Ok(()) };
    let folder = folder_of(&file);
    if folder.is_dir() {
        return Ok(());
    }
    // A path with `..` behind a missing folder leads nowhere: that folder is what must be there.
    let goes_up = folder.components().any(|part| part == Component::ParentDir);
    let first_missing = || folder.ancestors().filter(|part| !part.as_os_str().is_empty() && !part.exists()).last();
    let missing = goes_up.then(first_missing).flatten().unwrap_or(folder);
    anyhow::bail!(
        "{}: cannot be written: there is no folder {}; make it first, or name another place",
        path.display(),
        missing.display()
    )
}

/// Refuses a place for a folder where something else stands, before any work is done for it.
///
/// # Errors
/// A file, a pipe or a device; a place in a store of runs.
pub(super) fn can_be_folder(path: &Path) -> anyhow::Result<()> {
    is_outside_stores(path)?;
    anyhow::ensure!(
        path.is_dir() || path.metadata().is_err(),
        "{}: is a file, a pipe or a device, and a folder is needed; name another place",
        path.display()
    );
    Ok(())
}

/// Makes a folder, if there is none.
///
/// # Errors
/// A folder that cannot be made.
pub(super) fn make_folder(path: &Path) -> anyhow::Result<()> {
    let failed = |error: io::Error| {
        anyhow::anyhow!("{}: cannot be made: {}; name another place", path.display(), whole_file::reason(&error))
    };
    fs::create_dir_all(path).map_err(failed)
}

/// The file behind a place, for content that can only go to a file.
///
/// # Errors
/// A pipe or a device.
pub(super) fn file(path: &Path) -> anyhow::Result<PathBuf> {
    match Place::of(path) {
        Place::File(file) => Ok(file),
        Place::Stream | Place::Other => {
            anyhow::bail!("{}: is a pipe or a device; weights go to a file: name one", path.display())
        }
    }
}

/// Writes a file, or to standard output where the path is `-`.
///
/// # Errors
/// The errors of [`can_be_written`] and [`has_folder`], and a place that cannot be written.
pub(super) fn write(path: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    if is_stdout(path) {
        return out::bytes(bytes);
    }
    can_be_written(path, force)?;
    has_folder(path)?;
    let written = match Place::of(path) {
        Place::File(file) if !force => whole_file::write_new(&file, bytes),
        Place::File(_) | Place::Stream | Place::Other => whole_file::write_where_led(path, bytes),
    };
    written.map_err(|error| anyhow::anyhow!("{}: cannot be written: {}", path.display(), whole_file::reason(&error)))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

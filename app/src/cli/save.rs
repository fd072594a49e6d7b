//! Files that commands write: whole or not at all, and never over another without `--force`.

use std::path::Path;

use plimsoll_engine::whole_file;

use crate::cli::out;

/// Standard output.
const STDOUT: &str = "-";

/// Refuses a place where a file stands, before any work is done for it.
///
/// # Errors
/// A file that is there, without `force`; a folder.
pub(super) fn can_be_written(path: &Path, force: bool) -> anyhow::Result<()> {
    let shown = path.display();
    match path.symlink_metadata() {
        _ if path == Path::new(STDOUT) => Ok(()),
        Ok(there) if there.is_dir() => anyhow::bail!("{shown}: is a folder; name a file in it"),
        Ok(_) if !force => {
            anyhow::bail!("{shown}: is there already; write --force to replace it, or name another file")
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Refuses a place in a folder that is not there, before any work is done for it.
///
/// # Errors
/// A folder that is not there.
pub(super) fn has_folder(path: &Path) -> anyhow::Result<()> {
    let folder = folder_of(path);
    anyhow::ensure!(
        folder.is_dir(),
        "{}: cannot be written: there is no folder {}; make it first",
        path.display(),
        folder.display()
    );
    Ok(())
}

/// Writes a file, or to standard output where the path is `-`.
///
/// # Errors
/// Those of [`can_be_written`] and [`has_folder`], and a place that cannot be written.
pub(super) fn write(path: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    if path == Path::new(STDOUT) {
        return out::bytes(bytes);
    }
    can_be_written(path, force)?;
    has_folder(path)?;
    let written = if force { whole_file::write(path, bytes) } else { whole_file::write_new(path, bytes) };
    written.map_err(|error| anyhow::anyhow!("{}: cannot be written: {}", path.display(), whole_file::reason(&error)))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

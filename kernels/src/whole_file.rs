//! Writing a file completely or not at all: next to its place, then renamed onto it.
//!
//! Owns the ways of writing a file, from bytes or as it is made, the target of a path that a user wrote, and the words for
//! the system's refusals. Always holds: a reader of the place finds the old file or the new one, however many programs write
//! at once, and the old one after a failure. Anything that is not a file, such as a pipe, is never replaced.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use tempfile::NamedTempFile;

/// How the name of a file begins and ends that is not written whole yet.
const BEGUN: (&str, &str) = (".plimsoll-", ".part");

/// The most links that are followed one after the other, as Linux does.
const MOST_LINKS: usize = 40;

/// Where a path that a user wrote leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file or a folder, or nothing yet: its own path, behind every link.
    File(PathBuf),
    /// A pipe or a device that takes bytes as they come.
    Stream,
    /// A disk or a socket, which takes no file.
    Other,
}

impl Place {
    /// Where `path` leads.
    pub fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(about) if about.is_file() || about.is_dir() => Self::File(behind_links(path)),
            Ok(about) if is_stream(about.file_type()) => Self::Stream,
            Ok(_) => Self::Other,
            Err(_) => Self::File(behind_links(path)),
        }
    }
}

fn behind_links(path: &Path) -> PathBuf {
    let mut behind = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(to) = fs::read_link(&behind) else { break };
        behind = folder_of(&behind).join(to);
    }
    behind
}

#[cfg(unix)]
fn is_stream(kind: fs::FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;

    kind.is_fifo() || kind.is_char_device()
}

#[cfg(not(unix))]
fn is_stream(_: fs::FileType) -> bool {
    true
}

/// Writes `bytes` where a path that a user wrote leads: into the file behind its links, whole or not at all; into a pipe or
/// a device as they are.
///
/// # Errors
/// Fails if [`write()`] does, and for a disk or a socket.
pub fn write_where_led(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match Place::of(path) {
        Place::File(file) => write(&file, bytes),
        Place::Stream => File::options().write(true).open(path)?.write_all(bytes),
        Place::Other => Err(io::Error::other("it is a disk or a socket, not a file")),
    }
}

/// Writes `bytes` at `path`.
///
/// # Errors
/// Fails when the folder is missing, full or closed to this user; `path` is then as it was.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, false)
}

/// Writes `bytes` at `path`, where no file may stand.
///
/// # Errors
/// Fails if [`write()`] does, and with [`io::ErrorKind::AlreadyExists`] where something stands.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = beside(path)?;
    fill(file.as_file_mut(), bytes, false)?;
    file.persist_noclobber(path).map(drop).map_err(|failed| failed.error)
}

/// Writes in the same way; the bytes are on the disk when this returns, and survive a loss of power.
///
/// # Errors
/// Fails if [`write()`] does.
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, true)?;
    // The rename itself reaches the disk with its folder; where a folder cannot be synced, the file still is.
    let _ = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    Ok(())
}

fn put(path: &Path, bytes: &[u8], is_durable: bool) -> io::Result<()> {
    let mut file = beside(path)?;
    fill(file.as_file_mut(), bytes, is_durable)?;
    place(file, path)
}

/// Puts a whole file in its place.
fn place(mut file: NamedTempFile, path: &Path) -> io::Result<()> {
    const TRIES: u32 = 20;
    const AGAIN: Duration = Duration::from_millis(50);
    for _ in 1..TRIES {
        match file.persist(path) {
            Err(failed) if is_held(&failed.error) => file = failed.file,
            other => return other.map(drop).map_err(|failed| failed.error),
        }
        thread::sleep(AGAIN);
    }
    file.persist(path).map(drop).map_err(|failed| failed.error)
}

/// Whether a file may be held by another program. Windows replaces no file that is open, and whoever reads it, or looks for
/// viruses in it, has it open for a moment.
fn is_held(error: &io::Error) -> bool {
    // ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION.
    cfg!(windows) && matches!(error.raw_os_error(), Some(5 | 32 | 33))
}

/// Writes a file at `path`, which `fill` fills. Its bytes are on the disk when this returns. `before` is called when the
/// file is whole and not yet in its place.
///
/// # Errors
/// Fails if [`write()`] does, and with the errors of `fill`; `path` is then as it was.
pub fn write_with<T, E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<T, E>,
    before: impl FnOnce(),
) -> Result<T, E> {
    let mut file = beside(path)?;
    let done = fill(file.as_file_mut())?;
    file.as_file().sync_all()?;
    before();
    place(file, path)?;
    let _ = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    Ok(done)
}

/// Whether a file can be written in `folder`: one is begun and removed.
///
/// # Errors
/// Says why not.
pub fn can_be_written_in(folder: &Path) -> io::Result<()> {
    beside(&folder.join("any")).map(drop)
}

/// Removes files from `folder` that killed programs had begun to write there.
pub fn remove_begun(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_begun(&entry.file_name().to_string_lossy()) {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The same without the files that a program still writes, which are locked.
pub fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_begun = is_begun(&entry.file_name().to_string_lossy());
        // Elsewhere a lock would keep others from reading, so nothing is locked and nothing is removed.
        let is_free = || cfg!(unix) && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_begun && entry.file_type().is_ok_and(|kind| kind.is_file()) && is_free() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether this is the name of a file that is not written whole yet.
pub fn is_begun(name: &str) -> bool {
    name.starts_with(BEGUN.0) && name.ends_with(BEGUN.1)
}

/// An input or output error in plain words.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        _ if is_held(error) => "another program has it open, or this user has no rights to it".to_owned(),
        io::ErrorKind::PermissionDenied => "this user has no rights to it".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::FileTooLarge => "the file would be larger than the system allows (ulimit -f)".to_owned(),
        io::ErrorKind::QuotaExceeded => "this user may not write more to the disk".to_owned(),
        io::ErrorKind::InvalidFilename => {
            "the system allows no such name: it is too long, or has a sign that may not be in one; choose another"
                .to_owned()
        }
        io::ErrorKind::NotADirectory => "there is a file where a folder is needed".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".to_owned(),
        _ => error.to_string(),
    }
}

/// An empty file in the same folder, which is gone when it is dropped.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(BEGUN.0).suffix(BEGUN.1);
    // A temporary file is for its owner alone; this one becomes a file like any other, as the user's mask has it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(folder_of(path)).map_err(|error| without_path(&error))?;
    #[cfg(unix)]
    let _ = file.as_file().try_lock();
    Ok(file)
}

/// The system's message, without the name of the temporary file, which the user does not know.
fn without_path(error: &io::Error) -> io::Error {
    let text = error.to_string();
    let said = text.rsplit_once(" at path ").map_or(text.as_str(), |(said, _)| said);
    io::Error::new(error.kind(), said)
}

/// Writes an open file, to the disk where it must be durable.
///
/// # Errors
/// Fails when the disk is full.
pub fn fill(file: &mut File, bytes: &[u8], is_durable: bool) -> io::Result<()> {
    file.write_all(bytes)?;
    if is_durable { file.sync_all() } else { Ok(()) }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kept.toml");
        write(&path, b"first").expect("written");
        write_durably(&path, b"second").expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"second");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        assert!(write(&folder.path().join("none/x"), b"").is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
        let said = write(&folder.path().join("none/x"), b"").expect_err("no folder").to_string();
        assert!(!said.contains(BEGUN.1) && !said.contains("none"), "{said}");
        assert!(write_new(&path, b"third").is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(&path).expect("there"), b"second");
        // A folder stands in the file's place: it stays, and the file that was written aside is gone.
        fs::create_dir(folder.path().join("taken")).expect("made");
        assert!(write(&folder.path().join("taken"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_leads_to_its_file_and_a_pipe_stays_a_pipe() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        symlink("second", at("first")).expect("made");
        symlink("file", at("second")).expect("made");
        assert_eq!(Place::of(&at("first")), Place::File(at("file")));
        for bytes in [&b"new"[..], b"newer"] {
            write_where_led(&at("first"), bytes).expect("written");
            assert_eq!(fs::read(at("file")).expect("there"), bytes);
        }
        assert!(fs::symlink_metadata(at("first")).expect("there").is_symlink());
        symlink("/dev/null", at("null")).expect("made");
        assert_eq!(Place::of(&at("null")), Place::Stream);
        write_where_led(&at("null"), b"gone").expect("taken");
        assert!(fs::symlink_metadata(at("null")).expect("there").is_symlink());
        let socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("made");
        assert_eq!(Place::of(&at("socket")), Place::Other);
        assert!(write_where_led(&at("socket"), b"").is_err() && at("socket").exists());
        drop(socket);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_has_the_rights_of_any_other_new_file() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().expect("a folder");
        let (written, usual) = (folder.path().join("written"), folder.path().join("usual"));
        write(&written, b"").expect("written");
        fs::write(&usual, b"").expect("written");
        let mode = |path| fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&written), mode(&usual));
    }

    #[test]
    #[cfg(unix)]
    fn what_a_killed_program_began_is_removed_and_what_is_being_written_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at(".plimsoll-abc.part"), "half").expect("writable");
        fs::write(at("model.safetensors"), "whole").expect("writable");
        let begun = beside(&at("config.json")).expect("writable");
        remove_abandoned(folder.path());
        assert!(!at(".plimsoll-abc.part").exists() && at("model.safetensors").exists() && begun.path().exists());
    }
}

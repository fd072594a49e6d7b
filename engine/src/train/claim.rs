//! The claim on a folder of checkpoints: only one run at a time is saved there.
//!
//! Owns the lock file in the folder. Always holds: the lock belongs to the operating system, so it ends with its process, also
//! after a kill; the file is removed with the claim. On a file system without locks, nothing can be claimed and
//! nothing is refused. Refuses a lock file that is a link, because its target does not belong to the program.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// The file that is locked. It says which process has locked it.
const FILE: &str = ".plimsoll-run.lock";
/// A process that only looks at a folder locks it for a moment. A claim is tried this often,
const TRIES: u32 = 10;
/// with this pause.
const PAUSE: Duration = Duration::from_millis(20);
/// A claim begins again if the file was removed under its lock, this often at most.
const ANEW: u32 = 1000;

/// A claimed folder. Dropping it lets the folder go.
#[derive(Debug)]
pub(crate) struct Claim {
    /// `None` only while it is dropped.
    file: Option<File>,
    path: PathBuf,
}

/// Why a folder could not be claimed.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A process has it: which one, if that can be read.
    Held(Option<u32>),
    /// Something else than a file is at the lock file's place, which is given.
    NoFile(PathBuf),
    /// The folder takes no file.
    System(io::Error),
}

impl Claim {
    /// Claims `folder`, which must exist, for as long as the returned value lives.
    ///
    /// # Errors
    /// Fails if another claim of the folder lives, in this process or another, and if no file can be written in the
    /// folder.
    pub(crate) fn take(folder: &Path) -> Result<Self, Refused> {
        for _ in 1..TRIES {
            match Self::try_take(folder) {
                Err(Refused::Held(_)) => std::thread::sleep(PAUSE),
                taken => return taken,
            }
        }
        Self::try_take(folder)
    }

    /// Claims `folder` at once or not at all.
    ///
    /// # Errors
    /// Fails if [`Claim::take`] does.
    pub(crate) fn try_take(folder: &Path) -> Result<Self, Refused> {
        let path = folder.join(FILE);
        for _ in 0..ANEW {
            if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_file()) {
                return Err(Refused::NoFile(path));
            }
            let mut file = open(&path).map_err(Refused::System)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(Refused::Held(holder(&path))),
                // The owner before removed it between the two calls.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) | Err(TryLockError::Error(_)) => {
                    // The number is only for messages, and a full disk cannot store it.
                    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                    return Ok(Self { file: Some(file), path });
                }
            }
        }
        Err(Refused::Held(None))
    }

    /// Whether a file of this name is the one that is locked.
    pub(crate) fn is_file(name: &str) -> bool {
        name == FILE
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if cfg!(unix) {
            // Before it is unlocked: a file that others make then is another one.
            if is_at(&file, &self.path) {
                let _ = fs::remove_file(&self.path);
            }
        } else {
            drop(file);
            // It stays where another has it open.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Refused {
    /// A process in words.
    pub(crate) fn process(pid: Option<u32>) -> String {
        pid.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    }
}

/// The process that says in the file that it has locked it.
fn holder(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // Reading and writing are shared, removing is not: a file that is open is the one at its path.
    #[cfg(windows)]
    std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 3);
    options.open(path)
}

/// Whether this open file is the one at `path`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().is_ok_and(|own| fs::symlink_metadata(path).is_ok_and(|there| place(own) == place(there)))
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_claimed_once_and_free_again_afterwards() {
        let folder = tempfile::tempdir().expect("a folder");
        let claim = Claim::take(folder.path()).expect("it is free");
        let Err(Refused::Held(pid)) = Claim::try_take(folder.path()) else { panic!("claimed twice") };
        assert!(cfg!(windows) || pid == Some(std::process::id()));
        drop(claim);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        // A file that a killed process left is not a claim.
        fs::write(folder.path().join(FILE), "4711").expect("written");
        drop(Claim::try_take(folder.path()).expect("it is free"));
        assert!(matches!(Claim::take(&folder.path().join("none")), Err(Refused::System(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_lock_s_place_is_refused_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (lock, other) = (folder.path().join(FILE), folder.path().join("other"));
        for is_there in [false, true] {
            if is_there {
                fs::write(&other, "mine").expect("written");
            }
            std::os::unix::fs::symlink(&other, &lock).expect("linked");
            assert!(matches!(Claim::take(folder.path()), Err(Refused::NoFile(path)) if path == lock), "{is_there}");
            assert_eq!(fs::read_to_string(&other).ok(), is_there.then(|| "mine".to_owned()));
            fs::remove_file(&lock).expect("removed");
        }
        drop(Claim::take(folder.path()).expect("it is free"));
    }

    /// Many threads claim a folder again and again, and only one at a time has it.
    #[test]
    fn one_at_a_time_has_it() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

        let folder = tempfile::tempdir().expect("a folder");
        let (inside, turns) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while turns.load(SeqCst) < 200 {
                        if let Ok(claim) = Claim::try_take(folder.path()) {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two have it");
                            turns.fetch_add(1, SeqCst);
                            std::thread::yield_now();
                            inside.fetch_sub(1, SeqCst);
                            drop(claim);
                        }
                    }
                });
            }
        });
    }
}

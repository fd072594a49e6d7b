//! The folders of the runs' files, and the removal of leftovers of killed programs and deleted runs.
//!
//! Always holds: only the holder of a folder's claim touches it, so never while its run trains. Without being asked, only
//! useless files are removed: unfinished files, empty folders, folders of deleted runs. A checkpoint of a run that the store
//! does not know is a [`Stray`], which a user decides on: the store may be another than the run's. Refuses to touch anything
//! whose name the store does not give.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{self, Component, Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    bytes::Bytes,
    error::{Error, Result},
    store::{
        FILES, RunKey, Store,
        database::{BESIDE, Database, FILE},
        delete::{AWAY, Files},
        fault::Fault,
    },
    train::{Checkpoint, claim::Claim},
    whole_file::{self, Place},
};

/// The database may get a run this much later than its files.
const YOUNG: SignedDuration = SignedDuration::from_mins(1);

/// A folder of checkpoints whose run the store does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The folder.
    pub folder: PathBuf,
    /// Its bytes on the disk.
    pub on_disk: Bytes,
    /// When it was last written.
    pub written: Timestamp,
}

impl Store {
    /// Name and place of everything in the folder of all.
    fn folders(&self) -> impl Iterator<Item = (String, PathBuf)> + use<> {
        let entries = fs::read_dir(self.folder.join(FILES)).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
    }

    /// Removes leftovers of killed programs and deleted runs: unfinished files, empty folders, folders of deleted runs. A
    /// folder whose run trains stays as it is, and a file that cannot be removed does no harm.
    pub fn tidy(&self) {
        for (name, path) in self.folders() {
            if RunKey::given(&name).is_some() {
                tidy(&path);
            } else if name.strip_prefix(AWAY).and_then(RunKey::given).is_some() {
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    /// The folders with checkpoints, and nothing else, whose run the store does not know and no process trains.
    ///
    /// # Errors
    /// Fails if the database does.
    pub fn strays(&self) -> Result<Vec<Stray>> {
        let mut strays = Vec::new();
        // A damaged store may not know its own.
        if self.listed()?.damage.is_some() {
            return Ok(strays);
        }
        let young = Timestamp::now() - YOUNG;
        for (name, path) in self.folders() {
            let Some(stray) = RunKey::given(&name).and_then(|_| stray(path)) else { continue };
            if stray.written < young
                && self.keys("WHERE key = ?1", &[&name])?.is_empty()
                && Claim::try_take(&stray.folder).is_ok()
            {
                strays.push(stray);
            }
        }
        Ok(strays)
    }

    /// Removes strays.
    ///
    /// # Errors
    /// Names the folder that cannot be removed, or the run that is saved there by now; then all stay.
    pub fn remove_strays(&self, strays: &[Stray]) -> Result<()> {
        let key = |stray: &Stray| RunKey::given(&stray.folder.file_name()?.to_string_lossy());
        let keys: Vec<RunKey> = strays.iter().filter_map(key).collect();
        let mut files = Files::of(&self.folder.join(FILES));
        files.put_away(&keys)?;
        files.remove();
        Ok(())
    }
}

/// Whether `folder` holds a run's files, in any store.
pub fn is_of_run(folder: &Path) -> bool {
    let is_named = |folder: &Path| {
        let is_key = folder.file_name().is_some_and(|name| RunKey::given(&name.to_string_lossy()).is_some());
        let runs = folder.parent().filter(|runs| runs.file_name().is_some_and(|name| name == FILES));
        is_key && runs.and_then(Path::parent).is_some_and(|store| store.join(FILE).exists())
    };
    // A link may lead into a store as well as out of one.
    [path::absolute(folder), folder.canonicalize()].into_iter().flatten().any(|folder| is_named(&folder))
}

/// Whether a file at `path` would take the place of a store's database, or of a file next to it, or lie among the files of its
/// runs, through any links and `..`.
pub fn would_take(path: &Path) -> bool {
    let is_called = |path: &Path, name: &str| path.file_name().is_some_and(|own| own.eq_ignore_ascii_case(name));
    let is_of_runs = |folder: &Path| is_called(folder, FILES) && folder.with_file_name(FILE).exists();
    // A store whose database is gone still has its runs' checkpoints.
    let is_of_run = |folder: &Path| {
        let is_key = folder.file_name().is_some_and(|name| RunKey::given(&name.to_string_lossy()).is_some());
        let has_any = || Checkpoint::NAMES.iter().any(|name| folder.join(name).exists());
        is_key && folder.parent().is_some_and(|runs| is_called(runs, FILES)) && has_any()
    };
    // The folder of the files may itself be a link out of the store, which the path as it is written leads into.
    let is_plain = |path: &PathBuf| !path.components().any(|part| part == Component::ParentDir);
    [path::absolute(path).ok().filter(is_plain), resolved(path)].into_iter().flatten().any(|path| {
        let is_beside = || path.with_file_name(FILE).exists() && BESIDE.iter().any(|name| is_called(&path, name));
        is_beside() || path.ancestors().any(|folder| is_of_runs(folder) || is_of_run(folder))
    })
}

/// The path without links and `..`; the part that does not exist yet stays as it is written.
fn resolved(path: &Path) -> Option<PathBuf> {
    let Place::File(file) = Place::of(path) else { return None };
    let file = path::absolute(file).ok()?;
    let there = file.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    let (there, mut resolved) = there?;
    for part in file.strip_prefix(there).ok()?.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    Some(resolved)
}

/// Removes unfinished files from the folder of a run, and the folder if nothing is left in it.
fn tidy(folder: &Path) {
    let names = names(folder);
    let is_litter = |name: &String| whole_file::is_begun(name) || Claim::is_file(name);
    if !names.is_empty() && !names.iter().any(is_litter) {
        return;
    }
    let Ok(claim) = Claim::try_take(folder) else { return };
    whole_file::remove_begun(folder);
    drop(claim);
    // Only if it is empty: a run that begins to save there makes it again.
    let _ = fs::remove_dir(folder);
}

/// The folder as a stray, if it has checkpoints and nothing else.
fn stray(folder: PathBuf) -> Option<Stray> {
    let names = names(&folder);
    let is_checkpoint = |name: &String| Checkpoint::NAMES.contains(&name.as_str());
    let is_next_to_it =
        |name: &String| name == Checkpoint::RANGES || whole_file::is_begun(name) || Claim::is_file(name);
    let is_own = |name: &String| is_checkpoint(name) || is_next_to_it(name);
    if !names.iter().any(is_checkpoint) || !names.iter().all(is_own) {
        return None;
    }
    let files: Vec<fs::Metadata> =
        names.iter().map(|name| fs::metadata(folder.join(name))).collect::<io::Result<_>>().ok()?;
    let on_disk = Bytes(files.iter().map(fs::Metadata::len).sum());
    let written = files.iter().filter_map(|file| file.modified().ok()).max()?;
    Some(Stray { folder, on_disk, written: Timestamp::try_from(written).ok()? })
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Makes the folder `files` of a run in the store at `folder`.
///
/// # Errors
/// Fails if the folder cannot be made, and in the folder of a store that is another program's or a newer version's.
pub(super) fn make(folder: &Path, files: &Path) -> Result<()> {
    if let Some(fault) = Database::open_frozen(folder.join(FILE)).err().filter(Fault::is_of_another) {
        return Err(fault.of(folder));
    }
    fs::create_dir_all(files).map_err(|error| {
        let mend = match error.kind() {
            ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                "move the file away that is in the place of a folder"
            }
            _ => "make room or give rights there",
        };
        Error::file(files, format!("{error}; {mend}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_place_of_a_folder_is_to_be_moved_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let runs = folder.path().join("runs");
        fs::write(&runs, "no folder").expect("written");
        let said = make(folder.path(), &runs.join("run")).expect_err("a file").to_string();
        assert!(said.contains("move the file away"), "{said}");
        fs::remove_file(&runs).expect("moved away");
        make(folder.path(), &runs.join("run")).expect("a folder");
    }
}

//! A folder of images, known by its listing alone: a sub-folder is a class, and a JPEG or PNG in it is a sample.
//!
//! Owns [`Listing`]. It is valid as long as neither the folder nor a class's folder has changed, so its holder need not
//! list two million files again. Always holds: classes and files are in the order of their names. Refuses: folders without
//! two classes, classes without images, more than [`MOST_FILES`] entries. Names that begin with a dot are skipped, as are
//! files of another kind.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    data::file::unreadable,
    error::{Error, Result},
    memory::probe::uncounted,
};

/// The most entries of a folder and its classes together.
const MOST_FILES: usize = 2_000_000;
/// The most classes.
const MOST_CLASSES: usize = 10_000;
/// A change this recent may be followed by another with the same time stamp.
const SETTLED: Duration = Duration::from_secs(2);

/// A folder of images, by name.
#[derive(Debug)]
pub(in crate::data) struct Listing {
    folder: PathBuf,
    classes: Vec<OsString>,
    files: Vec<Entry>,
    stamps: Vec<Option<SystemTime>>,
    at: SystemTime,
}

/// A file and its class.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    class: u16,
    name: Box<OsStr>,
}

/// The listing of `folder`: the one that is `known`, unless it is of another folder or something in it changed.
pub(super) fn list(folder: &Path, known: Option<&Arc<Listing>>) -> Result<Arc<Listing>> {
    uncounted(|| match known.filter(|listing| listing.folder == folder && listing.is_current()) {
        Some(listing) => Ok(Arc::clone(listing)),
        None => Ok(Arc::new(Listing::read(folder)?)),
    })
}

impl Listing {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let about = fs::metadata(folder).map_err(|error| unreadable(folder, &error))?;
        if !about.is_dir() {
            return Err(Error::file(folder, "this is not a folder; choose the folder that holds a sub-folder a class"));
        }
        let mut room = MOST_FILES;
        let at = SystemTime::now();
        // The stamps before the names: a change in between shows as a stamp that is too old.
        let mut stamps = vec![stamp(folder)];
        let classes = names(folder, &mut room, |_, is_folder| is_folder)?;
        if !(2..=MOST_CLASSES).contains(&classes.len()) {
            let message = format!(
                "{} sub-folders in it, and each is a class; choose a folder with 2 to {MOST_CLASSES}",
                classes.len()
            );
            return Err(Error::file(folder, message));
        }
        let mut files = Vec::new();
        for (class, name) in classes.iter().enumerate() {
            let path = folder.join(name);
            stamps.push(stamp(&path));
            let names = names(&path, &mut room, |name, is_folder| !is_folder && is_image(name))?;
            if names.is_empty() {
                let message = "no JPEG or PNG in it, though a sub-folder is a class; put images in it, take it away, or \
                               choose the folder whose sub-folders hold the images";
                return Err(Error::file(path, message));
            }
            let class = class as u16;
            files.extend(names.into_iter().map(|name| Entry { class, name: name.into_boxed_os_str() }));
        }
        files.shrink_to_fit();
        stamps.shrink_to_fit();
        Ok(Self { folder: folder.to_owned(), classes, files, stamps, at })
    }

    /// Whether the folder has not changed since it was listed.
    pub(super) fn is_current(&self) -> bool {
        let folders = self.classes.iter().map(|class| self.folder.join(class));
        let mut now = std::iter::once(self.folder.clone()).chain(folders).map(|path| stamp(&path));
        self.stamps.iter().all(|then| {
            let is_settled = then.is_some_and(|then| then.checked_add(SETTLED).is_some_and(|end| end < self.at));
            now.next() == Some(*then) && is_settled
        })
    }

    /// Whether both hold the same classes and files.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.folder == other.folder && self.classes == other.classes && self.files == other.files
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of classes.
    pub(super) fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let names = OsStr::len;
        let classes: usize = self.classes.iter().map(|name| size_of::<OsString>() + names(name)).sum();
        let files: usize = self.files.iter().map(|file| size_of::<Entry>() + names(&file.name)).sum();
        let folder = names(self.folder.as_os_str()) + self.stamps.len() * size_of::<Option<SystemTime>>();
        size_of::<Self>() + folder + classes + files
    }

    /// The class of a file.
    pub(super) fn class(&self, file: u32) -> u16 {
        self.files[file as usize].class
    }

    /// The class of every file.
    pub(super) fn labels(&self) -> Vec<u16> {
        self.files.iter().map(|file| file.class).collect()
    }

    /// The path of a file.
    pub(super) fn path(&self, file: u32) -> PathBuf {
        let Entry { class, name } = &self.files[file as usize];
        self.class_path(*class).join(&**name)
    }

    /// The folder of a class.
    pub(super) fn class_path(&self, class: u16) -> PathBuf {
        self.folder.join(&self.classes[usize::from(class)])
    }
}

fn stamp(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The names in a folder that `wanted` takes, given whether each is a folder; in order.
fn names(folder: &Path, room: &mut usize, wanted: impl Fn(&OsStr, bool) -> bool) -> Result<Vec<OsString>> {
    let failed = |error| unreadable(folder, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        *room = room.checked_sub(1).ok_or_else(|| {
            Error::file(folder, format!("more than {MOST_FILES} files here and next to it; choose a smaller set"))
        })?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type().map_err(failed)?;
        // A link that leads nowhere is met when it is read.
        let is_folder = kind.is_dir() || kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|to| to.is_dir());
        if wanted(&name, is_folder) {
            names.push(name);
        }
    }
    names.sort_unstable();
    names.shrink_to_fit();
    names.iter_mut().for_each(OsString::shrink_to_fit);
    Ok(names)
}

/// Whether a file's name is that of a JPEG or PNG.
fn is_image(name: &OsStr) -> bool {
    let ending = Path::new(name).extension();
    ending.is_some_and(|ending| ["jpg", "jpeg", "png"].iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

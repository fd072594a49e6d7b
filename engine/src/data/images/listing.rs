//! A folder of images, known by its listing alone: a sub-folder is a class, and a JPEG, PNG or WebP in it is a sample.
//!
//! Owns [`Listing`]. It is valid as long as neither the folder nor a class's folder has changed, so its holder need not
//! list two million files again. A folder with `train` and one of [`TESTED`], each with sub-folders, is divided already.
//! Always holds: classes and files are in the order of their names, those for training first. Refuses: folders without
//! two classes, classes without images to train on, classes that are only tested, more than [`MOST_FILES`] entries. Names
//! that begin with a dot are skipped, as are files of another kind.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::APART;
use crate::{
    bytes::{are, counted},
    data::{file::unreadable, weighed::Weighed},
    error::{Error, Result},
    sync::Mutex,
};

/// The most entries of a folder and its classes together.
const MOST_FILES: usize = 2_000_000;
/// The most classes.
const MOST_CLASSES: usize = 10_000;
/// The folder of the images to train on, if a folder is divided already.
const TRAINED: &str = "train";
/// Folders that may hold the images to test on. The first one that is there counts.
const TESTED: [&str; 4] = ["val", "valid", "validation", "test"];
/// Endings of images.
const ENDINGS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];
/// Endings of images that are not read.
const UNREAD: [&str; 8] = ["bmp", "gif", "tif", "tiff", "heic", "avif", "jxl", "ppm"];
/// A change this recent may be followed by another with the same time stamp.
const SETTLED: Duration = Duration::from_secs(2);

/// A folder of images, by name.
#[derive(Debug)]
pub(in crate::data) struct Listing {
    folder: PathBuf,
    /// The folders that hold the classes: the folder itself, or its parts for training and testing.
    parts: Vec<PathBuf>,
    classes: Vec<OsString>,
    files: Vec<Entry>,
    /// How many of the files are for training, where the folder is divided already.
    train: Option<usize>,
    /// Images of other formats in the folders of classes, which are left out.
    unread: usize,
    /// Every folder that was looked at, with its time.
    stamps: Vec<(PathBuf, Option<SystemTime>)>,
    at: SystemTime,
    /// Bytes that decoding the files takes that take most, and the side of the images; `None` before they were computed.
    decoding: Mutex<Option<(usize, [usize; APART])>>,
}

/// A file and its class.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    class: u16,
    part: u8,
    name: Box<OsStr>,
}

/// The state of a reading while folders are listed.
struct Reading {
    room: usize,
    stamps: Vec<(PathBuf, Option<SystemTime>)>,
}

/// The listing of `folder`: the one that is `known`, unless it is of another folder or something in it changed.
pub(super) fn list(folder: &Path, known: Option<&Arc<Weighed<Listing>>>) -> Result<Arc<Weighed<Listing>>> {
    match known.filter(|listing| listing.folder == folder && listing.is_current()) {
        Some(listing) => Ok(Arc::clone(listing)),
        None => Weighed::new(|| Listing::read(folder)),
    }
}

impl Reading {
    /// The names in a folder that `wanted` takes. The stamp before the names: a change in between shows as one too old.
    fn names(&mut self, folder: &Path, wanted: impl FnMut(&OsStr, bool) -> bool) -> Result<Vec<OsString>> {
        self.stamps.push((folder.to_owned(), stamp(folder)));
        names(folder, &mut self.room, wanted)
    }
}

impl Listing {
    /// A checksum of the names of classes and files, which decide the number of each sample.
    pub(super) fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for class in &self.classes {
            hasher.update(class.as_encoded_bytes());
            hasher.update(b"/");
        }
        for Entry { class, part, name } in &self.files {
            hasher.update(&class.to_le_bytes());
            hasher.update(&[*part]);
            hasher.update(name.as_encoded_bytes());
            hasher.update(b"/");
        }
        hasher.finalize()
    }

    pub(super) fn read(folder: &Path) -> Result<Self> {
        let about = fs::metadata(folder).map_err(|error| unreadable(folder, &error))?;
        if !about.is_dir() {
            return Err(Error::file(folder, "this is not a folder; choose the folder that holds a sub-folder a class"));
        }
        let at = SystemTime::now();
        let mut reading = Reading { room: MOST_FILES, stamps: Vec::new() };
        let inside = reading.names(folder, |_, is_folder| is_folder)?;
        let parts = parts(folder, &inside);
        let classes = match &parts[..] {
            [own] if own == folder => inside,
            parts => reading.names(&parts[0], |_, is_folder| is_folder)?,
        };
        if !(2..=MOST_CLASSES).contains(&classes.len()) {
            let message = format!(
                "{} sub-folders in it, and each is a class; choose a folder with 2 to {MOST_CLASSES}",
                classes.len()
            );
            return Err(Error::file(&parts[0], message));
        }
        if let Some(test) = parts.get(1) {
            let other =
                reading.names(test, |name, is_folder| is_folder && !classes.iter().any(|class| class == name))?;
            if let Some(other) = other.first() {
                let message = format!(
                    "a class that {} does not have, so nothing of it would be learned; remove it, or put images of it there",
                    parts[0].display()
                );
                return Err(Error::file(test.join(other), message));
            }
        }
        let mut listing = Self {
            folder: folder.to_owned(),
            parts,
            classes,
            files: Vec::new(),
            train: None,
            unread: 0,
            stamps: Vec::new(),
            at,
            decoding: Mutex::default(),
        };
        listing.fill(&mut reading)?;
        listing.stamps = reading.stamps;
        listing.files.shrink_to_fit();
        listing.stamps.shrink_to_fit();
        Ok(listing)
    }

    /// Lists the files of every class.
    fn fill(&mut self, reading: &mut Reading) -> Result<()> {
        for (part, folder) in self.parts.iter().enumerate() {
            let begin = self.files.len();
            for (class, name) in self.classes.iter().enumerate() {
                let path = folder.join(name);
                // A class that is not tested may be missing there.
                if part > 0 && !path.is_dir() {
                    continue;
                }
                let mut unread = 0;
                let names = reading.names(&path, |name, is_folder| {
                    unread += usize::from(!is_folder && has_ending(name, &UNREAD));
                    !is_folder && has_ending(name, &ENDINGS)
                })?;
                self.unread += unread;
                if names.is_empty() && part == 0 {
                    let message = "no JPEG, PNG or WebP in it, though a sub-folder is a class; put images in it, remove it, or \
                        choose the folder whose sub-folders hold the images";
                    return Err(Error::file(path, message));
                }
                let entry =
                    |name: OsString| Entry { class: class as u16, part: part as u8, name: name.into_boxed_os_str() };
                self.files.extend(names.into_iter().map(entry));
            }
            if part > 0 {
                self.train = Some(begin);
                if self.files.len() == begin {
                    let message =
                        "no image of any class in it, and one is needed to test on; put some there, or remove it";
                    return Err(Error::file(folder, message));
                }
            }
        }
        Ok(())
    }

    /// How many files are for training, where the folder is divided already.
    pub(super) fn trained(&self) -> Option<usize> {
        self.train
    }

    /// A note on images of other formats, which are left out.
    pub(super) fn unread(&self) -> Option<String> {
        let (images, are) = (counted(self.unread as u64, "image"), are(self.unread as u64));
        let note = || format!("{images} {are} not JPEG, PNG or WebP, and left out: convert them to learn from them");
        (self.unread > 0).then(note)
    }

    /// A note on where its parts are.
    pub(super) fn note(&self) -> Option<String> {
        let name =
            |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match (&self.parts[..], self.train) {
            ([train, test], Some(count)) => Some(format!(
                "{} of {} {} trained on, and {} of {} tested; data.test_fraction is not used",
                counted(count as u64, "image"),
                name(train),
                are(count as u64),
                self.files.len() - count,
                name(test)
            )),
            ([own], _) if *own != self.folder => Some(format!(
                "the images of {} are divided by data.test_fraction: there is no val next to it",
                name(own)
            )),
            _ => None,
        }
    }

    /// Whether the folder is unchanged since it was listed.
    pub(super) fn is_current(&self) -> bool {
        self.stamps.iter().all(|(path, then)| {
            let is_settled = then.is_some_and(|then| then.checked_add(SETTLED).is_some_and(|end| end < self.at));
            is_settled && stamp(path) == *then
        })
    }

    /// Whether both hold the same classes and files.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.parts == other.parts && self.classes == other.classes && self.files == other.files
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
        let stamped = |(path, time): &(PathBuf, Option<SystemTime>)| {
            names(path.as_os_str()) + size_of_val(path) + size_of_val(time)
        };
        let parts: usize = self.parts.iter().map(|path| names(path.as_os_str()) + size_of::<PathBuf>()).sum();
        let folder = names(self.folder.as_os_str()) + parts + self.stamps.iter().map(stamped).sum::<usize>();
        size_of::<Self>() + folder + classes + files
    }

    /// Bytes that decoding takes, to images of `side`, of the files that take most: as `look` finds when that is asked for the
    /// first time.
    pub(super) fn decoding(&self, side: usize, look: impl FnOnce() -> [usize; APART]) -> [usize; APART] {
        let mut known = self.decoding.lock();
        match *known {
            Some((of_side, bytes)) if of_side == side => bytes,
            _ => known.insert((side, look())).1,
        }
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
        let Entry { class, part, name } = &self.files[file as usize];
        self.parts[usize::from(*part)].join(&self.classes[usize::from(*class)]).join(&**name)
    }

    /// The folder of a class, of a folder that is divided already the one for training.
    pub(super) fn class_path(&self, class: u16) -> PathBuf {
        self.parts[0].join(&self.classes[usize::from(class)])
    }
}

fn stamp(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The names in a folder that `wanted` takes, given whether each is a folder; in order.
fn names(folder: &Path, room: &mut usize, mut wanted: impl FnMut(&OsStr, bool) -> bool) -> Result<Vec<OsString>> {
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

/// The folders that hold the classes, among the folders `inside` one: `train` and the test folder next to it, if both hold
/// folders.
fn parts(folder: &Path, inside: &[OsString]) -> Vec<PathBuf> {
    let holds_folders =
        |path: &Path| fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(|entry| entry.path().is_dir()));
    let named = |name: &str| {
        let found = inside.iter().find(|inside| inside.eq_ignore_ascii_case(name))?;
        let mut path = folder.join(found);
        path.shrink_to_fit();
        Some(path).filter(|path| holds_folders(path))
    };
    match (named(TRAINED), TESTED.into_iter().find_map(named)) {
        (Some(train), Some(test)) => vec![train, test],
        // Only images to train on: the folder is divided like any other.
        (Some(train), None) if inside.len() == 1 => vec![train],
        _ => vec![folder.to_owned()],
    }
}

/// Whether a file's name is that of an image that can be decoded.
fn has_ending(name: &OsStr, of: &[&str]) -> bool {
    let ending = Path::new(name).extension();
    ending.is_some_and(|ending| of.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

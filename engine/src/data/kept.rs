//! Kept samples of streamed images: each sample as it was read, decoded or generated, or some variants of it.
//!
//! Owns [`KeptSizes`], the bytes that they take, and [`Kept`], which holds them in host memory or in a temporary file. The
//! file is deleted with the set or with the program, also after a kill. A place is filled when its sample is needed for the
//! first time, which for training samples is in the first epoch. The file is read and written at places and not mapped: a
//! full disk or a disk that fails is an error then, and not the end of the program; the system keeps its pages either way.
//! Always holds: a kept sample is a function of the seed and the sample, no matter which thread filled it, and when.
//! Refuses: a folder that cannot be written.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
};

use crate::{
    bytes::Bytes,
    cache,
    data::{DatasetInfo, Split, file::unreadable, image_set::Waiting},
    error::{Error, MemoryRefused, Problem, Result},
    experiment::{CachePlace, Data, DataCache, DataKind, Placement},
    memory::probe,
    sync::Mutex,
};

/// The sizes of the kept samples of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeptSizes {
    /// Variants of a training sample; `None` if it is kept as it is.
    pub(super) copies: Option<usize>,
    /// Bytes of an image.
    pixels: usize,
    /// Bytes of its labels; none if a listing has them.
    labels: usize,
    train: usize,
    test: usize,
    place: CachePlace,
}

/// The kept samples, and their place.
#[derive(Debug)]
pub(super) struct Kept {
    sizes: KeptSizes,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Samples in memory, by number, training samples first.
    Memory(Vec<OnceLock<Box<[u8]>>>),
    File {
        folder: PathBuf,
        file: Mutex<File>,
        /// Whether each sample is filled, by number as in memory.
        is_filled: Vec<AtomicBool>,
    },
}

/// Bytes that file systems take for the place of a sample that was written out of order.
const DISK_EXTENT: u64 = 16;
/// The smallest block that they write.
const DISK_BLOCK: u64 = 4096;

impl KeptSizes {
    /// The samples that `data` chooses to keep; `None` if it keeps none.
    pub(super) fn of(data: &Data, facts: &DatasetInfo) -> Option<Self> {
        // Files that wait in memory do so from the first epoch on.
        let is_filled_once = data.kind == DataKind::Images && data.placement == Placement::Host;
        let cache = if is_filled_once { DataCache::Decoded } else { data.kept() };
        (!cache.is_none()).then(|| Self {
            copies: cache.copies(),
            pixels: Waiting::of(data, facts).bytes(),
            labels: if data.kind == DataKind::Images { 0 } else { facts.labels_per_sample },
            train: facts.train,
            test: facts.test,
            place: if is_filled_once { CachePlace::Ram } else { data.cache_in },
        })
    }

    /// Bytes of an image with its labels.
    pub(super) fn each(&self) -> usize {
        self.pixels + self.labels
    }

    /// Bytes of all that is kept of a sample.
    fn sample(&self, split: Split) -> usize {
        match split {
            Split::Train => self.copies.unwrap_or(1) * self.each(),
            Split::Test => self.each(),
        }
    }

    fn samples(&self) -> usize {
        self.train + self.test
    }

    fn bytes(&self) -> u64 {
        let part = |samples: usize, split| samples as u64 * self.sample(split) as u64;
        part(self.train, Split::Train) + part(self.test, Split::Test)
    }

    /// Host memory, once all of it is filled.
    pub(super) fn host(&self) -> Bytes {
        let samples = self.samples() as u64;
        Bytes(match self.place {
            CachePlace::Ram => self.bytes() + samples * size_of::<OnceLock<Box<[u8]>>>() as u64,
            CachePlace::Disk => samples * size_of::<AtomicBool>() as u64,
        })
    }

    /// Bytes of host memory that a run of so many training samples does not fill, and those of the test samples if it is not
    /// tested.
    pub(super) fn unfilled(&self, samples: u64, is_tested: bool) -> Bytes {
        let train = (self.train as u64).saturating_sub(samples) * self.sample(Split::Train) as u64;
        let test = if is_tested { 0 } else { self.test as u64 * self.sample(Split::Test) as u64 };
        Bytes(match self.place {
            CachePlace::Ram => train + test,
            CachePlace::Disk => 0,
        })
    }

    /// Room on the disk, the file system's own included.
    pub(super) fn disk(&self) -> Bytes {
        Bytes(match self.place {
            CachePlace::Ram => 0,
            CachePlace::Disk => {
                (self.bytes() + self.samples() as u64 * DISK_EXTENT).next_multiple_of(DISK_BLOCK) + DISK_BLOCK
            }
        })
    }

    /// Bytes that a thread works in, in addition to those for decoding: on the way to the disk a whole sample is in memory,
    /// on the way back a variant.
    pub(super) fn scratch(&self) -> usize {
        match self.place {
            CachePlace::Ram => 0,
            CachePlace::Disk => self.sample(Split::Train) + self.each() + self.labels,
        }
    }
}

/// The folder that a file of samples is made in.
pub(super) fn folder(data: &Data) -> Option<PathBuf> {
    let chosen = data.cache_folder.clone().filter(|folder| !folder.as_os_str().is_empty());
    chosen.or_else(|| cache::folder("samples"))
}

/// The problem that the folder which was chosen for a file of samples is not there.
pub(crate) fn folder_problem(data: &Data) -> Option<Problem> {
    let chosen = data.cache_folder.as_ref().filter(|folder| !folder.as_os_str().is_empty());
    chosen.filter(|folder| !folder.is_dir()).map(|folder| no_file_in(folder, "there is no such folder"))
}

fn no_file_in(folder: &Path, why: &str) -> Problem {
    let message = format!("no file can be made in {}: {why}", folder.display());
    Problem::new("data.cache_folder", message, "write a folder that is there, or leave it out")
}

/// A file without a name in `folder`.
///
/// # Errors
/// Fails with the setting of the folder if it is not there, or cannot be written.
pub(super) fn file_in(folder: &Path) -> Result<File> {
    tempfile::tempfile_in(folder).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such folder".to_owned(),
            _ => error.to_string(),
        };
        no_file_in(folder, &why).into()
    })
}

impl Kept {
    /// Makes an empty cache.
    ///
    /// # Errors
    /// Fails if the system has no memory for so many samples, and if no file can be made.
    pub(super) fn new(data: &Data, sizes: KeptSizes) -> Result<Self> {
        let place = match sizes.place {
            CachePlace::Ram => Place::Memory(table(sizes.samples(), OnceLock::new)?),
            CachePlace::Disk => {
                let folder = folder(data).ok_or_else(|| {
                    Problem::new("data.cache_folder", "the system has no folder for it", "write the folder to use")
                })?;
                let file = file_in(&folder)?;
                // At its full size from the start, without its blocks: file systems then set nothing aside behind its end.
                file.set_len(sizes.bytes()).map_err(|error| unwritable(&folder, &error))?;
                let is_filled = table(sizes.samples(), || AtomicBool::new(false))?;
                Place::File { folder, file: Mutex::new(file), is_filled }
            }
        };
        Ok(Self { sizes, place })
    }

    /// The sizes of the kept samples.
    pub(super) fn sizes(&self) -> &KeptSizes {
        &self.sizes
    }

    /// The bytes that are on the disk now.
    pub(super) fn on_disk(&self) -> Bytes {
        match &self.place {
            Place::Memory(_) => Bytes::ZERO,
            Place::File { file, .. } => file.lock().metadata().map_or(Bytes::ZERO, |about| Bytes(blocks(&about))),
        }
    }

    /// Variant `copy` of a sample, image and labels; `None` while it is not kept.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub(super) fn get(&self, split: Split, index: usize, copy: usize) -> Result<Option<Cow<'_, [u8]>>> {
        let each = self.sizes.each();
        match &self.place {
            Place::Memory(all) => {
                let own = all[self.number(split, index)].get();
                Ok(own.map(|own| Cow::Borrowed(&own[copy * each..][..each])))
            }
            Place::File { is_filled, .. } if !is_filled[self.number(split, index)].load(Acquire) => Ok(None),
            Place::File { folder, file, .. } => {
                let mut bytes = vec![0; each];
                let start = self.start(split, index) + (copy * each) as u64;
                let mut file = file.lock();
                let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes));
                read.map_err(|error| unreadable(folder, &error))?;
                probe::note_read(each);
                Ok(Some(Cow::Owned(bytes)))
            }
        }
    }

    /// Keeps a sample, whose variants `write` adds one after the other.
    ///
    /// # Errors
    /// Fails if there is no memory or no room on the disk for it.
    pub(super) fn put(&self, split: Split, index: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let size = self.sizes.sample(split);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| no_memory("a sample that is kept", size))?;
        write(&mut bytes);
        match &self.place {
            Place::Memory(all) => {
                // Where two threads made it at once it is the same.
                let _ = all[self.number(split, index)].set(bytes.into_boxed_slice());
            }
            Place::File { folder, file, is_filled } => {
                let mut file = file.lock();
                let written = file.seek(SeekFrom::Start(self.start(split, index))).and_then(|_| file.write_all(&bytes));
                written.map_err(|error| unwritable(folder, &error))?;
                is_filled[self.number(split, index)].store(true, Release);
            }
        }
        Ok(())
    }

    fn number(&self, split: Split, index: usize) -> usize {
        match split {
            Split::Train => index,
            Split::Test => self.sizes.train + index,
        }
    }

    /// Where a sample lies in the file.
    fn start(&self, split: Split, index: usize) -> u64 {
        let before = match split {
            Split::Train => 0,
            Split::Test => self.sizes.train as u64 * self.sizes.sample(Split::Train) as u64,
        };
        before + index as u64 * self.sizes.sample(split) as u64
    }
}

/// A place for each sample.
fn table<T>(samples: usize, empty: impl Fn() -> T) -> Result<Vec<T>> {
    let mut table = Vec::new();
    table.try_reserve_exact(samples).map_err(|_| no_memory("places of samples", samples * size_of::<T>()))?;
    table.extend((0..samples).map(|_| empty()));
    Ok(table)
}

fn no_memory(label: &'static str, bytes: usize) -> Error {
    MemoryRefused { label, ..MemoryRefused::of(Bytes(bytes as u64)) }.into()
}

fn unwritable(folder: &Path, error: &io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "there is no room left for it".to_owned(),
        _ => error.to_string(),
    };
    let mend = "choose another data.cache_folder, data.cache_in = \"ram\" or data.cache = \"none\"";
    Error::file(folder, format!("the samples cannot be kept here: {why}; {mend}"))
}

/// Bytes that a file takes on its disk.
pub(super) fn blocks(about: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(about) * 512;
    #[cfg(not(unix))]
    about.len()
}

#[cfg(test)]
mod tests;

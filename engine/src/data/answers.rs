//! A teacher's answers to the training samples, if it is asked about each of them once.
//!
//! Owns [`AnswerSizes`], the bytes that they take, and [`Answers`], which hold them in host memory or in a temporary file.
//! The file is deleted with the run or with the program, however it ends. Always holds: the bytes of a sample are those of
//! the teacher's logits, in the type that they were computed in, so that nothing is rounded on the way. The meter of the
//! data counts their memory, whichever thread drops it. Refuses a folder that cannot be written.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::{
    bytes::Bytes,
    data::{file::unreadable, kept},
    error::{Error, MemoryRefused, Problem, Result},
    experiment::{CachePlace, Data, DatasetInfo},
    memory::{
        disk,
        probe::{self, Meter, counted_on},
    },
    sync::Mutex,
    tensor::DType,
};

/// The sizes of a teacher's answers that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerSizes {
    /// Training samples.
    samples: usize,
    /// Bytes of the logits of one.
    each: usize,
    place: CachePlace,
}

/// The smallest block that file systems write.
const DISK_BLOCK: u64 = 4096;

impl AnswerSizes {
    /// The sizes for logits of `dtype` of the training samples that `info` counts, kept where `data` says.
    pub(crate) fn new(data: &Data, info: &DatasetInfo, dtype: DType) -> Self {
        let each = info.labels_per_sample * info.classes * dtype.size();
        Self { samples: info.train, each, place: data.cache_in }
    }

    /// The same sizes for another number of samples.
    pub(crate) fn of_samples(self, samples: usize) -> Self {
        Self { samples, ..self }
    }

    /// Bytes of the answers to one sample.
    pub(crate) fn each(&self) -> usize {
        self.each
    }

    fn bytes(&self) -> u64 {
        self.samples as u64 * self.each as u64
    }

    /// Host memory for all of them.
    pub(crate) fn host(&self) -> Bytes {
        match self.place {
            CachePlace::Ram => Bytes(self.bytes()),
            CachePlace::Disk => Bytes::ZERO,
        }
    }

    /// Room on the disk, the file system's own included.
    pub(crate) fn disk(&self) -> Bytes {
        match self.place {
            CachePlace::Ram => Bytes::ZERO,
            CachePlace::Disk => Bytes(self.bytes().next_multiple_of(DISK_BLOCK) + DISK_BLOCK),
        }
    }

    /// The free bytes of the disk that the answers are to lie on. `None` if they lie in memory, or if the system does not
    /// report it.
    pub(crate) fn disk_free(&self, data: &Data) -> Option<Bytes> {
        match self.place {
            CachePlace::Ram => None,
            CachePlace::Disk => kept::folder(data).and_then(|folder| disk::free_at(&folder)),
        }
    }
}

/// The answers to the training samples, by their numbers.
#[derive(Debug)]
pub struct Answers {
    sizes: AnswerSizes,
    /// `None` only while it is dropped.
    place: Option<Place>,
    meter: &'static Meter,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File { folder: PathBuf, file: Mutex<File> },
}

impl Answers {
    /// Room for all of them, counted by `meter`.
    ///
    /// # Errors
    /// Fails if the system has no memory for them, and if no file can be made.
    pub(crate) fn new(data: &Data, sizes: AnswerSizes, meter: &'static Meter) -> Result<Self> {
        let place = counted_on(Some(meter), || Self::placed(data, &sizes))?;
        Ok(Self { sizes, place: Some(place), meter })
    }

    fn placed(data: &Data, sizes: &AnswerSizes) -> Result<Place> {
        let bytes = sizes.bytes();
        match sizes.place {
            CachePlace::Ram => {
                let mut all = Vec::new();
                let refused = MemoryRefused { label: "the teacher's answers", ..MemoryRefused::of(Bytes(bytes)) };
                all.try_reserve_exact(bytes as usize).map_err(|_| refused)?;
                all.resize(bytes as usize, 0);
                Ok(Place::Memory(all))
            }
            CachePlace::Disk => {
                let folder = kept::folder(data).ok_or_else(|| {
                    Problem::new("data.cache_folder", "the system has no folder for it", "write the folder to use")
                })?;
                let file = kept::file_in(&folder)?;
                file.set_len(bytes).map_err(|error| unwritable(&folder, &error))?;
                Ok(Place::File { folder, file: Mutex::new(file) })
            }
        }
    }

    /// Keeps some bytes, which begin at the byte `at` of all answers.
    ///
    /// # Errors
    /// Fails if the disk has no room, and past the end.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        match &mut self.place {
            Some(Place::Memory(all)) => {
                let at = at as usize;
                let to = all.get_mut(at..at + bytes.len()).ok_or_else(past_the_end)?;
                to.copy_from_slice(bytes);
                Ok(())
            }
            Some(Place::File { folder, file }) => {
                let mut file = file.lock();
                let written = file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(bytes));
                written.map_err(|error| unwritable(folder, &error))
            }
            None => Ok(()),
        }
    }

    /// Appends the answers to the samples at `indices` to `to`.
    ///
    /// # Errors
    /// Fails when the file cannot be read, and for a number past the end.
    pub(super) fn fill(&self, indices: impl Iterator<Item = usize>, to: &mut Vec<u8>) -> Result<()> {
        let each = self.sizes.each;
        for index in indices {
            match &self.place {
                Some(Place::Memory(all)) => {
                    to.extend_from_slice(all.get(index * each..(index + 1) * each).ok_or_else(past_the_end)?);
                }
                Some(Place::File { folder, file }) => {
                    let from = to.len();
                    to.resize(from + each, 0);
                    let mut file = file.lock();
                    let start = SeekFrom::Start(index as u64 * each as u64);
                    let read = file.seek(start).and_then(|_| file.read_exact(&mut to[from..]));
                    read.map_err(|error| unreadable(folder, &error))?;
                    probe::note_read(each);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Bytes of the answers to one sample.
    pub(super) fn each(&self) -> usize {
        self.sizes.each
    }

    /// The bytes that are on the disk now.
    pub(crate) fn on_disk(&self) -> Bytes {
        match &self.place {
            Some(Place::File { file, .. }) => {
                file.lock().metadata().map_or(Bytes::ZERO, |about| Bytes(kept::blocks(&about)))
            }
            Some(Place::Memory(_)) | None => Bytes::ZERO,
        }
    }
}

impl Drop for Answers {
    /// Frees the answers as they were allocated: the meter of the data counts them, on whatever thread the last owner is.
    fn drop(&mut self) {
        counted_on(Some(self.meter), || drop(self.place.take()));
    }
}

fn past_the_end() -> Error {
    Error::Misused("there are fewer answers of the teacher than samples".to_owned())
}

fn unwritable(folder: &Path, error: &io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "there is no room left for them".to_owned(),
        _ => error.to_string(),
    };
    let mend = "choose another data.cache_folder, data.cache_in = \"ram\" or distil.answers = \"live\"";
    Error::file(folder, format!("the teacher's answers cannot be kept here: {why}; {mend}"))
}

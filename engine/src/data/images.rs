//! A folder of images by class: one sub-folder a class, JPEG, PNG and WebP, decoded when they are asked for.
//!
//! Owns [`Images`]. Always holds: the listing and the seed alone decide which file is which sample, so a plan reads no file;
//! a sample that cannot be read is counted once, and the next readable one of its class and part stands in for it, so that
//! no batch is short and no class changes. Refuses a class without a readable image.

pub(super) mod decode;
mod gate;
mod listing;
mod look;

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

pub(super) use listing::Listing;

use self::{
    gate::Gate,
    look::{Kind, Look},
};
use crate::{
    data::{
        DatasetInfo, Input, Inspection, Split, divide,
        image_set::{ImageStore, split},
        scaling::Histograms,
        source::{Source, Store, chosen_path},
        weighed::Weighed,
    },
    error::{Error, Result},
    experiment::{Data, limits::MAX_WORKERS},
    memory::{
        probe::{meter_of_this_thread, meter_this_thread},
        tally,
    },
    sync::Mutex,
};

const CHANNELS: usize = 3;

/// Images that decide the scaling: few, because each has to be decoded before a run begins.
const SCALED_BY: usize = 256;

/// A folder of images by class.
pub(super) struct ImageFolder;

impl Source for ImageFolder {
    /// The folder is listed once for all that is asked of it.
    fn inspect(&self, data: &Data, known: Option<&Inspection>) -> Result<Inspection> {
        let listing = listing::list(chosen_path(data)?, known.and_then(Inspection::listing))?;
        let (info, held) = (info(&listing, data)?, held_bytes(&listing));
        let notes = listing.note().into_iter().chain(listing.unread());
        let notes: Vec<String> = notes.collect();
        Ok(Inspection::new(data, info, held).with_listing(listing).with_notes(notes))
    }

    fn open_inspected(&self, data: &Data, found: &Inspection, seed: u64) -> Result<Store> {
        let listing = listing::list(chosen_path(data)?, found.listing())?;
        Ok(Store::Images(ImageStore::Files(Images::open(listing, data, seed)?)))
    }

    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        Ok(*self.inspect(data, None)?.info())
    }

    fn open(&self, data: &Data, _: &DatasetInfo, seed: u64) -> Result<Store> {
        self.open_inspected(data, &self.inspect(data, None)?, seed)
    }

    fn held_bytes(&self, data: &Data, _: &DatasetInfo) -> Result<usize> {
        let listing = listing::list(chosen_path(data)?, None)?;
        Ok(held_bytes(&listing))
    }
}

/// The listing, and the facts of each file.
fn held_bytes(listing: &Listing) -> usize {
    listing.bytes() + own_bytes(listing.len())
}

fn info(listing: &Listing, data: &Data) -> Result<DatasetInfo> {
    let (train, test) = divided(listing, data)?;
    let input = Input::Image { height: data.side, width: data.side, channels: CHANNELS };
    Ok(DatasetInfo::one_label(input, listing.classes(), train, test))
}

/// Samples for training and for testing: as the folder is divided, or by the share that is held out.
fn divided(listing: &Listing, data: &Data) -> Result<(usize, usize)> {
    match listing.trained() {
        Some(train) => Ok((train, listing.len() - train)),
        None => divide(listing.len(), data.test_fraction),
    }
}

/// Bytes without the listing.
fn own_bytes(files: usize) -> usize {
    files * (size_of::<u32>() + size_of::<AtomicBool>())
}

/// Images that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// How many so far.
    pub count: usize,
    /// The first of them in the listing, and its fault.
    pub first: String,
    file: u32,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, others, verb) =
            if self.count == 1 { ("image", "another", "stands") } else { ("images", "others", "stand") };
        let Self { count, first, .. } = self;
        write!(f, "{count} {what} cannot be read, and {others} of the same class {verb} in: {first}")
    }
}

/// The images of one folder, side and seed.
#[derive(Debug)]
pub(super) struct Images {
    listing: Arc<Weighed<Listing>>,
    side: usize,
    /// Files by number in the listing.
    train: Vec<u32>,
    test: Vec<u32>,
    /// For each file, whether its image is broken.
    is_broken: Vec<AtomicBool>,
    /// For those that decode.
    gate: Gate,
    skipped: Mutex<Option<Box<Skipped>>>,
}

/// Files that are looked at to find those that take most to decode. The beginning of each is read for it, about 13 µs of a file
/// that the system has in its cache; of more files an even share is looked at.
const LOOKED_AT: usize = 1 << 14;

/// How many of the files that take most to decode are told apart.
pub(super) const APART: usize = MAX_WORKERS as usize;

/// Files of a kind that are tried for one that can be decoded: what a broken one takes says nothing of the others.
const TRIED: usize = 8;

/// Bytes that are allowed for any file but the largest of its kind, as decoders have tables of their own.
const TABLES: u64 = 128 << 10;

/// The most bytes that decoding takes where so many files of `listing` are decoded at once. The listing remembers it.
pub(super) fn decoding_bytes(listing: &Listing, side: usize, at_once: usize) -> usize {
    listing.decoding(side, || largest(listing, side)).iter().take(at_once).sum()
}

/// What decoding the files takes that take most, beginning with that. The largest of each kind is decoded to see it, and others
/// of the kind are allowed five quarters of their share.
fn largest(listing: &Listing, side: usize) -> [usize; APART] {
    let every = listing.len().div_ceil(LOOKED_AT).max(1);
    let mut kinds: HashMap<Kind, Vec<(u64, u32)>> = HashMap::new();
    for file in (0..listing.len() as u32).step_by(every) {
        let Some(Look { kind, bytes }) = look::at(&listing.path(file)) else { continue };
        kinds.entry(kind).or_default().push((bytes, file));
    }
    let mut taken: Vec<usize> = Vec::new();
    for mut files in kinds.into_values() {
        files.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        let (mut most, mut first) = (0, 0);
        for (bytes, file) in files.iter().take(TRIED) {
            let mut is_whole = false;
            let peak = tally::peak_of(|| is_whole = decode::decode(&listing.path(*file), side).is_ok()).live;
            (most, first) = (*bytes, first.max(peak));
            if is_whole {
                break;
            }
        }
        let share = |bytes: u64| first.min(TABLES + (1.25 * first as f64 * bytes as f64 / most.max(1) as f64) as u64);
        // A file that was looked at stands for those that were not.
        let all = files.iter().flat_map(|(bytes, _)| std::iter::repeat_n(share(*bytes) as usize, every));
        taken.extend(all.take(APART));
    }
    taken.sort_unstable_by_key(|bytes| Reverse(*bytes));
    std::array::from_fn(|place| taken.get(place).copied().unwrap_or_default())
}

/// Images that are decoded at once, for training and for a test together.
pub(super) fn at_once(data: &Data) -> usize {
    if data.workers == 0 { threads() } else { data.workers }
}

/// Threads that decode for one loader, where their number is not chosen.
pub(super) fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(2, 8)
}

impl Images {
    pub(super) fn open(listing: Arc<Weighed<Listing>>, data: &Data, seed: u64) -> Result<Self> {
        let (count, test) = divided(&listing, data)?;
        let files = listing.len();
        let (train, test) = match listing.trained() {
            Some(_) => ((0..count as u32).collect(), (count as u32..files as u32).collect()),
            None => split(seed, &listing.labels(), test),
        };
        Ok(Self {
            side: data.loaded_side(),
            train,
            test,
            is_broken: (0..files).map(|_| AtomicBool::new(false)).collect(),
            gate: Gate::new(at_once(data)),
            skipped: Mutex::new(None),
            listing,
        })
    }

    /// Whether the folder still lists the same files.
    pub(super) fn checksum(&self) -> u32 {
        self.listing.checksum()
    }

    pub(super) fn is_current(&self) -> bool {
        let now = || listing::list(self.listing.folder(), None);
        self.listing.is_current() || now().is_ok_and(|now| now.is_same(&self.listing))
    }

    /// Samples in a part.
    pub(super) fn count(&self, split: Split) -> usize {
        self.part(split).len()
    }

    /// The class of a sample.
    pub(super) fn label(&self, split: Split, index: usize) -> u32 {
        u32::from(self.listing.class(self.part(split)[index]))
    }

    /// The name of a class's folder.
    pub(super) fn class_name(&self, class: usize) -> Option<String> {
        let class = u16::try_from(class).ok().filter(|class| usize::from(*class) < self.listing.classes())?;
        Some(self.listing.class_path(class).file_name()?.to_string_lossy().into_owned())
    }

    /// The images that could not be read so far.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        self.skipped.lock().as_deref().cloned()
    }

    /// Pixels of a sample, `[side, side, 3]`, or of the image that stands in for it.
    ///
    /// # Errors
    /// Fails when no image of its class can be read.
    pub(super) fn pixels(&self, split: Split, index: usize) -> Result<Vec<u8>> {
        let (before, after) = self.part(split).split_at(index);
        let class = self.listing.class(after[0]);
        let mut of_class = after.iter().chain(before).filter(|file| self.listing.class(**file) == class);
        of_class.find_map(|file| self.read(*file)).ok_or_else(|| {
            let part = match split {
                Split::Train => "training",
                Split::Test => "testing",
            };
            let message = format!("none of its images for {part} can be read; repair them, or remove the class");
            Error::file(self.listing.class_path(class), message)
        })
    }

    /// How often each value is in each channel of some training images, whose pixels `of` gives by their number.
    pub(super) fn histograms<'a>(&self, of: impl Fn(usize) -> Result<Cow<'a, [u8]>> + Sync) -> Result<Histograms> {
        let count = self.train.len().min(SCALED_BY);
        let threads = threads();
        std::thread::scope(|scope| {
            let (of, counting) = (&of, meter_of_this_thread());
            let share = move |first: usize| -> Result<Histograms> {
                meter_this_thread(counting);
                let mut sum = Histograms::new(CHANNELS);
                for index in (first..count).step_by(threads) {
                    sum.add(&of(index)?);
                }
                Ok(sum)
            };
            let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
            let mut sum = Histograms::new(CHANNELS);
            for worker in workers {
                let part = worker.join().map_err(|_| Error::Panic("a thread that decodes images".to_owned()))?;
                sum.merge(&part?);
            }
            Ok(sum)
        })
    }

    fn part(&self, split: Split) -> &[u32] {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// Pixels of a file; `None` when it cannot be read, which is then remembered.
    fn read(&self, file: u32) -> Option<Vec<u8>> {
        let is_broken = &self.is_broken[file as usize];
        if is_broken.load(Relaxed) {
            return None;
        }
        let path = self.listing.path(file);
        match self.gate.through(|| decode::decode(&path, self.side)) {
            Ok(pixels) => Some(pixels),
            Err(reason) => {
                if !is_broken.swap(true, Relaxed) {
                    self.skip(file, format!("{}: {reason}", path.display()));
                }
                None
            }
        }
    }

    fn skip(&self, file: u32, first: String) {
        let mut skipped = self.skipped.lock();
        let count = 1 + skipped.as_ref().map_or(0, |earlier| earlier.count);
        *skipped = match skipped.take() {
            Some(earlier) if earlier.file < file => Some(Box::new(Skipped { count, ..*earlier })),
            _ => Some(Box::new(Skipped { count, first, file })),
        };
    }
}

#[cfg(test)]
pub(in crate::data) mod tests;

//! A folder with MNIST-format files: grey images and their labels in IDX, plain or gzip.
//!
//! The format (LeCun, Cortes & Burges, "The MNIST database", 1998): two zero bytes, the element type (8 is an unsigned
//! byte), the number of dimensions, each dimension as a big-endian u32, the elements. There are as many classes as the
//! labels say, and one more where they count from 1: ten in MNIST, Fashion-MNIST and KMNIST, 47 in EMNIST's balanced set.
//! Files may have a set's name before the usual one, as EMNIST's do, if it is the only set. Refuses: other types and
//! dimensions, counts that disagree, several sets in one folder.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    bytes::counted,
    data::{
        DatasetInfo, Input, Inspection, Split,
        file::{self, Opened, Reader},
        image_set::{self, ImageStore, Samples, Streamed, held},
        source::{Source, Store, chosen_path},
    },
    error::{Error, Problem, Result},
    experiment::{Data, Placement},
};

/// The fewest classes: a set with a single label has nothing to learn.
const FEWEST_CLASSES: usize = 2;
/// The magic numbers: 2051 and 2049.
const IMAGES: [u8; 4] = [0, 0, 8, 3];
const LABELS: [u8; 4] = [0, 0, 8, 1];
/// Bytes before the elements: the magic number and the dimensions.
const IMAGE_HEADER: u64 = 16;
const LABEL_HEADER: u64 = 8;
/// How the files for testing begin.
const TEST: &str = "t10k";
/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 10_000;
/// A change this recent may be followed by another with the same time stamp.
const SETTLED: Duration = Duration::from_secs(2);
/// The longest side of an image that is accepted.
const LONGEST: u64 = 4096;

/// Headers of an image file and its label file, both checked.
struct Pair {
    images: Reader,
    labels: Reader,
    count: u64,
    height: u64,
    width: u64,
}

/// A folder with IDX files.
pub(super) struct IdxFiles;

/// The largest label of two files of labels, which are as they were when it was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Labelled {
    files: [Stamp; 2],
    last: u8,
}

/// A file, its length and when it was written.
type Stamp = (PathBuf, Option<(u64, SystemTime)>);

impl Source for IdxFiles {
    /// The labels are read once for all that is asked of them, as long as their files stay the same.
    fn inspect(&self, data: &Data, known: Option<&Inspection>) -> Result<Inspection> {
        let (info, labelled) = facts(chosen_path(data)?, data, known.and_then(Inspection::labelled))?;
        Ok(Inspection::new(data, info, self.held_bytes(data, &info)?).with_labelled(labelled))
    }

    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        Ok(facts(chosen_path(data)?, data, None)?.0)
    }

    fn open(&self, data: &Data, _: &DatasetInfo, _: u64) -> Result<Store> {
        let folder = chosen_path(data)?;
        Ok(Store::Images(match data.placement {
            Placement::Host => held(open(folder)?),
            Placement::Streamed | Placement::Device => ImageStore::Streamed(Box::new(stream(folder)?)),
        }))
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(image_set::placed_bytes(data, info))
    }
}

fn facts(folder: &Path, data: &Data, known: Option<&Arc<Labelled>>) -> Result<(DatasetInfo, Arc<Labelled>)> {
    let (train, test) = pairs(folder, data.placement != Placement::Streamed)?;
    if data.placement != Placement::Host {
        for input in [&train.images, &train.labels, &test.images, &test.labels] {
            if input.is_packed() {
                let name = input.path().file_name().unwrap_or_default().display();
                let message = format!("{name} is gzip, which can only be read from its start");
                return Err(Problem::new("data.placement", message, "unpack the files, or write \"host\"").into());
            }
        }
    }
    let input = Input::Image { height: train.height as usize, width: train.width as usize, channels: 1 };
    let (train_count, test_count) = (train.count as usize, test.count as usize);
    let labelled = {
        let files = [&train, &test].map(|pair| stamp(pair.labels.path()));
        // A change that is too recent may be followed by another one with the same time.
        match known.filter(|known| known.files == files && files.iter().all(is_settled)) {
            Some(known) => Arc::clone(known),
            None => Arc::new(Labelled { files, last: last_class(train)?.max(last_class(test)?) }),
        }
    };
    let classes = (usize::from(labelled.last) + 1).max(FEWEST_CLASSES);
    Ok((DatasetInfo::one_label(input, classes, train_count, test_count), labelled))
}

fn stamp(path: &Path) -> Stamp {
    let about = fs::metadata(path).ok();
    (path.to_owned(), about.and_then(|about| Some((about.len(), about.modified().ok()?))))
}

/// Whether a file was not written just now.
fn is_settled((_, about): &Stamp) -> bool {
    about.is_some_and(|(_, written)| written.elapsed().is_ok_and(|age| age > SETTLED))
}

/// The largest label of a set: a byte a sample, read part by part.
fn last_class(pair: Pair) -> Result<u8> {
    let mut last = 0;
    pair.labels.see_rest(pair.count, |labels| last = labels.iter().copied().fold(last, u8::max))?;
    Ok(last)
}

/// Training and test samples.
fn open(folder: &Path) -> Result<(Samples, Samples)> {
    let (train, test) = pairs(folder, true)?;
    Ok((read(train)?, read(test)?))
}

/// The same samples, read when they are needed.
fn stream(folder: &Path) -> Result<Records> {
    let (train, test) = pairs(folder, false)?;
    let open = |pair: Pair| -> Result<_> {
        let [images, labels] = [pair.images, pair.labels].map(|input| Opened::new(input.path()));
        Ok((images?, labels?, pair.count as usize))
    };
    Ok(Records { train: open(train)?, test: open(test)? })
}

/// Images and labels of a set, in plain files, read when they are asked for.
#[derive(Debug)]
pub(super) struct Records {
    /// Images, labels and their number.
    train: (Opened, Opened, usize),
    test: (Opened, Opened, usize),
}

impl Records {
    fn part(&self, split: Split) -> &(Opened, Opened, usize) {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }
}

impl Streamed for Records {
    fn count(&self, split: Split) -> usize {
        self.part(split).2
    }

    fn read(&self, split: Split, index: usize, pixels: &mut [u8], labels: &mut [u8]) -> Result<()> {
        let (images, classes, _) = self.part(split);
        images.read(IMAGE_HEADER + (index * pixels.len()) as u64, pixels)?;
        classes.read(LABEL_HEADER + index as u64, labels)
    }

    fn is_work(&self) -> bool {
        false
    }
}

/// The files for training and for testing; files that are held in memory have to be small enough.
fn pairs(folder: &Path, is_held: bool) -> Result<(Pair, Pair)> {
    let train = pair(folder, "train", is_held)?;
    let test = pair(folder, TEST, is_held)?;
    if (train.height, train.width) != (test.height, test.width) {
        let message = format!(
            "its images are {} x {}, but those for training {} x {}; put files of one set into the folder",
            test.height, test.width, train.height, train.width
        );
        return Err(Error::file_at(test.images.path(), "byte 8", message));
    }
    Ok((train, test))
}

fn pair(folder: &Path, part: &str, is_held: bool) -> Result<Pair> {
    let mut images = find(folder, part, "images", 3)?;
    let mut labels = find(folder, part, "labels", 1)?;
    let [count, height, width] = dimensions(&mut images)?;
    let [labelled] = dimensions(&mut labels)?;
    for (place, what, value, most) in
        [(4, "images", count, u64::MAX), (8, "rows", height, LONGEST), (12, "columns", width, LONGEST)]
    {
        if !(1..=most).contains(&value) {
            let message = format!("{value} {what} is impossible: the header is damaged; download the file again");
            return Err(Error::file_at(images.path(), format!("byte {place}"), message));
        }
    }
    images.check_rest(count * height * width)?;
    if is_held {
        images.check_held(count * height * width)?;
    }
    labels.check_rest(labelled)?;
    if labelled != count {
        let name = images.path().file_name().unwrap_or_default().display();
        let [labelled, count] = [(labelled, "label"), (count, "image")].map(|(n, one)| counted(n, one));
        let message = format!("{labelled}, but {name} has {count}; put files of one set into the folder");
        return Err(Error::file_at(labels.path(), "byte 4", message));
    }
    Ok(Pair { images, labels, count, height, width })
}

/// Opens `train-images-idx3-ubyte` or one of its variants.
fn find(folder: &Path, part: &str, what: &str, dimensions: u8) -> Result<Reader> {
    let names: Vec<String> = ["", ".gz"]
        .into_iter()
        .flat_map(|end| ['-', '.'].map(|joint| format!("{part}-{what}{joint}idx{dimensions}-ubyte{end}")))
        .collect();
    if let Some(path) = file::find(folder, &names)? {
        return Reader::open(&path);
    }
    match prefixed(folder, part, &names)?.as_slice() {
        [path] => Reader::open(path),
        [] => {
            if let Some(error) = file::in_the_place_of(folder, &names) {
                return Err(error);
            }
            let message =
                format!("no {} (or {}) in it; choose the folder that holds the MNIST files", names[0], names[2]);
            Err(Error::file(folder, message))
        }
        [one, other, ..] => {
            let [one, other] = [one, other].map(|path| path.file_name().unwrap_or_default().display());
            let message = format!("several sets are in it, such as {one} and {other}; give each a folder of its own");
            Err(Error::file(folder, message))
        }
    }
}

/// The files whose names end as one of `names` do, after the name of a set; its test part may be called so.
fn prefixed(folder: &Path, part: &str, names: &[String]) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| file::unreadable(folder, &error);
    let is_one = |name: &str| {
        let spelled = names.iter().any(|known| name.ends_with(&format!("-{known}")));
        let spelled_out = || {
            let own = names.iter().map(|known| known.replacen(part, "-test", 1));
            part == TEST && own.into_iter().any(|known| name.ends_with(&known))
        };
        spelled || spelled_out()
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)?.take(MOST_ENTRIES) {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_str().is_some_and(is_one) {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Reads the header: `N` dimensions of unsigned bytes.
fn dimensions<const N: usize>(input: &mut Reader) -> Result<[u64; N]> {
    let magic: [u8; 4] = input.header()?;
    if magic != [0, 0, 8, N as u8] {
        let [a, b, kind, dimensions] = magic;
        let other = match (N, magic) {
            (3, LABELS) => Some("these are labels, not images: their magic number is 2049, and that of images 2051"),
            (1, IMAGES) => Some("these are images, not labels: their magic number is 2051, and that of labels 2049"),
            _ => None,
        };
        if let Some(other) = other {
            let mend = "the two files look swapped, so give each the name of its kind";
            return Err(Error::file_at(input.path(), "byte 0", format!("{other}; {mend}")));
        }
        let found = match (a, b) {
            (0, 0) => {
                format!("IDX with {dimensions} dimensions of type {kind:#04x}, not {N} of unsigned bytes (0x08)")
            }
            _ => format!("not an IDX file: it begins with {a:02x} {b:02x} {kind:02x} {dimensions:02x}"),
        };
        return Err(Error::file_at(input.path(), "byte 0", format!("{found}; download the file again")));
    }
    let mut sizes = [0; N];
    for size in &mut sizes {
        *size = u64::from(u32::from_be_bytes(input.header()?));
    }
    Ok(sizes)
}

fn read(pair: Pair) -> Result<Samples> {
    let labels = pair.labels.rest(pair.count)?;
    let pixels = pair.images.rest(pair.count * pair.height * pair.width)?;
    Ok(Samples { pixels, labels })
}

#[cfg(test)]
mod tests;

//! A folder with CIFAR-10 or CIFAR-100 in its binary version.
//!
//! The format (Krizhevsky, "Learning multiple layers of features from tiny images", 2009): records of a label and 3072 pixel
//! bytes, red plane, green plane, blue plane, each 32 x 32 by rows. CIFAR-10 has one label byte and five training files, at
//! least one of which must be there; CIFAR-100 has a coarse label (20 classes) before the fine one, which is the class here.
//! Refuses: files that are not a whole number of records, labels past the last class.

use std::path::{Path, PathBuf};

use crate::{
    data::{
        DatasetInfo, Input, Split,
        file::{self, MOST, Opened, Reader},
        image_set::{self, ImageStore, Samples, Streamed, held},
        source::{Source, Store, chosen_path},
    },
    error::{Error, Result},
    experiment::{Data, Placement},
};

const SIDE: usize = 32;
const CHANNELS: usize = 3;
const PLANE: usize = SIDE * SIDE;
/// The class and the pixels.
const SAMPLE: usize = 1 + CHANNELS * PLANE;

/// The format of one of the two sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version {
    name: &'static str,
    folder: &'static str,
    train: &'static [&'static str],
    test: &'static str,
    /// Classes of the label that stands before the class, if there is one.
    coarse: Option<u8>,
    classes: usize,
    /// Records of its largest file.
    largest: usize,
}

pub(super) static CIFAR10: Version = Version {
    name: "CIFAR-10",
    folder: "cifar-10-batches-bin",
    train: &["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"],
    test: "test_batch.bin",
    coarse: None,
    classes: 10,
    largest: 10_000,
};

pub(super) static CIFAR100: Version = Version {
    name: "CIFAR-100",
    folder: "cifar-100-binary",
    train: &["train.bin"],
    test: "test.bin",
    coarse: Some(20),
    classes: 100,
    largest: 50_000,
};

impl Source for Version {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        self.facts(chosen_path(data)?, data.placement)
    }

    fn open(&self, data: &Data, _: &DatasetInfo, _: u64) -> Result<Store> {
        let folder = chosen_path(data)?;
        Ok(Store::Images(match data.placement {
            Placement::Host => held(self.samples(folder)?),
            placement @ (Placement::Streamed | Placement::Device) => {
                ImageStore::Streamed(Box::new(self.stream(folder, placement)?))
            }
        }))
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(image_set::placed_bytes(data, info))
    }
}

impl Version {
    /// Bytes of a record.
    const fn record(&self) -> usize {
        SAMPLE + self.coarse.is_some() as usize
    }

    fn facts(&self, folder: &Path, placement: Placement) -> Result<DatasetInfo> {
        let (train, test) = self.files(folder, placement)?;
        let count = |files: &[Records]| files.iter().map(|file| file.count).sum();
        let input = Input::Image { height: SIDE, width: SIDE, channels: CHANNELS };
        Ok(DatasetInfo::one_label(input, self.classes, count(&train), count(&[test])))
    }

    /// Training and test samples.
    fn samples(&self, folder: &Path) -> Result<(Samples, Samples)> {
        let (train, test) = self.files(folder, Placement::Host)?;
        Ok((self.read(&train)?, self.read(&[test])?))
    }

    /// The same samples, read when they are needed.
    fn stream(&self, folder: &Path, placement: Placement) -> Result<Batches> {
        let (train, test) = self.files(folder, placement)?;
        let open = |Records { path, count }: Records| {
            refuse_packed(&Reader::open(&path)?)?;
            Ok((Opened::new(&path)?, count))
        };
        let train = train.into_iter().map(open).collect::<Result<_>>()?;
        Ok(Batches { version: *self, train, test: vec![open(test)?] })
    }

    fn files(&self, folder: &Path, placement: Placement) -> Result<(Vec<Records>, Records)> {
        let find =
            |name: &str| file::find(folder, &[name.to_owned()])?.map(|path| self.records(path, placement)).transpose();
        let mut train = Vec::new();
        for name in self.train {
            train.extend(find(name)?);
        }
        let missing = |name: &str| {
            if let Some(error) = file::in_the_place_of(folder, &[name.to_owned()]) {
                return error;
            }
            let message =
                format!("no {name} in it; choose the folder {}, with the binary version of {}", self.folder, self.name);
            Error::file(folder, message)
        };
        if train.is_empty() {
            return Err(missing(self.train[0]));
        }
        let test = find(self.test)?.ok_or_else(|| missing(self.test))?;
        Ok((train, test))
    }

    /// Counts the records of a file from its length.
    fn records(&self, path: PathBuf, placement: Placement) -> Result<Records> {
        let about = std::fs::metadata(&path).map_err(|error| file::unreadable(&path, &error))?;
        let (len, record) = (about.len(), self.record() as u64);
        let count = len / record;
        // All training files together may have no more than the limit of one set that is held.
        if placement != Placement::Streamed && len > MOST / self.train.len() as u64 {
            let usual = record * self.largest as u64;
            let message = format!(
                "{len} bytes: too long for a {} batch of {usual} bytes; download it again, or stream it",
                self.name
            );
            return Err(Error::file(path, message));
        }
        if count == 0 || !len.is_multiple_of(record) {
            let place = format!("record {count}, byte {}", count * record);
            let message = format!(
                "{} bytes where a record has {record}: cut short or another format; download it again",
                len % record
            );
            return Err(Error::file_at(path, place, message));
        }
        Ok(Records { path, count: count as usize })
    }

    fn read(&self, files: &[Records]) -> Result<Samples> {
        let mut samples = Samples::default();
        let count = files.iter().map(|file| file.count).sum::<usize>();
        samples.pixels.reserve_exact(count * CHANNELS * PLANE);
        samples.labels.reserve_exact(count);
        for Records { path, count } in files {
            let mut input = Reader::open(path)?;
            refuse_packed(&input)?;
            input.check_rest((count * self.record()) as u64)?;
            for index in 0..*count {
                if let Some(classes) = self.coarse {
                    let [label] = input.header()?;
                    self.check_label(path, index, 0, label, usize::from(classes))?;
                }
                let record: [u8; SAMPLE] = input.header()?;
                self.check_label(path, index, self.record() - SAMPLE, record[0], self.classes)?;
                samples.labels.push(record[0]);
                samples.pixels.extend(pixels(&record[1..]));
            }
        }
        Ok(samples)
    }

    /// Refuses a label past the last of `classes`, which stands `at` bytes into record `index`.
    fn check_label(&self, path: &Path, index: usize, at: usize, label: u8, classes: usize) -> Result<()> {
        if usize::from(label) < classes {
            return Ok(());
        }
        let place = format!("record {index}, byte {}", index * self.record() + at);
        let (last, name) = (classes - 1, self.name);
        let message = format!("class {label}, but classes are 0 to {last}: not {name}, or damaged; download it again");
        Err(Error::file_at(path, place, message))
    }
}

/// Planes of a record, as pixels of three channels.
fn pixels(planes: &[u8]) -> impl Iterator<Item = u8> {
    let (red, rest) = planes.split_at(PLANE);
    let (green, blue) = rest.split_at(PLANE);
    red.iter().zip(green).zip(blue).flat_map(|((r, g), b)| [*r, *g, *b])
}

fn refuse_packed(input: &Reader) -> Result<()> {
    if input.is_packed() {
        return Err(Error::file(input.path(), "this is gzip; unpack it first, keeping the name"));
    }
    Ok(())
}

/// The records of a set, read when they are asked for.
#[derive(Debug)]
pub(super) struct Batches {
    version: Version,
    /// Files, and how many records each has.
    train: Vec<(Opened, usize)>,
    test: Vec<(Opened, usize)>,
}

impl Batches {
    fn part(&self, split: Split) -> &[(Opened, usize)] {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }
}

impl Streamed for Batches {
    fn count(&self, split: Split) -> usize {
        self.part(split).iter().map(|(_, count)| count).sum()
    }

    fn read(&self, split: Split, index: usize, image: &mut [u8], labels: &mut [u8]) -> Result<()> {
        let mut own = index;
        let mut files = self.part(split).iter();
        let (file, _) = loop {
            match files.next() {
                Some((_, count)) if own >= *count => own -= count,
                found => break found.expect("an index below the count"),
            }
        };
        let mut bytes = [0; SAMPLE + 1];
        let record = &mut bytes[..self.version.record()];
        file.read((own * record.len()) as u64, record)?;
        if let Some(classes) = self.version.coarse {
            self.version.check_label(file.path(), own, 0, record[0], usize::from(classes))?;
        }
        let at = record.len() - SAMPLE;
        self.version.check_label(file.path(), own, at, record[at], self.version.classes)?;
        labels[0] = record[at];
        image.iter_mut().zip(pixels(&record[at + 1..])).for_each(|(to, from)| *to = from);
        Ok(())
    }

    fn is_work(&self) -> bool {
        false
    }
}

/// A file of whole records.
struct Records {
    path: PathBuf,
    count: usize,
}

#[cfg(test)]
mod tests;

//! A folder with CIFAR-10 in its binary version: `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`.
//!
//! The format (Krizhevsky, "Learning multiple layers of features from tiny images", 2009): records of one label byte and
//! 3072 pixel bytes, red plane, green plane, blue plane, each 32 x 32 by rows. Any of the training files will do, at
//! least one. Refuses: files that are no whole number of records, labels past 9.

use std::path::{Path, PathBuf};

use crate::{
    data::{
        Facts,
        dataset::Samples,
        file::{self, Input, MOST},
    },
    error::{Error, Result},
};

const SIDE: usize = 32;
const CHANNELS: usize = 3;
const CLASSES: usize = 10;
const PLANE: usize = SIDE * SIDE;
const RECORD: usize = 1 + CHANNELS * PLANE;

pub(super) fn facts(folder: &Path) -> Result<Facts> {
    let (train, test) = files(folder)?;
    let count = |files: &[Records]| files.iter().map(|file| file.count).sum();
    Ok(Facts {
        height: SIDE,
        width: SIDE,
        channels: CHANNELS,
        classes: CLASSES,
        train: count(&train),
        test: count(&[test]),
    })
}

/// Training and test samples.
pub(super) fn open(folder: &Path) -> Result<(Samples, Samples)> {
    let (train, test) = files(folder)?;
    Ok((read(&train)?, read(&[test])?))
}

/// A file of whole records.
struct Records {
    path: PathBuf,
    count: usize,
}

fn files(folder: &Path) -> Result<(Vec<Records>, Records)> {
    let mut train = Vec::new();
    for name in (1..=5).map(|i| format!("data_batch_{i}.bin")) {
        train.extend(file::find(folder, &[name])?.map(records).transpose()?);
    }
    let missing = |name: &str| {
        let message =
            format!("no {name} in it; choose the folder cifar-10-batches-bin, with the binary version of CIFAR-10");
        Error::file(folder, message)
    };
    if train.is_empty() {
        return Err(missing("data_batch_1.bin"));
    }
    let test = file::find(folder, &["test_batch.bin".to_owned()])?.ok_or_else(|| missing("test_batch.bin"))?;
    Ok((train, records(test)?))
}

/// Counts the records of a file from its length.
fn records(path: PathBuf) -> Result<Records> {
    let about = std::fs::metadata(&path).map_err(|error| file::unreadable(&path, &error))?;
    let (len, record) = (about.len(), RECORD as u64);
    let count = len / record;
    // Of five training files together, no more than the limit of one set.
    if len > MOST / 5 {
        let message =
            format!("{len} bytes: too long for a CIFAR-10 batch of {} bytes; download it again", record * 10_000);
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

fn read(files: &[Records]) -> Result<Samples> {
    let mut samples = Samples::default();
    let count = files.iter().map(|file| file.count).sum::<usize>();
    samples.pixels.reserve_exact(count * CHANNELS * PLANE);
    samples.labels.reserve_exact(count);
    for Records { path, count } in files {
        let mut input = Input::open(path)?;
        if input.is_packed() {
            return Err(Error::file(path, "this is gzip; unpack it first, keeping the name"));
        }
        input.check_rest((count * RECORD) as u64)?;
        for index in 0..*count {
            let record: [u8; RECORD] = input.header()?;
            let label = record[0];
            if usize::from(label) >= CLASSES {
                let place = format!("record {index}, byte {}", index * RECORD);
                let message =
                    format!("class {label}, but classes are 0 to 9: not CIFAR-10, or damaged; download it again");
                return Err(Error::file_at(path, place, message));
            }
            samples.labels.push(label);
            let (red, rest) = record[1..].split_at(PLANE);
            let (green, blue) = rest.split_at(PLANE);
            let planes = red.iter().zip(green).zip(blue);
            samples.pixels.extend(planes.flat_map(|((r, g), b)| [*r, *g, *b]));
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests;

//! A folder with MNIST-format files: grey images and their labels in IDX, plain or gzip.
//!
//! The format (LeCun, Cortes & Burges, "The MNIST database", 1998): two zero bytes, the element type (8 is an unsigned
//! byte), the number of dimensions, each dimension as a big-endian u32, the elements. Ten classes, as in MNIST,
//! Fashion-MNIST and KMNIST. Refuses: other types and dimensions, labels past 9, counts that disagree.

use std::path::Path;

use crate::{
    data::{
        Facts, Input,
        file::{self, Reader},
        image_set::Samples,
    },
    error::{Error, Result},
};

const CLASSES: usize = 10;
/// The longest side of an image that is believed.
const LONGEST: u64 = 4096;

/// Headers of an image file and its label file, both checked.
struct Pair {
    images: Reader,
    labels: Reader,
    count: u64,
    height: u64,
    width: u64,
}

pub(super) fn facts(folder: &Path) -> Result<Facts> {
    let (train, test) = pairs(folder)?;
    let input = Input::Image { height: train.height as usize, width: train.width as usize, channels: 1 };
    Ok(Facts::one_label(input, CLASSES, train.count as usize, test.count as usize))
}

/// Training and test samples.
pub(super) fn open(folder: &Path) -> Result<(Samples, Samples)> {
    let (train, test) = pairs(folder)?;
    Ok((read(train)?, read(test)?))
}

fn pairs(folder: &Path) -> Result<(Pair, Pair)> {
    let train = pair(folder, "train")?;
    let test = pair(folder, "t10k")?;
    if (train.height, train.width) != (test.height, test.width) {
        let message = format!(
            "its images are {} x {}, but those for training {} x {}; put files of one set into the folder",
            test.height, test.width, train.height, train.width
        );
        return Err(Error::file_at(test.images.path(), "byte 8", message));
    }
    Ok((train, test))
}

fn pair(folder: &Path, part: &str) -> Result<Pair> {
    let mut images = find(folder, part, "images", 3)?;
    let mut labels = find(folder, part, "labels", 1)?;
    let [count, height, width] = dimensions(&mut images)?;
    let [labelled] = dimensions(&mut labels)?;
    for (place, what, value, most) in
        [(4, "images", count, u64::MAX), (8, "rows", height, LONGEST), (12, "columns", width, LONGEST)]
    {
        if !(1..=most).contains(&value) {
            let message = format!("{value} {what} cannot be: the header is damaged; download the file again");
            return Err(Error::file_at(images.path(), format!("byte {place}"), message));
        }
    }
    images.check_rest(count * height * width)?;
    labels.check_rest(labelled)?;
    if labelled != count {
        let name = images.path().file_name().unwrap_or_default().display();
        let message = format!("{labelled} labels, but {name} has {count} images; put files of one set into the folder");
        return Err(Error::file_at(labels.path(), "byte 4", message));
    }
    Ok(Pair { images, labels, count, height, width })
}

/// Opens `train-images-idx3-ubyte` or one of its variants.
fn find(folder: &Path, part: &str, what: &str, dimensions: u8) -> Result<Reader> {
    let stems = ['-', '.'].map(|joint| format!("{part}-{what}{joint}idx{dimensions}-ubyte"));
    let names: Vec<String> = stems.iter().cloned().chain(stems.iter().map(|stem| format!("{stem}.gz"))).collect();
    match file::find(folder, &names)? {
        Some(path) => Reader::open(&path),
        None => {
            let message =
                format!("no {} (or {}) in it; choose the folder that holds the MNIST files", stems[0], names[2]);
            Err(Error::file(folder, message))
        }
    }
}

/// Reads the header: `N` dimensions of unsigned bytes.
fn dimensions<const N: usize>(input: &mut Reader) -> Result<[u64; N]> {
    let magic: [u8; 4] = input.header()?;
    if magic != [0, 0, 8, N as u8] {
        let [a, b, kind, dimensions] = magic;
        let found = match (a, b, N) {
            (0, 0, 3) if (kind, dimensions) == (8, 1) => "these are labels, not images".to_owned(),
            (0, 0, 1) if (kind, dimensions) == (8, 3) => "these are images, not labels".to_owned(),
            (0, 0, _) => {
                format!("IDX with {dimensions} dimensions of type {kind:#04x}, not {N} of unsigned bytes (0x08)")
            }
            _ => format!("no IDX file: it begins with {a:02x} {b:02x} {kind:02x} {dimensions:02x}"),
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
    let path = pair.labels.path().to_owned();
    // The labels first: they are small, and wrong ones save reading the images.
    let labels = pair.labels.rest(pair.count)?;
    if let Some((record, label)) = labels.iter().enumerate().find(|(_, label)| usize::from(**label) >= CLASSES) {
        let place = format!("label {record}, byte {}", record + 8);
        let message = format!("class {label}, but classes are 0 to {}; use a set of ten classes", CLASSES - 1);
        return Err(Error::file_at(path, place, message));
    }
    let pixels = pair.images.rest(pair.count * pair.height * pair.width)?;
    Ok(Samples { pixels, labels })
}

#[cfg(test)]
mod tests;

//! One image file to pixels of a fixed size: read, decoded, turned upright, cropped to its middle square, resized.
//!
//! Refuses, each with a reason in words: files over [`MOST_FILE_BYTES`], images that would unpack to more than
//! [`MOST_PIXEL_BYTES`] or are longer than [`LONGEST`] (decompression bombs), truncated files, and everything that the decoder
//! refuses. The size is in an image's first bytes and is looked at before anything is allocated for its pixels. Grey becomes
//! three equal channels, and of 16 bits a channel the upper eight count.

use std::{
    fs::{self, File},
    io::{Cursor, Read},
    panic::catch_unwind,
    path::Path,
};

use image::{
    DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage, metadata::Orientation,
};

use crate::{bytes::Bytes, data::resize, memory::probe::note_read};

const MOST_FILE_BYTES: u64 = 64 << 20;
const MOST_PIXEL_BYTES: u64 = 192 << 20;
const LONGEST: u32 = 20_000;

/// Pixels of a file, `[side, side, 3]`, or the reason why it has none. Transparency is dropped.
pub(in crate::data) fn decode(path: &Path, side: usize) -> Result<Vec<u8>, String> {
    let bytes = read(path)?;
    catch_unwind(|| Ok(resize::middle(unpack(&bytes)?, side).into_raw()))
        .unwrap_or_else(|_| Err("its decoder failed".to_owned()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let reason = |error: std::io::Error| error.to_string();
    let about = fs::metadata(path).map_err(reason)?;
    if !about.is_file() {
        return Err("this is not a regular file".to_owned());
    }
    if about.len() > MOST_FILE_BYTES {
        return Err(format!("{} is too large a file", Bytes(about.len())));
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    File::open(path).and_then(|file| file.take(MOST_FILE_BYTES).read_to_end(&mut bytes)).map_err(reason)?;
    note_read(bytes.len());
    Ok(bytes)
}

fn unpack(bytes: &[u8]) -> Result<RgbImage, String> {
    let guessed = || {
        let mut reader =
            ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(MOST_PIXEL_BYTES);
        reader.limits(limits);
        Ok::<_, String>(reader)
    };
    let reader = guessed()?;
    match reader.format() {
        Some(ImageFormat::Jpeg) if !is_whole_jpeg(bytes) => return Err("it is cut short".to_owned()),
        Some(ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::WebP) => {}
        _ => return Err("its content is not JPEG, PNG or WebP".to_owned()),
    }
    // Only the header is read for it.
    let (width, height) = reader.into_dimensions().map_err(|error| match error {
        ImageError::Limits(_) => too_large("it"),
        error => error.to_string(),
    })?;
    // A pixel has a byte at the least.
    let least = u64::from(width) * u64::from(height);
    if width.max(height) > LONGEST || least > MOST_PIXEL_BYTES {
        return Err(too_large(&of(width, height)));
    }
    let mut decoder = guessed()?.into_decoder().map_err(|error| match error {
        ImageError::Limits(_) => too_large(&of(width, height)),
        error => error.to_string(),
    })?;
    if decoder.total_bytes() > MOST_PIXEL_BYTES {
        return Err(too_large(&of(width, height)));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(|error| error.to_string())?;
    image.apply_orientation(orientation);
    Ok(image.into_rgb8())
}

/// The size of an image, for a message.
fn of(width: u32, height: u32) -> String {
    format!("{width} x {height}")
}

fn too_large(size: &str) -> String {
    format!(
        "{size} is too large an image, of which at most {LONGEST} a side and {} of pixels are read; make it smaller",
        Bytes(MOST_PIXEL_BYTES)
    )
}

/// Whether the last scan has an end. The decoder fills missing parts with grey; inside a scan, the bytes of a marker cannot
/// stand (ITU-T T.81, B.1.1.5).
fn is_whole_jpeg(bytes: &[u8]) -> bool {
    let pairs = || bytes.windows(2);
    let Some(scan) = pairs().rposition(|pair| pair == [0xff, 0xda]) else { return false };
    pairs().skip(scan).any(|pair| pair == [0xff, 0xd9])
}

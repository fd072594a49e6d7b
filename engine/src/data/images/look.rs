//! What an image file says of itself in its first bytes.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use image::{ImageDecoder, ImageFormat, ImageReader};

/// What decides how much memory an image takes while it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Images of one kind are decoded in one way, so the largest of them takes most.
    pub(super) kind: Kind,
    /// Bytes of the file, and of its pixels, unpacked.
    pub(super) bytes: u64,
}

/// How an image is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    format: ImageFormat,
    /// Of a JPEG the marker of its frame, which says whether it comes in several scans; of a PNG its colours; of a WebP whether
    /// it has lost anything.
    way: [u8; 4],
}

/// A look at the file at `path`; `None` if it is no image of a kind that is decoded. A pipe is not opened: that would wait for a
/// writer.
pub(super) fn at(path: &Path) -> Option<Look> {
    let packed = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    let reader = ImageReader::new(BufReader::new(File::open(path).ok()?)).with_guessed_format().ok()?;
    let format = reader.format()?;
    let kind = |way| Kind { format, way };
    match format {
        ImageFormat::Jpeg => {
            let (marker, bytes) = jpeg(reader.into_inner())?;
            Some(Look { kind: kind([marker, 0, 0, 0]), bytes: packed + bytes })
        }
        ImageFormat::Png => {
            let decoder = reader.into_decoder().ok()?;
            Some(Look { kind: kind([decoder.color_type() as u8, 0, 0, 0]), bytes: packed + decoder.total_bytes() })
        }
        ImageFormat::WebP => {
            let mut file = reader.into_inner();
            let mut first = [0; 16];
            file.read_exact(&mut first).ok()?;
            file.rewind().ok()?;
            let [.., a, b, c, d] = first;
            let decoder = ImageReader::with_format(file, format).into_decoder().ok()?;
            Some(Look { kind: kind([a, b, c, d]), bytes: packed + decoder.total_bytes() })
        }
        _ => None,
    }
}

/// The marker of a JPEG's frame, and the bytes of its pixels, of one byte a component (ITU-T T.81, B.1.1.4 and B.2.2). Nothing
/// behind the frame's header is read.
fn jpeg(mut file: impl BufRead + Seek) -> Option<(u8, u64)> {
    file.seek(SeekFrom::Start(2)).ok()?;
    loop {
        let [mut start, mut marker] = read(&mut file)?;
        while start == 0xff && marker == 0xff {
            [start, marker] = [marker, read::<1>(&mut file)?[0]];
        }
        if start != 0xff {
            return None;
        }
        match marker {
            // A frame; the three among them are tables and conditions.
            0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                let [_, _, _, h1, h0, w1, w0, components] = read(&mut file)?;
                let sides = u64::from(u16::from_be_bytes([h1, h0])) * u64::from(u16::from_be_bytes([w1, w0]));
                return Some((marker, sides * u64::from(components)));
            }
            // These stand alone; a scan, or the end, before a frame.
            0x01 | 0xd0..=0xd8 => {}
            0xd9 | 0xda => return None,
            _ => {
                let rest = i64::from(u16::from_be_bytes(read(&mut file)?)) - 2;
                file.seek_relative(rest.max(0)).ok()?;
            }
        }
    }
}

fn read<const N: usize>(file: &mut impl Read) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{Rgb, RgbImage};

    use super::*;

    #[test]
    fn a_jpeg_tells_its_frame_and_its_size_and_what_is_broken_tells_nothing() {
        let mut bytes = Cursor::new(Vec::new());
        RgbImage::from_pixel(30, 20, Rgb([1, 2, 3])).write_to(&mut bytes, ImageFormat::Jpeg).expect("encoded");
        let mut bytes = bytes.into_inner();
        assert_eq!(jpeg(Cursor::new(&bytes)), Some((0xc0, 30 * 20 * 3)));
        let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).expect("a frame");
        bytes[frame + 1] = 0xc2;
        assert_eq!(jpeg(Cursor::new(&bytes)), Some((0xc2, 30 * 20 * 3)), "in several scans");
        for length in 0..frame + 10 {
            assert_eq!(jpeg(Cursor::new(&bytes[..length])), None, "{length}");
        }
        assert_eq!(jpeg(Cursor::new([0; 64])), None);
    }
}

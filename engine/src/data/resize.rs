//! Images brought to another size: the middle square, with detail beyond the new size averaged away.
//!
//! Owns [`middle`], [`pixels`], and [`scratch`], the bytes that they work in. Always holds: an image of the new size stays as it
//! is.

use image::{
    GenericImageView, ImageBuffer, Rgb, RgbImage,
    imageops::{self, FilterType},
};

/// From this many times the new side on, boxes are averaged first: it is several times as fast, and blurs only detail beyond the
/// final size.
const BOXES_FROM: usize = 4;
/// The side to which boxes are averaged, as a multiple of the new side.
const HALF_WAY: usize = 2;
/// Bytes of a pixel between the two directions of the filter: four floats.
const BETWEEN: usize = 4 * size_of::<f32>();
/// Bytes of a pixel.
const PIXEL: usize = 3;

/// The middle square of an image, `side` by `side`.
pub(super) fn middle(image: RgbImage, side: usize) -> RgbImage {
    let (width, height) = image.dimensions();
    let square = width.min(height);
    if (width, height) == (side as u32, side as u32) {
        return image;
    }
    let middle = imageops::crop_imm(&image, (width - square) / 2, (height - square) / 2, square, square);
    to(&*middle, side)
}

/// Pixels `[side, side, 3]` of an image of pixels `[from, from, 3]`.
pub(super) fn pixels(pixels: &[u8], from: usize, side: usize) -> Vec<u8> {
    let image = ImageBuffer::<Rgb<u8>, &[u8]>::from_raw(from as u32, from as u32, pixels);
    to(&image.expect("the pixels of a square"), side).into_raw()
}

/// The most bytes that [`pixels`] works in, without those that it returns: what lies between the two directions of the filter,
/// and the averaged boxes.
pub(super) fn scratch(from: usize, side: usize) -> usize {
    if from >= BOXES_FROM * side {
        let half_way = HALF_WAY * side;
        return half_way * half_way * PIXEL + half_way * side * BETWEEN;
    }
    from * side * BETWEEN
}

/// A square image at another size.
fn to<I: GenericImageView<Pixel = Rgb<u8>>>(square: &I, side: usize) -> RgbImage {
    let (from, to) = (square.width() as usize, side as u32);
    if from >= BOXES_FROM * side {
        let half_way = imageops::thumbnail(square, HALF_WAY as u32 * to, HALF_WAY as u32 * to);
        return imageops::resize(&half_way, to, to, FilterType::CatmullRom);
    }
    imageops::resize(square, to, to, FilterType::CatmullRom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tally;

    #[test]
    fn the_scratch_is_what_resizing_takes() {
        for (from, side) in [(224, 32), (64, 48), (60, 16), (33, 32), (512, 31), (20, 40)] {
            let image = vec![7; from * from * 3];
            let mut made = Vec::new();
            let peak = tally::peak_of(|| made = pixels(&image, from, side)).live as usize;
            assert_eq!(made, vec![7; side * side * 3]);
            let predicted = scratch(from, side) + side * side * 3;
            assert!((predicted..predicted + 4096).contains(&peak), "{from} to {side}: {predicted}, not {peak}");
        }
    }

    #[test]
    fn the_middle_of_an_image_stays_and_what_is_beside_it_goes() {
        let wide = RgbImage::from_fn(12, 6, |x, _| Rgb([if (3..9).contains(&x) { 90 } else { 0 }; 3]));
        assert_eq!(middle(wide, 6).into_raw(), vec![90; 6 * 6 * 3]);
    }
}

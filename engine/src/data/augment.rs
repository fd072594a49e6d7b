//! Augmentation of training images by mirroring, shifting and recolouring, with another variant in every epoch.
//!
//! Owns [`Augment`]. Always holds: a variant is a function of the seed, the epoch and the sample only, not of the thread that
//! makes it, nor of whether the image was read or kept; test images never come here.

use crate::{
    experiment::Data,
    rng::{Rng, Stream},
};

/// Shares of red, green and blue in how bright a pixel looks (ITU-R BT.601).
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// The changes of a training image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Augment {
    /// Half of the images are mirrored.
    flip: bool,
    /// Pixels of black around an image, from which one of the old size is cut.
    crop: usize,
    /// The most that brightness, contrast and saturation change, as a share.
    colour: f32,
}

/// The index of each random number of a sample.
#[derive(Clone, Copy)]
enum Draw {
    Flip,
    Down,
    Across,
    Brightness,
    Contrast,
    Saturation,
    /// Which of the variants that are kept.
    Copy,
}

/// Which of `copies` variants of sample `index` an epoch draws.
pub(super) fn drawn(seed: u64, epoch: u64, index: usize, copies: usize) -> usize {
    numbers(seed, epoch, index).below(Draw::Copy as u64, copies)
}

/// The random numbers of a sample in an epoch.
fn numbers(seed: u64, epoch: u64, index: usize) -> Rng {
    Rng::new(seed, Stream::Augment, epoch << 32 ^ index as u64)
}

impl Augment {
    /// The augmentations that `data` chooses; `None` if it chooses none.
    pub(super) fn new(data: &Data) -> Option<Self> {
        let Data { flip, crop_padding: crop, color_jitter: colour, .. } = *data;
        (flip || crop > 0 || colour > 0.0).then_some(Self { flip, crop, colour: colour as f32 })
    }

    /// Writes the variant of `from` `[height, width, channel]`, sample `index` in `epoch`, to `to`.
    pub(super) fn apply(
        &self,
        from: &[u8],
        to: &mut Vec<u8>,
        extents: [usize; 3],
        seed: u64,
        epoch: u64,
        index: usize,
    ) {
        let rng = numbers(seed, epoch, index);
        self.place(from, to, extents, &[0], rng);
        if self.colour > 0.0 {
            self.recolour(to, extents[2], rng);
        }
    }

    /// Writes the variant of an image whose numbers are floats already, as bytes; `black` is a pixel of the border. Colours stay.
    pub(super) fn apply_to_floats(
        &self,
        from: &[u8],
        to: &mut Vec<u8>,
        [height, width, channels]: [usize; 3],
        black: &[u8],
        (seed, epoch, index): (u64, u64, usize),
    ) {
        let extents = [height, width, channels * size_of::<f32>()];
        self.place(from, to, extents, black, numbers(seed, epoch, index));
    }

    /// Writes the mask of the same variant, one class a pixel; pixels of the border are class 0.
    pub(super) fn apply_to_mask(
        &self,
        from: &[u8],
        to: &mut Vec<u8>,
        [height, width]: [usize; 2],
        seed: u64,
        epoch: u64,
        index: usize,
    ) {
        self.place(from, to, [height, width, 1], &[0], numbers(seed, epoch, index));
    }

    /// Shifts and mirrors pixels of `size` bytes, with `border` repeated around them.
    fn place(&self, from: &[u8], to: &mut Vec<u8>, [height, width, size]: [usize; 3], border: &[u8], rng: Rng) {
        let is_mirrored = self.flip && rng.below(Draw::Flip as u64, 2) == 1;
        // How far the image's corner lies inside the old image, less the border: 0 is where it was.
        let [down, across] = [Draw::Down, Draw::Across].map(|draw| rng.below(draw as u64, 2 * self.crop + 1));
        to.clear();
        match border {
            [all] => to.resize(from.len(), *all),
            border => to.extend(border.iter().cycle().take(from.len())),
        }
        for (y, row) in to.chunks_exact_mut(width * size).enumerate() {
            let Some(old) = (y + down).checked_sub(self.crop).filter(|y| *y < height) else { continue };
            let old = &from[old * width * size..][..width * size];
            for (x, pixel) in row.chunks_exact_mut(size).enumerate() {
                let x = if is_mirrored { width - 1 - x } else { x };
                if let Some(x) = (x + across).checked_sub(self.crop).filter(|x| *x < width) {
                    pixel.copy_from_slice(&old[x * size..][..size]);
                }
            }
        }
    }

    /// Changes brightness, then contrast about the mean, then (with three channels) saturation about each pixel's grey.
    fn recolour(&self, pixels: &mut [u8], channels: usize, rng: Rng) {
        let strength = f64::from(self.colour);
        let factor = |draw: Draw| rng.range(draw as u64, 1.0 - strength, 1.0 + strength) as f32;
        let [brightness, contrast, saturation] = [Draw::Brightness, Draw::Contrast, Draw::Saturation].map(factor);
        let luma = |pixel: &[u8]| match pixel {
            [r, g, b] => [r, g, b].into_iter().zip(LUMA).map(|(value, share)| f32::from(*value) * share).sum(),
            _ => pixel.iter().map(|value| f32::from(*value)).sum::<f32>() / pixel.len() as f32,
        };
        let count = (pixels.len() / channels) as f32;
        let mean = brightness * pixels.chunks_exact(channels).map(luma).sum::<f32>() / count;
        for pixel in pixels.chunks_exact_mut(channels) {
            let toned = |value: f32| mean + contrast * (brightness * value - mean);
            let grey = toned(luma(pixel));
            for value in pixel {
                let toned = toned(f32::from(*value));
                let new = if channels == LUMA.len() { grey + saturation * (toned - grey) } else { toned };
                // A cast saturates.
                *value = (new + 0.5) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENTS: [usize; 3] = [6, 5, 3];

    fn image() -> Vec<u8> {
        (0..90).map(|i| 20 + 2 * i as u8).collect()
    }

    fn variant(data: &Data, epoch: u64, index: usize) -> Vec<u8> {
        let mut to = vec![7; 3];
        Augment::new(data).expect("something is on").apply(&image(), &mut to, EXTENTS, 1, epoch, index);
        to
    }

    #[test]
    fn nothing_chosen_is_nothing_done() {
        assert_eq!(Augment::new(&Data::default()), None);
    }

    #[test]
    fn about_half_are_mirrored_and_the_others_left() {
        let data = Data { flip: true, ..Data::default() };
        let mirrored: Vec<u8> = image()
            .chunks_exact(15)
            .flat_map(|row| row.chunks_exact(3).rev().flatten().copied().collect::<Vec<_>>())
            .collect();
        let mut flips = 0;
        for index in 0..200 {
            let made = variant(&data, 0, index);
            flips += usize::from(made == mirrored);
            assert!(made == mirrored || made == image());
        }
        assert!((70..130).contains(&flips), "{flips}");
    }

    #[test]
    fn a_crop_shifts_by_up_to_the_border_and_fills_with_black() {
        let data = Data { crop_padding: 2, ..Data::default() };
        let mut shifts = std::collections::HashSet::new();
        for index in 0..300 {
            let made = variant(&data, 3, index);
            let at = |pixels: &[u8], y: i32, x: i32| match (y, x) {
                (0..6, 0..5) => pixels[(y * 15 + x * 3) as usize],
                _ => 0,
            };
            let is_shifted =
                |(dy, dx): &(i32, i32)| (0..6).all(|y| (0..5).all(|x| at(&made, y, x) == at(&image(), y + dy, x + dx)));
            let all = (-2..=2).flat_map(|dy| (-2..=2).map(move |dx| (dy, dx)));
            shifts.insert(all.into_iter().find(is_shifted).expect("a shift of the image"));
        }
        assert_eq!(shifts.len(), 25);
    }

    #[test]
    fn colours_change_by_no_more_than_the_strength_and_differ_by_sample_and_epoch() {
        let data = Data { color_jitter: 0.1, ..Data::default() };
        let (one, two, later) = (variant(&data, 0, 1), variant(&data, 0, 2), variant(&data, 1, 1));
        assert!(one != two && one != later && one == variant(&data, 0, 1));
        // Three changes of a tenth each, about a mean of at most 200.
        assert!(one.iter().zip(image()).all(|(new, old)| new.abs_diff(old) < 65));
        let strong = Data { color_jitter: 1.0, ..Data::default() };
        assert_ne!(variant(&strong, 0, 1), one);
    }
}

//! The scaling of pixels, with which each channel of the training images has mean 0 and standard deviation 1, or which
//! published weights expect.
//!
//! Owns [`Histograms`], which some of the training images decide, and [`scaling`]. Always holds: a channel that never
//! varies becomes 0 everywhere; nothing is divided by zero.

/// How often each value is in each channel of some images.
pub(super) struct Histograms(Vec<[u64; 256]>);

impl Histograms {
    /// Statistics of no image yet.
    pub(super) fn new(channels: usize) -> Self {
        Self(vec![[0; 256]; channels])
    }

    /// Counts an image's values.
    pub(super) fn add(&mut self, pixels: &[u8]) {
        for pixel in pixels.chunks_exact(self.0.len()) {
            for (histogram, value) in self.0.iter_mut().zip(pixel) {
                histogram[usize::from(*value)] += 1;
            }
        }
    }

    /// Adds the counts of other images.
    pub(super) fn merge(&mut self, other: &Self) {
        for (own, other) in self.0.as_flattened_mut().iter_mut().zip(other.0.as_flattened()) {
            *own += other;
        }
    }
}

/// Factor and summand by place in a row, by mean and deviation of each channel from 0 to 1.
pub(super) fn constant([mean, deviation]: [[f64; 3]; 2], width: usize) -> Vec<f32> {
    let largest = f64::from(u8::MAX);
    let by_channel =
        mean.iter().zip(deviation).map(|(mean, deviation)| (1.0 / (largest * deviation), -mean / deviation));
    let by_channel: Vec<(f32, f32)> = by_channel.map(|(scale, offset)| (scale as f32, offset as f32)).collect();
    rows(&by_channel, width)
}

/// Factors of a row of pixels, then summands.
fn rows(by_channel: &[(f32, f32)], width: usize) -> Vec<f32> {
    let row = || by_channel.iter().cycle().take(width * by_channel.len());
    row().map(|(scale, _)| *scale).chain(row().map(|(_, offset)| *offset)).collect()
}

/// Factor and summand by place in a row, that give each channel of the training samples mean 0 and deviation 1.
pub(super) fn scaling(histograms: &Histograms, [_, width, _]: [usize; 3]) -> Vec<f32> {
    let by_channel: Vec<(f32, f32)> = histograms
        .0
        .iter()
        .map(|histogram| {
            let values = || histogram.iter().enumerate().map(|(value, n)| (value as f64, *n as f64));
            let count: f64 = values().map(|(_, n)| n).sum();
            let mean = values().map(|(v, n)| v * n).sum::<f64>() / count;
            let variance = values().map(|(v, n)| (v - mean).powi(2) * n).sum::<f64>() / count;
            // A channel that never varies stays at zero, and a rare bright pixel is not blown up.
            let deviation = variance.sqrt().max(1.0);
            ((1.0 / deviation) as f32, (-mean / deviation) as f32)
        })
        .collect();
    rows(&by_channel, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Normalise;

    #[test]
    fn constants_scale_as_torchvision_does() {
        let row = constant(Normalise::Imagenet.constants().expect("constants"), 2);
        assert_eq!(row.len(), 12);
        for (channel, expected) in
            [(0.6 - 0.485) / 0.229, (0.6 - 0.456) / 0.224, (0.6 - 0.406) / 0.225].iter().enumerate()
        {
            let own = f64::from(153.0 * row[3 + channel] + row[9 + channel]);
            assert!((own - expected).abs() < 1e-5, "{channel}: {own}, not {expected}");
        }
    }
}

//! Counter-based randomness: the value at a place is a function of (seed, stream, counter) and nothing else.
//!
//! So recomputation, resume and any number of threads draw the same numbers. The mixer is the SplitMix64
//! finaliser (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators"), applied twice.

/// A stateless source of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rng {
    key: u64,
}

/// The purpose of a stream, so that no two uses of a seed share numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Which samples are for training and which for testing.
    Split,
    /// The order of samples in an epoch.
    Shuffle,
    /// Initial weights.
    Weights,
    /// Generated data.
    Data,
    /// Variants of training images.
    Augment,
    /// The elements that dropout drops.
    Dropout,
    /// Which of the likely tokens a model writes.
    Sampling,
    /// The direction that an optimizer sees gradients in.
    Projection,
    /// Whether an optimizer rounds the scales of its state up or down.
    Rounding,
}

const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The source for `stream` of `seed`; `index` separates uses of one stream (a parameter, an epoch, a sample).
    pub fn new(seed: u64, stream: Stream, index: u64) -> Self {
        Self { key: mix(mix(seed ^ mix(stream as u64 + 1)) ^ index) }
    }

    /// A source from a bare key, as kernels receive it.
    pub fn from_key(key: u64) -> Self {
        Self { key }
    }

    /// The key that [`Rng::from_key`] takes.
    pub fn key(self) -> u64 {
        self.key
    }

    /// 64 random bits at `counter`.
    pub fn bits(self, counter: u64) -> u64 {
        mix(mix(self.key ^ counter))
    }

    /// Uniform in [0, 1) at `counter`, with 53 random bits.
    pub fn uniform(self, counter: u64) -> f64 {
        (self.bits(counter) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [low, high) at `counter`.
    pub fn range(self, counter: u64, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform(counter)
    }

    /// Standard normal at `counter` (Box & Muller 1958); uses the sub-counters 2c and 2c + 1.
    pub fn normal(self, counter: u64) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform(2 * counter)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(2 * counter + 1)).cos()
    }

    /// Uniform in 0..n at `counter`. The bias is below n / 2^64.
    pub fn below(self, counter: u64, n: usize) -> usize {
        ((u128::from(self.bits(counter)) * n as u128) >> 64) as usize
    }

    /// Shuffles in place (Fisher & Yates).
    pub fn shuffle<T>(self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64, i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let rng = Rng::new(7, Stream::Weights, 3);
        let n = 100_000;
        let (mut mean, mut variance, mut uniform) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let z = rng.normal(i);
            mean += z / n as f64;
            variance += z * z / n as f64;
            uniform += rng.uniform(i) / n as f64;
        }
        assert!(
            mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02 && (uniform - 0.5).abs() < 0.01,
            "{mean} {variance} {uniform}"
        );
    }

    #[test]
    fn streams_and_indices_differ() {
        let a = Rng::new(1, Stream::Split, 0);
        assert_ne!(a, Rng::new(1, Stream::Shuffle, 0));
        assert_ne!(a, Rng::new(1, Stream::Split, 1));
        assert_ne!(a, Rng::new(2, Stream::Split, 0));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<usize> = (0..1000).collect();
        Rng::new(1, Stream::Shuffle, 0).shuffle(&mut items);
        assert!(items.windows(2).any(|w| w[0] > w[1]));
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}

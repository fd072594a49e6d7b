//! The order of the samples in an epoch.
//!
//! Owns [`Order`]. Always holds: it follows from the seed, the epoch and the number of samples alone; every sample comes
//! once. Up to [`MOST_HELD`] samples it is a shuffled list. Larger orders are not held: a place is turned into a sample by a
//! keyed permutation of all numbers below a power of four (a network of Luby & Rackoff 1988), again until it is one of the
//! samples (Black & Rogaway 2002, "Ciphers with arbitrary finite domains").

use crate::rng::{Rng, Stream};

/// The most samples whose order is a list: 64 MiB.
const MOST_HELD: usize = 1 << 24;
/// Rounds of the network.
const ROUNDS: u64 = 6;

/// The order of one epoch.
#[derive(Debug)]
pub(super) struct Order {
    samples: usize,
    /// The samples in their order; empty where it is not held, and before the first epoch.
    held: Vec<u32>,
    /// The random source that decides the order, if it is not held.
    rng: Rng,
    is_begun: bool,
}

impl Order {
    /// The order of this many samples, before the first epoch.
    pub(super) fn new(samples: usize) -> Self {
        let held = Vec::with_capacity(Self::bytes(samples) / size_of::<u32>());
        Self { samples, held, rng: Rng::from_key(0), is_begun: false }
    }

    /// The bytes that it takes of host memory.
    pub(super) fn bytes(samples: usize) -> usize {
        if samples > MOST_HELD { 0 } else { samples * size_of::<u32>() }
    }

    /// Makes the order of `epoch`, unless it is there already.
    pub(super) fn begin(&mut self, seed: u64, epoch: u64) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        self.rng = Rng::new(seed, Stream::Shuffle, epoch);
        if self.samples <= MOST_HELD {
            self.held.extend(0..self.samples as u32);
            self.rng.shuffle(&mut self.held);
        }
    }

    /// Ends the epoch.
    pub(super) fn end(&mut self) {
        self.is_begun = false;
        self.held.clear();
    }

    /// The sample at a place.
    pub(super) fn at(&self, place: usize) -> usize {
        match self.held.get(place) {
            Some(sample) => *sample as usize,
            None => walked(place as u64, self.samples as u64, self.rng) as usize,
        }
    }
}

/// The place below `samples` that the permutation of `rng` gives for a place below `samples`.
fn walked(place: u64, samples: u64, rng: Rng) -> u64 {
    let bits = u64::BITS - samples.saturating_sub(1).leading_zeros();
    let half = bits.div_ceil(2).max(1);
    let mut now = place;
    loop {
        now = permuted(now, half, rng);
        if now < samples {
            return now;
        }
    }
}

/// A permutation of the numbers of twice `half` bits.
fn permuted(number: u64, half: u32, rng: Rng) -> u64 {
    let mask = (1 << half) - 1;
    let (mut left, mut right) = (number >> half, number & mask);
    for round in 0..ROUNDS {
        // The upper half of the bits mix best.
        let mixed = rng.bits(round << 40 ^ right) >> 32 & mask;
        (left, right) = (right, left ^ mixed);
    }
    left << half | right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_held_is_a_permutation_too_and_another_in_each_epoch() {
        for samples in [1, 2, 3, 100, 1000, 4096, 5000] {
            let order = |epoch| -> Vec<u64> {
                (0..samples).map(|place| walked(place, samples, Rng::new(1, Stream::Shuffle, epoch))).collect()
            };
            let (first, mut sorted) = (order(0), order(0));
            sorted.sort_unstable();
            assert_eq!(sorted, (0..samples).collect::<Vec<_>>());
            if samples >= 100 {
                let stays = first.iter().zip(order(1)).filter(|(a, b)| **a == *b).count();
                let in_place = first.iter().enumerate().filter(|(at, sample)| *at as u64 == **sample).count();
                assert!(stays < 10 && in_place < 10, "{samples}: {stays} {in_place}");
            }
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let samples = 100_000_000;
        let mut order = Order::new(samples);
        order.begin(7, 3);
        let found: Vec<usize> = (0..10_000).map(|place| order.at(place)).collect();
        let mean = found.iter().sum::<usize>() as f64 / found.len() as f64 / samples as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let rising = found.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((4700..5300).contains(&rising), "{rising}");
        assert_eq!(order.held.capacity(), 0);
    }
}

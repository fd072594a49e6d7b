//! Random choices, one after another, for the inputs of checks. A seed gives the same choices everywhere.

use std::time::SystemTime;

use crate::rng::Rng;

/// A seed for inputs that are others in every run of the tests: the time in nanoseconds, or the number in `PLIMSOLL_SEED`.
/// A failure tells its seed, and is repeated with that.
pub fn fresh_seed() -> u64 {
    let chosen = std::env::var("PLIMSOLL_SEED").ok().and_then(|number| number.parse().ok());
    chosen.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64))
}

/// Random choices.
#[derive(Debug)]
pub struct Draw {
    rng: Rng,
    counter: u64,
}

impl Draw {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::from_key(seed), counter: 0 }
    }

    /// Draws a number from `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        self.counter += 1;
        low + self.rng.below(self.counter, high - low + 1)
    }

    /// Draws one of two, with equal chances.
    pub fn coin(&mut self) -> bool {
        self.between(0, 1) == 1
    }

    /// Draws one element of `of`.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() - 1)]
    }

    /// A multiple of 1/1024 in [-1, 1]: exact in f32, and far from the steps of a finite difference.
    pub fn number(&mut self) -> f64 {
        self.between(0, 2048) as f64 / 1024.0 - 1.0
    }

    /// Several of [`Draw::number`].
    pub fn numbers(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.number()).collect()
    }

    /// Several integers of `0..=most`.
    pub fn integers(&mut self, count: usize, most: usize) -> Vec<f64> {
        (0..count).map(|_| self.between(0, most) as f64).collect()
    }
}

//! Sums modulo a number: `a b = c` with c = (a + b) mod p; c is scored.
//!
//! Every one of the p x p pairs occurs once, in an order that the seed decides. The first are for testing, the rest for
//! training. A network first learns the training pairs by heart and, much later, the rule (Power et al. 2022,
//! "Grokking"; Nanda et al. 2023, whose three tokens these are). Refuses: a modulus outside 2 to [`MAX_MODULUS`].

use std::ops::Range;

use crate::{
    data::{
        DatasetInfo, Split,
        device_layout::Integers,
        divide,
        sequences::{self, TokenRows, generate, within},
        source::{Source, Store},
    },
    error::Result,
    experiment::{Data, limits::MAX_MODULUS},
    rng::{Rng, Stream},
};

/// Tokens of the inputs: the two numbers and the sign.
const LENGTH: usize = 3;

/// Sums modulo a number.
pub(super) struct ModularSums;

impl Source for ModularSums {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        within("data.modulus", data.modulus, 2, MAX_MODULUS, "a modulus")?;
        let share = divide(data.modulus * data.modulus, data.test_fraction)?;
        sequences::placed(data, sequences::facts(LENGTH, data.modulus + 1, 1, share))
    }

    fn limits(&self, data: &Data) -> Result<()> {
        self.info(data).map(drop)
    }

    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        sequences::store(Modular::new(data, info, seed), data, info)
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(sequences::placed_bytes(data, info))
    }
}

/// All pairs.
#[derive(Debug)]
pub(super) struct Modular {
    modulus: usize,
    test: usize,
    order: Permutation,
}

impl Modular {
    pub(super) fn new(data: &Data, facts: &DatasetInfo, seed: u64) -> Self {
        let order = Permutation::new((facts.train + facts.test) as u64, Rng::new(seed, Stream::Split, 0));
        Self { modulus: data.modulus, test: facts.test, order }
    }
}

impl TokenRows for Modular {
    fn row(&self, split: Split, index: usize, _: u64, row: &mut [u32]) -> Result<()> {
        let place = if split == Split::Test { index } else { self.test + index };
        let pair = self.order.at(place as u64) as usize;
        let (a, b) = (pair / self.modulus, pair % self.modulus);
        row.copy_from_slice(&[a, b, self.modulus, (a + b) % self.modulus].map(|token| token as u32));
        Ok(())
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        generate(self, Split::Train, rows, tokens, to)
    }
}

/// An order of the numbers below `count` that is computed place by place: a Feistel network over the next power of four,
/// walked until it ends below `count` (Black & Rogaway 2002, "Ciphers with arbitrary finite domains").
#[derive(Debug)]
struct Permutation {
    count: u64,
    half_bits: u32,
    rng: Rng,
}

impl Permutation {
    const ROUNDS: u64 = 6;

    fn new(count: u64, rng: Rng) -> Self {
        let bits = count.max(2).next_power_of_two().ilog2();
        Self { count, half_bits: bits.div_ceil(2), rng }
    }

    fn at(&self, place: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut now = place;
        loop {
            let (mut left, mut right) = (now >> self.half_bits, now & mask);
            for round in 0..Self::ROUNDS {
                (left, right) = (right, left ^ self.rng.bits(round << 32 | right) & mask);
            }
            now = left << self.half_bits | right;
            if now < self.count {
                return now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_pair_is_there_once_and_its_sum_is_right() {
        for (modulus, seed) in [(2, 1), (7, 1), (97, 2), (113, 3)] {
            let data = Data { modulus, ..Data::default() };
            let facts = ModularSums.info(&data).expect("a modulus");
            assert_eq!((facts.labels_per_sample, facts.scored_labels, facts.classes), (3, 1, modulus + 1));
            let set = Modular::new(&data, &facts, seed);
            let mut pairs = HashSet::new();
            for (split, count) in [(Split::Train, facts.train), (Split::Test, facts.test)] {
                for index in 0..count {
                    let mut row = [0; LENGTH + 1];
                    set.row(split, index, 0, &mut row).expect("generated");
                    let [a, b, sign, sum] = row.map(|token| token as usize);
                    assert_eq!((sign, sum), (modulus, (a + b) % modulus));
                    assert!(a < modulus && b < modulus && pairs.insert((a, b)));
                }
            }
            assert_eq!(pairs.len(), modulus * modulus);
        }
    }

    #[test]
    fn the_order_is_the_seeds_and_looks_like_chance() {
        let order = |seed| {
            let order = Permutation::new(10_000, Rng::new(seed, Stream::Split, 0));
            (0..10_000).map(|i| order.at(i)).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        // The mean of the first half, were it chance, is off by 29 at one standard deviation.
        let mean = order(1)[..5000].iter().sum::<u64>() as f64 / 5000.0;
        assert!((mean - 4999.5).abs() < 150.0, "{mean}");
        let fixed = order(1).iter().enumerate().filter(|(i, at)| *i as u64 == **at).count();
        assert!(fixed < 10, "{fixed}");
    }

    #[test]
    fn a_modulus_out_of_range_is_refused() {
        for modulus in [0, 1, MAX_MODULUS + 1, usize::MAX] {
            let error = ModularSums.info(&Data { modulus, ..Data::default() }).expect_err("no modulus").to_string();
            assert!(error.starts_with("data.modulus: ") && error.contains("write 2 to 1000"), "{error}");
        }
    }
}

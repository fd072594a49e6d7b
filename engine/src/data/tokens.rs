//! A generated language: a Markov chain of the first order over any number of tokens. Every next token is scored.
//!
//! After each token come four others, with chances 1/2, 1/4, 1/8 and 1/8, which the seed decides. So no model can be right
//! more than half of the time, and the least loss is 1.75 bits (1.213 nats) a token on average. The part of a model's loss
//! above that is still to be learned. Nothing is stored: the followers of a token are computed. Refuses: vocabularies below
//! four or above [`MAX_VOCABULARY`].

use std::ops::Range;

use crate::{
    data::{
        DatasetInfo, Split,
        device_layout::Integers,
        sequences::{self, Parting, TokenRows, generate, within},
        source::{Source, Store},
    },
    error::Result,
    experiment::{
        Data,
        limits::{MAX_LENGTH, MAX_VOCABULARY, MIN_VOCABULARY},
    },
    rng::{Rng, Stream},
};

/// Tokens that can follow one.
const FOLLOWERS: usize = MIN_VOCABULARY;
/// Sequences grow by about this factor with each token: two to the power of its 1.75 bits.
const GROWTH: f64 = 3.36;

/// A generated language.
pub(super) struct MarkovChain;

impl Source for MarkovChain {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        within("data.length", data.length, 1, MAX_LENGTH, "a length")?;
        within("data.vocabulary", data.vocabulary, FOLLOWERS, MAX_VOCABULARY, "a vocabulary")?;
        let rows = data.vocabulary as f64 * GROWTH.powf(data.length as f64);
        let share = sequences::share(data, rows, "write more, or raise data.vocabulary")?;
        sequences::placed(data, sequences::facts(data.length, data.vocabulary, data.length, share))
    }

    fn limits(&self, data: &Data) -> Result<()> {
        self.info(data).map(drop)
    }

    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        sequences::store(Chain::new(data, seed), data, info)
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(sequences::placed_bytes(data, info))
    }
}

/// Samples of one choice and seed.
#[derive(Debug)]
pub(super) struct Chain {
    vocabulary: usize,
    /// Decides which tokens follow which.
    language: Rng,
    parting: Parting,
}

impl Chain {
    pub(super) fn new(data: &Data, seed: u64) -> Self {
        let language = Rng::new(!seed, Stream::Data, 0);
        Self { vocabulary: data.vocabulary, language, parting: Parting::new(data, seed) }
    }

    /// The token that follows, the likeliest for `rank` 0: the four are different.
    fn follower(&self, token: u32, rank: usize) -> u32 {
        let first = self.language.below(2 * u64::from(token), self.vocabulary);
        let apart = 1 + self.language.below(2 * u64::from(token) + 1, (self.vocabulary - 1) / (FOLLOWERS - 1));
        ((first + rank * apart) % self.vocabulary) as u32
    }
}

impl TokenRows for Chain {
    fn row(&self, split: Split, index: usize, _: u64, row: &mut [u32]) -> Result<()> {
        self.parting.draw(split, index, row, |rng, row| {
            let mut now = rng.below(0, self.vocabulary) as u32;
            for (i, token) in row.iter_mut().enumerate() {
                *token = now;
                // Three bits: 4 of 8 cases are rank 0, 2 are rank 1, one each ranks 2 and 3.
                let rank = [0, 0, 0, 0, 1, 1, 2, 3][(rng.bits(1 + i as u64) >> 61) as usize];
                now = self.follower(now, rank);
            }
        });
        Ok(())
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        generate(self, Split::Train, rows, tokens, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vocabulary_has_its_four_different_followers() {
        for vocabulary in [4, 5, 6, 7, 100, 50_257] {
            let data = Data { vocabulary, ..Data::default() };
            let facts = MarkovChain.info(&data).expect("possible");
            assert_eq!((facts.scored_labels, facts.classes), (64, vocabulary));
            let chain = Chain::new(&data, 1);
            for token in 0..vocabulary.min(1000) as u32 {
                let mut all = [0, 1, 2, 3].map(|rank| chain.follower(token, rank));
                all.sort_unstable();
                assert!(all.windows(2).all(|w| w[0] < w[1]) && (all[3] as usize) < vocabulary, "{all:?}");
            }
        }
    }

    #[test]
    fn the_likeliest_follows_every_other_time() {
        let data = Data { vocabulary: 1000, ..Data::default() };
        let chain = Chain::new(&data, 1);
        let (mut right, mut steps) = (0, 0);
        for index in 0..200 {
            let mut row = [0; 65];
            chain.row(Split::Train, index, 0, &mut row).expect("generated");
            for pair in row.windows(2) {
                right += usize::from(pair[1] == chain.follower(pair[0], 0));
                steps += 1;
                assert!((0..4).any(|rank| pair[1] == chain.follower(pair[0], rank)));
            }
        }
        let share = right as f64 / steps as f64;
        assert!((share - 0.5).abs() < 0.02, "{share}");
    }

    #[test]
    fn parts_speak_one_language_and_seeds_another() {
        let data = Data { vocabulary: 50, ..Data::default() };
        let (one, two) = (Chain::new(&data, 1), Chain::new(&data, 2));
        assert!((0..50).any(|token| one.follower(token, 0) != two.follower(token, 0)));
        let mut rows = [[0; 65]; 2];
        one.row(Split::Train, 0, 0, &mut rows[0]).expect("generated");
        one.row(Split::Test, 0, 0, &mut rows[1]).expect("generated");
        assert_ne!(rows[0], rows[1]);
        assert!(MarkovChain.info(&Data { vocabulary: 3, ..data }).is_err());
    }
}

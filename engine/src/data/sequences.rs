//! Sequences: rows of tokens, of which each is to be told from those before it.
//!
//! Owns the trait [`Rows`] that every source of sequences has, and what they share: a row of `length + 1` tokens is a
//! sample whose inputs are all but the last and whose labels are all but the first, of which the last `scored` count.
//! Always holds: a generated row belongs to one part by its tokens alone ([`Parting`]), so that what is trained on is
//! never what is tested on, however often chance makes a row again.

use std::fmt;

use crate::{
    data::{Facts, Input, Split, UNSCORED, divide},
    error::{Problem, Result},
    experiment::Data,
    rng::{Rng, Stream},
};

/// The longest sequence.
pub const MAX_LENGTH: usize = 1 << 16;
/// The most tokens there can be.
pub const MAX_VOCABULARY: usize = 1 << 20;

/// Different rows that the smaller part must have to draw from: with so many expected, no part is empty.
const FEWEST: f64 = 100.0;

/// A source of sequences.
pub(super) trait Rows: fmt::Debug + Send + Sync {
    /// Writes the tokens of sample `index` of a part, as it is in `epoch`.
    ///
    /// # Errors
    /// A file that can no longer be read as it was.
    fn row(&self, split: Split, index: usize, epoch: u64, row: &mut [u32]) -> Result<()>;

    /// Whether what it reads from is still as it was.
    fn is_current(&self) -> bool {
        true
    }
}

/// The labels of a row: all but its first token, the last `scored` of them.
pub(super) fn labels(row: &[u32], scored: usize, labels: &mut [u32]) {
    labels.copy_from_slice(&row[1..]);
    let unscored = labels.len() - scored;
    labels[..unscored].fill(UNSCORED);
}

/// Facts of sequences of `length` inputs.
pub(super) fn facts(length: usize, vocabulary: usize, scored: usize, (train, test): (usize, usize)) -> Facts {
    Facts { input: Input::Tokens { length, vocabulary }, targets: length, scored, classes: vocabulary, train, test }
}

/// The share of [`divide`] for generated rows of which there are `rows` different ones.
///
/// # Errors
/// Too few for both parts.
pub(super) fn share(data: &Data, rows: f64, mend: &str) -> Result<(usize, usize)> {
    let share = divide(data.samples, data.test_fraction)?;
    let smaller = rows * data.test_fraction.min(1.0 - data.test_fraction);
    if smaller < FEWEST {
        let message = format!("only about {rows:.0} different samples can be, too few to hold some out");
        return Err(Problem::new("data.length", message, mend).into());
    }
    Ok(share)
}

/// A value outside `low..=high`.
pub(super) fn within(key: &str, value: usize, low: usize, high: usize, what: &str) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Problem::new(key, format!("{value} is not {what}"), format!("write {low} to {high}")).into())
}

/// Which part a generated row belongs to: decided by the seed and the row's tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parting {
    seed: u64,
    test_fraction: f64,
}

impl Parting {
    pub(super) fn new(data: &Data, seed: u64) -> Self {
        Self { seed, test_fraction: data.test_fraction }
    }

    fn of(&self, row: &[u32]) -> Split {
        let fold = |rng: Rng, token: &u32| Rng::from_key(rng.bits(u64::from(*token)));
        let hash = row.iter().fold(Rng::new(self.seed, Stream::Split, 0), fold);
        if hash.uniform(0) < self.test_fraction { Split::Test } else { Split::Train }
    }

    /// Makes rows for sample `index` until one belongs to its part.
    pub(super) fn draw(&self, split: Split, index: usize, row: &mut [u32], mut make: impl FnMut(Rng, &mut [u32])) {
        let rng = Rng::new(self.seed, Stream::Data, (index as u64) << 1 | u64::from(split == Split::Test));
        for attempt in 0.. {
            make(Rng::from_key(rng.bits(attempt)), row);
            if self.of(row) == split {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_labels_count() {
        let mut found = [0; 4];
        labels(&[5, 6, 7, 8, 9], 2, &mut found);
        assert_eq!(found, [UNSCORED, UNSCORED, 8, 9]);
        labels(&[5, 6, 7, 8, 9], 4, &mut found);
        assert_eq!(found, [6, 7, 8, 9]);
    }

    #[test]
    fn about_the_chosen_share_of_all_rows_belongs_to_the_test() {
        let parting = Parting::new(&Data { test_fraction: 0.25, ..Data::default() }, 3);
        let tests = (0..10_000u32).filter(|i| parting.of(&[i % 100, i / 100]) == Split::Test).count();
        assert!((2300..2700).contains(&tests), "{tests}");
    }
}

//! Sorting: digits in any order, then the same digits sorted. Only the sorted ones are scored.
//!
//! The inputs of a sample of n digits are the n digits and all but the last of the sorted ones. Refuses: fewer than two
//! digits, more than [`MAX_DIGITS`], and too few different samples to hold some out.

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
        limits::{MAX_LENGTH, MAX_VOCABULARY},
    },
};

/// The most digits of a sample.
const MAX_DIGITS: usize = MAX_LENGTH / 2;

/// Digits to sort.
pub(super) struct SortedDigits;

impl Source for SortedDigits {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        within("data.length", data.length, 2, MAX_DIGITS, "a number of digits to sort")?;
        within("data.vocabulary", data.vocabulary, 2, MAX_VOCABULARY, "a number of different digits")?;
        let rows = (data.vocabulary as f64).powf(data.length as f64);
        let share = sequences::share(data, rows, "write more, or raise data.vocabulary")?;
        sequences::placed(data, sequences::facts(2 * data.length - 1, data.vocabulary, data.length, share))
    }

    fn limits(&self, data: &Data) -> Result<()> {
        self.info(data).map(drop)
    }

    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        sequences::store(Sort::new(data, seed), data, info)
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(sequences::placed_bytes(data, info))
    }
}

/// Samples of one choice and seed.
#[derive(Debug)]
pub(super) struct Sort {
    vocabulary: usize,
    parting: Parting,
}

impl Sort {
    pub(super) fn new(data: &Data, seed: u64) -> Self {
        Self { vocabulary: data.vocabulary, parting: Parting::new(data, seed) }
    }
}

impl TokenRows for Sort {
    fn row(&self, split: Split, index: usize, _: u64, row: &mut [u32]) -> Result<()> {
        self.parting.draw(split, index, row, |rng, row| {
            let (digits, sorted) = row.split_at_mut(row.len() / 2);
            for (i, digit) in digits.iter_mut().enumerate() {
                *digit = rng.below(i as u64, self.vocabulary) as u32;
            }
            sorted.copy_from_slice(digits);
            sorted.sort_unstable();
        });
        Ok(())
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        generate(self, Split::Train, rows, tokens, to)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_second_half_is_the_first_in_order_and_no_training_sample_is_a_test_sample() {
        let data = Data { length: 4, vocabulary: 6, ..Data::default() };
        let facts = SortedDigits.info(&data).expect("possible");
        assert_eq!(
            (facts.labels_per_sample, facts.scored_labels, facts.classes, facts.train, facts.test),
            (7, 4, 6, 3200, 800)
        );
        let set = Sort::new(&data, 1);
        let rows = |split, count| {
            (0..count).map(move |index| {
                let mut row = [0; 8];
                set.row(split, index, 0, &mut row).expect("generated");
                let mut sorted = row[..4].to_vec();
                sorted.sort_unstable();
                assert_eq!(row[4..], sorted);
                row
            })
        };
        let test: HashSet<_> = rows(Split::Test, facts.test).collect();
        let set = Sort::new(&data, 1);
        let mut row = [0; 8];
        for index in 0..facts.train {
            set.row(Split::Train, index, 0, &mut row).expect("generated");
            assert!(!test.contains(&row));
        }
    }

    #[test]
    fn too_few_different_samples_are_refused() {
        let error = |length, vocabulary| {
            SortedDigits.info(&Data { length, vocabulary, ..Data::default() }).expect_err("impossible").to_string()
        };
        assert!(error(2, 3).starts_with("data.length: only about 9 different samples"), "{}", error(2, 3));
        assert!(error(1, 10).starts_with("data.length: 1 is not a number of digits"));
        assert!(error(usize::MAX, 10).starts_with("data.length: "));
        assert!(error(5, 1).starts_with("data.vocabulary: "));
    }
}

//! Brackets of two kinds, then a question: are they balanced? Only the answer is scored.
//!
//! Every other sample is balanced, drawn evenly from all balanced words. The others are balanced words with two brackets
//! exchanged: so they have as many of each bracket, and counting does not help. In half of them two closing brackets of
//! different kinds are exchanged: then the depth does not help either, only which bracket belongs to which. Refuses: an
//! odd number of brackets, and too few to hold some out.

use std::ops::Range;

use crate::{
    data::{
        DatasetInfo, Split,
        device_layout::Integers,
        sequences::{self, Parting, TokenRows, generate, within},
        source::{Source, Store},
    },
    error::{Problem, Result},
    experiment::{Data, limits::MAX_LENGTH},
    rng::Rng,
};

/// Closing brackets are their opening ones plus 1.
const OPENING: [u32; 2] = [0, 2];
const QUESTION: u32 = 4;
/// The answers: no, yes.
const ANSWERS: [u32; 2] = [5, 6];
const VOCABULARY: usize = 7;

/// Where the random numbers of a sample begin: the shape, the kinds, the exchange.
const KINDS: u64 = 1 << 32;
const EXCHANGE: u64 = 2 << 32;

/// Brackets that are balanced or not.
pub(super) struct BalancedBrackets;

impl Source for BalancedBrackets {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        within("data.length", data.length, 2, MAX_LENGTH, "a number of brackets")?;
        if !data.length.is_multiple_of(2) {
            let message = format!("{} brackets are never balanced: the number is odd", data.length);
            let mend = format!("write an even number, such as {}", data.length + 1);
            return Err(Problem::new("data.length", message, mend).into());
        }
        // The Catalan numbers (each from the one before), times the kinds of the pairs.
        let pairs = data.length as u64 / 2;
        let words: f64 = (1..=pairs).map(|n| 2.0 * (4 * n - 2) as f64 / (n + 1) as f64).product();
        let share = sequences::share(data, words, "write more")?;
        sequences::placed(data, sequences::facts(data.length + 1, VOCABULARY, 1, share))
    }

    fn limits(&self, data: &Data) -> Result<()> {
        self.info(data).map(drop)
    }

    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        sequences::store(Brackets::new(data, seed), data, info)
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(sequences::placed_bytes(data, info))
    }
}

/// Samples of one choice and seed.
#[derive(Debug)]
pub(super) struct Brackets {
    parting: Parting,
}

impl Brackets {
    pub(super) fn new(data: &Data, seed: u64) -> Self {
        Self { parting: Parting::new(data, seed) }
    }
}

impl TokenRows for Brackets {
    fn row(&self, split: Split, index: usize, _: u64, row: &mut [u32]) -> Result<()> {
        let is_balanced = index.is_multiple_of(2);
        self.parting.draw(split, index, row, |rng, row| {
            let (word, end) = row.split_at_mut(row.len() - 2);
            balanced(rng, word);
            if !is_balanced {
                exchange(rng, word);
            }
            end.copy_from_slice(&[QUESTION, ANSWERS[usize::from(is_balanced)]]);
        });
        Ok(())
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        generate(self, Split::Train, rows, tokens, to)
    }
}

const fn is_opening(bracket: u32) -> bool {
    bracket.is_multiple_of(2)
}

/// A balanced word, each as likely as any other. Of the rotations of a row with one opening bracket more than there are
/// closing ones, exactly one stays above zero from its start (Dvoretzky & Motzkin 1947); it is balanced without its first.
fn balanced(rng: Rng, word: &mut [u32]) {
    let pairs = word.len() / 2;
    let mut row: Vec<bool> = (0..=2 * pairs).map(|i| i <= pairs).collect();
    rng.shuffle(&mut row);
    let (mut depth, mut lowest, mut start) = (0i64, 0, 0);
    for (i, is_opening) in row.iter().enumerate() {
        depth += if *is_opening { 1 } else { -1 };
        if depth <= lowest {
            (lowest, start) = (depth, i + 1);
        }
    }
    let mut open = Vec::with_capacity(pairs);
    let rotated = row.iter().cycle().skip(start + 1);
    for (i, (bracket, is_opening)) in word.iter_mut().zip(rotated).enumerate() {
        *bracket = if *is_opening {
            let kind = OPENING[rng.below(KINDS + i as u64, OPENING.len())];
            open.push(kind);
            kind
        } else {
            1 + open.pop().unwrap_or(OPENING[0])
        };
    }
}

/// Exchanges two brackets of a balanced word so that it is balanced no longer.
fn exchange(rng: Rng, word: &mut [u32]) {
    const TRIES: u64 = 32;
    let is_crossing = rng.bits(EXCHANGE) & 1 == 0;
    for attempt in 1..=TRIES {
        let [i, j] = [0, 1].map(|side| rng.below(EXCHANGE + 2 * attempt + side, word.len()));
        let crosses = !is_opening(word[i]) && !is_opening(word[j]) && word[i] != word[j];
        let is_fit = if is_crossing { crosses } else { is_opening(word[i]) != is_opening(word[j]) };
        if is_fit {
            word.swap(i, j);
            if !is_balanced(word) {
                return;
            }
            word.swap(i, j);
        }
    }
    // The last bracket closes: nothing balanced begins with it.
    word.swap(0, word.len() - 1);
}

fn is_balanced(word: &[u32]) -> bool {
    let mut open = Vec::with_capacity(word.len() / 2);
    for bracket in word {
        if is_opening(*bracket) {
            open.push(bracket + 1);
        } else if open.pop() != Some(*bracket) {
            return false;
        }
    }
    open.is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn rows(data: &Data, split: Split, count: usize) -> Vec<Vec<u32>> {
        let set = Brackets::new(data, 1);
        let row = |index| {
            let mut row = vec![0; data.length + 2];
            set.row(split, index, 0, &mut row).expect("generated");
            row
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn the_answer_is_right_and_every_other_time_yes() {
        for length in [10, 16, 62] {
            let data = Data { length, ..Data::default() };
            let facts = BalancedBrackets.info(&data).expect("possible");
            assert_eq!((facts.labels_per_sample, facts.scored_labels, facts.classes), (length + 1, 1, 7));
            let rows = rows(&data, Split::Train, 1000);
            for row in &rows {
                let (word, end) = row.split_at(length);
                assert_eq!(end, [4, if is_balanced(word) { 6 } else { 5 }]);
            }
            assert_eq!(rows.iter().filter(|row| row[length + 1] == 6).count(), 500);
        }
    }

    #[test]
    fn counting_does_not_tell_nor_does_the_running_depth() {
        let length = 20;
        let (mut crossed, mut wrong) = (0, 0);
        for row in rows(&Data { length, ..Data::default() }, Split::Train, 2000) {
            let word = &row[..length];
            let count = |bracket| word.iter().filter(|b| **b == bracket).count();
            assert_eq!((count(0), count(2)), (count(1), count(3)));
            if row[length + 1] == 5 {
                wrong += 1;
                let mut depth = 0;
                crossed += usize::from(word.iter().all(|b| {
                    depth += if is_opening(*b) { 1 } else { -1 };
                    depth >= 0
                }));
            }
        }
        assert!(wrong == 1000 && crossed > 450, "{wrong} {crossed}");
    }

    #[test]
    fn balanced_words_are_drawn_evenly() {
        let mut shapes: HashMap<Vec<bool>, usize> = HashMap::new();
        for i in 0..14_000 {
            let mut word = [0; 8];
            balanced(Rng::from_key(i), &mut word);
            assert!(is_balanced(&word), "{word:?}");
            *shapes.entry(word.iter().map(|b| is_opening(*b)).collect()).or_default() += 1;
        }
        // The Catalan number of four pairs.
        assert_eq!(shapes.len(), 14);
        assert!(shapes.values().all(|n| (850..1150).contains(n)), "{shapes:?}");
    }

    #[test]
    fn no_training_sample_is_a_test_sample() {
        let data = Data { length: 10, ..Data::default() };
        let test: HashSet<_> = rows(&data, Split::Test, 800).into_iter().collect();
        assert!(rows(&data, Split::Train, 3200).iter().all(|row| !test.contains(row)));
    }

    #[test]
    fn odd_and_short_rows_are_refused() {
        let error =
            |length| BalancedBrackets.info(&Data { length, ..Data::default() }).expect_err("impossible").to_string();
        assert!(error(9).contains("the number is odd; write an even number, such as 10"), "{}", error(9));
        assert!(error(6).contains("only about 40 different samples"), "{}", error(6));
        assert!(error(0).starts_with("data.length: 0 is not"), "{}", error(0));
    }
}

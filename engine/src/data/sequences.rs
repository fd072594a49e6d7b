//! Sequences: rows of tokens, in which a model predicts each token from those before it.
//!
//! Owns the trait [`TokenRows`], which every source of sequences implements, and the form that they share: a row of
//! `length + 1` tokens is a sample whose inputs are all but the last and whose labels are all but the first; the last `scored`
//! labels count. Always holds: a generated row belongs to one part by its tokens alone ([`Parting`]), so a training row is
//! never a test row, however often chance makes the same row.

use std::{fmt, ops::Range};

use crate::{
    backend::IGNORE_INDEX,
    bytes::Bytes,
    data::{DatasetInfo, Split, device_layout::Integers, divide, source::Store},
    error::{Error, Problem, Result},
    experiment::{Data, Placement},
    memory::probe::{meter_of_this_thread, meter_this_thread},
    rng::{Rng, Stream},
};

/// The most bytes of generated sequences that are held.
const MOST_HELD: usize = 4 << 30;

/// Different rows that the smaller part must have to draw from: with this many expected, no part is empty.
const FEWEST: f64 = 100.0;

/// A source of sequences.
pub(super) trait TokenRows: fmt::Debug + Send + Sync {
    /// Writes the tokens of sample `index` of a part, as it is in `epoch`.
    ///
    /// # Errors
    /// Fails when a file can no longer be read as it was.
    fn row(&self, split: Split, index: usize, epoch: u64, row: &mut [u32]) -> Result<()>;

    /// Writes the inputs and the labels of sample `index` of a part, as it is in `epoch`; of the labels the last `scored` may
    /// count.
    ///
    /// # Errors
    /// Fails when a file can no longer be read as it was.
    fn sample(
        &self,
        split: Split,
        index: usize,
        epoch: u64,
        (inputs, own): (&mut [u32], &mut [u32]),
        scored: usize,
    ) -> Result<()> {
        let mut row = vec![0; inputs.len() + 1];
        self.row(split, index, epoch, &mut row)?;
        inputs.copy_from_slice(&row[..inputs.len()]);
        labels(&row, scored, own);
        Ok(())
    }

    /// Whether its training samples come from an endless stream, numbered through all epochs.
    fn is_stream(&self) -> bool {
        false
    }

    /// Training and test samples, where they are not those that were found before it was opened.
    fn counts(&self) -> Option<(usize, usize)> {
        None
    }

    /// Whether its files are unchanged.
    fn is_current(&self) -> bool {
        true
    }

    /// A checksum of its files, where they were read whole.
    fn checksum(&self) -> Option<u32> {
        None
    }

    /// A checksum of the tokenizer of its text, if there is one.
    fn tokenizer_checksum(&self) -> Option<u32> {
        None
    }

    /// The place where training sample `index` of `epoch` begins in the part that [`TokenRows::part`] gives, with rows of
    /// `tokens` each.
    fn place(&self, index: usize, epoch: u64, tokens: usize) -> u32 {
        let _ = epoch;
        (index * tokens) as u32
    }

    /// Training rows of `tokens` each, for a device.
    ///
    /// # Errors
    /// Fails when a file can no longer be read as it was.
    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()>;
}

/// Rows of `tokens` each of a part, written on all cores.
pub(super) fn generate(
    rows: &dyn TokenRows,
    split: Split,
    range: Range<usize>,
    tokens: usize,
    to: &mut Integers,
) -> Result<()> {
    to.reserve(range.len() * tokens);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = range.len().div_ceil(threads).max(1);
    let is_narrow = matches!(to, Integers::Bytes(_));
    let make = |range: Range<usize>| -> Result<Integers> {
        let mut made = if is_narrow { Integers::Bytes(Vec::new()) } else { Integers::Words(Vec::new()) };
        made.reserve(range.len() * tokens);
        let mut row = vec![0; tokens];
        for index in range {
            rows.row(split, index, 0, &mut row)?;
            made.extend(row.iter().copied());
        }
        Ok(made)
    };
    std::thread::scope(|scope| {
        let starts = range.clone().step_by(share);
        let (make, meter) = (&make, meter_of_this_thread());
        let made = move |range| {
            meter_this_thread(meter);
            make(range)
        };
        let workers: Vec<_> =
            starts.map(|start| scope.spawn(move || made(start..(start + share).min(range.end)))).collect();
        workers.into_iter().try_for_each(|worker| {
            to.append(worker.join().map_err(|_| Error::Panic("a thread that makes sequences".to_owned()))??);
            Ok(())
        })
    })
}

/// Generated rows, all in memory.
#[derive(Debug)]
pub(super) struct Held {
    train: Integers,
    test: Integers,
    tokens: usize,
}

impl Held {
    pub(super) fn new(rows: &dyn TokenRows, facts: &DatasetInfo) -> Result<Self> {
        let tokens = facts.labels_per_sample + 1;
        let all = |split, count| {
            let mut made = Integers::below(facts.classes);
            generate(rows, split, 0..count, tokens, &mut made).map(|()| made)
        };
        Ok(Self { train: all(Split::Train, facts.train)?, test: all(Split::Test, facts.test)?, tokens })
    }
}

impl TokenRows for Held {
    fn row(&self, split: Split, index: usize, _: u64, row: &mut [u32]) -> Result<()> {
        let part = match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        };
        part.copy_to(index * self.tokens..(index + 1) * self.tokens, row);
        Ok(())
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        generate(self, Split::Train, rows, tokens, to)
    }
}

/// Generated rows where `data` places them: in memory, or made when they are asked for.
///
/// # Errors
/// Fails when a thread that makes the rows panics.
pub(super) fn store(rows: impl TokenRows + 'static, data: &Data, facts: &DatasetInfo) -> Result<Store> {
    Ok(Store::Rows(match data.placement {
        Placement::Host => Box::new(Held::new(&rows, facts)?),
        Placement::Streamed | Placement::Device => Box::new(rows),
    }))
}

/// Host bytes of generated rows where `data` places them.
pub(super) fn placed_bytes(data: &Data, facts: &DatasetInfo) -> usize {
    match data.placement {
        Placement::Host => held_bytes(facts),
        Placement::Streamed | Placement::Device => 0,
    }
}

/// Host bytes of all rows of `facts` at their compact type.
fn held_bytes(facts: &DatasetInfo) -> usize {
    let each = if facts.classes <= 256 { size_of::<u8>() } else { size_of::<u32>() };
    (facts.train + facts.test) * (facts.labels_per_sample + 1) * each
}

/// The labels of a row: all but its first token, the last `scored` of them.
pub(super) fn labels(row: &[u32], scored: usize, labels: &mut [u32]) {
    labels.copy_from_slice(&row[1..]);
    let unscored = labels.len() - scored;
    labels[..unscored].fill(IGNORE_INDEX);
}

/// The [`DatasetInfo`] of sequences of `length` inputs.
pub(super) fn facts(length: usize, vocabulary: usize, scored: usize, (train, test): (usize, usize)) -> DatasetInfo {
    DatasetInfo { scored_labels: scored, ..DatasetInfo::label_each_token(length, vocabulary, train, test) }
}

/// The facts of generated sequences, if they fit where `data` places them.
pub(super) fn placed(data: &Data, facts: DatasetInfo) -> Result<DatasetInfo> {
    let bytes = held_bytes(&facts);
    let tokens = facts.train * (facts.labels_per_sample + 1);
    let most = match data.placement {
        Placement::Streamed => return Ok(facts),
        Placement::Host if bytes <= MOST_HELD => return Ok(facts),
        Placement::Device if bytes <= MOST_HELD && tokens <= u32::MAX as usize => return Ok(facts),
        Placement::Host | Placement::Device => MOST_HELD,
    };
    let message = format!("all samples together take {}, more than {}", Bytes(bytes as u64), Bytes(most as u64));
    let mend = "write \"streamed\", or lower data.samples or data.length";
    Err(Problem::new("data.placement", message, mend).into())
}

/// The share of [`divide`] for generated rows of which `rows` are different.
///
/// # Errors
/// Fails when there are too few rows for both parts.
pub(super) fn share(data: &Data, rows: f64, mend: &str) -> Result<(usize, usize)> {
    let share = divide(data.samples, data.test_fraction)?;
    let smaller = rows * data.test_fraction.min(1.0 - data.test_fraction);
    if smaller < FEWEST {
        let message = format!("only about {rows:.0} different samples exist, too few to hold some out");
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
    use crate::{
        data::{source::Source, tokens},
        experiment::DataKind,
    };

    #[test]
    fn only_the_last_labels_count() {
        let mut found = [0; 4];
        labels(&[5, 6, 7, 8, 9], 2, &mut found);
        assert_eq!(found, [IGNORE_INDEX, IGNORE_INDEX, 8, 9]);
        labels(&[5, 6, 7, 8, 9], 4, &mut found);
        assert_eq!(found, [6, 7, 8, 9]);
    }

    #[test]
    fn rows_in_memory_are_those_generated_and_take_the_bytes_predicted() {
        for (vocabulary, bytes) in [(256, 1), (257, 4)] {
            let data = Data { vocabulary, length: 9, samples: 70, kind: DataKind::Tokens, ..Data::default() };
            let facts = tokens::MarkovChain.info(&data).expect("possible");
            let chain = tokens::Chain::new(&data, 1);
            let held = Held::new(&chain, &facts).expect("generated");
            let size = |part: &Integers| match part {
                Integers::Bytes(bytes) => bytes.capacity(),
                Integers::Words(words) => 4 * words.capacity(),
            };
            assert_eq!(size(&held.train) + size(&held.test), held_bytes(&facts));
            assert_eq!(held_bytes(&facts), 70 * 10 * bytes);
            for (split, count) in [(Split::Train, facts.train), (Split::Test, facts.test)] {
                for index in 0..count {
                    let mut rows = [[0; 10]; 2];
                    chain.row(split, index, 0, &mut rows[0]).expect("generated");
                    held.row(split, index, 0, &mut rows[1]).expect("in memory");
                    assert_eq!(rows[0], rows[1]);
                }
            }
        }
    }

    #[test]
    fn what_is_too_much_to_hold_is_refused_and_can_be_streamed() {
        let data = Data { length: 1 << 16, vocabulary: 1000, samples: 100_000, ..Data::default() };
        for placement in [Placement::Host, Placement::Device] {
            let error =
                tokens::MarkovChain.info(&Data { placement, ..data.clone() }).expect_err("too much").to_string();
            assert!(error.starts_with("data.placement: all samples together take 24.4 GiB"), "{error}");
        }
        assert!(tokens::MarkovChain.info(&Data { placement: Placement::Streamed, ..data }).is_ok());
    }

    #[test]
    fn about_the_chosen_share_of_all_rows_belongs_to_the_test() {
        let parting = Parting::new(&Data { test_fraction: 0.25, ..Data::default() }, 3);
        let tests = (0..10_000u32).filter(|i| parting.of(&[i % 100, i / 100]) == Split::Test).count();
        assert!((2300..2700).contains(&tests), "{tests}");
    }
}

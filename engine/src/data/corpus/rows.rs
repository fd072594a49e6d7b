//! Sequences of one length from samples of any length: each padded or cut, or all of them joined and cut.
//!
//! Owns [`Padded`] and [`Packed`]. Packed sequences are cut from one endless stream of tokens: the samples of a pass in an
//! order that the seed and the pass decide, and then those of the next. So no token is left out and none is padding, and a
//! sequence is known by its number alone, however often the stream is begun again. Always holds: a sequence's first label
//! follows its first token, and the last label of one is the first token of the next.

use std::ops::Range;

use super::{encoder::Encoded, samples::Samples};
use crate::{
    backend::IGNORE_INDEX,
    data::{
        Split,
        device_layout::Integers,
        sequences::{TokenRows, generate},
    },
    error::{Error, Result},
    rng::{Rng, Stream},
    sync::Mutex,
};

/// Samples whose tokens are counted at a time where a run goes on, on all cores.
const COUNTED: usize = 1024;

/// A sequence for each sample.
#[derive(Debug)]
pub(super) struct Padded(pub(super) Samples);

/// Writes as many of a sample's inputs and labels as there is room for; the rest is `filler`, which does not count.
pub(super) fn pad(encoded: &Encoded, filler: u32, inputs: &mut [u32], labels: &mut [u32]) {
    let Encoded { tokens, scored } = encoded;
    for (at, (input, label)) in inputs.iter_mut().zip(labels).enumerate() {
        *input = tokens.get(at).copied().unwrap_or(filler);
        *label = match (tokens.get(at + 1), scored.get(at + 1)) {
            (Some(token), Some(true)) => *token,
            _ => IGNORE_INDEX,
        };
    }
}

impl TokenRows for Padded {
    fn row(&self, split: Split, index: usize, _: u64, row: &mut [u32]) -> Result<()> {
        let encoded = self.0.encoded(self.0.part(split)[index] as usize)?;
        pad(&encoded, self.0.filler(), row, &mut vec![0; row.len()]);
        Ok(())
    }

    fn sample(
        &self,
        split: Split,
        index: usize,
        _: u64,
        (inputs, labels): (&mut [u32], &mut [u32]),
        _: usize,
    ) -> Result<()> {
        let encoded = self.0.encoded(self.0.part(split)[index] as usize)?;
        pad(&encoded, self.0.filler(), inputs, labels);
        Ok(())
    }

    fn is_current(&self) -> bool {
        self.0.is_current()
    }

    fn checksum(&self) -> Option<u32> {
        Some(self.0.index.checksum)
    }

    fn tokenizer_checksum(&self) -> Option<u32> {
        Some(self.0.tokenizer_checksum())
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        generate(self, Split::Train, rows, tokens, to)
    }
}

/// Sequences from samples that are joined.
#[derive(Debug)]
pub(super) struct Packed {
    samples: Samples,
    seed: u64,
    train: Mutex<Joined>,
    test: Mutex<Joined>,
}

/// Where a stream stands.
#[derive(Debug, Default)]
struct Joined {
    /// The number of tokens before `ahead`.
    passed: u64,
    ahead: Encoded,
    /// Passes over the samples that were begun.
    passes: u64,
    /// Tokens before the present pass.
    before_pass: u64,
    /// The samples of this pass that are left, the next one last.
    left: Vec<u32>,
}

impl Packed {
    pub(super) fn new(samples: Samples, seed: u64) -> Self {
        Self { samples, seed, train: Mutex::default(), test: Mutex::default() }
    }

    /// Calls `take` with the `count` tokens of a stream from `start` on.
    fn tokens<T>(&self, split: Split, start: u64, count: usize, take: impl FnOnce(&Encoded) -> T) -> Result<T> {
        let place = match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        };
        let mut joined = place.lock();
        if start < joined.passed {
            *joined = Joined::default();
        }
        let mut empty = 0;
        while joined.end() < start + count as u64 {
            let before = joined.end();
            joined.begin_pass(self, split, start);
            joined.skip(&self.samples, start)?;
            joined.append(&self.samples)?;
            joined.drop_before(start);
            empty = if joined.end() == before { empty + 1 } else { 0 };
            if empty > self.samples.part(split).len() {
                return Err(Error::Misused("no sample has a token".to_owned()));
            }
        }
        joined.drop_before(start);
        Ok(take(&joined.ahead))
    }
}

impl Joined {
    /// Tokens up to where it stands.
    fn end(&self) -> u64 {
        self.passed + self.ahead.tokens.len() as u64
    }

    /// Puts the samples in the order of the next pass, once those of this one are used. Passes that end before `start` are
    /// skipped: each has as many tokens as the one before.
    fn begin_pass(&mut self, of: &Packed, split: Split, start: u64) {
        if !self.left.is_empty() {
            return;
        }
        let whole = self.end() - self.before_pass;
        if let Some(over) = start.saturating_sub(self.end()).checked_div(whole).filter(|over| *over > 0) {
            self.passed = self.end() + over * whole;
            self.ahead = Encoded::default();
            self.passes += over;
        }
        self.before_pass = self.end();
        self.left.extend_from_slice(of.samples.part(split));
        if split == Split::Train {
            Rng::new(of.seed, Stream::Shuffle, self.passes).shuffle(&mut self.left);
        }
        self.left.reverse();
        self.passes += 1;
    }

    /// Passes over samples that lie before `start` as a whole.
    fn skip(&mut self, samples: &Samples, start: u64) -> Result<()> {
        if self.end() > start || self.left.len() < 2 {
            return Ok(());
        }
        self.passed = self.end();
        self.ahead = Encoded::default();
        while !self.left.is_empty() && self.passed < start {
            let next: Vec<u32> = self.left.iter().rev().take(COUNTED).copied().collect();
            for encoded in samples.all_encoded(&next)? {
                let after = self.passed + encoded.tokens.len() as u64;
                if after > start {
                    return Ok(());
                }
                self.passed = after;
                self.left.pop();
            }
        }
        Ok(())
    }

    fn append(&mut self, samples: &Samples) -> Result<()> {
        let Some(sample) = self.left.pop() else { return Ok(()) };
        let Encoded { tokens, scored } = samples.encoded(sample as usize)?;
        self.ahead.tokens.extend(tokens);
        self.ahead.scored.extend(scored);
        Ok(())
    }

    fn drop_before(&mut self, start: u64) {
        let count = start.saturating_sub(self.passed).min(self.ahead.tokens.len() as u64);
        self.ahead.tokens.drain(..count as usize);
        self.ahead.scored.drain(..count as usize);
        self.passed += count;
    }
}

impl TokenRows for Packed {
    fn row(&self, split: Split, index: usize, _: u64, row: &mut [u32]) -> Result<()> {
        let start = index as u64 * (row.len() as u64 - 1);
        self.tokens(split, start, row.len(), |ahead| row.copy_from_slice(&ahead.tokens[..row.len()]))
    }

    fn sample(
        &self,
        split: Split,
        index: usize,
        _: u64,
        (inputs, labels): (&mut [u32], &mut [u32]),
        _: usize,
    ) -> Result<()> {
        let length = inputs.len();
        self.tokens(split, index as u64 * length as u64, length + 1, |ahead| pad(ahead, 0, inputs, labels))
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn is_current(&self) -> bool {
        self.samples.is_current()
    }

    fn checksum(&self) -> Option<u32> {
        Some(self.samples.index.checksum)
    }

    fn tokenizer_checksum(&self) -> Option<u32> {
        Some(self.samples.tokenizer_checksum())
    }

    fn part(&self, rows: Range<usize>, tokens: usize, to: &mut Integers) -> Result<()> {
        generate(self, Split::Train, rows, tokens, to)
    }
}

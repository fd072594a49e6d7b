//! A bounded look at the samples of text files. It shows how long they are in tokens, and the cost of padding or cutting
//! them.
//!
//! Owns [`Survey`], and [`TextFacts`] for callers that show it. Always holds: a look cuts about [`LOOK`] bytes into tokens,
//! however large the files are; which samples it takes follows from the files alone, so that every machine finds the same.
//! If it has seen all samples, its figures are exact.

use std::sync::Arc;

use super::{
    encoder::{Encoded, Encoder},
    index::{Index, LONGEST},
    rows::pad,
    samples::Samples,
    words::Words,
};
use crate::{
    backend::IGNORE_INDEX,
    bytes::{Bytes, are, counted},
    data::weighed::{Weighed, peak_of},
    error::Result,
};

/// About how many bytes are cut into tokens.
const LOOK: u64 = 512 << 10;
/// The most bytes of the longest samples that are looked at in addition.
const LONG: u64 = 256 << 10;

/// The facts of text files that are known before a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TextFacts {
    /// The tokenizer's file; `None` if bytes are the tokens.
    pub tokenizer: Option<std::path::PathBuf>,
    /// Different tokens that it has.
    pub vocabulary: usize,
    /// The number of files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: Bytes,
    /// Samples: lines of JSON, pieces of plain text.
    pub samples: usize,
    /// How many of them were cut into tokens for these figures. Where it is all of them, the figures are exact.
    pub looked_at: usize,
    /// Tokens of a sample on average.
    pub mean_tokens: f64,
    /// Whether samples are joined and cut, and not padded.
    pub is_packed: bool,
    /// The share of positions that are padding; 0 where samples are joined.
    pub padding_share: f64,
    /// The share of positions that are scored.
    pub scored_share: f64,
    /// How many of the samples looked at are longer than a sequence and cut; 0 where samples are joined.
    pub truncated: usize,
    /// How many of the samples looked at have nothing in their sequence that is scored; 0 where samples are joined.
    pub unscored: usize,
    /// The tokens of the longest sample that was looked at, those that are longest by their bytes among them.
    pub longest_tokens: usize,
    /// Where the longest sample is: a file, and a line or byte of it.
    pub longest: String,
    /// Lines that were left out because they cannot be read.
    pub left_out_count: usize,
    /// The first of them, with its fault.
    pub first_left_out: Option<String>,
}

impl TextFacts {
    /// A note that lines were left out, if some were.
    pub fn left_out(&self) -> Option<String> {
        let first = self.first_left_out.as_ref()?;
        let count = self.left_out_count as u64;
        let (lines, are) = (counted(count, "broken line"), are(count));
        Some(format!("{lines} {are} left out; the first: {first}"))
    }
}

/// Some samples as tokens.
#[derive(Debug)]
pub(super) struct Survey {
    /// Samples from all over the files, by their numbers.
    spread: Vec<(usize, Encoded)>,
    /// The longest samples by their bytes: number and tokens.
    long: Vec<(usize, usize)>,
    /// Bytes of `spread`.
    bytes: u64,
    /// The bytes of all samples' words, if a tokenizer keeps them; `None` if some samples were not looked at.
    kept_words: Option<usize>,
    /// The most bytes that two samples take at once while they become tokens, one for training and one for a test.
    work: usize,
}

impl Survey {
    pub(super) fn new(index: &Arc<Weighed<Index>>, encoder: &Encoder) -> Result<Self> {
        let words = Arc::<Words>::default();
        let encoder = Encoder { words: Some(Arc::clone(&words)), ..encoder.clone() };
        let samples = Samples::to_look_at(Arc::clone(index), encoder);
        let spread = spread(index);
        let size = |sample: usize| {
            let range = index.place(sample).1;
            range.end - range.start
        };
        let bytes = spread.iter().map(|sample| size(*sample as usize)).sum();
        let encoded = samples.all_encoded(&spread)?;
        let mut room = LONG;
        let long = index.longest.iter().map(|(_, sample)| *sample as u32);
        let long: Vec<u32> = long
            .take(LONGEST)
            .take_while(|sample| {
                let fits = size(*sample as usize) <= room;
                room = room.saturating_sub(size(*sample as usize));
                fits
            })
            .collect();
        // Where all are too long, the shortest of those that were cut up anyway tells what their bytes take.
        let shortest = spread.iter().copied().filter(|_| long.is_empty()).min_by_key(|sample| size(*sample as usize));
        let measure = |sample: u32| {
            let (encoded, peak) = peak_of(|| samples.encoded(sample as usize));
            Ok((sample as usize, encoded?.tokens.len(), peak.0 as usize))
        };
        let measured = long.into_iter().chain(shortest).map(measure).collect::<Result<Vec<_>>>()?;
        let work = work(index, &measured, size);
        let long = measured.iter().map(|(sample, tokens, _)| (*sample, *tokens)).collect();
        let kept_words = (spread.len() == index.len()).then(|| words.kept_bytes());
        Ok(Self {
            spread: spread.into_iter().map(|sample| sample as usize).zip(encoded).collect(),
            long,
            bytes,
            kept_words,
            work,
        })
    }

    /// Tokens of all samples, as far as those that were looked at say it.
    pub(super) fn all_tokens(&self, index: &Index) -> f64 {
        let seen: usize = self.spread.iter().map(|(_, encoded)| encoded.tokens.len()).sum();
        if self.spread.len() == index.len() {
            return seen as f64;
        }
        seen as f64 * index.sample_bytes as f64 / self.bytes.max(1) as f64
    }

    /// The bytes of all samples' words, if a tokenizer keeps them; `None` if some samples were not looked at.
    pub(super) fn kept_words(&self) -> Option<usize> {
        self.kept_words
    }

    /// The tokens of the longest sample that was looked at.
    pub(super) fn longest_tokens(&self) -> usize {
        let spread = self.spread.iter().map(|(_, encoded)| encoded.tokens.len());
        spread.chain(self.long.iter().map(|(_, tokens)| *tokens)).max().unwrap_or_default()
    }

    /// The most bytes that samples take at once while they become tokens.
    pub(super) fn work(&self) -> usize {
        self.work
    }

    /// The facts for sequences of `length` tokens.
    pub(super) fn facts(&self, index: &Index, encoder: &Encoder, length: usize, is_packed: bool) -> TextFacts {
        let (mut filled, mut scored, mut truncated, mut unscored, mut tokens) = (0, 0, 0, 0, 0);
        let (mut inputs, mut labels) = (vec![0; length], vec![0; length]);
        for (_, encoded) in &self.spread {
            tokens += encoded.tokens.len();
            if is_packed {
                scored += encoded.scored.iter().filter(|scored| **scored).count();
                continue;
            }
            pad(encoded, 0, &mut inputs, &mut labels);
            let own = labels.iter().filter(|label| **label != IGNORE_INDEX).count();
            (scored, filled) = (scored + own, filled + encoded.tokens.len().min(length));
            truncated += usize::from(encoded.tokens.len() > length + 1);
            unscored += usize::from(own == 0);
        }
        let positions = if is_packed { tokens } else { self.spread.len() * length };
        let share = |part: usize| part as f64 / positions.max(1) as f64;
        let spread = self.spread.iter().map(|(sample, encoded)| (*sample, encoded.tokens.len()));
        let longest =
            spread.chain(self.long.iter().copied()).max_by_key(|(sample, tokens)| (*tokens, usize::MAX - sample));
        let (at, longest_tokens) = longest.unwrap_or_default();
        let (path, place) = index.name(at);
        TextFacts {
            tokenizer: encoder.tokenizer.path().map(ToOwned::to_owned),
            vocabulary: encoder.tokenizer.vocabulary(),
            files: index.files.len(),
            bytes: Bytes(index.file_bytes()),
            samples: index.len(),
            looked_at: self.spread.len(),
            mean_tokens: tokens as f64 / self.spread.len().max(1) as f64,
            is_packed,
            padding_share: if is_packed { 0.0 } else { 1.0 - share(filled) },
            scored_share: share(scored),
            truncated,
            unscored,
            longest_tokens,
            longest: format!("{}, {place}", path.display()),
            left_out_count: index.left_out.as_ref().map_or(0, |left_out| left_out.count),
            first_left_out: index.left_out.as_ref().map(|left_out| left_out.first.clone()),
        }
    }
}

/// The most bytes that the two longest samples take while they become tokens: as `measured`, which are number, tokens and bytes
/// of some long ones, or in proportion to their length where it is too long for a look.
fn work(index: &Index, measured: &[(usize, usize, usize)], size: impl Fn(usize) -> u64) -> usize {
    let rate = |(sample, _, peak): &(usize, usize, usize)| *peak as f64 / size(*sample).max(1) as f64;
    let rate = measured.iter().map(rate).fold(0.0, f64::max);
    let of = |(bytes, sample): &(u64, usize)| {
        let own = measured.iter().find(|(other, ..)| other == sample);
        own.map_or((*bytes as f64 * rate) as usize, |(_, _, peak)| *peak)
    };
    let mut each: Vec<usize> = index.longest.iter().map(of).collect();
    each.sort_unstable_by(|a, b| b.cmp(a));
    each.iter().take(2).sum()
}

/// Samples from all over the files, of about [`LOOK`] bytes; all of them where they have no more.
fn spread(index: &Index) -> Vec<u32> {
    let count = index.len();
    let apart = index.sample_bytes.div_ceil(LOOK).max(1) as usize;
    if apart == 1 {
        return (0..count as u32).collect();
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    // Where samples are few and long, fewer are enough.
    for sample in (0..count).step_by(apart.min(count.div_ceil(8)).max(1)) {
        let range = index.place(sample).1;
        bytes += range.end - range.start;
        if bytes > 2 * LOOK && !found.is_empty() {
            break;
        }
        found.push(sample as u32);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{super::tests::tokenizer, *};
    use crate::{
        data::{Dataset, Feed, HostMemory, Inspection, Loader, Split},
        experiment::{Data, DataKind, Placement, Run},
    };

    /// Lines of `words` words and more.
    fn lines(words: usize) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a disk with room");
        let line = |i: usize| format!("{{\"text\": \"{}\"}}\n", "abcd ef ghij ".repeat(words + i * words / 4));
        std::fs::write(&file, (0..8).map(line).collect::<String>()).expect("a disk with room");
        file
    }

    #[test]
    fn texts_take_no_more_than_what_a_look_at_them_says_and_not_far_less() {
        let tokenizer = tokenizer();
        for words in [20, 2000, 24_000] {
            let text = lines(words);
            for placement in [Placement::Host, Placement::Streamed] {
                for packing in [false, true] {
                    let data = Data {
                        kind: DataKind::Jsonl,
                        path: Some(text.path().to_owned()),
                        tokenizer: Some(tokenizer.path().to_owned()),
                        ..Data { placement, packing, length: 16, ..Data::default() }
                    };
                    let found = Inspection::of(&data, None).expect("readable");
                    let predicted = HostMemory::new(&data, &found, Feed::of(&data), [2, 2]).total();
                    let set = Arc::new(Dataset::open_inspected(&data, &Run::default(), &found).expect("readable"));
                    let mut train = Loader::train(Arc::clone(&set), 1, 2, 1).expect("samples");
                    let mut test = Loader::test(Arc::clone(&set), 2).expect("samples");
                    for _ in 0..set.count(Split::Train).min(20) / 2 {
                        drop(train.recv().expect("no fault"));
                    }
                    for _ in 0..set.count(Split::Test).min(4) / 2 {
                        drop(test.recv().expect("no fault"));
                    }
                    let measured = set.host_peak();
                    let case = format!("{words} words, {placement:?}, packing {packing}: {measured} of {predicted}");
                    assert!(measured <= predicted && predicted.0 < 4 * measured.0 + (256 << 10), "{case}");
                }
            }
        }
    }
}

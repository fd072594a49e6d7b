//! Texts as sequences of tokens: files of plain text and of JSON lines, through the tokenizer of a published model.
//!
//! Owns [`Corpus`], the source. A file is looked through once: every line is checked and its place kept, eight bytes a
//! sample; some samples are cut into tokens, which shows the waste by padding and the number of sequences of an epoch.
//! Samples are read and cut into tokens on the loader's thread, in each epoch again. Always holds: sequences have one
//! length, so the memory of a step follows from `data.length`, and not from the text. Refuses: broken lines, tokenizers with
//! more tokens than the model's embedding has rows.

mod conversation;
mod encoder;
mod index;
mod line;
mod lines;
mod rows;
mod samples;
mod special;
mod survey;
mod template;
mod tokenizer;
mod words;

use std::{path::PathBuf, sync::Arc};

pub use self::survey::TextFacts;
pub(in crate::data) use self::{conversation::is_of_conversations, tokenizer::Tokenizer};
use self::{
    encoder::Encoder,
    index::Index,
    rows::{Packed, Padded},
    samples::Samples,
    survey::Survey,
};
use crate::{
    bytes::{Bytes, counted},
    data::{
        DatasetInfo, Inspection, divide,
        sequences::{self, within},
        source::{Source, Store, chosen_path},
        weighed::Weighed,
    },
    error::{Error, Problem, Result},
    experiment::{
        Data, DataKind, Placement,
        limits::{MAX_LENGTH, MAX_VOCABULARY},
    },
    memory::probe::uncounted,
};

/// The most bytes that are held.
const MOST_HELD: u64 = 1 << 30;
/// Bytes of a token that waits to be cut into sequences, itself and whether it is scored: a list that grows to twice its room is
/// there with the one before.
const JOINED: usize = 3 * (size_of::<u32>() + size_of::<bool>());

/// Text files through a tokenizer.
pub(super) struct Corpus;

/// The findings about the files of a choice.
#[derive(Debug)]
pub(super) struct Found {
    index: Arc<Weighed<Index>>,
    encoder: Encoder,
    survey: Arc<Weighed<Survey>>,
    /// The tokenizer that was chosen.
    tokenizer: Option<PathBuf>,
}

impl Source for Corpus {
    /// The files are looked through once for all that is asked of them.
    fn inspect(&self, data: &Data, known: Option<&Inspection>) -> Result<Inspection> {
        check(data)?;
        let found = uncounted(|| Found::new(data, known.and_then(Inspection::texts)).map(Arc::new))?;
        let (info, held) = (found.info(data)?, found.held_bytes(data));
        let facts = found.survey.facts(&found.index, &found.encoder, data.length, is_packed(data));
        if facts.scored_share == 0.0 {
            let message = format!(
                "nothing in its samples counts in the loss: of {} looked at, no completion and no answer begins within {} \
                 tokens; raise data.length where they begin later, give the lines a completion or a message of the role \
                 assistant, or write data.completion_only = false",
                facts.looked_at, data.length
            );
            return Err(Error::file(chosen_path(data)?, message));
        }
        let tokenizer = &found.encoder.tokenizer;
        let unknown_end = tokenizer.unknown_end().map(|end| {
            let until = tokenizer.end().map_or("texts have no end".to_owned(), |end| format!("token {end} ends texts"));
            format!(
                "eos_token {end:?} in tokenizer_config.json is not a token of tokenizer.json, and {until}; choose files that were \
                 published together"
            )
        });
        let few = tokenizer.has_few_of(info.classes);
        Ok(Inspection::new(data, info, held).with_notes(unknown_end).with_few_tokens(few).with_texts(found, facts))
    }

    fn open_inspected(&self, data: &Data, found: &Inspection, seed: u64) -> Result<Store> {
        let texts = Found::new(data, found.texts())?;
        let samples = Samples::open(texts.index, texts.encoder, data, seed)?;
        Ok(Store::Rows(if is_packed(data) { Box::new(Packed::new(samples, seed)) } else { Box::new(Padded(samples)) }))
    }

    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        Ok(*self.inspect(data, None)?.info())
    }

    fn limits(&self, data: &Data) -> Result<()> {
        check(data)
    }

    fn open(&self, data: &Data, _: &DatasetInfo, seed: u64) -> Result<Store> {
        self.open_inspected(data, &self.inspect(data, None)?, seed)
    }

    fn held_bytes(&self, data: &Data, _: &DatasetInfo) -> Result<usize> {
        Ok(Found::new(data, None)?.held_bytes(data))
    }
}

/// Plain text has no samples of its own: its pieces are always joined.
fn is_packed(data: &Data) -> bool {
    data.packing || data.kind == DataKind::Text
}

/// The part of a choice that can be checked without its files.
fn check(data: &Data) -> Result<()> {
    within("data.length", data.length, 1, MAX_LENGTH, "a length")?;
    if data.placement == Placement::Device {
        let message = "samples of text have labels of their own, which the training set on a device does not have";
        return Err(Problem::new("data.placement", message, "write \"streamed\" or \"host\"").into());
    }
    Ok(())
}

impl Found {
    /// Looks at the files of a choice, at those that are `known` only where they changed.
    fn new(data: &Data, known: Option<&Arc<Self>>) -> Result<Self> {
        let path = chosen_path(data)?;
        let (is_json, skips) = (data.kind == DataKind::Jsonl, data.skip_broken);
        // The tokenizer first: a wrong one is found at once.
        let chosen = data.chosen_tokenizer().map(ToOwned::to_owned);
        let same_tokenizer = known.filter(|known| known.tokenizer == chosen && known.encoder.tokenizer.is_current());
        let tokenizer = match same_tokenizer {
            Some(known) => Arc::clone(&known.encoder.tokenizer),
            None => Weighed::new(|| Tokenizer::open(chosen.as_deref()))?,
        };
        vocabulary(data, &tokenizer)?;
        let same_files = known.filter(|known| known.index.is_of(path, is_json, skips));
        let index = match same_files {
            Some(known) => Arc::clone(&known.index),
            None => Weighed::new(|| Index::new(path, is_json, skips))?,
        };
        let encoder = Encoder { tokenizer, completion_only: data.completion_only, words: None };
        let same = same_files
            .filter(|known| same_tokenizer.is_some() && known.encoder.completion_only == data.completion_only);
        let survey = match same {
            Some(known) => Arc::clone(&known.survey),
            None => Weighed::new(|| Survey::new(&index, &encoder))?,
        };
        Ok(Self { index, encoder, survey, tokenizer: chosen })
    }

    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        let (path, count) = (chosen_path(data)?, self.index.len());
        if count < 2 {
            let message = "it has one sample, and one is needed to train on and one to test on; add some";
            return Err(Error::file(path, message));
        }
        if data.placement == Placement::Host && self.index.file_bytes() > MOST_HELD {
            let (bytes, most) = (Bytes(self.index.file_bytes()), Bytes(MOST_HELD));
            let message = format!("the files have {bytes}, more than the {most} that are held");
            return Err(Problem::new("data.placement", message, "write \"streamed\"").into());
        }
        let (mut train, mut test) = divide(count, data.test_fraction)?;
        if is_packed(data) {
            let tokens = self.survey.all_tokens(&self.index) / count as f64;
            // A label follows each token but the first.
            let rows = |samples: usize| ((tokens * samples as f64 - 1.0) / data.length as f64).max(0.0) as usize;
            (train, test) = (rows(train), rows(test));
            for (rows, part) in [(train, "train"), (test, "test")] {
                if rows == 0 {
                    let message = format!(
                        "{} of {tokens:.0} tokens: too few to {part} on in sequences of {} with {} held out; lower \
                         data.length, or choose more text",
                        counted(count as u64, "sample"),
                        data.length,
                        data.test_fraction
                    );
                    return Err(Error::file(path, message));
                }
            }
            if train > u32::MAX as usize || test > u32::MAX as usize {
                return Err(Error::file(path, "more sequences than can be numbered; raise data.length"));
            }
        }
        Ok(sequences::facts(data.length, vocabulary(data, &self.encoder.tokenizer)?, data.length, (train, test)))
    }

    /// Bytes of host memory that it shares with other findings about the same files.
    pub(super) fn shared_bytes(&self) -> Bytes {
        self.index.bytes() + self.encoder.tokenizer.bytes() + self.survey.bytes()
    }

    /// Places of samples, their order, the tokenizer, the text if it is held, and the memory of a sample on its way.
    fn held_bytes(&self, data: &Data) -> usize {
        let orders = self.index.len() * 2 * size_of::<u32>();
        let each = size_of::<Vec<u8>>();
        let held = match data.placement {
            Placement::Host => self.index.file_bytes() as usize + self.index.files.len() * each,
            Placement::Streamed | Placement::Device => 0,
        };
        let words = self.encoder.tokenizer.kept_bytes(self.survey.kept_words());
        // Joined samples wait as tokens with their flags, in lists that double.
        let joined = if is_packed(data) { 2 * JOINED * self.survey.longest_tokens() } else { 0 };
        self.shared_bytes().0 as usize + words + orders + held + joined + self.survey.work()
    }
}

/// The rows of the model's embedding.
fn vocabulary(data: &Data, tokenizer: &Tokenizer) -> Result<usize> {
    let own = tokenizer.vocabulary();
    let rows = data.chosen_vocabulary().unwrap_or(own);
    if own > MAX_VOCABULARY {
        let message = format!("the tokenizer numbers its tokens up to {}, more than {MAX_VOCABULARY}", own - 1);
        return Err(Problem::new("data.tokenizer", message, "choose another tokenizer").into());
    }
    if rows < own {
        let file = tokenizer.path().map_or("the bytes".to_owned(), |path| path.display().to_string());
        let message = format!(
            "{file} has tokens up to number {}, and the model's embedding has {rows} rows (data.vocabulary)",
            own - 1
        );
        let mend = format!("choose the tokenizer that was published with the model, or write data.vocabulary = {own}");
        return Err(Problem::new("data.tokenizer", message, mend).into());
    }
    within("data.vocabulary", rows, 2, MAX_VOCABULARY, "a vocabulary")?;
    Ok(rows)
}

#[cfg(test)]
mod tests;

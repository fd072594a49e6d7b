//! Tokenizers: text to tokens, as the model's publisher does it, or byte by byte.
//!
//! Owns [`Tokenizer`]. Always holds: the same file gives the same tokens as the `tokenizers` library does elsewhere; the file's
//! padding and truncation are ignored, because the experiment decides them. Refuses: files that are not a tokenizer, or one of
//! an unknown kind.

use std::{
    fs::{self, File},
    io::Read,
    iter::once,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::de::IgnoredAny;
use tokenizers::ModelWrapper;

use super::{
    special::{self, Special},
    template::Template,
    words::Words,
};
use crate::{
    bytes::Bytes,
    data::file::unreadable,
    error::{Error, Result},
    experiment::weights::TOKENIZER,
};

/// The largest tokenizer that is read.
const MOST: u64 = 256 << 20;
/// The most bytes of host memory that a tokenizer takes in addition to its file's bytes: words that it has cut up before.
const CACHE: usize = 8 << 20;
/// The table of them that a model of another kind than pairs of bytes makes before it has any.
const RESERVED: usize = 1 << 20;

/// The token that ends a text that is cut into bytes.
const END_OF_BYTES: u32 = 256;

/// Text to tokens.
#[derive(Debug)]
pub(in crate::data) struct Tokenizer {
    kind: Kind,
    special: Special,
    vocabulary: usize,
    checksum: u32,
    /// Its file and the files next to it, as they were.
    files: Vec<(PathBuf, Option<Stamp>)>,
}

/// Length and time of a file.
type Stamp = (u64, Option<SystemTime>);

#[derive(Debug)]
enum Kind {
    Bytes,
    Published { inner: Box<tokenizers::Tokenizer>, path: PathBuf },
}

/// A token with where it ends in the text; at 0 where it stands for no part of it.
pub(super) type Placed = (u32, usize);

impl Tokenizer {
    /// The tokenizer of a file or folder; the bytes themselves without one.
    ///
    /// # Errors
    /// Fails for a file that is missing, unreadable or not a tokenizer.
    pub(in crate::data) fn open(chosen: Option<&Path>) -> Result<Self> {
        let Some(chosen) = chosen else {
            let special = Special { end: Some(END_OF_BYTES), ..Special::default() };
            let vocabulary = END_OF_BYTES as usize + 1;
            return Ok(Self { kind: Kind::Bytes, special, vocabulary, checksum: 0, files: Vec::new() });
        };
        let path = if chosen.is_dir() { chosen.join(TOKENIZER) } else { chosen.to_owned() };
        let folder = path.parent().unwrap_or(Path::new(""));
        let files = once(path.clone()).chain(special::files(folder)).map(|file| (stamp(&file), file));
        let files: Vec<_> = files.map(|(stamp, file)| (file, stamp)).collect();
        let bytes = read(&path, chosen)?;
        let inner = parse(&path, &bytes)?;
        // The tokens around a text may have numbers of their own.
        let around = catch_unwind(AssertUnwindSafe(|| inner.encode("a", true))).ok().and_then(Result::ok);
        let around = around.into_iter().flat_map(|encoding| encoding.get_ids().to_vec());
        let vocabulary = inner.get_vocab(true).into_values().chain(around).max().map_or(0, |id| id as usize + 1);
        if vocabulary == 0 {
            return Err(Error::file(path, "the tokenizer has no token; choose another"));
        }
        let special = Special::read(folder, |token| inner.token_to_id(token))?;
        let mut hasher = crc32fast::Hasher::new_with_initial(special.checksum);
        hasher.update(&bytes);
        let checksum = hasher.finalize();
        let kind = Kind::Published { inner: Box::new(inner), path };
        Ok(Self { kind, special, vocabulary, checksum, files })
    }

    /// A checksum of the files that decide the tokens of a text and of a conversation; 0 if bytes are the tokens.
    pub(in crate::data) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// A note that it has far fewer tokens than an embedding has rows, in words: it may be that of another model.
    pub(in crate::data) fn has_few_of(&self, rows: usize) -> Option<String> {
        let path = self.path().filter(|_| self.vocabulary.saturating_mul(10) < rows.saturating_mul(9))?;
        Some(format!(
            "{} has {} tokens, and the embedding of the weights has {rows} rows: it may be the tokenizer of another model; choose \
             the one that was published with the weights (data.tokenizer)",
            path.display(),
            self.vocabulary
        ))
    }

    /// The end of a text by its settings, if the tokenizer has no such token.
    pub(super) fn unknown_end(&self) -> Option<&str> {
        self.special.unknown_end.as_deref()
    }

    /// Whether its file and the files next to it are as they were.
    pub(super) fn is_current(&self) -> bool {
        self.files.iter().all(|(file, was)| stamp(file) == *was)
    }

    /// The tokenizer's file; `None` if bytes are the tokens.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Bytes => None,
            Kind::Published { path, .. } => Some(path),
        }
    }

    /// Different tokens: its largest number, and one.
    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The token that ends a text, if it has one.
    pub(in crate::data) fn end(&self) -> Option<u32> {
        self.special.end
    }

    /// Whether a token was added to the vocabulary as a whole, as those are that stand for no text.
    pub(super) fn is_added(&self, token: u32) -> bool {
        match &self.kind {
            Kind::Bytes => false,
            Kind::Published { inner, .. } => inner.get_added_tokens_decoder().contains_key(&token),
        }
    }

    /// The template of conversations, if it has one.
    pub(super) fn template(&self) -> Option<&Template> {
        self.special.template.as_ref()
    }

    /// Host bytes of the words that it keeps at most, where all words of the texts are known to take `words`.
    pub(super) fn kept_bytes(&self, words: Option<usize>) -> usize {
        match &self.kind {
            Kind::Bytes => 0,
            Kind::Published { inner, .. } => {
                let reserved = if matches!(inner.get_model(), ModelWrapper::Unigram(_)) { RESERVED } else { 0 };
                words.map_or(CACHE, |words| (words + reserved).min(CACHE))
            }
        }
    }

    /// The tokens of a text that is to be written on: a token that ends it is left out.
    ///
    /// # Errors
    /// Fails for a text without tokens, and where the tokenizer does.
    pub(in crate::data) fn prompt(&self, text: &str) -> Result<Vec<u32>, String> {
        let mut tokens: Vec<u32> = self.encode(text, true)?.into_iter().map(|(token, _)| token).collect();
        tokens.pop_if(|last| Some(*last) == self.end());
        if tokens.is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(tokens) }
    }

    /// The text of tokens. Special tokens are skipped; incomplete UTF-8 becomes U+FFFD.
    pub(in crate::data) fn decode(&self, tokens: &[u32]) -> String {
        match &self.kind {
            Kind::Bytes => {
                let bytes: Vec<u8> = tokens.iter().filter_map(|token| u8::try_from(*token).ok()).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Kind::Published { inner, .. } => {
                let decoded = catch_unwind(AssertUnwindSafe(|| inner.decode(tokens, true)));
                decoded.ok().and_then(Result::ok).unwrap_or_default()
            }
        }
    }

    /// The tokens of a text. With `is_whole`, also those that the tokenizer puts around a whole text.
    ///
    /// # Errors
    /// Fails if the tokenizer does, with its message.
    pub(super) fn encode(&self, text: &str, is_whole: bool) -> Result<Vec<Placed>, String> {
        self.encode_counting(text, is_whole, None)
    }

    /// The same; `words` takes in the words that were cut up.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub(super) fn encode_counting(
        &self,
        text: &str,
        is_whole: bool,
        words: Option<&Words>,
    ) -> Result<Vec<Placed>, String> {
        match &self.kind {
            Kind::Bytes => Ok(text.bytes().enumerate().map(|(at, byte)| (u32::from(byte), at + 1)).collect()),
            Kind::Published { inner, .. } => {
                let encoded = catch_unwind(AssertUnwindSafe(|| inner.encode(text, is_whole)));
                let encoding = match encoded {
                    Ok(Ok(encoding)) => encoding,
                    Ok(Err(error)) => return Err(error.to_string()),
                    Err(_) => return Err("the tokenizer has a fault in it".to_owned()),
                };
                if let Some(words) = words {
                    words.add(words_of(&encoding, text));
                }
                Ok(encoding.get_ids().iter().zip(encoding.get_offsets()).map(|(id, span)| (*id, span.1)).collect())
            }
        }
    }
}

/// The words of a text, as they were cut up: pieces of it that became tokens together.
fn words_of<'a>(encoding: &'a tokenizers::Encoding, text: &'a str) -> impl Iterator<Item = &'a str> {
    let places = encoding.get_word_ids().iter().zip(encoding.get_offsets()).collect::<Vec<_>>();
    let words: Vec<&str> = places
        .chunk_by(|(a, _), (b, _)| a == b)
        .filter(|word| word[0].0.is_some())
        .filter_map(|word| text.get(word[0].1.0..word[word.len() - 1].1.1))
        .collect();
    words.into_iter()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = fs::metadata(path).ok()?;
    Some((about.len(), about.modified().ok()))
}

fn read(path: &Path, chosen: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    let about = match fs::metadata(path) {
        Err(_) if chosen.is_dir() => {
            let message = format!("has no {TOKENIZER}; choose the folder of a published model, or the file itself");
            return Err(Error::file(chosen, message));
        }
        about => about.map_err(failed)?,
    };
    if !about.is_file() {
        return Err(Error::file(path, format!("this is not a regular file; choose a {TOKENIZER}")));
    }
    if about.len() > MOST {
        let message = format!("has {}, and a tokenizer is smaller than {}", Bytes(about.len()), Bytes(MOST));
        return Err(Error::file(path, format!("{message}; choose a {TOKENIZER}")));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MOST).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<tokenizers::Tokenizer> {
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(bytes) {
        let place = format!("line {}, column {}", error.line(), error.column());
        let message = format!("is not JSON ({error}); choose a {TOKENIZER}, as `save_pretrained` writes it");
        return Err(Error::file_at(path, place, message));
    }
    let parsed = catch_unwind(AssertUnwindSafe(|| tokenizers::Tokenizer::from_bytes(bytes)));
    let refused = |why: String| {
        let message = format!(
            "is not a tokenizer that can be read ({why}); choose a {TOKENIZER} of the `tokenizers` library, as \
             `save_pretrained` writes it"
        );
        Error::file(path, message)
    };
    let mut inner = match parsed {
        Ok(parsed) => parsed.map_err(|error| refused(error.to_string()))?,
        Err(_) => return Err(refused("its parts contradict each other".to_owned())),
    };
    inner.with_padding(None);
    inner.with_truncation(None).map_err(|error| refused(error.to_string()))?;
    Ok(inner)
}

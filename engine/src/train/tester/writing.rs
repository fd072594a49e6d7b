//! A continued prompt: token after token, each drawn from the likely ones of a model of sequences.
//!
//! Owns how a token is drawn, by temperature and nucleus (Holtzman et al. 2020, "The curious case of neural text
//! degeneration"). Always holds: the same prompt, settings and seed give the same tokens; each is drawn from a forward pass that
//! sees the last tokens, at most as many as the model was trained on.

use std::{cell::RefCell, ops::ControlFlow};

use super::{Tester, Took, Tried, Trying, WeightsFrom, With, answers, rows::Rows, tried::Weights};
use crate::{
    backend::Backend,
    bytes::counted,
    data::Alphabet,
    error::{Error, Problem, Result},
    memory::probe::uncounted,
    rng::{Rng, Stream},
    step::{self, Session},
    train::checkpoint::Checkpoint,
};

/// Below it the likeliest token is taken: it is all that such a temperature leaves, and the quotients have no room in 32 bits.
const COLDEST: f64 = 1e-6;
/// A way out if a tokenizer is gone.
const BRING_BACK: &str = "bring it back, or write --set data.tokenizer=FOLDER with its tokenizer.json";
/// The most tokens that one sign is written in.
const SIGN: usize = 8;
/// The most tokens that are written at once.
const MOST_TOKENS: usize = 1 << 20;

/// How tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// How many tokens; without a number, as many as answer a prompt of the data.
    pub tokens: Option<usize>,
    /// The divisor of logits: 1 leaves them, less prefers the likely, 0 takes the likeliest alone.
    pub temperature: f64,
    /// The likeliest tokens that together have this share of the probability are drawn from.
    pub top_p: f64,
    /// The seed of the random numbers.
    pub seed: u64,
    /// Whether the prompt is taken as it is written, where the model learned conversations.
    pub raw: bool,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { tokens: None, temperature: 1.0, top_p: 1.0, seed: 1, raw: false }
    }
}

impl Sampling {
    /// Refuses numbers that no token can be drawn by.
    ///
    /// # Errors
    /// Names the number and its valid range.
    pub fn check(&self) -> Result<()> {
        let wrong = |key: &str, message: String, mend: &str| Err(Problem::new(key, message, mend).into());
        match *self {
            Self { temperature, .. } if !(0.0..=100.0).contains(&temperature) => {
                wrong("temperature", format!("{temperature} is not a temperature"), "write 0 to 100, such as 0.8")
            }
            Self { top_p, .. } if !(top_p > 0.0 && top_p <= 1.0) => {
                wrong("top-p", format!("{top_p} is not a share"), "write more than 0 and at most 1, such as 0.9")
            }
            Self { tokens: Some(tokens), .. } if !(1..=MOST_TOKENS).contains(&tokens) => {
                wrong("tokens", format!("{tokens} tokens cannot be written"), "write 1 to 1048576")
            }
            _ => Ok(()),
        }
    }

    /// The token after `row`, the logits at the place before it; `at` counts the tokens that are drawn.
    fn draw(&self, row: &[f32], at: u64) -> u32 {
        if self.temperature < COLDEST {
            return answers::answered(row);
        }
        let divided: Vec<f32> = row.iter().map(|logit| (f64::from(*logit) / self.temperature) as f32).collect();
        let mut likely: Vec<(u32, f64)> = answers::probabilities(&divided)
            .into_iter()
            .map(f64::from)
            .enumerate()
            .map(|(t, p)| (t as u32, p))
            .collect();
        // The first of equal ones comes first, because the sort keeps their order.
        likely.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut sum = 0.0;
        let within = likely.iter().position(|(_, probability)| {
            sum += probability;
            sum >= self.top_p
        });
        likely.truncate(within.map_or(likely.len(), |last| last + 1));
        let total: f64 = likely.iter().map(|(_, probability)| probability).sum();
        let mut left = Rng::new(self.seed, Stream::Sampling, 0).uniform(at) * total;
        let drawn = likely.iter().find(|(_, probability)| {
            left -= probability;
            left < 0.0
        });
        drawn.or(likely.first()).map_or(0, |(token, _)| *token)
    }
}

/// Gets text as it is written, and may stop the writing.
pub type Say<'a> = dyn FnMut(&str) -> ControlFlow<()> + Send + 'a;

/// The text that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Where the weights came from.
    pub weights: WeightsFrom,
    /// Tokens of the prompt, the question and the template included.
    pub prompt_tokens: usize,
    /// Whether the prompt was given as a user's message, by the template of the data's tokenizer.
    pub is_answer: bool,
    /// The tokens after it.
    pub tokens: Vec<u32>,
    /// The tokens as text.
    pub text: String,
    /// A warning if the tokenizer is not the one that the model learned with.
    pub caution: Option<String>,
    /// Its memory.
    pub took: Took,
}

impl Tester {
    /// Continues `prompt`, or answers it if the model learned conversations. `say` gets the text as it comes, an answer on a
    /// line of its own, and may stop it.
    ///
    /// # Errors
    /// The errors of [`Tester::evaluate`]; a prompt that the data have no tokens for, and settings by which nothing can be
    /// drawn.
    pub fn write(&mut self, tried: &Tried, prompt: &str, sampling: Sampling, say: &mut Say<'_>) -> Result<Written> {
        sampling.check()?;
        let checkpoint = Weights::checkpoint(tried)?;
        let known = checkpoint.as_ref().and_then(|checkpoint| checkpoint.known(&tried.experiment));
        let is_of_conversations = known.map(|known| known.is_of_conversations);
        let data = tried.experiment.prompt_data();
        if let Some(gone) = data.chosen_tokenizer().filter(|path| !path.exists()) {
            let message = format!("{} is gone, and text becomes tokens by the tokenizer there", gone.display());
            return Err(Problem::new("data.tokenizer", message, BRING_BACK).into());
        }
        let alphabet = Alphabet::open_known(&data, is_of_conversations)?;
        if alphabet.checksum().unwrap_or(0) == 0 && checkpoint.as_ref().is_some_and(Checkpoint::has_tokenizer) {
            let folder = tried.experiment.weights.chosen();
            let where_it_was = folder.map_or(String::new(), |path| format!(" from {}", path.display()));
            let message = format!("the run was trained with a tokenizer, which is missing now{where_it_was}");
            return Err(Problem::new("data.tokenizer", message, BRING_BACK).into());
        }
        let alphabet = if sampling.raw { alphabet.raw() } else { alphabet };
        let is_answer = alphabet.is_conversation();
        let tokens = alphabet.tokens(prompt)?;
        let prompt_tokens = tokens.len();
        let count = sampling.tokens.unwrap_or_else(|| alphabet.usual_tokens());
        let ready = self.ready(tried, checkpoint, Trying::Prompt { prompt: prompt_tokens, count })?;
        let (info, weights) = (*ready.resolved.info(), ready.weights.source(tried));
        // A tokenizer that its data did not ask for was not held against the model.
        if let Some(unknown) = tokens.iter().find(|token| **token as usize >= info.classes) {
            let rows = counted(info.classes as u64, "row");
            let message = format!("has the token {unknown}, and the model's embedding has {rows}");
            let mend = "choose in data.tokenizer the one that was published with the model";
            return Err(Problem::new("prompt", message, mend).into());
        }
        if is_answer && say("\n").is_break() {
            return Err(Error::Stopped);
        }
        let too_few = || alphabet.has_few_of(info.classes).filter(|_| tried.checkpoint.is_none());
        let caution = ready.weights.caution_of_tokens(alphabet.checksum()).or_else(too_few);
        let spoken = Spoken::after(&tokens, alphabet, say);
        let writing = Writing { classes: info.classes, sampling, count, tokens, spoken };
        let (written, took) = self.run(ready, &info, writing)?;
        let (tokens, text) = written;
        Ok(Written { weights, prompt_tokens, is_answer, tokens: tokens[prompt_tokens..].to_vec(), text, caution, took })
    }
}

/// Text as it is reported, character by character: a character of several bytes, or of several tokens, is reported once it is
/// complete.
struct Spoken<'a> {
    alphabet: Alphabet,
    whole: String,
    begun: Vec<u8>,
    /// Tokens of a tokenizer. The first `told` are reported already, and decide how the tokens after them are written.
    last: Vec<u32>,
    told: usize,
    say: &'a mut Say<'a>,
}

impl<'a> Spoken<'a> {
    /// Nothing reported yet after the tokens of a `prompt`.
    fn after(prompt: &[u32], alphabet: Alphabet, say: &'a mut Say<'a>) -> Self {
        let last = prompt[prompt.len().saturating_sub(SIGN)..].to_vec();
        Self { alphabet, whole: String::new(), begun: Vec::new(), told: last.len(), last, say }
    }

    /// Whether a token ends the text; it is not said.
    fn ends_with(&self, token: u32) -> bool {
        self.alphabet.ends_with(token)
    }

    /// Reports the text that a token adds, as the tokenizer's library streams text: by the difference to the text without
    /// it.
    fn decoded(&mut self, is_end: bool) -> ControlFlow<()> {
        let of = |tokens: &[u32]| self.alphabet.decode(tokens).unwrap_or_default();
        let (before, all) = (of(&self.last[..self.told]), of(&self.last));
        let is_whole = !all.ends_with(char::REPLACEMENT_CHARACTER) || self.last.len() - self.told >= SIGN || is_end;
        let Some(text) = all.get(before.len()..).filter(|text| is_whole && !text.is_empty()) else {
            return ControlFlow::Continue(());
        };
        let text = text.to_owned();
        self.last.drain(..self.told);
        self.told = self.last.len();
        self.said(&text)
    }

    fn token(&mut self, token: u32) -> ControlFlow<()> {
        if self.alphabet.decode(&[]).is_some() {
            self.last.push(token);
            return self.decoded(false);
        }
        self.begun.extend(self.alphabet.text(token));
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.begun) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.begun.clear();
                    break;
                }
                Err(error) => {
                    let (valid, rest) = self.begun.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(wrong) = error.error_len() else {
                        self.begun = rest.to_vec();
                        break;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.begun = rest[wrong..].to_vec();
                }
            }
        }
        self.said(&text)
    }

    /// Reports text that was begun and never ended.
    fn end(&mut self) {
        // Nothing comes after it that could be broken off.
        let _ = self.decoded(true);
        if !std::mem::take(&mut self.begun).is_empty() {
            let _ = self.said("\u{fffd}");
        }
    }

    fn said(&mut self, text: &str) -> ControlFlow<()> {
        self.whole.push_str(text);
        if text.is_empty() { ControlFlow::Continue(()) } else { (self.say)(text) }
    }
}

/// Tokens are written.
struct Writing<'a> {
    classes: usize,
    sampling: Sampling,
    count: usize,
    tokens: Vec<u32>,
    spoken: Spoken<'a>,
}

impl With for Writing<'_> {
    type Output = (Vec<u32>, String);

    fn with<B: Backend>(self, session: &Session<B>) -> Result<Self::Output> {
        let Self { classes, sampling, count, mut tokens, mut spoken } = self;
        let mut writing = session.writing(tokens.len(), count)?;
        for at in 0..count as u64 {
            let row = row_after(&mut writing, classes, &tokens)?;
            let flow = uncounted(|| {
                let token = sampling.draw(&row, at);
                drop(row);
                if spoken.ends_with(token) {
                    return ControlFlow::Break(());
                }
                tokens.push(token);
                spoken.token(token)
            });
            if flow.is_break() {
                break;
            }
        }
        drop(writing);
        Ok(uncounted(|| {
            spoken.end();
            (tokens, spoken.whole)
        }))
    }
}

/// The logits of the token after `tokens`.
fn row_after<B: Backend>(writing: &mut step::Writing<'_, B>, classes: usize, tokens: &[u32]) -> Result<Vec<f32>> {
    let found = RefCell::new(uncounted(|| (Rows::new(classes), Vec::new())));
    let mut see = |dtype, bytes: &[u8]| {
        uncounted(|| {
            let (rows, last) = &mut *found.borrow_mut();
            rows.take(dtype, bytes, |row| last.extend(row));
        });
        Ok(())
    };
    let answered = writing.next(tokens, &mut see);
    uncounted(|| {
        let (rows, last) = found.into_inner();
        drop(rows);
        answered.map(|()| last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Data, DataKind};

    #[test]
    fn the_likeliest_are_drawn_as_often_as_they_are_likely_and_others_never() {
        let row = [1.0f32, 3.0, 2.0, -5.0].map(|x| x * 0.7);
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert!((0..20).all(|at| greedy.draw(&row, at) == 1));
        let of = |sampling: Sampling| {
            let mut counts = [0; 4];
            (0..20_000).for_each(|at| counts[sampling.draw(&row, at) as usize] += 1);
            counts
        };
        let all = of(Sampling::default());
        for (count, probability) in all.into_iter().zip(answers::probabilities(&row)) {
            assert!((f64::from(count) / 20_000.0 - f64::from(probability)).abs() < 0.015, "{all:?}");
        }
        let nucleus = of(Sampling { top_p: 0.7, ..Sampling::default() });
        assert!(nucleus[0] == 0 && nucleus[3] == 0 && nucleus[1] > nucleus[2] && nucleus[2] > 0, "{nucleus:?}");
        let cold = of(Sampling { temperature: 0.1, ..Sampling::default() });
        assert!(cold[1] > 19_900, "{cold:?}");
        let coldest = of(Sampling { temperature: 1e-300, ..Sampling::default() });
        assert_eq!(coldest[1], 20_000);
        assert!(Sampling { top_p: 0.0, ..Sampling::default() }.check().is_err());
        assert!(Sampling { temperature: f64::NAN, ..Sampling::default() }.check().is_err());
        assert!(Sampling { tokens: Some(0), ..Sampling::default() }.check().is_err());
    }

    #[test]
    fn a_sign_of_several_bytes_is_said_whole() {
        let alphabet = Alphabet::of(&Data { kind: DataKind::Text, ..Data::default() }).expect("a text");
        let mut said = Vec::new();
        let mut say = |text: &str| {
            said.push(text.to_owned());
            ControlFlow::Continue(())
        };
        let mut spoken = Spoken::after(&[], alphabet, &mut say);
        let bytes = [b'a', 0xc3, 0xa4, 0xff, b'b', 0xe2];
        assert!(bytes.into_iter().all(|byte| spoken.token(u32::from(byte)).is_continue()));
        spoken.end();
        assert_eq!(spoken.whole, "aä\u{fffd}b\u{fffd}");
        assert_eq!(said, ["a", "ä", "\u{fffd}", "b", "\u{fffd}"]);
    }

    #[test]
    fn tokens_of_a_tokenizer_are_said_sign_by_sign_and_their_end_is_not() {
        let alphabet = Alphabet::open(&Data { kind: DataKind::Jsonl, ..Data::default() }).expect("bytes");
        let mut said = Vec::new();
        let mut say = |text: &str| {
            said.push(text.to_owned());
            ControlFlow::Continue(())
        };
        let mut spoken = Spoken::after(&alphabet.tokens("x").expect("a prompt"), alphabet, &mut say);
        for byte in "aä€".bytes().chain([0xe2]) {
            assert!(!spoken.ends_with(u32::from(byte)) && spoken.token(u32::from(byte)).is_continue());
        }
        assert!(spoken.ends_with(256));
        spoken.end();
        assert_eq!(said, ["a", "ä", "€", "\u{fffd}"]);
    }
}

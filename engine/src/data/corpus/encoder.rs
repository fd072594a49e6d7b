//! Samples as tokens. Each token has a flag that says whether it is scored as a label.
//!
//! Owns [`Encoder`] and [`Encoded`]. Always holds: a text and a completion end with the token that ends texts, where the
//! tokenizer has one; a conversation ends as its template ends it.

use std::{iter::once, path::Path, sync::Arc};

use super::{
    line::{Line, Wrong},
    template::Rendered,
    tokenizer::{Placed, Tokenizer},
    words::Words,
};
use crate::data::weighed::Weighed;

/// A sample as tokens.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) tokens: Vec<u32>,
    /// For each token, whether it counts when it is a label.
    pub(super) scored: Vec<bool>,
}

/// Samples to tokens.
#[derive(Debug, Clone)]
pub(in crate::data) struct Encoder {
    pub(super) tokenizer: Arc<Weighed<Tokenizer>>,
    /// Whether only completions and assistants' words are scored.
    pub(super) completion_only: bool,
    /// Counts the words that it meets, if that is wanted.
    pub(super) words: Option<Arc<Words>>,
}

impl Encoded {
    fn of(placed: &[Placed], is_scored: impl Fn(usize) -> bool) -> Self {
        let tokens = placed.iter().map(|(token, _)| *token).collect();
        Self { tokens, scored: (0..placed.len()).map(is_scored).collect() }
    }

    /// Adds the token that ends a text, unless it is there; it counts.
    fn ended(mut self, end: Option<u32>) -> Self {
        match (end, self.tokens.last(), self.scored.last_mut()) {
            (Some(end), Some(last), Some(scored)) if *last == end => *scored = true,
            (Some(end), ..) => {
                self.tokens.push(end);
                self.scored.push(true);
            }
            (None, ..) => {}
        }
        self
    }
}

impl Encoder {
    /// A line of JSON lines.
    ///
    /// # Errors
    /// Fails for lines that are broken, and where the tokenizer or the template does.
    pub(super) fn line(&self, bytes: &[u8]) -> Result<Encoded, Wrong> {
        let failed = |message: String| Wrong { column: None, message };
        match Line::parse(bytes)? {
            Line::Text(text) => self.text(&text).map_err(failed),
            Line::Completion(prompt, completion) => self.completion(&prompt, &completion).map_err(failed),
            Line::Messages(messages) => {
                let Some(template) = self.tokenizer.template() else { return Err(failed(self.no_template())) };
                let rendered = match self.completion_only {
                    true => template.render(&messages),
                    false => {
                        template.plain(&messages).map(|text| Rendered { said: once(0..text.len()).collect(), text })
                    }
                };
                self.conversation(&rendered.map_err(failed)?).map_err(failed)
            }
        }
    }

    /// A piece of plain text, the last of its file or not.
    ///
    /// # Errors
    /// Fails if the tokenizer does.
    pub(super) fn piece(&self, text: &str, is_last: bool) -> Result<Encoded, String> {
        let encoded = Encoded::of(&self.encode(text, false)?, |_| true);
        Ok(if is_last { encoded.ended(self.tokenizer.end()) } else { encoded })
    }

    fn encode(&self, text: &str, is_whole: bool) -> Result<Vec<Placed>, String> {
        self.tokenizer.encode_counting(text, is_whole, self.words.as_deref())
    }

    fn text(&self, text: &str) -> Result<Encoded, String> {
        Ok(Encoded::of(&self.encode(text, true)?, |_| true).ended(self.tokenizer.end()))
    }

    fn completion(&self, prompt: &str, completion: &str) -> Result<Encoded, String> {
        let placed = self.encode(&format!("{prompt}{completion}"), true)?;
        // A token that has some of both counts.
        let encoded = Encoded::of(&placed, |at| !self.completion_only || placed[at].1 > prompt.len());
        Ok(encoded.ended(self.tokenizer.end()))
    }

    fn conversation(&self, rendered: &Rendered) -> Result<Encoded, String> {
        let placed = self.encode(&rendered.text, false)?;
        let begin = |at: usize| if at == 0 { 0 } else { placed[at - 1].1 };
        Ok(Encoded::of(&placed, |at| {
            rendered.said.iter().any(|said| placed[at].1 > said.start && begin(at) < said.end)
        }))
    }

    fn no_template(&self) -> String {
        let beside = match self.tokenizer.path().and_then(Path::parent) {
            Some(folder) => format!("{} has no chat_template", folder.display()),
            None => "bytes are the tokens, which have no template".to_owned(),
        };
        format!(
            "\"messages\" need a template, and {beside}; choose in data.tokenizer a folder with tokenizer.json and a \
             tokenizer_config.json with one, or write \"prompt\" and \"completion\""
        )
    }
}

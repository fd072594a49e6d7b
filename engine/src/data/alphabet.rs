//! The alphabet of sequences for people: a prompt as tokens, and tokens as text.
//!
//! Always holds: a prompt is written in the tokens of its data, so that a model sees it as it saw its samples. A published
//! model opens on generated tokens, whose numbers are those of its own tokenizer; if that tokenizer is chosen, they are
//! text. Refuses a character without a token in the data, and a question of another form than the data's.

use std::sync::Arc;

use crate::{
    data::corpus::{self, Tokenizer},
    error::{Problem, Result},
    experiment::{Asked, Data, Prompt},
};

/// The brackets by token, with the question and its answers behind them.
const BRACKETS: [&str; 7] = ["(", ")", "[", "]", "?", " no", " yes"];
/// The token of the question.
const QUESTION: u32 = 4;

/// The alphabet of a choice of data.
#[derive(Debug, Clone)]
pub struct Alphabet {
    /// The form of a prompt; text for generated tokens that have a tokenizer.
    prompt: Prompt,
    /// Numbers there are, where the tokens are numbers.
    numbers: usize,
    /// Tokens of a question, where the data ask one.
    question: usize,
    /// The tokenizer of text that has one, once it is open.
    tokenizer: Option<Arc<Tokenizer>>,
    /// Whether a prompt is a user's message, and an answer follows.
    is_conversation: bool,
    /// The tokens that end a text and an answer.
    ends: [Option<u32>; 2],
}

impl Alphabet {
    /// Opens the alphabet of `data` with its tokenizer: this one converts tokens and text. Where samples are conversations, a
    /// prompt begins one.
    ///
    /// # Errors
    /// Fails for data of images, and where the tokenizer cannot be read.
    pub fn open(data: &Data) -> Result<Self> {
        Self::open_known(data, None)
    }

    /// Like [`open`](Self::open), for a caller that may know whether samples are conversations. If it does, the file of the
    /// samples is not read.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_known(data: &Data, is_of_conversations: Option<bool>) -> Result<Self> {
        let alphabet = Self::of(data)?;
        let is_open = data.is_tokenized() || numbers_are_text(data);
        let tokenizer = is_open.then(|| Tokenizer::open(data.chosen_tokenizer())).transpose()?;
        let is_said = || is_of_conversations.unwrap_or_else(|| corpus::is_of_conversations(data));
        let is_conversation = tokenizer.is_some() && is_said();
        let of_answer = tokenizer.as_ref().filter(|_| is_conversation).and_then(Tokenizer::end_of_answer);
        let ends = [tokenizer.as_ref().and_then(Tokenizer::end), of_answer];
        Ok(Self { tokenizer: tokenizer.map(Arc::new), is_conversation, ends, ..alphabet })
    }

    /// The same alphabet, which takes a prompt as it is written.
    pub fn raw(self) -> Self {
        Self { is_conversation: false, ..self }
    }

    /// Whether a prompt is given as a user's message, by the template of its tokenizer.
    pub fn is_conversation(&self) -> bool {
        self.is_conversation
    }

    /// The alphabet of `data`, to describe it: a tokenizer is not opened.
    ///
    /// # Errors
    /// Fails for data of images.
    pub fn of(data: &Data) -> Result<Self> {
        let prompt = match data.kind.traits().asked {
            Asked::Prompt(prompt) => prompt,
            Asked::Image => {
                let mend = "show it an image (--image FILE), or a sample of its test set (--sample N)";
                return Err(Problem::new("data.kind", "a model of images takes no prompt", mend).into());
            }
            Asked::Row => {
                let mend = "show it a row of its test set (--sample N)";
                return Err(Problem::new("data.kind", "a model of a table takes no prompt", mend).into());
            }
        };
        let (numbers, question) = match prompt {
            Prompt::Text => (0, 0),
            Prompt::Brackets => (0, data.length),
            Prompt::Terms => (data.modulus, 2),
            Prompt::Unsorted => (data.vocabulary, data.length),
            Prompt::Numbers => (data.vocabulary, 0),
        };
        let prompt = if numbers_are_text(data) { Prompt::Text } else { prompt };
        Ok(Self { prompt, numbers, question, tokenizer: None, is_conversation: false, ends: [None; 2] })
    }

    /// Whether a prompt is any text.
    pub fn is_text(&self) -> bool {
        self.prompt == Prompt::Text
    }

    /// The form of a prompt in words, with an example.
    pub fn hint(&self) -> String {
        match self.prompt {
            Prompt::Text => "any text".to_owned(),
            Prompt::Brackets => format!("{} brackets of ( ) [ ], such as {}", self.question, self.example()),
            Prompt::Terms => format!("two numbers below {}, such as {}", self.numbers, self.example()),
            Prompt::Unsorted => {
                format!("{} numbers below {}, such as {}", self.question, self.numbers, self.example())
            }
            Prompt::Numbers => format!("numbers below {}, such as {}", self.numbers, self.example()),
        }
    }

    /// A prompt that these data can be asked.
    pub fn example(&self) -> String {
        let numbers = |count: usize| {
            let all = (0..count).map(|i| ((7 * i + 3) % self.numbers.max(1)).to_string());
            all.collect::<Vec<_>>().join(" ")
        };
        match self.prompt {
            Prompt::Text => "The ".to_owned(),
            Prompt::Brackets => "()".repeat(self.question / 2),
            Prompt::Terms | Prompt::Unsorted => numbers(self.question),
            Prompt::Numbers => numbers(4),
        }
    }

    /// Tokens that answer a prompt if no number is given.
    pub fn usual_tokens(&self) -> usize {
        match self.prompt {
            Prompt::Text => 200,
            Prompt::Brackets | Prompt::Terms => 1,
            Prompt::Unsorted => self.question,
            Prompt::Numbers => 32,
        }
    }

    /// The tokens of a prompt, the question after it where the data ask one.
    ///
    /// # Errors
    /// Fails for a prompt that the data could not have written, and names the form that they have.
    pub fn tokens(&self, prompt: &str) -> Result<Vec<u32>> {
        // A published model opens on generated tokens, whatever it was trained to write.
        let of_text = match self.prompt {
            Prompt::Numbers => "; for text, give the model data of text (--set data.kind=text --set data.path=FILE)",
            Prompt::Text | Prompt::Brackets | Prompt::Terms | Prompt::Unsorted => "",
        };
        let refused = |what: String| Problem::new("prompt", what, format!("write {}{of_text}", self.hint()));
        if let Some(tokenizer) = &self.tokenizer {
            if self.is_conversation && prompt.trim().is_empty() {
                return Err(refused("the prompt is empty".to_owned()).into());
            }
            let tokens = if self.is_conversation {
                tokenizer.question(prompt).map_err(|why| Problem::new("prompt", why, "or give it as it is (--raw)"))?
            } else {
                tokenizer.prompt(prompt).map_err(refused)?
            };
            if let Some(beyond) = tokens.iter().find(|token| self.numbers > 0 && **token as usize >= self.numbers) {
                let what = format!("is token {beyond} of the tokenizer, and the model has {} tokens", self.numbers);
                return Err(Problem::new("prompt", what, "choose the tokenizer of the model").into());
            }
            return Ok(tokens);
        }
        let mut tokens = match self.prompt {
            Prompt::Text => prompt.bytes().map(u32::from).collect::<Vec<_>>(),
            Prompt::Brackets => {
                let signs = prompt.trim_end_matches('?').chars().filter(|sign| !sign.is_whitespace());
                let token = |sign: char| match BRACKETS[..4].iter().position(|known| known.starts_with(sign)) {
                    Some(token) => Ok(token as u32),
                    None => Err(refused(format!("`{sign}` is not a bracket"))),
                };
                signs.map(token).collect::<Result<_, _>>()?
            }
            Prompt::Terms | Prompt::Unsorted | Prompt::Numbers => {
                let words = prompt.split(|sign: char| sign.is_whitespace() || matches!(sign, ',' | '+' | '='));
                let token = |word: &str| match word.parse::<u32>() {
                    Ok(number) if (number as usize) < self.numbers => Ok(number),
                    _ => Err(refused(format!("`{word}` is not a number below {}", self.numbers))),
                };
                words.filter(|word| !word.is_empty()).map(token).collect::<Result<_, _>>()?
            }
        };
        if tokens.is_empty() {
            return Err(refused("the prompt is empty".to_owned()).into());
        }
        if self.question > 0 && tokens.len() != self.question {
            let what = format!("{} are written, and these data have {} before the answer", tokens.len(), self.question);
            return Err(refused(what).into());
        }
        match self.prompt {
            Prompt::Brackets => tokens.push(QUESTION),
            Prompt::Terms => tokens.push(self.numbers as u32),
            Prompt::Text | Prompt::Unsorted | Prompt::Numbers => {}
        }
        Ok(tokens)
    }

    /// A checksum of its tokenizer, with its template of conversations; `None` if it is open without one.
    pub(crate) fn checksum(&self) -> Option<u32> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.checksum())
    }

    /// A warning that its tokenizer has far fewer tokens than an embedding has rows.
    pub(crate) fn has_few_of(&self, rows: usize) -> Option<String> {
        self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.has_few_of(rows))
    }

    /// Whether a token ends the written text.
    pub(crate) fn ends_with(&self, token: u32) -> bool {
        self.ends.contains(&Some(token))
    }

    /// Tokens as text, if they belong to a tokenizer: the text of a token depends on the tokens before it.
    pub(crate) fn decode(&self, tokens: &[u32]) -> Option<String> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.decode(tokens))
    }

    /// The bytes by which a token that is not a tokenizer's is written after others.
    pub fn text(&self, token: u32) -> Vec<u8> {
        match self.prompt {
            Prompt::Text => vec![token as u8],
            Prompt::Brackets => BRACKETS.get(token as usize).copied().unwrap_or_default().as_bytes().to_vec(),
            Prompt::Terms if token as usize == self.numbers => b" =".to_vec(),
            Prompt::Terms | Prompt::Unsorted | Prompt::Numbers => format!(" {token}").into_bytes(),
        }
    }
}

/// Whether the numbers of generated tokens belong to a tokenizer.
fn numbers_are_text(data: &Data) -> bool {
    data.kind.traits().asked == Asked::Prompt(Prompt::Numbers) && data.chosen_tokenizer().is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::experiment::DataKind;

    fn of(kind: DataKind, length: usize) -> Alphabet {
        Alphabet::of(&Data { kind, length, vocabulary: 10, modulus: 97, ..Data::default() }).expect("sequences")
    }

    #[test]
    fn a_prompt_is_what_the_data_write_and_a_question_is_asked_whole() {
        let tokens = |kind, prompt| of(kind, 4).tokens(prompt).map_err(|error| error.to_string());
        assert_eq!(tokens(DataKind::Text, "ä"), Ok(vec![0xc3, 0xa4]));
        assert_eq!(tokens(DataKind::Brackets, "([ ])?"), Ok(vec![0, 2, 3, 1, 4]));
        assert_eq!(tokens(DataKind::Modular, "3 + 96 ="), Ok(vec![3, 96, 97]));
        assert_eq!(tokens(DataKind::Sort, "9,1 2 0"), Ok(vec![9, 1, 2, 0]));
        let refused = |kind, prompt| tokens(kind, prompt).expect_err("not theirs");
        assert_eq!(
            refused(DataKind::Sort, "1 2 3"),
            "prompt: 3 are written, and these data have 4 before the answer; write 4 numbers below 10, such as 3 0 7 4"
        );
        assert!(refused(DataKind::Modular, "97 1").contains("`97` is not a number below 97"));
        let said = refused(DataKind::Tokens, "To be");
        assert!(
            said.contains("such as 3 0 7 4; for text, give the model data of text (--set data.kind=text"),
            "{said}"
        );
        assert!(refused(DataKind::Brackets, "(x").contains("`x` is not a bracket"));
        assert!(refused(DataKind::Text, "").contains("empty"));
        let image = Alphabet::of(&Data::default()).expect_err("digits").to_string();
        assert!(image.contains("takes no prompt"), "{image}");
        for kind in [DataKind::Text, DataKind::Brackets, DataKind::Modular, DataKind::Sort, DataKind::Tokens] {
            let own = of(kind, 4);
            assert!(own.tokens(&own.example()).is_ok(), "{kind:?}: {}", own.hint());
        }
        assert_eq!(of(DataKind::Brackets, 4).text(6), b" yes");
        assert_eq!(
            (of(DataKind::Modular, 4).text(97), of(DataKind::Sort, 4).text(7)),
            (b" =".to_vec(), b" 7".to_vec())
        );
    }

    proptest! {
        #[test]
        fn every_prompt_is_tokens_of_the_data_or_a_sentence(prompt in ".{0,40}", numbers in 1usize..300) {
            for kind in [DataKind::Text, DataKind::Brackets, DataKind::Modular, DataKind::Sort, DataKind::Tokens] {
                let data = Data { kind, length: 4, vocabulary: numbers, modulus: numbers, ..Data::default() };
                let most = match kind { DataKind::Text => 256, DataKind::Brackets => 7, _ => numbers + 1 };
                match Alphabet::of(&data).expect("sequences").tokens(&prompt) {
                    Ok(tokens) => prop_assert!(tokens.iter().all(|token| (*token as usize) < most)),
                    Err(error) => prop_assert!(error.to_string().starts_with("prompt: ")),
                }
            }
        }
    }
}

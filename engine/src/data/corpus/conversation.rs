//! The question whether the samples of text files are conversations, and a tokenizer's facts about conversations.
//!
//! Always holds: the first line that can be read decides, so that a prompt is given to a model as its samples were.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
};

use super::{
    index::{MOST_SAMPLE, files_of},
    line::Line,
    tokenizer::Tokenizer,
};
use crate::experiment::{Data, DataKind};

/// The most lines that are looked at, where the first are broken or empty.
const LINES: usize = 64;

/// Whether a model of these data learned conversations: the first line of its files is one.
pub(in crate::data) fn is_of_conversations(data: &Data) -> bool {
    let Some(path) = data.path.as_deref().filter(|_| data.kind == DataKind::Jsonl) else { return false };
    let files = files_of(path, true).unwrap_or_default();
    let mut lines = files.iter().filter_map(|path| File::open(path).ok()).flat_map(|file| {
        // A line that is longer cannot be read.
        let mut file = BufReader::new(file.take(MOST_SAMPLE as u64));
        std::iter::from_fn(move || {
            let mut line = Vec::new();
            file.read_until(b'\n', &mut line).ok().filter(|read| *read > 0).map(|_| line)
        })
    });
    let read = lines
        .by_ref()
        .take(LINES)
        .find_map(|line| Line::parse(line.trim_ascii()).ok().map(|line| matches!(line, Line::Messages(_))));
    read.unwrap_or(false)
}

impl Tokenizer {
    /// The tokens of a conversation in which the user said only `said`, up to where the assistant answers.
    ///
    /// # Errors
    /// Fails if there is no template, if it fails, and if the tokenizer does.
    pub(in crate::data) fn question(&self, said: &str) -> Result<Vec<u32>, String> {
        let template = self.template().ok_or_else(|| "the tokenizer has no template".to_owned())?;
        let tokens = self.encode(&template.question(said)?, false)?;
        Ok(tokens.into_iter().map(|(token, _)| token).collect())
    }

    /// The token by which the template ends an assistant's words, if it has one for that.
    pub(in crate::data) fn end_of_answer(&self) -> Option<u32> {
        let rest = self.template()?.after_answer()?;
        let (first, _) = *self.encode(rest.trim_start(), false).ok()?.first()?;
        self.is_added(first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::tests::tokenizer, *};
    use crate::{data::Alphabet, experiment::Experiment};

    #[test]
    fn a_prompt_of_conversations_is_a_message_and_their_template_ends_the_answer() {
        let tokenizer = tokenizer();
        let at = |name: &str| tokenizer.path().join(name);
        let mut inner = tokenizers::Tokenizer::from_file(at("tokenizer.json")).expect("a tokenizer");
        inner.add_special_tokens([tokenizers::AddedToken::from("<|turn|>", true)]).expect("added");
        inner.save(at("tokenizer.json"), false).expect("writes");
        let template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|turn|>\n{% endfor %}\
                        {% if add_generation_prompt %}[assistant]{% endif %}";
        let settings = serde_json::json!({"eos_token": "<|end|>", "chat_template": template});
        fs::write(at("tokenizer_config.json"), settings.to_string()).expect("writes");
        let chat = r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}"#;
        fs::write(at("chat.jsonl"), format!("\nbroken\n{chat}\n")).expect("writes");
        fs::write(at("text.jsonl"), "{\"text\": \"a\"}\n").expect("writes");
        let of = |name: &str| {
            let (kind, tokenizer) = (DataKind::Jsonl, Some(tokenizer.path().to_owned()));
            Alphabet::open(&Data { kind, path: Some(at(name)), tokenizer, ..Data::default() }).expect("texts")
        };
        let ids = |text: &str| inner.encode(text, false).expect("tokens").get_ids().to_vec();
        let [end, turn] = ["<|end|>", "<|turn|>"].map(|token| inner.token_to_id(token).expect("added"));
        let chat = of("chat.jsonl");
        assert!(chat.is_conversation() && chat.ends_with(turn) && chat.ends_with(end));
        assert_eq!(chat.tokens("the line").expect("a message"), ids("[user]the line<|turn|>\n[assistant]"));
        assert!(chat.tokens(" ").expect_err("nothing").to_string().contains("empty"));
        // As it is written, and still it ends where an answer does.
        let raw = chat.raw();
        assert!(!raw.is_conversation() && raw.ends_with(turn));
        assert_eq!(raw.tokens("the line").expect("a text"), ids("the line"));
        let text = of("text.jsonl");
        assert!(!text.is_conversation() && !text.ends_with(turn) && text.ends_with(end));
    }

    #[test]
    fn a_published_model_over_generated_tokens_is_asked_in_text() {
        let tokenizer = tokenizer();
        let mut experiment = Experiment::default();
        experiment.data.kind = DataKind::Tokens;
        experiment.data.vocabulary = 300;
        let hint = |experiment: &Experiment| Alphabet::of(&experiment.prompt_data()).expect("tokens").hint();
        assert!(hint(&experiment).starts_with("numbers"), "{}", hint(&experiment));
        let weights = tokenizer.path().join("model.safetensors");
        for (of_data, of_weights) in
            [(Some(tokenizer.path()), None), (None, Some(tokenizer.path())), (None, Some(&weights))]
        {
            experiment.data.tokenizer = of_data.map(Into::into);
            experiment.weights.path = of_weights.map(Into::into);
            assert_eq!(hint(&experiment), "any text");
            let alphabet = Alphabet::open(&experiment.prompt_data()).expect("a tokenizer");
            assert!(alphabet.tokens("the line").expect("text").len() < 8);
        }
        // A tokenizer that went is asked for by nothing else of such data.
        (experiment.data.tokenizer, experiment.weights.path) = (Some("nowhere".into()), None);
        assert!(hint(&experiment).starts_with("numbers"));
    }
}

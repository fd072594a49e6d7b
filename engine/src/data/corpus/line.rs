//! One line of JSON lines: a text, a prompt with its completion, or messages.
//!
//! Owns [`Line`]. Always holds: [`Line::parse`] reads every line that [`check`] accepts. Refuses lines that are not UTF-8,
//! not JSON, or have none of these fields, with the column.

use std::borrow::Cow;

use minijinja::{Value, value::ValueKind};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value as Json;

/// The fields that a line may have, in words.
const FIELDS: &str = "\"text\", \"prompt\" with \"completion\", or \"messages\"";

/// The content of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// The given part, and the part that is to follow.
    Completion(Cow<'a, str>, Cow<'a, str>),
    /// A conversation, as its template sees it: keys in the order of the line, those without a value left out.
    Messages(Vec<Value>),
}

/// The fault of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Characters before it, and one; `None` if it is the line as a whole.
    pub(super) column: Option<usize>,
    pub(super) message: String,
}

/// A line's fields; messages as `M`.
#[derive(Deserialize)]
struct Fields<'a, M> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    prompt: Option<Cow<'a, str>>,
    completion: Option<Cow<'a, str>>,
    messages: Option<Vec<M>>,
}

/// The fields that every message has. The template knows any content; calls of tools may stand in its place.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "role", borrow)]
    _role: Cow<'a, str>,
    content: Option<IgnoredAny>,
    tool_calls: Option<IgnoredAny>,
    function_call: Option<IgnoredAny>,
}

/// The parts of a message that may have text.
const SAYING: [&str; 3] = ["content", "tool_calls", "function_call"];

impl Wrong {
    fn whole(message: impl Into<String>) -> Self {
        Self { column: None, message: message.into() }
    }
}

/// Whether a line can be read.
pub(super) fn check(bytes: &[u8]) -> Result<(), Wrong> {
    let fields: Fields<'_, Message<'_>> = fields(bytes)?;
    let says = |message: &Message<'_>| {
        message.content.is_some() || message.tool_calls.is_some() || message.function_call.is_some()
    };
    if let Some(at) = fields.messages.iter().flatten().position(|message| !says(message)) {
        let what = format!("message {} of \"messages\" has no \"content\"; give it one, or take it out", at + 1);
        return Err(Wrong::whole(what));
    }
    fields.taken_apart(bytes).map(drop)
}

impl<'a> Line<'a> {
    /// Reads a line.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Wrong> {
        let fields: Fields<'_, Value> = fields(bytes)?;
        Ok(match fields.taken_apart(bytes)? {
            Taken::Text(text) => Self::Text(text),
            Taken::Completion(prompt, completion) => Self::Completion(prompt, completion),
            Taken::Messages(messages) => {
                let messages: Vec<Value> = messages.iter().map(without_nulls).collect();
                let has = |message: &Value, name: &str| message.get_attr(name).is_ok_and(|value| !value.is_undefined());
                let is_text = |value: Value| value.as_str().is_some();
                let is_whole = |message: &Value| {
                    message.get_attr("role").is_ok_and(is_text) && SAYING.iter().any(|name| has(message, name))
                };
                if !messages.iter().all(is_whole) {
                    check(bytes)?;
                }
                Self::Messages(messages)
            }
        })
    }
}

/// A message without the keys that have no value: a template sees those as missing, and writes nothing for them.
fn without_nulls(message: &Value) -> Value {
    if message.kind() != ValueKind::Map {
        return message.clone();
    }
    let keys = message.try_iter().into_iter().flatten();
    let fields = keys.filter_map(|key| message.get_item(&key).ok().map(|value| (key, value)));
    Value::from_pairs(fields.filter(|(_, value)| !value.is_none()))
}

enum Taken<'a, M> {
    Text(Cow<'a, str>),
    Completion(Cow<'a, str>, Cow<'a, str>),
    Messages(Vec<M>),
}

impl<'a, M> Fields<'a, M> {
    /// The one thing that the line says.
    fn taken_apart(self, bytes: &[u8]) -> Result<Taken<'a, M>, Wrong> {
        match self {
            Self { messages: Some(messages), .. } if messages.is_empty() => {
                Err(Wrong::whole("\"messages\" is empty; write at least one message with its role and content"))
            }
            Self { messages: Some(messages), .. } => Ok(Taken::Messages(messages)),
            Self { prompt: Some(prompt), completion: Some(completion), .. } => {
                Ok(Taken::Completion(prompt, completion))
            }
            Self { prompt: Some(_), .. } => {
                Err(Wrong::whole("\"prompt\" has no \"completion\"; add one, or call it \"text\""))
            }
            Self { text: Some(text), .. } => Ok(Taken::Text(text)),
            Self { completion: Some(_), .. } => {
                Err(Wrong::whole("\"completion\" has no \"prompt\"; add one, or call it \"text\""))
            }
            Self { .. } => Err(Wrong::whole(format!(
                "has no text in {FIELDS}, but {}; rename its fields, or give them a text",
                keys(bytes)
            ))),
        }
    }
}

/// The keys of an object, for a message.
fn keys(bytes: &[u8]) -> String {
    let keys: Vec<String> = match serde_json::from_slice(bytes) {
        Ok(Json::Object(fields)) => fields.into_iter().take(8).map(|(key, _)| format!("{key:?}")).collect(),
        _ => Vec::new(),
    };
    if keys.is_empty() { "no field".to_owned() } else { keys.join(", ").chars().take(200).collect() }
}

fn fields<'a, F: Deserialize<'a>>(bytes: &'a [u8]) -> Result<F, Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let column = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).chars().count() + 1;
        Wrong { column: Some(column), message: "is not UTF-8; save the file as UTF-8".to_owned() }
    })?;
    if text.trim_start().starts_with('[') {
        let message = "is a list, and a line is one object {…}; write each sample on a line of its own (jq -c '.[]')";
        return Err(Wrong { column: Some(1), message: message.to_owned() });
    }
    serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        let column = error.column().min(text.len());
        let column = (0..=column).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let column = text[..column].chars().count().max(1);
        let message = match error.classify() {
            serde_json::error::Category::Data => format!("{what}; expected is an object with {FIELDS}"),
            _ => format!("is not JSON: {what}; expected is one object on the line, with {FIELDS}"),
        };
        Wrong { column: Some(column), message }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrong(text: &str) -> Wrong {
        let wrong = check(text.as_bytes()).expect_err(text);
        assert_eq!(Line::parse(text.as_bytes()).expect_err(text), wrong, "{text}");
        wrong
    }

    #[test]
    fn a_line_is_a_text_a_completion_or_messages() {
        let parse = |text: &'static str| Line::parse(text.as_bytes()).expect(text);
        assert_eq!(parse(r#"{"text": "aä\n", "other": [1]}"#), Line::Text("aä\n".into()));
        assert_eq!(parse(r#"{"completion":"b","prompt":"a","text":"c"}"#), Line::Completion("a".into(), "b".into()));
        let messages = r#"{"messages": [{"role": "user", "content": "x", "name": 1}]}"#;
        assert!(check(messages.as_bytes()).is_ok());
        assert!(matches!(parse(messages), Line::Messages(all) if all.len() == 1 && all[0].to_string().contains("1")));
        assert_eq!(parse(r#"{"text": "a", "messages": null}"#), Line::Text("a".into()));
        // In the order of the line, whatever their names, and without fields that have no value.
        let calls = r#"{"messages": [{"role": "assistant", "content": null, "tool_calls": {"b": "c", "a": [null]}}]}"#;
        let Line::Messages(calls) = parse(calls) else { panic!("no messages") };
        assert_eq!(calls[0].to_string(), "{'role': 'assistant', 'tool_calls': {'b': 'c', 'a': [None]}}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_column() {
        let Wrong { column, message } = wrong(r#"{"text": "ä" "b"}"#);
        assert_eq!(column, Some(14));
        assert!(message.starts_with("is not JSON: expected `,` or `}`; expected is one object"), "{message}");
        assert!(wrong("{\"text\": \"cut").message.contains("EOF"));
        assert!(wrong(r#"{"text": 5}"#).message.starts_with("invalid type: integer `5`, expected a string"));
        assert!(wrong("[1]").message.contains("jq -c"));
        assert!(wrong("5").message.contains("expected is an object"));
        let message = wrong(r#"{"instruction": "a", "output": "b"}"#).message;
        assert!(message.contains("but \"instruction\", \"output\"; rename"), "{message}");
        assert!(wrong(r#"{"prompt": "a"}"#).message.contains("no \"completion\""));
        assert!(wrong(r#"{"messages": []}"#).message.contains("is empty"));
        assert!(wrong(r#"{"messages": [{"content": "a"}]}"#).message.contains("missing field `role`"));
        for lacking in [r#"{"role": "user"}"#, r#"{"role": "user", "content": null}"#] {
            let message = wrong(&format!(r#"{{"messages": [{{"role": "user", "content": "a"}}, {lacking}]}}"#)).message;
            assert!(message.starts_with("message 2 of \"messages\" has no \"content\""), "{message}");
        }
        let calls = r#"{"messages": [{"role": "assistant", "content": null, "tool_calls": []}]}"#;
        assert!(check(calls.as_bytes()).is_ok() && Line::parse(calls.as_bytes()).is_ok());
        let broken = check(b"{\"text\": \"\xe4\"}").expect_err("Latin 1");
        assert_eq!((broken.column, broken.message.as_str()), (Some(11), "is not UTF-8; save the file as UTF-8"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(check(&bytes).is_ok(), Line::parse(&bytes).is_ok());
        }

        #[test]
        fn any_text_comes_back(text: String, prompt: String) {
            let line = serde_json::json!({"text": text}).to_string();
            prop_assert_eq!(Line::parse(line.as_bytes()), Ok(Line::Text(Cow::Owned(text.clone()))));
            let line = serde_json::json!({"prompt": prompt, "completion": text}).to_string();
            prop_assert_eq!(Line::parse(line.as_bytes()), Ok(Line::Completion(prompt.into(), text.into())));
        }

        #[test]
        fn a_line_that_is_cut_is_refused(text in ".{0,30}", at: prop::sample::Index) {
            let line = serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string();
            let cut = (0..=at.index(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            prop_assert!(check(&line.as_bytes()[..cut]).is_err());
            prop_assert!(check(line.as_bytes()).is_ok());
        }
    }
}

//! One value of a preset: TOML to a field and back.
//!
//! Owns types and their text; nothing here knows which values make sense. Always holds: what is written reads back as
//! the same value. Refuses values of the wrong type, in words.

use std::path::PathBuf;

use toml_edit::Value;

use crate::{
    bytes::Bytes,
    experiment::{Frozen, VERSION, schema::Slot},
    suggest::nearest,
};

/// What is wrong with a value, and what would be valid.
pub(super) type Wrong = (String, String);

impl Slot<'_> {
    /// Takes a value of the right type.
    pub(super) fn read(&mut self, value: &Value) -> Result<(), Wrong> {
        let wrong = |this: &Self| Err((describe(value), this.valid()));
        let number = value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
        match (&mut *self, value.as_integer(), value.as_str()) {
            (Self::Version(field), Some(n), _) => match u32::try_from(n) {
                Ok(n) => **field = n,
                Err(_) if n > 0 => **field = u32::MAX,
                Err(_) => return wrong(self),
            },
            (Self::Flag(field), ..) => match value.as_bool() {
                Some(is_so) => **field = is_so,
                None => return wrong(self),
            },
            (Self::Count(field), Some(n), _) => match usize::try_from(n) {
                Ok(n) => **field = n,
                Err(_) => return wrong(self),
            },
            (Self::Steps(field), Some(n), _) => match u64::try_from(n) {
                Ok(n) => **field = n,
                Err(_) => return wrong(self),
            },
            (Self::MaybeSteps(field), Some(n), _) => match u64::try_from(n) {
                Ok(n) => **field = Some(n),
                Err(_) => return wrong(self),
            },
            (Self::Size(field), Some(n), _) => match u64::try_from(n) {
                Ok(n) => **field = Bytes(n),
                Err(_) => return wrong(self),
            },
            (Self::Number(field), ..) => match number {
                Some(n) => **field = n,
                None => return wrong(self),
            },
            (Self::Text(field), _, Some(text)) => text.clone_into(field),
            (Self::Path(field), _, Some(text)) => **field = Some(PathBuf::from(text)),
            (Self::Size(field), _, Some(text)) => match text.parse() {
                Ok(bytes) => **field = bytes,
                Err(_) => return wrong(self),
            },
            (Self::Checkpointing(field), _, Some(text)) => match text.parse() {
                Ok(choice) => **field = choice,
                Err(_) => return wrong(self),
            },
            (Self::Frozen(field), _, Some(text)) => match text.parse() {
                Ok(choice) => **field = choice,
                Err(_) => return wrong(self),
            },
            (Self::Word(word), _, Some(text)) => {
                if !word.choose(text) {
                    let near = nearest(text, word.words()).map(|near| format!("did you mean \"{near}\"? "));
                    let choices: Vec<String> = word.words().iter().map(|w| format!("\"{w}\"")).collect();
                    let mend = format!("{}write one of {}", near.unwrap_or_default(), choices.join(", "));
                    return Err((format!("\"{text}\" is not one of its values"), mend));
                }
            }
            _ => return wrong(self),
        }
        Ok(())
    }

    /// What would be valid.
    pub(super) fn valid(&self) -> String {
        match self {
            Self::Version(_) => format!("write {VERSION}"),
            Self::Flag(_) => "write true or false".to_owned(),
            Self::Count(_) => "write a whole number, such as 64".to_owned(),
            Self::Steps(_) | Self::MaybeSteps(_) => "write a whole number, such as 100".to_owned(),
            Self::Number(_) => "write a number, such as 0.001".to_owned(),
            Self::Text(_) => "write text in double quotes".to_owned(),
            Self::Path(_) => "write the folder in double quotes".to_owned(),
            Self::Size(_) => "write a number and a unit in double quotes, such as \"512 MiB\" or \"8 GiB\"".to_owned(),
            Self::Checkpointing(_) => {
                "write \"none\", \"blocks\", \"sqrt\", \"every:K\" with K at least 1, \"percent:P\" with P from 0 to 100, or \
                 \"pick:\" and numbers of blocks, such as \"pick:1,3\""
                    .to_owned()
            }
            Self::Frozen(_) => format!("write {}", Frozen::FORMS),
            Self::Word(word) => {
                let choices: Vec<String> = word.words().iter().map(|w| format!("\"{w}\"")).collect();
                format!("write one of {}", choices.join(", "))
            }
        }
    }

    /// The value as TOML; `None` for a key that is left out.
    pub(super) fn write(&self, key: &str) -> Option<String> {
        Some(match self {
            Self::Version(n) => n.to_string(),
            Self::Flag(is_so) => is_so.to_string(),
            Self::Count(n) => n.to_string(),
            Self::Steps(n) => n.to_string(),
            Self::MaybeSteps(n) => n.as_ref()?.to_string(),
            // The shortest text that reads back as the same number, with an exponent where that is shorter.
            Self::Number(n) => format!("{n:?}"),
            Self::Text(text) if key == "description" => paragraph(text)?,
            Self::Text(text) => quoted(text),
            Self::Path(path) => quoted(path.as_ref()?.to_str()?),
            Self::Size(bytes) => quoted(&bytes.exact()),
            Self::Checkpointing(choice) => quoted(&choice.to_string()),
            Self::Frozen(choice) => quoted(&choice.to_string()),
            Self::Word(word) => quoted(word.now()),
        })
    }
}

/// What a value is, in words.
fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\" is text that does not fit here", shortened(text.value())),
        Value::Integer(n) => format!("{} does not fit here", n.value()),
        Value::Float(n) => format!("{} does not fit here", n.value()),
        Value::Boolean(b) => format!("{} is a yes or no", b.value()),
        Value::Datetime(_) => "a date does not fit here".to_owned(),
        Value::Array(_) => "a list does not fit here".to_owned(),
        Value::InlineTable(_) => "is one value, not a group".to_owned(),
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Text over several lines of at most about 100 characters, or `None` for none. A backslash at a line's end takes the
/// break back when it is read.
fn paragraph(text: &str) -> Option<String> {
    const WIDTH: usize = 100;
    if text.is_empty() {
        return None;
    }
    let mut out = String::from("\"\"\"\\\n");
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let mut column = 0;
        for (index, word) in line.split(' ').enumerate() {
            let width = word.chars().count();
            if index > 0 {
                out.push(' ');
                if column + 1 + width > WIDTH && !word.is_empty() && !word.starts_with('\t') {
                    out.push_str("\\\n");
                    column = 0;
                } else {
                    column += 1;
                }
            }
            escape(word, &mut out);
            column += width;
        }
    }
    // What the first backslash would swallow.
    let start = "\"\"\"\\\n".len();
    match text.as_bytes()[0] {
        b' ' => out.replace_range(start..=start, "\\u0020"),
        b'\t' => out.replace_range(start..=start, "\\t"),
        b'\n' => out.replace_range(start..=start, "\\n"),
        _ => {}
    }
    out.push_str("\\\n\"\"\"");
    Some(out)
}

fn escape(word: &str, out: &mut String) {
    for c in word.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' if out.ends_with('"') => out.push_str("\\\""),
            '\t' => out.push(c),
            c if c.is_ascii_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
}

//! One value of a preset: TOML to a field and back.
//!
//! Owns types and their text; nothing here knows which values make sense. Always holds: what is written reads back as
//! the same value. Refuses values of the wrong type.

use std::{fmt, path::PathBuf};

use toml_edit::Value;

use crate::{
    bytes::Bytes,
    experiment::{Checkpointing, Frozen, VERSION},
    words::Word,
};

/// A field of an experiment, whatever its type.
pub(crate) trait Field {
    /// Takes a value of the right type; false for another, which leaves the field as it is.
    fn read(&mut self, value: &Value) -> bool;

    /// What would be valid.
    fn valid(&self) -> String;

    /// The value as TOML; `None` for an option that is not given.
    fn write(&self) -> Option<String>;

    /// The value as TOML over several lines, where it is text.
    fn paragraph(&self) -> Option<String> {
        self.write()
    }

    /// The number it is.
    fn number(&self) -> Option<Number> {
        None
    }

    /// The words it may be.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether any text is a value.
    fn is_text(&self) -> bool {
        false
    }
}

/// A number of any type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(u64),
    Real(f64),
    Size(Bytes),
}

impl Number {
    /// The number as a real one.
    pub(crate) fn real(self) -> f64 {
        match self {
            Self::Whole(n) | Self::Size(Bytes(n)) => n as f64,
            Self::Real(n) => n,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.real() == 0.0
    }

    /// Whether it is less than `other`, exactly where both are whole.
    pub(crate) fn is_below(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(a) | Self::Size(Bytes(a)), Self::Whole(b) | Self::Size(Bytes(b))) => a < b,
            (a, b) => a.real() < b.real(),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(n) => n.fmt(f),
            Self::Real(n) => n.fmt(f),
            Self::Size(bytes) => bytes.fmt(f),
        }
    }
}

/// Sets a field where there is a value for it.
fn set<T>(field: &mut T, value: Option<T>) -> bool {
    value.map(|value| *field = value).is_some()
}

fn whole(value: &Value) -> Option<u64> {
    value.as_integer().and_then(|n| u64::try_from(n).ok())
}

impl<T: Word> Field for T {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_str().and_then(T::of_word))
    }

    fn valid(&self) -> String {
        let words: Vec<String> = T::WORDS.iter().map(|word| format!("\"{word}\"")).collect();
        format!("write one of {}", words.join(", "))
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self.word()))
    }

    fn words(&self) -> &'static [&'static str] {
        T::WORDS
    }
}

impl Field for u32 {
    fn read(&mut self, value: &Value) -> bool {
        set(self, whole(value).map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
    }

    fn valid(&self) -> String {
        format!("write {VERSION}")
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Field for bool {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_bool())
    }

    fn valid(&self) -> String {
        "write true or false".to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Field for usize {
    fn read(&mut self, value: &Value) -> bool {
        set(self, whole(value).and_then(|n| usize::try_from(n).ok()))
    }

    fn valid(&self) -> String {
        "write a whole number, such as 64".to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn number(&self) -> Option<Number> {
        Some(Number::Whole(*self as u64))
    }
}

impl Field for u64 {
    fn read(&mut self, value: &Value) -> bool {
        set(self, whole(value))
    }

    fn valid(&self) -> String {
        "write a whole number, such as 100".to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn number(&self) -> Option<Number> {
        Some(Number::Whole(*self))
    }
}

impl Field for Option<u64> {
    fn read(&mut self, value: &Value) -> bool {
        set(self, whole(value).map(Some))
    }

    fn valid(&self) -> String {
        0_u64.valid()
    }

    fn write(&self) -> Option<String> {
        self.map(|n| n.to_string())
    }

    fn number(&self) -> Option<Number> {
        self.map(Number::Whole)
    }
}

impl Field for f64 {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_float().or_else(|| value.as_integer().map(|n| n as f64)))
    }

    fn valid(&self) -> String {
        "write a number, such as 0.001".to_owned()
    }

    fn write(&self) -> Option<String> {
        // The shortest text that reads back as the same number, with an exponent where that is shorter.
        Some(format!("{self:?}"))
    }

    fn number(&self) -> Option<Number> {
        Some(Number::Real(*self))
    }
}

impl Field for String {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_str().map(str::to_owned))
    }

    fn valid(&self) -> String {
        "write text in double quotes".to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self))
    }

    fn paragraph(&self) -> Option<String> {
        paragraph(self)
    }

    fn is_text(&self) -> bool {
        true
    }
}

impl Field for Option<PathBuf> {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_str().map(|path| Some(PathBuf::from(path))))
    }

    fn valid(&self) -> String {
        "write the folder or file in double quotes".to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(quoted(self.as_ref()?.to_str()?))
    }

    fn is_text(&self) -> bool {
        true
    }
}

impl Field for Bytes {
    fn read(&mut self, value: &Value) -> bool {
        let text = || value.as_str().and_then(|text| text.parse().ok());
        set(self, whole(value).map(Bytes).or_else(text))
    }

    fn valid(&self) -> String {
        "write a number and a unit in double quotes, such as \"512 MiB\" or \"8 GiB\"".to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.exact()))
    }

    fn number(&self) -> Option<Number> {
        Some(Number::Size(*self))
    }
}

impl Field for Checkpointing {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_str().and_then(|text| text.parse().ok()))
    }

    fn valid(&self) -> String {
        "write \"none\", \"blocks\", \"sqrt\", \"every:K\" with K at least 1, \"percent:P\" with P from 0 to 100, or \
         \"pick:\" and numbers of blocks, such as \"pick:1,3\""
            .to_owned()
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl Field for Frozen {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_str().and_then(|text| text.parse().ok()))
    }

    fn valid(&self) -> String {
        format!("write {}", Self::FORMS)
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}
/// What a value is, in words.
pub(super) fn describe(value: &Value) -> String {
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

/// Text as TOML.
pub(crate) fn quoted(text: &str) -> String {
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

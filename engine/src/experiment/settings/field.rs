//! One value of a preset: TOML to a field and back.
//!
//! Owns types and their text; nothing here knows which values make sense. Always holds: a written value reads back as the
//! same value. Refuses values of the wrong type.

use std::{any::Any, path::PathBuf};

use toml_edit::Value;

use super::{Number, Wrong, paragraph::paragraph};
use crate::{
    bytes::Bytes,
    experiment::words::Word,
    experiment::{BlockSet, Checkpointing, Frozen, VERSION, limits::MAX_DEPTH},
};

/// A field of an experiment, of any type.
pub(crate) trait Field: Any {
    /// Takes a value of the right type; false for another, which leaves the field as it is.
    fn read(&mut self, value: &Value) -> bool;

    /// The valid values, in words.
    fn valid(&self) -> String;

    /// The value as TOML; `None` for an option that is not given.
    fn write(&self) -> Option<String>;

    /// The value as TOML over several lines, where it is text.
    fn paragraph(&self) -> Option<String> {
        self.write()
    }

    /// The fault and the valid values, if a value has the right form but a number in it is too large. `most` is the largest
    /// that the setting's limits allow.
    fn too_large(&self, _value: &Value, _most: Option<&str>) -> Option<Wrong> {
        None
    }

    /// The number it is.
    fn number(&self) -> Option<Number> {
        None
    }

    /// Takes a number: a type of whole numbers the nearest one that it has. Anything else than a number stays as it is.
    fn set_number(&mut self, _number: f64) {}

    /// The words it may be.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether any text is a value.
    fn is_text(&self) -> bool {
        false
    }
}

/// Sets a field if there is a value for it.
fn set<T>(field: &mut T, value: Option<T>) -> bool {
    value.map(|value| *field = value).is_some()
}

fn whole(value: &Value) -> Option<u64> {
    value.as_integer().and_then(|n| u64::try_from(n).ok())
}

impl<T: Word> Field for T {
    fn read(&mut self, value: &Value) -> bool {
        set(self, value.as_str().and_then(T::of_word).or_else(|| value.as_bool().and_then(T::of_switch)))
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

    fn set_number(&mut self, number: f64) {
        *self = number.round() as Self;
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

    fn set_number(&mut self, number: f64) {
        *self = number.round() as Self;
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

    fn set_number(&mut self, number: f64) {
        *self = Some(number.round() as u64);
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
        // The shortest text that reads back as the same number, with an exponent if that is shorter.
        Some(format!("{self:?}"))
    }

    fn number(&self) -> Option<Number> {
        Some(Number::Real(*self))
    }

    fn set_number(&mut self, number: f64) {
        *self = number;
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

    fn too_large(&self, value: &Value, most: Option<&str>) -> Option<Wrong> {
        let text = value.as_str().filter(|text| Self::is_too_large(text))?;
        let most = most.map_or_else(|| Self::MOST.to_string(), str::to_owned);
        Some((format!("\"{}\" is too large", shortened(text)), format!("write {most} or less")))
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.exact()))
    }

    fn number(&self) -> Option<Number> {
        Some(Number::Size(*self))
    }

    fn set_number(&mut self, number: f64) {
        *self = Self::from_mib(number);
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

    fn too_large(&self, value: &Value, _: Option<&str>) -> Option<Wrong> {
        let (form, numbers) = value.as_str()?.split_once(':')?;
        let (most, mend) = match form {
            "every" => (MAX_DEPTH, format!("write every:K with K from 1 to {MAX_DEPTH}")),
            "percent" => (100, "write percent:P with P from 0 to 100".to_owned()),
            "pick" => (BlockSet::MOST, format!("pick blocks from 1 to {}", BlockSet::MOST)),
            _ => return None,
        };
        let number = numbers.split(',').map(str::trim).find(|number| is_whole_above(number, most as u64))?;
        Some((format!("{} is too large", shortened(number)), mend))
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

    fn too_large(&self, value: &Value, _: Option<&str>) -> Option<Wrong> {
        let number =
            value.as_str()?.strip_prefix("blocks:").filter(|number| is_whole_above(number, MAX_DEPTH as u64))?;
        Some((format!("{} is too large", shortened(number)), format!("write blocks:N with N from 1 to {MAX_DEPTH}")))
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

/// Whether a text is a whole number of more than `most`, of however many digits.
fn is_whole_above(text: &str, most: u64) -> bool {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole && text.parse::<u64>().map_or(true, |number| number > most)
}

/// A value in words.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, settings::find};

    #[test]
    fn a_number_too_large_for_its_form_is_answered_with_the_most() {
        let nines = "9".repeat(20);
        for (key, text, message, mend) in [
            ("budget", "999999999TiB".to_owned(), "\"999999999TiB\" is too large", "write 1048576 GiB or less"),
            (
                "checkpointing",
                format!("pick:1,{nines}"),
                "99999999999999999999 is too large",
                "pick blocks from 1 to 128",
            ),
            ("checkpointing", format!("every:{nines}"), "99999999999999999999 is too large", "K from 1 to 1000"),
            ("checkpointing", "percent:101".to_owned(), "101 is too large", "P from 0 to 100"),
            ("frozen", format!("blocks:{nines}"), "99999999999999999999 is too large", "N from 1 to 1000"),
            ("checkpointing", "pick:x".to_owned(), "text that does not fit here", "pick:1,3"),
        ] {
            let setting = find(key).expect("a key");
            let said = setting.read(&mut Experiment::default(), key, &Value::from(text.as_str())).expect_err(&text);
            assert!(said.0.contains(message) && said.1.contains(mend), "{said:?}");
        }
    }
}

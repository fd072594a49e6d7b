//! Text from other sources, made safe to be shown on a terminal.
//!
//! Owns the definition of a control character: characters that move the cursor, change colours or the title, ring, or turn
//! the direction of writing. Always holds: shown text has none of them, so that a name or a title can change nothing but its
//! own place.

use std::borrow::Cow;

/// Text of any number of lines: control characters other than line breaks and tabs are escaped.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !matches!(c, '\n' | '\t'))
}

/// The longest word of a message that is shown whole, in letters.
const LONGEST: usize = 600;

/// A message: text in which a word that fills screens, such as a wrong name of 100,000 letters, is cut in the middle.
pub(super) fn message(message: &str) -> Cow<'_, str> {
    let safe = text(message);
    let is_long = |word: &str| word.len() > LONGEST && word.chars().count() > LONGEST;
    if !safe.split(char::is_whitespace).any(is_long) {
        return safe;
    }
    let cut = |word: &str| {
        let part = |letters: &mut dyn Iterator<Item = char>| letters.take(LONGEST / 4).collect::<String>();
        let end: String = part(&mut word.chars().rev()).chars().rev().collect();
        format!("{}…{end}", part(&mut word.chars()))
    };
    let words = safe.split_inclusive(char::is_whitespace);
    Cow::Owned(words.map(|word| if is_long(word) { cut(word) } else { word.to_owned() }).collect())
}

/// A word or a sentence that stands in a line: line breaks and tabs are escaped as well.
pub(super) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| true)
}

fn escaped(text: &str, may_be: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_control(c) && may_be(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' if is_escaped(c) => safe.extend(c.escape_default()),
            _ if is_escaped(c) => safe.extend(c.escape_unicode()),
            _ => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Control characters, and those that turn the direction of writing (Unicode Annex 9).
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_fills_screens_is_cut_in_the_middle() {
        let whole = format!("no preset {} is here", "a".repeat(LONGEST));
        assert_eq!(message(&whole), whole);
        let long = format!("no preset b{}ß is here\nnor there", "a".repeat(100_000));
        let cut = message(&long);
        assert!(
            cut.len() < LONGEST && cut.starts_with("no preset ba") && cut.ends_with("aß is here\nnor there"),
            "{cut}"
        );
    }

    #[test]
    fn what_would_drive_a_terminal_is_shown_as_signs() {
        assert_eq!(text("a\u{1b}[31mb\u{7}\r\n\tc\u{9b}0m"), "a\\u{1b}[31mb\\u{7}\\r\n\tc\\u{9b}0m");
        assert_eq!(line("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(line("\u{202e}drow"), "\\u{202e}drow");
        let whole = "größer · 80 % 日本 ✓\n";
        assert!(matches!(text(whole), Cow::Borrowed(same) if same == whole));
    }
}

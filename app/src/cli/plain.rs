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
    fn what_would_drive_a_terminal_is_shown_as_signs() {
        assert_eq!(text("a\u{1b}[31mb\u{7}\r\n\tc\u{9b}0m"), "a\\u{1b}[31mb\\u{7}\\r\n\tc\\u{9b}0m");
        assert_eq!(line("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(line("\u{202e}drow"), "\\u{202e}drow");
        let whole = "größer · 80 % 日本 ✓\n";
        assert!(matches!(text(whole), Cow::Borrowed(same) if same == whole));
    }
}

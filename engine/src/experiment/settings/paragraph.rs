//! Text of a preset over several lines.
//!
//! Owns [`paragraph`]. Always holds: a written text reads back as the same text.

/// Text over several lines of at most about 100 characters, or `None` for none. A backslash at a line's end takes the
/// break back when it is read.
pub(super) fn paragraph(text: &str) -> Option<String> {
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
    // The part that the first backslash would swallow.
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

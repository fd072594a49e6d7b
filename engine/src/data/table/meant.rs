//! Texts that people read as numbers: with signs between thousands, a currency or a percent sign.
//!
//! Always holds: a finding is only reported. A text stays a text: the user decides whether `1,234` is more than a thousand
//! or a little more than one.

/// Signs that a number may have before or after it.
const BESIDE: [&str; 5] = ["$", "€", "£", "¥", "%"];
/// Signs between thousands in addition to points and commas: spaces of three widths, apostrophes, an underscore.
const BETWEEN: [char; 6] = [' ', '\u{a0}', '\u{202f}', '\'', '’', '_'];
/// A longer text is read as no number.
const LONGEST: usize = 40;

/// The number that a text probably is to its writer, as this program reads it.
pub(super) fn number(field: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(field).ok()?.trim();
    if text.len() > LONGEST || !text.contains(|sign: char| sign.is_ascii_digit()) {
        return None;
    }
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let mut bare = text;
    for beside in BESIDE {
        bare = bare.strip_prefix(beside).or_else(|| bare.strip_suffix(beside)).unwrap_or(bare).trim();
    }
    let starts_and_ends =
        bare.starts_with(|c: char| c.is_ascii_digit()) && bare.ends_with(|c: char| c.is_ascii_digit());
    let digits: String = bare.chars().filter(|sign| !BETWEEN.contains(sign)).collect();
    if !starts_and_ends || !digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',')) {
        return None;
    }
    let plain = match (digits.rfind(','), digits.rfind('.')) {
        (Some(comma), Some(point)) => {
            let (decimal, thousands) = if comma > point { (',', '.') } else { ('.', ',') };
            (digits.matches(decimal).count() == 1)
                .then(|| digits.replace(thousands, "").replace(decimal, "."))
                .filter(|_| is_grouped(digits.split(decimal).next().unwrap_or_default(), thousands))?
        }
        (Some(_), None) => one_sign(&digits, ',')?,
        (None, Some(_)) => one_sign(&digits, '.')?,
        (None, None) => digits,
    };
    plain.parse::<f64>().is_ok().then(|| format!("{sign}{plain}"))
}

/// Digits with one kind of sign in them: between thousands where all groups are of three, else before decimals.
fn one_sign(digits: &str, sign: char) -> Option<String> {
    match digits.matches(sign).count() {
        _ if is_grouped(digits, sign) => Some(digits.replace(sign, "")),
        1 => Some(digits.replace(sign, ".")),
        _ => None,
    }
}

/// Whether a sign parts groups of digits as people write them: the last has three, those before it two or three.
fn is_grouped(digits: &str, sign: char) -> bool {
    let groups: Vec<usize> = digits.split(sign).map(str::len).collect();
    match &groups[..] {
        [first, between @ .., last] => {
            (1..=3).contains(first) && between.iter().all(|len| matches!(len, 2 | 3)) && *last == 3
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_signs_between_thousands_are_recognised_and_nothing_else_is() {
        for (text, meant) in [
            ("1,234.5", "1234.5"),
            ("-1,234", "-1234"),
            ("12,34,567.89", "1234567.89"),
            ("1.234,5", "1234.5"),
            ("1.234.567", "1234567"),
            ("1 234", "1234"),
            ("1\u{a0}234,5", "1234.5"),
            ("1'234.50", "1234.50"),
            ("3,5", "3.5"),
            ("$1,200", "1200"),
            ("99%", "99"),
            ("-€5", "-5"),
        ] {
            assert_eq!(number(text.as_bytes()).as_deref(), Some(meant), "{text}");
        }
        for text in
            ["", "red", "2024-01-05", "12:30", "1.2.3", "3 kg", "A4", "1,2,3", "1.2,3,4", "1,,2", ",5", "10.0.0.1", "%"]
        {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }
}

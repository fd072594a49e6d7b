//! Numbers inside values and sentences, and names in a list.

use super::count;

/// A value in which a number of several thousand has its gaps: `12 345` of `12345`.
pub(crate) fn grouped(value: &str) -> String {
    let is_whole = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_whole).map_or_else(|| value.to_owned(), count)
}

/// Names with commas between them, with a space after each: `hull, port` of `hull,port`.
pub(crate) fn spaced(names: &str) -> String {
    names.split(',').map(str::trim).collect::<Vec<_>>().join(", ")
}

/// A text in which whole numbers of five and more digits have their gaps. Digits that are a part of something else, such as a
/// name, a path or a decimal, stay as they are, and so does what stands in backticks or quotation marks.
pub(crate) fn in_groups(text: &str) -> String {
    const FROM: usize = 5;
    let is_part = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_alphanumeric() || "_-/\\.#=".contains(letter) || letter == '\u{a0}')
    };
    let (mut told, mut rest, mut before, mut quoted) = (String::new(), text, None, false);
    while let Some(first) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let length = digits.max(first.len_utf8());
        let (part, after) = rest.split_at(length);
        quoted ^= first == '`' || first == '"';
        let mut next = after.chars();
        // A full stop at the end of a sentence belongs to no number.
        let next = next.next().filter(|sign| *sign != '.' || next.next().is_some_and(char::is_alphanumeric));
        let is_number = digits >= FROM && !quoted && !is_part(before) && !is_part(next);
        told.push_str(&if is_number { grouped(part) } else { part.to_owned() });
        (before, rest) = (part.chars().last(), after);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_in_a_sentence_have_gaps_and_other_digits_stay() {
        let gap = '\u{a0}';
        assert_eq!(
            in_groups("100000 samples are 60000 more than 40000. Of 1234567:"),
            format!("100{gap}000 samples are 60{gap}000 more than 40{gap}000. Of 1{gap}234{gap}567:")
        );
        for same in [
            "1024 of 9999",
            "/data/20261127/a12345.csv",
            "run 20261127-011105-pwfw",
            "0.123456 and 12345.5",
            "`--set data.samples=100000`",
            "called \"123456\"",
            "data.samples=100000",
            "0x123456, 12345abc",
            "1\u{a0}234\u{a0}567",
        ] {
            assert_eq!(in_groups(same), same);
        }
        assert_eq!(in_groups(""), "");
        assert_eq!([spaced("hull,port"), spaced("hull , port"), spaced("")], ["hull, port", "hull, port", ""]);
    }
}

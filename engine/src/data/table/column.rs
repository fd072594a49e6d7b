//! One column of a table: numbers, or categories that become a feature each.
//!
//! Always holds: a category keeps its number for as long as the table lives; the commonest ones have a feature of their own,
//! and if there are more than [`MOST_SLOTS`] all others share the last one. Refuses more than [`MOST_CATEGORIES`]: so many
//! texts are not categories.

use std::collections::HashMap;

/// The most features of a column of categories.
pub(super) const MOST_SLOTS: usize = 64;
/// The most categories that are kept apart at all.
pub(super) const MOST_CATEGORIES: usize = 100_000;
/// Texts that stand for a missing value.
const MISSING: [&[u8]; 10] = [b"", b"NA", b"N/A", b"NAN", b"NULL", b"NONE", b"<NA>", b"#N/A", b"?", b"-"];
/// The name of a category without a name.
pub(super) const NAMELESS: &str = "(missing)";
/// The name of categories that share a feature.
pub(super) const OTHERS: &str = "(others)";

/// A feature column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// The column's place in the file.
    pub(super) at: usize,
    pub(super) kind: ColumnKind,
    pub(super) missing: usize,
}

#[derive(Debug)]
pub(super) enum ColumnKind {
    /// Numbers, with the first one subtracted: the differences then fit into 32 bits.
    Number {
        first: Option<f64>,
        /// The line of the first.
        line: u64,
    },
    Category(Categories),
}

/// The kind of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    Missing,
    Number(f64),
    /// A number that no column can hold.
    Endless,
    Text,
}

/// The kind of a field. `comma` says whether a comma may stand before decimals, and is set if one does.
pub(super) fn field(bytes: &[u8], is_comma_free: bool, comma: &mut bool) -> Field {
    if let Some(number) = plain(bytes) {
        return Field::Number(number);
    }
    let bytes = bytes.trim_ascii();
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<f64>().ok());
    match number(bytes) {
        Some(number) if number.is_finite() => return Field::Number(number),
        Some(number) if !number.is_nan() => return Field::Endless,
        _ => {}
    }
    if is_missing(bytes) {
        return Field::Missing;
    }
    if is_comma_free
        && bytes.len() < 40
        && bytes.iter().filter(|byte| **byte == b',').count() == 1
        && !bytes.contains(&b'.')
    {
        let pointed: Vec<u8> = bytes.iter().map(|byte| if *byte == b',' { b'.' } else { *byte }).collect();
        if let Some(number) = number(&pointed).filter(|number| number.is_finite()) {
            *comma = true;
            return Field::Number(number);
        }
    }
    Field::Text
}

/// A number of few digits, with or without a point, as most fields are. Both the digits and the power of ten are exact, so
/// their quotient is the nearest number (Clinger 1990).
fn plain(bytes: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (digits, is_negative) = match bytes {
        [b'-', rest @ ..] => (rest, true),
        all => (all, false),
    };
    if digits.is_empty() || digits.len() >= POWERS.len() {
        return None;
    }
    let (mut whole, mut places, mut has_point) = (0u64, 0, false);
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                whole = whole * 10 + u64::from(byte - b'0');
                places += usize::from(has_point);
            }
            b'.' if !has_point && digits.len() > 1 => has_point = true,
            _ => return None,
        }
    }
    let number = whole as f64 / POWERS[places];
    Some(if is_negative { -number } else { number })
}

/// Whether a field says that nothing is known.
pub(super) fn is_missing(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii();
    bytes.len() <= 4 && MISSING.iter().any(|missing| bytes.eq_ignore_ascii_case(missing))
}

/// The categories of a column.
#[derive(Debug, Default)]
pub(super) struct Categories {
    known: HashMap<Box<[u8]>, u32>,
    /// How often each category occurs, by its number.
    counts: Vec<u32>,
    /// The feature of each category, by its number. Made when all are known.
    slot_of: Vec<u16>,
    slots: usize,
}

impl Categories {
    /// The number of a category; `None` if there are too many.
    pub(super) fn number(&mut self, field: &[u8]) -> Option<u32> {
        let field = field.trim_ascii();
        if let Some(number) = self.known.get(field) {
            self.counts[*number as usize] += 1;
            return Some(*number);
        }
        if self.counts.len() == MOST_CATEGORIES {
            return None;
        }
        let number = self.counts.len() as u32;
        self.known.insert(field.into(), number);
        self.counts.push(1);
        Some(number)
    }

    /// Takes back that a category was there once.
    pub(super) fn forget(&mut self, number: usize) {
        self.counts[number] -= 1;
    }

    /// How often none was there.
    pub(super) fn missing(&self) -> usize {
        self.known.get(&b""[..]).map_or(0, |number| self.counts[*number as usize] as usize)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// How many categories share the last feature; 0 if each has one of its own.
    pub(super) fn shared(&self) -> usize {
        if self.len() > MOST_SLOTS { self.len() + 1 - MOST_SLOTS } else { 0 }
    }

    /// Features that they make.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// The feature of a category.
    pub(super) fn slot(&self, number: usize) -> usize {
        usize::from(self.slot_of[number])
    }

    /// Gives each its feature: the commonest first, of equally common ones the first in the file.
    pub(super) fn finish(&mut self) {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by_key(|number| (std::cmp::Reverse(self.counts[*number as usize]), *number));
        self.slots = self.len().min(MOST_SLOTS);
        self.slot_of = vec![0; self.len()];
        for (rank, number) in order.into_iter().enumerate() {
            self.slot_of[number as usize] = rank.min(MOST_SLOTS - 1) as u16;
        }
        self.known.shrink_to_fit();
        self.counts.shrink_to_fit();
    }

    /// Their names, by number.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = vec![String::new(); self.len()];
        for (text, number) in &self.known {
            names[*number as usize] = name(text);
        }
        names
    }

    /// The name of one. Looks through all of them.
    pub(super) fn name(&self, number: u32) -> String {
        self.known.iter().find(|(_, own)| **own == number).map(|(text, _)| name(text)).unwrap_or_default()
    }
}

/// A category's text as it is shown.
pub(super) fn name(text: &[u8]) -> String {
    if text.is_empty() { NAMELESS.to_owned() } else { String::from_utf8_lossy(text).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_way_reads_what_the_slow_one_does() {
        for text in ["0", "-0", "7", "-3.25", ".5", "5.", "0.1", "123456789.01234", "00012", "-.75", "999999999999999"]
        {
            let slow: f64 = text.parse().expect("a number");
            assert_eq!(plain(text.as_bytes()).map(f64::to_bits), Some(slow.to_bits()), "{text}");
        }
        for text in ["", "-", ".", "-.", "1e3", "+1", "1.2.3", "abc", " 1", "1234567890123456", "--1"] {
            assert_eq!(plain(text.as_bytes()), None, "{text}");
        }
        let both = |text: &str| field(text.as_bytes(), false, &mut false);
        assert_eq!((both("-."), both("-"), both(" 1e3 ")), (Field::Text, Field::Missing, Field::Number(1000.0)));
    }
}

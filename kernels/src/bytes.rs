//! Amounts of memory ([`Bytes`]), their form as text, and the form of other counts.
//!
//! Always holds: the noun of a count that may be one comes from here: `1 step`, never `1 steps`.
//!
//! Binary units throughout (1 MiB = 1024 KiB), as drivers and frameworks report memory.

use std::{fmt, ops, str::FromStr};

use serde::{Deserialize, Serialize};

/// An amount of memory in bytes.
///
/// # Examples
///
/// ```
/// use plimsoll_kernels::Bytes;
///
/// let budget: Bytes = "1.5 GiB".parse()?;
/// assert_eq!(budget, Bytes(1_610_612_736));
/// assert_eq!(budget.to_string(), "1.50 GiB");
/// assert_eq!(Bytes::mib(12).difference(Bytes::mib(16)), "-4.00 MiB");
/// assert!("12 parsecs".parse::<Bytes>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

const KIB: f64 = 1024.0;
const UNITS: [(&str, f64); 4] = [("GiB", KIB * KIB * KIB), ("MiB", KIB * KIB), ("KiB", KIB), ("B", 1.0)];

/// `12 345`: a count with thin gaps between thousands, at which no line ends.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// `1 step`, `12345 steps`: a count with its noun, of which `one` is the singular. The digits are those that a preset has.
///
/// # Examples
///
/// ```
/// use plimsoll_kernels::bytes::counted;
///
/// assert_eq!(counted(1, "step"), "1 step");
/// assert_eq!(counted(0, "free class"), "0 free classes");
/// assert_eq!(counted(12_345, "category"), "12345 categories");
/// ```
pub fn counted(n: u64, one: &str) -> String {
    format!("{n} {}", noun(n, one))
}

/// The noun of a count: `step`, or `steps` of another number than one.
pub fn noun(n: u64, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if n == 1 => one.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None if one.ends_with("ss") || one.ends_with("ch") => format!("{one}es"),
        None => format!("{one}s"),
    }
}

/// The verb of a count: `is`, or `are` of another number than one.
pub fn are(n: u64) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// The most that is read from text.
    pub const MOST: Self = Self(9_000_000_000_000_000_000);

    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The amount in MiB, for axes.
    pub fn as_mib(self) -> f64 {
        self.0 as f64 / (KIB * KIB)
    }

    /// `value` MiB, to the nearest byte; zero for a value that is negative or not a number.
    pub fn from_mib(value: f64) -> Self {
        Self((value * KIB * KIB).round() as u64)
    }

    /// Whether `text` is a size, and more than is read.
    pub fn is_too_large(text: &str) -> bool {
        value_of(text.trim()).is_some_and(|value| value > Self::MOST.0 as f64)
    }

    /// `self - other`, or zero.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The shortest text that reads back as exactly these bytes.
    pub fn exact(self) -> String {
        let (unit, size) = UNITS
            .into_iter()
            .find(|(_, size)| (self.0 as f64 / size * 1000.0).fract() == 0.0 && self.0 as f64 >= *size)
            .unwrap_or(("B", 1.0));
        format!("{} {unit}", self.0 as f64 / size)
    }

    /// This amount and its limit as they read next to each other: with their bytes where three figures would show the same for
    /// two that differ.
    ///
    /// # Examples
    ///
    /// ```
    /// use plimsoll_kernels::Bytes;
    ///
    /// assert_eq!(Bytes::mib(12).beside(Bytes::mib(16)), ["12.0 MiB", "16.0 MiB"]);
    /// assert_eq!(Bytes(1_887_437).beside(Bytes(1_887_400)), ["1.80 MiB (1887437 B)", "1.80 MiB (1887400 B)"]);
    /// ```
    pub fn beside(self, limit: Self) -> [String; 2] {
        let texts = [self, limit].map(|bytes| bytes.to_string());
        if self == limit || texts[0] != texts[1] {
            return texts;
        }
        [self, limit].map(|bytes| format!("{bytes} ({} B)", bytes.0))
    }

    /// A signed difference in words: `+12.5 MiB`, `-412 MiB`, `±0 B`.
    pub fn difference(self, from: Self) -> String {
        match self.0.cmp(&from.0) {
            std::cmp::Ordering::Equal => "±0 B".to_owned(),
            std::cmp::Ordering::Greater => format!("+{}", Self(self.0 - from.0)),
            std::cmp::Ordering::Less => format!("-{}", Self(from.0 - self.0)),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        // 1023.995 KiB would print as 1024 KiB: go up a unit as soon as rounding would.
        let (unit, size) = UNITS.into_iter().find(|(_, size)| value >= size * 0.9995).unwrap_or(("B", 1.0));
        let amount = value / size;
        let text = match amount {
            _ if unit == "B" => format!("{amount:.0}"),
            a if a < 9.995 => format!("{a:.2}"),
            a if a < 99.95 => format!("{a:.1}"),
            a => format!("{a:.0}"),
        };
        f.pad(&format!("{text} {unit}"))
    }
}

impl FromStr for Bytes {
    type Err = String;

    /// Reads `512 MiB`, `8GiB`, `1.5 g`, `2e6`; a bare number is bytes. `M` and `MB` are read as MiB, as memory sizes
    /// are meant.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match value_of(text).filter(|value| *value >= 0.0) {
            Some(value) if value <= Self::MOST.0 as f64 => Ok(Self(value.round() as u64)),
            Some(_) => Err(format!("`{text}` is too large for a size: write {} or less", Self::MOST)),
            None => Err(format!("`{text}` is not a size: write a number and a unit, such as 512 MiB or 8 GiB")),
        }
    }
}

/// The bytes that a text means, however many; `None` if it is not a finite number with a unit.
fn value_of(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => KIB,
        "m" | "mb" | "mib" => KIB.powi(2),
        "g" | "gb" | "gib" => KIB.powi(3),
        "t" | "tb" | "tib" => KIB.powi(4),
        _ => return None,
    };
    let value = number.trim().parse::<f64>().ok()? * scale;
    value.is_finite().then_some(value)
}

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.exact())
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(deserializer) {
            Ok(Either::Number(n)) => Ok(Self(n)),
            Ok(Either::Text(text)) => text.parse().map_err(serde::de::Error::custom),
            Err(_) => Err(serde::de::Error::custom(
                "a size is text with a unit, such as \"512 MiB\", or a whole number of bytes",
            )),
        }
    }
}

impl ops::Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl ops::Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        Self(iter.map(|b| b.0).sum())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shows_three_figures_with_a_unit() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(1536).to_string(), "1.50 KiB");
        assert_eq!(Bytes::mib(412).to_string(), "412 MiB");
        assert_eq!(Bytes((1 << 30) - 1).to_string(), "1.00 GiB");
        assert_eq!(Bytes::mib(3).difference(Bytes::mib(5)), "-2.00 MiB");
    }

    #[test]
    fn sizes_that_read_alike_and_differ_have_their_bytes() {
        let alike = [Bytes(1_887_437), Bytes(1_887_400)];
        assert_eq!(alike[0].to_string(), alike[1].to_string());
        assert_eq!(alike[0].beside(alike[1]), ["1.80 MiB (1887437 B)", "1.80 MiB (1887400 B)"]);
        assert_eq!(Bytes::mib(2).beside(Bytes::mib(2)), ["2.00 MiB", "2.00 MiB"]);
        assert_eq!(Bytes::mib(2).beside(Bytes::mib(3)), ["2.00 MiB", "3.00 MiB"]);
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", "MiB", "-1 MiB", "1 MiBs", "nan", "inf GiB", "1e40"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_past_the_most_is_told_apart_from_what_is_none() {
        for text in ["999999999TiB", "1e40", "99999999999999999999"] {
            let said = text.parse::<Bytes>().expect_err(text);
            assert!(
                Bytes::is_too_large(text) && said.contains("is too large for a size: write 8381903172 GiB"),
                "{said}"
            );
        }
        assert!(!Bytes::is_too_large("lots") && !Bytes::is_too_large("inf") && !Bytes::is_too_large("8 GiB"));
    }

    proptest! {
        #[test]
        fn written_sizes_read_back_exactly(n in 0u64..1 << 52) {
            prop_assert_eq!(Bytes(n).exact().parse::<Bytes>().expect("own text"), Bytes(n));
        }
    }
}

//! The range of a number, and the message for one outside it.

use super::{Number, Wrong};
use crate::bytes::Bytes;

/// The limits of a number. `what` names it in a message, such as "a batch".
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limits {
    /// Any number.
    None,
    /// A number from `low` to `high`.
    Within { low: Number, high: Number, what: &'static str },
    /// Above 0 and at most `high`.
    Positive { high: f64, what: &'static str, example: &'static str },
    /// A size above 0 and at most `high`.
    Size { high: Bytes, what: &'static str },
    /// A number that is at least 0 and below 1.
    Fraction { what: &'static str, example: &'static str },
    /// Above 0 and below 1.
    Share { example: &'static str },
    /// One of a few numbers.
    OneOf { numbers: &'static [usize], what: &'static str },
}

impl Limits {
    /// The most, if there is one.
    pub(crate) fn high(&self) -> Option<Number> {
        match *self {
            Self::Within { high, .. } => Some(high),
            Self::Positive { high, .. } => Some(Number::Real(high)),
            Self::Size { high, .. } => Some(Number::Size(high)),
            Self::OneOf { numbers, .. } => numbers.iter().max().map(|most| Number::Whole(*most as u64)),
            Self::None | Self::Fraction { .. } | Self::Share { .. } => None,
        }
    }

    /// The fault of `number` and the valid values; `None` if it is within the limits. NaN is outside every range.
    pub(crate) fn judge(&self, number: Number) -> Option<Wrong> {
        let value = number.real();
        let is_not = |what: &str| format!("{number} is not {what}");
        let too_much = |what: &str, high: &dyn std::fmt::Display| {
            Some((format!("{number} is more than {what} may be"), format!("write {high} or less")))
        };
        match *self {
            Self::None => None,
            Self::Within { low, high, what } => {
                if value.is_nan() {
                    Some((is_not("a number"), format!("write one from {low} to {high}")))
                } else if number.is_below(low) {
                    Some((is_not(what), format!("write {low} or more")))
                } else if high.is_below(number) {
                    too_much(what, &high)
                } else {
                    None
                }
            }
            Self::Positive { what, example, .. } if value.is_nan() || value <= 0.0 => {
                Some((is_not(what), format!("write a number above 0, such as {example}")))
            }
            Self::Positive { high, what, .. } if value > high => too_much(what, &high),
            Self::Size { what, .. } if value <= 0.0 => {
                Some((is_not(what), "write a size above 0, such as \"64 MiB\"".to_owned()))
            }
            Self::Size { high, what } if Number::Size(high).is_below(number) => too_much(what, &high),
            Self::Fraction { what, example } if !(0.0..1.0).contains(&value) => {
                Some((is_not(what), format!("write a number from 0 up to, but not including, 1, such as {example}")))
            }
            Self::Share { example } if !(value > 0.0 && value < 1.0) => {
                Some((is_not("a share"), format!("write a number between 0 and 1, such as {example}")))
            }
            Self::OneOf { numbers, what } if !numbers.iter().any(|known| number == Number::Whole(*known as u64)) => {
                let all: Vec<String> = numbers.iter().map(usize::to_string).collect();
                Some((is_not(what), format!("write one of {}", all.join(", "))))
            }
            Self::Positive { .. }
            | Self::Size { .. }
            | Self::Fraction { .. }
            | Self::Share { .. }
            | Self::OneOf { .. } => None,
        }
    }
}

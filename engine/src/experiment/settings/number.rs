//! The number that a setting holds, of any type.

use std::fmt;

use crate::bytes::Bytes;

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

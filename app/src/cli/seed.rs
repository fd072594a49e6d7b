//! The seed of a command that is given none.

use std::time::{SystemTime, UNIX_EPOCH};

/// A new seed at every call, short enough to be typed again.
pub(super) fn fresh() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_micros() as u64 % 1_000_000)
}

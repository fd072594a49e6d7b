//! The moment at which a search for changes ends although there is more to try.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// When a search ends early: at a deadline, when it is cancelled, or never. The findings until then are kept.
#[derive(Clone, Copy, Default)]
pub struct Limit<'a> {
    deadline: Option<Instant>,
    /// The time from its beginning to the deadline.
    time: Duration,
    is_cancelled: Option<&'a (dyn Fn() -> bool + 'a)>,
}

impl<'a> Limit<'a> {
    /// A search that tries everything.
    pub const NONE: Self = Self { deadline: None, time: Duration::ZERO, is_cancelled: None };

    /// A search that ends `time` from now.
    pub fn within(time: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(time), time, is_cancelled: None }
    }

    /// The same limit a quarter of its time earlier, for a search after which another one may follow within this limit.
    #[must_use]
    pub fn early(self) -> Self {
        Self { deadline: self.deadline.and_then(|deadline| deadline.checked_sub(self.time / 4)), ..self }
    }

    /// The same limit, which also ends the search once `is_cancelled` says so.
    pub fn or_when(self, is_cancelled: &'a (dyn Fn() -> bool + 'a)) -> Self {
        Self { is_cancelled: Some(is_cancelled), ..self }
    }

    /// Whether the search must end.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline) || self.is_cancelled.is_some_and(|is| is())
    }
}

impl fmt::Debug for Limit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_at_its_deadline_or_when_it_is_cancelled() {
        assert!(!Limit::NONE.is_over() && !Limit::within(Duration::from_secs(1000)).is_over());
        assert!(Limit::within(Duration::ZERO).is_over());
        assert!(Limit::NONE.or_when(&|| true).is_over() && !Limit::NONE.or_when(&|| false).is_over());
    }
}

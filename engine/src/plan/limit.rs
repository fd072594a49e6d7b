//! The moment at which a search for changes ends although there is more to try.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::Plan;

/// Layers of a run whose plans take so long that few are made.
const MANY_LAYERS: usize = 2000;
/// A search for changes of such a run takes so many times less.
const BRIEFER: u32 = 8;

/// When a search ends early: at a deadline, when it is cancelled, or never. The findings until then are kept.
#[derive(Clone, Copy, Default)]
pub struct Limit<'a> {
    deadline: Option<Instant>,
    /// The time from its beginning to the deadline.
    time: Duration,
    is_brief: bool,
    is_cancelled: Option<&'a (dyn Fn() -> bool + 'a)>,
}

impl<'a> Limit<'a> {
    /// A search that tries everything.
    pub const NONE: Self = Self { deadline: None, time: Duration::ZERO, is_brief: false, is_cancelled: None };

    /// A search that ends `time` from now.
    pub fn within(time: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(time), time, ..Self::NONE }
    }

    /// A search for changes of `plan` that ends `time` from now. With very many layers each plan takes so long that the search is
    /// brief: it ends in a part of that time, and tries only what most often helps.
    pub fn for_plan(plan: &Plan, time: Duration) -> Self {
        let is_brief = plan.layers.len() > MANY_LAYERS;
        Self { is_brief, ..Self::within(if is_brief { time / BRIEFER } else { time }) }
    }

    /// The same limit for a further search: a brief one has its time anew, for otherwise the first would leave it none.
    #[must_use]
    pub fn renewed(self) -> Self {
        if self.is_brief { Self { deadline: Instant::now().checked_add(self.time), ..self } } else { self }
    }

    /// Whether only what most often helps is to be tried.
    pub(super) fn is_brief(&self) -> bool {
        self.is_brief
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
    use crate::{experiment::Experiment, hardware::Machine};

    #[test]
    fn a_search_ends_at_its_deadline_or_when_it_is_cancelled() {
        assert!(!Limit::NONE.is_over() && !Limit::within(Duration::from_secs(1000)).is_over());
        assert!(Limit::within(Duration::ZERO).is_over());
        assert!(Limit::NONE.or_when(&|| true).is_over() && !Limit::NONE.or_when(&|| false).is_over());
    }

    #[test]
    fn a_search_is_brief_where_plans_of_very_many_layers_take_their_time() {
        let of_depth = |depth| {
            let mut experiment = Experiment::default();
            (experiment.model.width, experiment.model.depth) = (2, depth);
            let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
            Limit::for_plan(&plan, Duration::from_secs(8))
        };
        let [whole, brief] = [300, 1100].map(of_depth);
        assert_eq!((whole.is_brief(), whole.time), (false, Duration::from_secs(8)));
        assert_eq!((brief.is_brief(), brief.time), (true, Duration::from_secs(1)));
        let over = Limit { is_brief: true, ..Limit::within(Duration::ZERO) };
        assert!(over.renewed().deadline > over.deadline && whole.renewed().deadline == whole.deadline);
    }
}

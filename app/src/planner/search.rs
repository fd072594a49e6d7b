//! The search for other configurations that fit. While a run trains on the processor, the search takes turns with it: it
//! uses a share of the time and leaves the trainer its cores.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use plimsoll_engine::plan::{self, Advice, Limit, Plan, Verdict};

use super::{Generation, Shared};
use crate::advice::Shortfall;

/// Nearest changes shown when a plan does not fit.
const NEAREST: usize = 3;
/// The longest time of the search for other configurations.
const SEARCH_TIME: Duration = Duration::from_secs(10);
/// While a run trains, the search rests this many times as long as it worked.
const REST: u32 = 7;
/// The longest of such rests.
const LONGEST_REST: Duration = Duration::from_millis(400);

/// Other configurations that fit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// The best configurations for the budget, fastest first.
    pub(crate) best: Vec<Advice>,
    /// The nearest changes, when the plan does not fit.
    pub(crate) nearest: Vec<Advice>,
    /// The largest micro-batch that fits, when it is another.
    pub(crate) fill: Option<Advice>,
    /// Changes of the training, when little fits without them.
    pub(crate) further: Vec<Advice>,
    /// Why nothing fits, when nothing does.
    pub(crate) shortfall: Option<Shortfall>,
}

impl Options {
    /// Whether there is nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        self.has_no_change() && self.shortfall.is_none()
    }

    /// Whether no other configuration was found that fits.
    pub(crate) fn has_no_change(&self) -> bool {
        self.best.is_empty() && self.nearest.is_empty() && self.further.is_empty()
    }
}

/// The inputs of a search in addition to the experiment. A plan that is made again because something else of the machine was
/// measured, such as the size of the process, has the same offers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Searched {
    generation: Generation,
    verdict: Verdict,
    step_secs: f64,
}

impl Searched {
    /// The key of a plan.
    pub(super) fn of(generation: Generation, plan: &Plan) -> Self {
        Self { generation, verdict: plan.verdict(), step_secs: plan.step_secs }
    }
}

/// The turns of a search and a run.
pub(super) struct Turns<'a> {
    shared: &'a Shared,
    /// When the search last began to work.
    since: Cell<Instant>,
}

impl<'a> Turns<'a> {
    /// A search begins.
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared, since: Cell::new(Instant::now()) }
    }

    /// Rests if a run wants the cores, and returns whether something newer is asked for, which also ends the rest.
    pub(super) fn is_over(&self) -> bool {
        let mut inbox = self.shared.inbox();
        if inbox.is_training && !inbox.supersedes() {
            let rest = (self.since.get().elapsed() * REST).min(LONGEST_REST);
            self.shared.bell.wait_while_for(&mut inbox, |inbox| !inbox.supersedes(), rest);
            self.since.set(Instant::now());
        }
        inbox.supersedes()
    }
}

/// Other configurations that fit, looked for in turns with a run.
pub(super) fn options(plan: &Plan, turns: &Turns<'_>) -> Options {
    let time = if turns.shared.inbox().is_training { SEARCH_TIME * (REST + 1) } else { SEARCH_TIME };
    let is_superseded = || turns.is_over();
    let limit = Limit::for_plan(plan, time).or_when(&is_superseded);
    let search = || -> plimsoll_engine::Result<Options> {
        let found = plan::fit(plan, plan.experiment.budget, limit.early())?;
        let mut options = Options { fill: plan::fill(plan, limit.renewed().early())?, ..Options::default() };
        let fits = plan.verdict().fits();
        if !fits {
            options.nearest = plan::advise(plan, NEAREST, limit.renewed().early())?;
        }
        if !fits && options.nearest.len() < NEAREST && found.offers.is_empty() {
            options.shortfall = options.nearest.is_empty().then(|| Shortfall::of(&found));
            options.further = plan::further(plan, NEAREST, limit.renewed())?;
            options.further.retain(|offer| options.nearest.iter().all(|near| near.experiment != offer.experiment));
        }
        options.best = found.offers;
        Ok(options)
    };
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(search));
    found.map(Result::unwrap_or_default).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Bytes, Experiment, hardware::Machine};

    use super::*;

    fn plan(machine: &Machine) -> Plan {
        // Mostly activations, so that smaller batches help.
        let mut experiment = Experiment { budget: Bytes::mib(64), ..Experiment::default() };
        experiment.batch.micro = 1024;
        Plan::of(&experiment, machine).expect("a plan")
    }

    #[test]
    fn a_plan_made_again_for_another_process_has_the_same_offers_and_one_at_other_rates_has_not() {
        let machine = Machine::nominal();
        let before = Searched::of(3, &plan(&machine));
        assert_eq!(before, Searched::of(3, &plan(&machine.with_process_measured())));
        assert_ne!(before, Searched::of(4, &plan(&machine)), "another experiment");
        let other = Plan { step_secs: 1.0, ..plan(&machine) };
        assert_ne!(before, Searched::of(3, &other), "other rates");
    }

    #[test]
    fn a_search_finds_the_same_beside_a_run_and_ends_at_once_when_something_newer_is_asked_for() {
        let shared = Arc::<Shared>::default();
        let plan = plan(&Machine::nominal());
        let alone = options(&plan, &Turns::new(&shared));
        shared.inbox().is_training = true;
        let beside = options(&plan, &Turns::new(&shared));
        let found = |options: &Options| options.best.iter().map(|advice| advice.experiment.clone()).collect::<Vec<_>>();
        assert_eq!(found(&alone), found(&beside));
        assert!(!found(&alone).is_empty());
        shared.inbox().plan = Some((1, Experiment::default()));
        assert!(Turns::new(&shared).is_over());
        assert!(options(&plan, &Turns::new(&shared)).best.is_empty());
    }
}

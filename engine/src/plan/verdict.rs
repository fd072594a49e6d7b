//! The verdict: whether a run fits, and which limit it crosses.

use crate::{bytes::Bytes, memory::host::Line};

/// Whether a run fits its budget and the machine it is planned on. Only [`Verdict::Fits`] begins without a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The run fits.
    Fits {
        /// Budget less peak.
        headroom: Bytes,
    },
    /// The run is past its budget.
    OverBudget {
        /// Peak less budget.
        by: Bytes,
    },
    /// The run is inside its budget, but the machine has less to give.
    OverMachine {
        /// The most that the machine can give the run, and which limit says so.
        line: Line,
    },
    /// The run is inside its budget, but its data are past the budget of the host.
    OverHostBudget {
        /// The bytes by which they are past it.
        by: Bytes,
    },
    /// The run is inside its budget, but the machine cannot hold its data.
    NoRoomForData {
        /// The bytes that the machine can give.
        free: Bytes,
    },
    /// The run is inside its budget, but the disk cannot hold its kept samples or answers.
    NoRoomOnDisk {
        /// The bytes that the disk can give.
        free: Bytes,
    },
}

impl Verdict {
    /// Whether the run fits.
    pub fn fits(&self) -> bool {
        matches!(self, Self::Fits { .. })
    }

    /// Its name for scripts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fits { .. } => "fits",
            Self::OverBudget { .. } => "over_budget",
            Self::OverMachine { .. } => "over_machine",
            Self::OverHostBudget { .. } => "over_host_budget",
            Self::NoRoomForData { .. } => "no_room_for_data",
            Self::NoRoomOnDisk { .. } => "no_room_on_disk",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::Experiment,
        hardware::Machine,
        memory::host::{FreeMemory, LimitedBy},
        plan::{self, Limit, Plan},
    };

    fn verdict(budget: Bytes, free: Option<Bytes>) -> (Plan, Verdict) {
        let free = free.map(|bytes| FreeMemory { bytes, limited_by: LimitedBy::Machine });
        let machine = Machine::nominal().with_free_memory(free);
        // Mostly activations, so that smaller batches help.
        let mut experiment = Experiment { budget, ..Experiment::default() };
        experiment.batch.micro = 1024;
        let plan = Plan::of(&experiment, &machine).expect("a plan");
        let verdict = plan.verdict();
        (plan, verdict)
    }

    #[test]
    fn a_run_fits_only_where_the_machine_has_its_memory() {
        let (plan, without_limit) = verdict(Bytes::gib(64), None);
        assert_eq!(without_limit, Verdict::Fits { headroom: Bytes::gib(64) - plan.load() });
        assert!(verdict(Bytes::gib(64), Some(Bytes::gib(1))).1.fits());
        let (plan, none_left) = verdict(Bytes::gib(64), Some(plan.host.total() + Bytes::mib(1)));
        let line = plan.machine_line().expect("it is known");
        assert_eq!(none_left, Verdict::OverMachine { line });
        assert!(plan.fits() && line.bytes < plan.load() && line.limited_by == LimitedBy::Machine);
        let (_, no_data) = verdict(Bytes::gib(64), Some(plan.host.total() - Bytes(1)));
        assert_eq!(no_data, Verdict::NoRoomForData { free: plan.host.total() - Bytes(1) });
        let (plan, over) = verdict(Bytes::kib(100), Some(Bytes::mib(1)));
        assert_eq!(over, Verdict::OverBudget { by: plan.load() - Bytes::kib(100) });
        assert_eq!(plan.line().limited_by, LimitedBy::Budget, "the budget is what is crossed first");
    }

    #[test]
    fn what_is_offered_fits_the_machine_as_well() {
        let (plan, _) = verdict(Bytes::gib(64), None);
        let (plan, over) = verdict(Bytes::gib(64), Some(plan.host.total() + Bytes::mib(12) + Bytes(plan.load().0)));
        assert!(matches!(over, Verdict::OverMachine { .. }), "{over:?}");
        let offers = plan::advise(&plan, 3, Limit::NONE).expect("offers");
        let line = plan.machine_line().expect("it is known").bytes;
        assert!(!offers.is_empty() && offers.iter().all(|offer| offer.peak <= line), "{offers:?}");
        assert!(
            offers.iter().all(|offer| offer.experiment.budget == Bytes::gib(64)),
            "the budget stays as it was chosen"
        );
        let best = plan::fit(&plan, plan.budget, Limit::NONE).expect("a search").offers;
        assert!(!best.is_empty() && best.iter().all(|offer| offer.peak <= line), "{best:?}");
    }
}

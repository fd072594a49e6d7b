//! The line of a plan: its budget, or the limit of the card or the machine if that is lower.

mod host;

use plimsoll_engine::{
    Bytes,
    memory::host::Line,
    plan::{Plan, Verdict},
};

pub(crate) use self::host::{no_room, way_words, why_not};
use crate::format;

/// The limit that the bar and the timeline draw as the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The owner of the limit, in a word.
    pub(crate) whose: &'static str,
    /// Where it is.
    pub(crate) bytes: Bytes,
}

impl Limit {
    /// The line of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        match (plan.card_below_budget(), machine_below_budget(plan)) {
            (Some(_), _) => Self { whose: "card", bytes: plan.budget },
            (None, Some(line)) => Self { whose: "machine", bytes: line.bytes },
            (None, None) => Self { whose: "budget", bytes: plan.budget },
        }
    }

    /// The bytes that it leaves for tensors. On a card, the context counts against it as well.
    pub(crate) fn room(self, plan: &Plan) -> Bytes {
        self.bytes.saturating_sub(plan.target.profile().map_or(Bytes::ZERO, |card| card.context))
    }
}

/// What the machine can give a run, if that is less than its budget.
pub(crate) fn machine_below_budget(plan: &Plan) -> Option<Line> {
    plan.machine_line().filter(|line| line.bytes < plan.budget)
}

/// The verdict on a plan by the line that is drawn: a run past its budget and the machine is past the lower of the two.
pub(crate) fn verdict(plan: &Plan) -> Verdict {
    match (plan.verdict(), machine_below_budget(plan)) {
        (Verdict::OverBudget { .. }, Some(line)) => Verdict::OverMachine { line },
        (verdict, _) => verdict,
    }
}

/// Whether the budget is the only line that the plan is past.
pub(crate) fn is_past_its_budget_alone(plan: &Plan) -> bool {
    matches!(verdict(plan), Verdict::OverBudget { .. }) && why_not(plan).is_none()
}

/// The verdict in words: `Fits: 12.3 MiB of 64 MiB, 51.7 MiB headroom`.
pub(crate) fn verdict_words(plan: &Plan) -> String {
    let (load, budget) = (plan.load(), format::size(plan.budget));
    match verdict(plan) {
        Verdict::Fits { headroom } => match Limit::of(plan) {
            Limit { whose: "machine", bytes } => {
                format!("Fits: {load} of {bytes} that this machine can give, {} headroom", bytes.saturating_sub(load))
            }
            Limit { .. } => format!("Fits: {load} of {budget}, {headroom} headroom"),
        },
        Verdict::OverBudget { by } => host::also_past(plan, &format!("{load} of {budget}"))
            .unwrap_or_else(|| format!("Does not fit: {by} too much ({load} of {budget})")),
        Verdict::OverMachine { line } => {
            let [load, line] = line.beside(load);
            format!("Does not fit this machine: {load} of {line}")
        }
        Verdict::OverHostBudget { .. } => host::verdict_words(plan),
        Verdict::NoRoomOnDisk { free } => {
            let [disk, free] = plan.host.disk.beside(free);
            format!("Does not fit this disk: the cache takes {disk} of {free} free")
        }
        Verdict::NoRoomForData { free } => {
            let [total, free] = plan.host.total().beside(free);
            format!("Does not fit this machine: the data take {total} of {free} free")
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{
        Experiment,
        hardware::Machine,
        memory::host::{FreeMemory, LimitedBy},
    };

    use super::*;

    #[test]
    fn the_verdict_names_the_line_that_is_drawn() {
        let words = |budget, of_tensors| {
            let mut experiment = Experiment { budget, ..Experiment::default() };
            experiment.batch.micro = 1024;
            let data = Plan::of(&experiment, &Machine::nominal()).expect("a plan").host.total();
            let free = FreeMemory { bytes: data + of_tensors, limited_by: LimitedBy::Machine };
            let machine = Machine::nominal().with_free_memory(Some(free));
            let plan = Plan::of(&experiment, &machine).expect("a plan");
            (verdict_words(&plan), plan.load().to_string(), format::size(Limit::of(&plan).bytes))
        };
        let (over_both, load, line) = words(Bytes::kib(900), Bytes::mib(13));
        let of = format!("Does not fit this machine: {load} of the {line} that a run can use");
        assert!(over_both.starts_with(&of), "{over_both}, {of}");
        let (over_budget, load, line) = words(Bytes::kib(900), Bytes::gib(4));
        let of = format!("{load} of {line}");
        assert!(over_budget.starts_with("Does not fit: ") && over_budget.contains(&of), "{over_budget}, {of}");
    }

    #[test]
    fn a_budget_past_the_card_or_the_machine_is_not_the_line() {
        let nominal = Machine::nominal();
        let plan = |device: &str, budget| {
            let experiment = Experiment { device: device.to_owned(), budget, ..Experiment::default() };
            Plan::of(&experiment, &nominal).expect("a plan")
        };
        let (little, much) = (plan("rtx4060-8g", Bytes::gib(4)), plan("rtx4060-8g", Bytes::gib(24)));
        assert_eq!(Limit::of(&little), Limit { whose: "budget", bytes: Bytes::gib(4) });
        assert_eq!((Limit::of(&much).whose, Limit::of(&much).bytes), ("card", much.budget));
        assert!(Limit::of(&much).bytes < Bytes::gib(8) && Limit::of(&much).room(&much) < Limit::of(&much).bytes);
        let cpu = plan("cpu", Bytes::mib(64));
        assert_eq!(Limit::of(&cpu), Limit { whose: "budget", bytes: Bytes::mib(64) });
    }
}

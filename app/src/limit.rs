//! The line of a plan: its budget, or the limit of the card or the machine if that is lower.

use plimsoll_engine::{
    Bytes,
    memory::host::Line,
    plan::{Plan, Verdict},
};

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

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

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

//! The budget of each device.
//!
//! Owns the last choice for each. Always holds: a device keeps its budget while others are tried. A card's budget
//! belongs to the card, for every experiment: a card that had none gets all that a process may have of it. Only the budget of
//! the processor goes along to such a card, if anything at all can fit within it there. It belongs to the experiment.

use std::collections::BTreeMap;

use plimsoll_engine::{Bytes, Experiment, device::Target, experiment::limits::MAX_BUDGET, hardware::Machine};
use serde::{Deserialize, Serialize};

/// The CPU, by its name as a device.
const PROCESSOR: &str = "cpu";

/// Budgets, by the names of devices.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Budgets(BTreeMap<String, Bytes>);

/// Reads a size that was typed as a budget.
///
/// # Errors
/// Says why a text is no size, or names the largest budget for one that is beyond all sizes.
pub(crate) fn read(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|why| match Bytes::is_too_large(text) {
        true => format!("`{text}` is more than a budget may be: write {} or less", MAX_BUDGET.exact()),
        false => why,
    })
}

/// The same in a field, which takes a small number only with its unit: nobody means bytes.
///
/// # Errors
/// As of [`read`], and asks for the unit.
pub(crate) fn typed(text: &str) -> Result<Bytes, String> {
    if text.trim().is_empty() {
        return Err("the field was left empty; write a size, such as 512 MiB".to_owned());
    }
    let (bytes, text) = (read(text)?, text.trim());
    if has_unit(text) || bytes >= Bytes::mib(1) {
        return Ok(bytes);
    }
    if bytes == Bytes::ZERO {
        return Err(format!("`{text}` is no budget; write a size, such as 512 MiB"));
    }
    Err(format!("`{text}` has no unit: write {text} MiB or {text} GiB"))
}

/// Whether a size was written with its unit. The letter of a power of ten does not belong to one.
pub(crate) fn has_unit(text: &str) -> bool {
    text.trim_end().ends_with(char::is_alphabetic)
}

impl Budgets {
    /// The budget of an experiment that moves to `device`; the one it had is kept for the device it leaves.
    pub(crate) fn moving(&mut self, experiment: &Experiment, device: &str, machine: &Machine) -> Bytes {
        self.leaving(experiment);
        let new = || match machine.target(device) {
            Ok(Target::Gpu(card)) if experiment.device != PROCESSOR => card.usable_memory(),
            _ => at_least_something(experiment.budget, device, machine),
        };
        self.0.get(device).copied().unwrap_or_else(new)
    }

    /// Keeps the budget of an experiment for its device.
    fn leaving(&mut self, experiment: &Experiment) {
        self.0.insert(experiment.device.clone(), experiment.budget);
    }

    /// Another experiment takes the place of this one. The processor's budget belonged to this one.
    pub(crate) fn closing(&mut self, experiment: &Experiment) {
        self.leaving(experiment);
        self.0.remove(PROCESSOR);
    }
}

/// `budget`, or all that a process may have of `device` if that leaves nothing beyond the memory of driver and libraries.
fn at_least_something(budget: Bytes, device: &str, machine: &Machine) -> Bytes {
    match machine.target(device) {
        Ok(Target::Gpu(card)) if budget <= card.context + card.pool.segment => card.usable_memory(),
        _ => budget,
    }
}

/// The budget of a model's configuration that is opened on the device of `chosen`.
pub(crate) fn of_configuration(configuration: &Experiment, chosen: &Experiment, machine: &Machine) -> Bytes {
    let own = at_least_something(configuration.budget, &chosen.device, machine);
    if own == configuration.budget { own } else { chosen.budget }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(device: &str, budget: Bytes) -> Experiment {
        Experiment { device: device.to_owned(), budget, ..Experiment::default() }
    }

    #[test]
    fn each_device_keeps_its_budget_while_others_are_tried() {
        let mut budgets = Budgets::default();
        assert_eq!(budgets.moving(&on("cpu", Bytes::gib(3)), "rtx4060-8g", &Machine::nominal()), Bytes::gib(3));
        assert_eq!(budgets.moving(&on("rtx4060-8g", Bytes::gib(6)), "cpu", &Machine::nominal()), Bytes::gib(3));
        assert_eq!(budgets.moving(&on("cpu", Bytes::mib(5)), "rtx4060-8g", &Machine::nominal()), Bytes::gib(6));
        assert_eq!(budgets.moving(&on("rtx4060-8g", Bytes::gib(6)), "cpu", &Machine::nominal()), Bytes::mib(5));
    }

    #[test]
    fn another_card_is_planned_for_whole_and_not_with_the_budget_of_the_last_one() {
        let machine = Machine::nominal();
        let usable = |device| match machine.target(device) {
            Ok(Target::Gpu(card)) => card.usable_memory(),
            _ => panic!("{device} ships"),
        };
        let mut budgets = Budgets::default();
        let small = on("rtx4060-8g", Bytes::gib(7));
        assert_eq!(budgets.moving(&small, "rtx3090-24g", &machine), usable("rtx3090-24g"));
        let large = on("rtx3090-24g", Bytes::gib(20));
        assert_eq!(budgets.moving(&large, "rtx3060-12g", &machine), usable("rtx3060-12g"));
        assert_eq!(budgets.moving(&on("rtx3060-12g", Bytes::gib(9)), "rtx4060-8g", &machine), Bytes::gib(7));
    }

    #[test]
    fn the_processor_has_no_budget_of_another_experiment() {
        let (mut budgets, machine) = (Budgets::default(), Machine::nominal());
        budgets.closing(&on("cpu", Bytes::mib(4)));
        assert_eq!(budgets.moving(&on("rtx4060-8g", Bytes::gib(6)), "cpu", &machine), Bytes::gib(6));
        budgets.closing(&on("cpu", Bytes::mib(4)));
        assert_eq!(budgets.moving(&on("cpu", Bytes::mib(64)), "rtx4060-8g", &machine), Bytes::gib(6));
    }

    #[test]
    fn a_budget_that_driver_and_libraries_fill_gives_way_to_the_whole_card() {
        let Ok(Target::Gpu(card)) = Machine::nominal().target("rtx4060-8g") else { panic!("it ships") };
        assert_eq!(
            Budgets::default().moving(&on("cpu", Bytes::mib(4)), "rtx4060-8g", &Machine::nominal()),
            card.usable_memory()
        );
        let chosen = on("rtx4060-8g", Bytes::gib(2));
        assert_eq!(of_configuration(&on("cpu", Bytes::mib(4)), &chosen, &Machine::nominal()), Bytes::gib(2));
        assert_eq!(of_configuration(&on("cpu", Bytes::gib(1)), &chosen, &Machine::nominal()), Bytes::gib(1));
    }
}

//! `plimsoll bench --expected`: the time of a step as it is planned, on any card.
//!
//! Always holds: nothing runs. The time is that of the plan, so it is a bound by the card's data sheet and not a measurement.

use plimsoll_engine::{Bytes, experiment::Execution, hardware::Machine, plan::Plan};
use serde::Serialize;

use super::workloads::Workload;

/// What a workload's step is planned to take.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    pub(super) name: &'static str,
    /// The card or processor.
    on: &'a str,
    execution: &'static str,
    pub(super) predicted_ms: f64,
    /// The whole process on a card; what is alive on a processor.
    pub(super) load_bytes: u64,
    /// Whether that fits the card.
    pub(super) fits: bool,
}

/// Plans a workload.
///
/// # Errors
/// There is no such device.
pub(super) fn row<'a>(
    workload: Workload,
    on: &'a str,
    execution: Option<Execution>,
    machine: &Machine,
) -> anyhow::Result<Row<'a>> {
    // Enough steps for graphs to repeat.
    let mut experiment = workload.experiment(on, 40);
    experiment.execution = execution.unwrap_or(experiment.execution);
    let plan = Plan::of(&experiment, machine)?;
    let execution = experiment.execution.key();
    let (predicted_ms, load_bytes, fits) = (plan.step_secs * 1e3, plan.load().0, plan.fits());
    Ok(Row { name: workload.name, on, execution, predicted_ms, load_bytes, fits })
}

impl Row<'_> {
    /// Milliseconds to three figures, as the page tells them.
    pub(super) fn in_words(&self) -> String {
        let decimals = (2 - self.predicted_ms.max(f64::MIN_POSITIVE).log10().floor() as i32).max(0) as usize;
        format!("{:.decimals$}", self.predicted_ms)
    }

    /// Its cells in a table.
    pub(super) fn cells(&self) -> [String; 4] {
        let fits = if self.fits { "" } else { " (does not fit)" };
        [self.name.to_owned(), self.execution.to_owned(), self.in_words(), format!("{}{fits}", Bytes(self.load_bytes))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page with the table.
    const PAGE: &str = include_str!("../../../../engine/GPU.md");
    const CARDS: [&str; 3] = ["a100-40g", "h100-80g", "rtx4060-8g"];

    #[test]
    fn the_page_tells_what_each_step_is_planned_to_take() {
        let mut lacking = Vec::new();
        for workload in Workload::all().filter(Workload::is_large) {
            let cell = |card: &str| {
                let row = row(workload, card, None, &Machine::nominal()).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(row.execution, "fused");
                if row.fits { row.in_words() } else { format!("{}, does not fit", row.in_words()) }
            };
            let told = format!("| `{}` | {} |", workload.name, CARDS.map(cell).join(" | "));
            if !PAGE.contains(&told) {
                lacking.push(told);
            }
        }
        assert!(lacking.is_empty(), "the page lacks:\n{}", lacking.join("\n"));
    }

    #[test]
    fn milliseconds_are_told_to_three_figures() {
        let row = |predicted_ms| Row { name: "", on: "", execution: "", predicted_ms, load_bytes: 0, fits: true };
        assert_eq!([0.5, 9.876, 98.76, 1234.5].map(|ms| row(ms).in_words()), ["0.500", "9.88", "98.8", "1234"]);
    }
}

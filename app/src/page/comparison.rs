//! The page of a comparison.

use plimsoll_engine::{
    Bytes,
    experiment::Labelled,
    report::{Comparison, Subject},
};

use super::html::{Cell, Page};
use crate::{
    figure::{self, timeline::Step, tradeoff::Dot},
    format,
};

/// Tensors that are listed.
const LISTED: usize = 24;

/// The page of a comparison; `machines` has the facts of the machine of each, as pairs of a name and a value.
pub(crate) fn comparison(comparison: &Comparison, machines: &[Vec<(String, String)>]) -> String {
    let names: Vec<&str> = comparison.subjects.iter().map(|subject| &*subject.name).collect();
    let mut page = Page::new(&format!("Comparison of {}", names.join(", ")));
    let heading = |first| std::iter::once(first).chain(names.iter().copied()).collect::<Vec<&str>>();
    let row = |name: &str, cells: Vec<Cell>| std::iter::once(Cell::words(name)).chain(cells).collect::<Vec<Cell>>();
    page.heading("Settings that differ");
    let settings: Vec<Vec<Cell>> = comparison
        .settings
        .iter()
        .map(|of| row(of.key, of.values.iter().map(|value| Cell::words(value.as_deref().unwrap_or("–"))).collect()))
        .collect();
    table_or(&mut page, &heading("setting"), &settings, format::NO_SETTING);
    page.heading("At the peak");
    let bytes = |bytes: &[Option<u64>]| bytes.iter().map(|bytes| Cell::known(bytes.map(Bytes))).collect();
    let mut rows: Vec<Vec<Cell>> =
        comparison.categories.iter().map(|of| row(of.category.name(), bytes(&of.bytes))).collect();
    let of = |value: &dyn Fn(&Subject) -> Option<String>| {
        comparison.subjects.iter().map(|s| Cell::known(value(s))).collect()
    };
    rows.push(row("predicted peak", of(&|s| s.predicted().map(|bytes| bytes.to_string()))));
    rows.push(row("measured peak", of(&|s| s.measured().map(|bytes| bytes.to_string()))));
    rows.push(row("budget", of(&|s| Some(s.experiment.budget.to_string()))));
    rows.push(row("estimated time of a step", of(&format::estimate)));
    rows.push(row("measured time of a step", of(&|s| s.ran.as_ref()?.step_secs.map(format::secs))));
    rows.push(row("best test accuracy", of(&format::best_score)));
    if comparison.subjects.iter().any(|s| format::smaller(s).is_some()) {
        rows.push(row("the model in the end", of(&format::smaller)));
    }
    page.table(&heading("memory"), &rows);
    figures(&mut page, comparison);
    page.heading("Alive at one peak and not, or not as large, at another");
    let alive: Vec<Vec<Cell>> = comparison
        .alive
        .iter()
        .take(LISTED)
        .map(|of| row(&format!("{} {} ({})", of.layer, of.name, of.category.name()), bytes(&of.bytes)))
        .collect();
    table_or(&mut page, &heading("tensor"), &alive, format::nothing_alive(&comparison.subjects));
    let left = comparison.alive.len().saturating_sub(LISTED);
    if left > 0 {
        page.words(&format!("{left} smaller differences are left out."));
    }
    page.heading("Machine");
    page.table(&heading(""), &where_each(machines));
    page.finish()
}

/// A table, or a sentence where it has no row.
fn table_or(page: &mut Page, heading: &[&str], rows: &[Vec<Cell>], none: &str) {
    if rows.is_empty() { page.words(none) } else { page.table(heading, rows) }
}

/// Where each was planned or ran: a row for each name that one of them has, and a cell for each.
fn where_each(machines: &[Vec<(String, String)>]) -> Vec<Vec<Cell>> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in machines.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let value = |machine: &[(String, String)], name: &str| {
        let found = machine.iter().find(|(of, _)| of == name);
        Cell::words(found.map_or("–", |(_, value)| value.as_str()))
    };
    let row = |name: &str| {
        let cells = machines.iter().map(|machine| value(machine, name));
        std::iter::once(Cell::words(name)).chain(cells).collect()
    };
    names.into_iter().map(row).collect()
}

/// The step of each with that of the first as its outline, and memory against accuracy where they ran.
fn figures(page: &mut Page, comparison: &Comparison) {
    let first = comparison.subjects.first();
    for (i, subject) in comparison.subjects.iter().enumerate() {
        let Some(plan) = &subject.plan else { continue };
        let outline = first.filter(|_| i > 0).and_then(|first| Some((&*first.name, &**first.plan.as_ref()?)));
        page.figure(&figure::timeline::figure(Step { plan, pass: plan.peak_pass, outline, measured: &[] }));
        page.words(&format::planned_anew(plan).unwrap_or_default());
    }
    let dot = |subject: &Subject| {
        let ran = subject.ran.as_ref()?;
        let at = [subject.measured()?.as_mib(), ran.best_test_accuracy?];
        Some(Dot { number: String::new(), name: subject.name.clone(), at, is_cut_off: ran.met_its_budget })
    };
    let dots: Vec<Dot> = comparison.subjects.iter().filter_map(dot).collect();
    if !dots.is_empty() {
        let is_of_values = comparison.subjects.iter().all(|s| s.experiment.data.labelled() == Labelled::Value);
        let title = if is_of_values { "Memory against R²" } else { "Memory against accuracy" };
        page.figure(&figure::tradeoff::figure(title, &dots, budget(comparison), is_of_values));
    }
}

/// Whose budget is drawn, and how large it is in MiB.
fn budget(comparison: &Comparison) -> (&'static str, f64) {
    let mib = || comparison.subjects.iter().map(|subject| subject.experiment.budget.as_mib());
    let (least, most) = (mib().fold(f64::INFINITY, f64::min), mib().fold(0.0, f64::max));
    (if least < most { "largest budget" } else { "budget" }, most)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, hardware::Machine, plan::Plan, report::Ran};

    use super::*;

    #[test]
    fn a_page_of_two_has_their_differences_and_both_steps() {
        let subject = |name: &str, micro: usize| {
            let mut experiment = Experiment::default();
            experiment.batch.micro = micro;
            Subject::of_plan(name, Arc::new(Plan::of(&experiment, &Machine::nominal()).expect("a plan")))
        };
        let mut ran = subject("large", 128);
        ran.ran = Some(Ran { measured_bytes: Some(5 << 20), best_test_accuracy: Some(0.9), ..Ran::default() });
        let compared = Comparison::of(vec![subject("small", 8), ran]).expect("two");
        let machine = |rows: &[(&str, &str)]| {
            rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let text = super::comparison(
            &compared,
            &[machine(&[("device", "cpu")]), machine(&[("run", "20261122-1412"), ("device", "cuda:0")])],
        );
        assert!(text.contains("<td>device</td><td>cpu</td><td>cuda:0</td>"), "{text}");
        assert!(text.contains("<td>run</td><td>–</td><td>20261122-1412</td>"), "{text}");
        assert_eq!(text.matches("<svg").count(), 3);
        for said in ["batch.micro", "<td>8</td><td>128</td>", "5.00 MiB", "90.0%", "activations"] {
            assert!(text.contains(said), "{said} is missing in {text}");
        }
    }

    #[test]
    fn a_page_of_two_that_are_alike_says_so() {
        let plan = Arc::new(Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan"));
        let both = ["one", "other"].map(|name| Subject::of_plan(name, Arc::clone(&plan))).to_vec();
        let text = super::comparison(&Comparison::of(both).expect("two"), &[Vec::new(), Vec::new()]);
        for said in [format::NO_SETTING, "the same tensors are alive"] {
            assert!(text.contains(said), "{said} is missing in {text}");
        }
        assert!(!text.contains("<th>setting") && !text.contains("<th>tensor"), "{text}");
    }
}

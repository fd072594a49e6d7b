//! The page of one run or plan.

use plimsoll_engine::{
    Bytes,
    experiment::preset,
    plan::{Peak, Plan},
    report::{Subject, comparison::place},
    store::SmallerModel,
};

use super::html::{Cell, Page};
use crate::{
    figure::{self, Figure},
    format,
};

/// Live blocks at the peak that are listed.
const LISTED: usize = 16;

/// The page of a subject: `figures` draw its curves, `measured` is its measured peak, `machine` where it was planned or ran,
/// each a name and its description.
pub(crate) fn subject(
    subject: &Subject,
    measured: Option<Peak>,
    machine: &[(String, String)],
    figures: &[Figure],
) -> String {
    let experiment = &subject.experiment;
    let title = if subject.name == experiment.title || subject.name.is_empty() {
        experiment.title.clone()
    } else {
        format!("{}: {}", subject.name, experiment.title)
    };
    let mut page = Page::new(&title);
    page.words(&experiment.description);
    if let Some(plan) = &subject.plan {
        page.words(&verdict(plan));
        prediction(&mut page, plan, measured);
    }
    came_of_it(&mut page, subject);
    figures.iter().for_each(|figure| page.figure(figure));
    if let Some(plan) = &subject.plan {
        alive(&mut page, plan);
    }
    page.heading("Settings");
    page.text(&preset::to_text(experiment));
    page.heading("Machine");
    let rows: Vec<Vec<Cell>> =
        machine.iter().map(|(name, value)| vec![Cell::words(name), Cell::words(value)]).collect();
    page.table(&["", ""], &rows);
    page.finish()
}

/// Whether it fits its budget, in a sentence.
fn verdict(plan: &Plan) -> String {
    match plan.headroom() {
        Some(headroom) => {
            format!("It fits: {} at the peak, {headroom} below the budget of {}.", plan.load(), plan.budget)
        }
        None => format!(
            "It does not fit: {} at the peak, {} over the budget of {}.",
            plan.load(),
            plan.load() - plan.budget,
            plan.budget
        ),
    }
}

fn prediction(page: &mut Page, plan: &Plan, measured: Option<Peak>) {
    page.heading("Memory");
    let step = figure::timeline::Step { plan, pass: plan.peak_pass, outline: None, measured: &[] };
    page.figure(&figure::timeline::figure(step));
    page.words(&format::planned_anew(plan).unwrap_or_default());
    let of = |name: &str, predicted: Bytes, measured: Option<Bytes>| {
        let difference = measured.map(|measured| predicted.difference(measured));
        vec![Cell::words(name), Cell::figure(predicted), Cell::known(measured), Cell::known(difference)]
    };
    let process = if plan.target.is_gpu() { "process" } else { "process (predicted: an estimate)" };
    let rows = [
        of("live", plan.peak.live, measured.map(|peak| peak.live)),
        of("reserved", plan.peak.reserved, measured.map(|peak| peak.reserved)),
        of(process, plan.peak.process, measured.map(|peak| peak.process)),
    ];
    page.table(&["peak", "predicted", "measured", "predicted less measured"], &rows);
    let phases: Vec<Vec<Cell>> = plan
        .passes()
        .filter_map(|pass| {
            let timeline = plan.timeline(pass);
            let point = &timeline.points[timeline.peak_index()?];
            let at = format!("{} · {}", timeline.layer(point.layer), point.op);
            Some(vec![Cell::words(pass.name()), Cell::figure(point.live), Cell::words(at)])
        })
        .collect();
    page.table(&["phase", "predicted, alive", "where"], &phases);
    let load = plan.load().0.max(1) as f64;
    let categories: Vec<Vec<Cell>> = plan
        .counted_at_peak()
        .iter()
        .filter(|(_, bytes)| bytes.0 > 0)
        .map(|(category, bytes)| {
            let share = format!("{:.0}%", bytes.0 as f64 / load * 100.0);
            vec![Cell::words(category.name()), Cell::figure(bytes), Cell::figure(share)]
        })
        .collect();
    page.table(&["at the peak", "predicted", "share"], &categories);
    page.figure(&figure::layers::figure(plan));
}

fn came_of_it(page: &mut Page, subject: &Subject) {
    let Some(ran) = &subject.ran else { return };
    page.heading("The run");
    let score = |score| format::score_among(&subject.experiment.data, score);
    let rows = [
        ("steps", Cell::figure(format::count(ran.steps))),
        ("estimated time of a step", Cell::known(format::estimate(subject))),
        ("mean time of a step", Cell::known(ran.step_secs.map(format::secs))),
        ("training loss, last step", Cell::known(ran.train_loss.map(format::three))),
        ("test accuracy", Cell::known(ran.test_accuracy.map(score))),
        ("best test accuracy", Cell::known(ran.best_test_accuracy.map(score))),
    ];
    let smaller = ran.smaller.map(|model| {
        let SmallerModel { became, bytes, whole_bytes, accuracy, .. } = model;
        let words =
            format!("{}: {bytes} in place of {whole_bytes}, test accuracy {}", became.in_words(), score(accuracy));
        ("the model in the end", Cell::words(&words))
    });
    let rows = rows.into_iter().chain(smaller).map(|(name, cell)| vec![Cell::words(name), cell]);
    page.table(&["", ""], &rows.collect::<Vec<_>>());
}

fn alive(page: &mut Page, plan: &Plan) {
    page.heading("Alive at the peak");
    if let Some(place) = place(plan) {
        page.words(&format!(
            "In the phase {}, in {}, {}; the largest first.",
            place.pass.name(),
            place.layer,
            place.op
        ));
    }
    let rows: Vec<Vec<Cell>> = plan
        .alive_at_peak
        .iter()
        .take(LISTED)
        .map(|block| {
            let [name, layer, category] = [block.name, &block.layer, block.category.name()].map(Cell::words);
            vec![name, layer, category, Cell::figure(Bytes(block.bytes))]
        })
        .collect();
    page.table(&["tensor", "layer", "category", "memory"], &rows);
    let left = plan.alive_at_peak.len().saturating_sub(LISTED);
    if left > 0 {
        page.words(&format!("{left} smaller ones are left out."));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

    #[test]
    fn a_page_holds_its_figures_and_fetches_nothing() {
        let mut experiment = Experiment { title: "<b>Mine</b>".to_owned(), ..Experiment::default() };
        experiment.description = "One.\n\n</p><script>alert(1)</script>".to_owned();
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        let peak = plan.peak;
        let machine = [("device".to_owned(), "cpu".to_owned())];
        let text = super::subject(&Subject::of_plan("mine", Arc::new(plan)), Some(peak), &machine, &[]);
        assert!(text.contains("&lt;b&gt;Mine") && !text.contains("<script") && !text.contains("<b>"), "{text}");
        assert_eq!(text.matches("<svg").count(), 2);
        // The name of the format is the one address in it.
        assert_eq!(text.matches("http").count(), text.matches("http://www.w3.org/2000/svg").count());
        assert!(!text.contains("src=") && !text.contains("href=") && !text.contains("@import"));
        for said in ["It fits", "optimizer state", "first step", "batch", "±0 B", "[model]", "Alive at the peak"] {
            assert!(text.contains(said), "{said} is missing");
        }
        for tag in ["table", "tr", "td", "figure", "svg", "h2", "p"] {
            let opened = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}

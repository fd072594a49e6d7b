//! Runs and plans on the same axes: the memory of one step of each, and their curves.

use plimsoll_engine::report::{
    Subject,
    curves::{Curves, names},
};

use super::{
    Figure,
    chart::{self, Chart, Curve, Over},
    curves::Look,
    svg::palette,
};
use crate::{
    format,
    panels::timeline::shape::columns,
    widgets::{axes::Round, series::Smoothed},
};

/// Columns of a chart in print: finer ones are not seen.
const COLUMNS: usize = 900;

/// The colour of one that is compared, as in the window.
fn color(index: usize) -> eframe::egui::Color32 {
    let colors = &palette().compared;
    colors[index % colors.len()]
}

fn chart(title: &str, curves: Vec<Curve>, over: Over) -> Chart {
    Chart {
        title: title.to_owned(),
        curves,
        rules: Vec::new(),
        over,
        is_log: false,
        round: Round::Decimal,
        words: format::plain,
        from_zero: true,
    }
}

/// One step of each, the pass with its peak, and their budgets.
pub(crate) fn steps(subjects: &[Subject]) -> Figure {
    let planned = subjects.iter().enumerate().filter_map(|(i, subject)| Some((i, subject, subject.plan.as_ref()?)));
    let curves = planned.map(|(i, subject, plan)| {
        let points = &plan.timeline(plan.peak_pass).points;
        let ends = columns(points, 0, points.len(), COLUMNS).into_iter().flat_map(|column| {
            let mib = points[column.highest].live.as_mib();
            [[column.from as f64, mib], [column.to as f64, mib]]
        });
        let name = subject.name.clone();
        Curve { name, color: color(i), points: ends.collect(), is_faint: false, is_marked: false }
    });
    let mut chart =
        Chart { round: Round::Binary, words: format::mib, ..chart("Memory of one step", curves.collect(), Over::Ops) };
    let highest = chart.curves.iter().flat_map(|curve| &curve.points).fold(0.0f64, |high, point| high.max(point[1]));
    let mut budgets: Vec<_> = subjects.iter().map(|subject| subject.experiment.budget).collect();
    budgets.sort();
    budgets.dedup();
    // A budget far above would leave no room for the steps.
    budgets.retain(|budget| budget.as_mib() <= highest * 2.0);
    let rule = |budget: plimsoll_engine::Bytes| {
        (format!("budget {}", format::size(budget)), palette().budget, budget.as_mib())
    };
    chart.rules = budgets.into_iter().map(rule).collect();
    chart::figure("Comparison", &[chart], 1)
}

/// Loss and accuracy of those that ran, each by its name.
pub(crate) fn curves(runs: &[(&str, Option<&Curves>)], look: Look) -> Figure {
    let over = if look.in_steps { Over::Steps } else { Over::Seconds };
    let loss = chart("Training loss", drawn(runs, names::TRAIN_LOSS, look), over);
    let accuracy = chart("Test accuracy", drawn(runs, names::TEST_ACCURACY, look), over);
    let percent = |y: f64| if y > 1.0 { String::new() } else { format!("{}%", format::plain(y * 100.0)) };
    let charts = [Chart { is_log: look.log_loss, ..loss }, Chart { words: percent, ..accuracy }];
    chart::figure("Comparison", &charts, 1)
}

/// One curve of each run that has it.
fn drawn(runs: &[(&str, Option<&Curves>)], name: &str, look: Look) -> Vec<Curve> {
    let of = |(i, (called, curves)): (usize, &(&str, Option<&Curves>))| {
        let (group, curve) = curves.as_ref()?.iter().find(|(_, curve)| curve.name == name)?;
        let xs: Vec<f64> = match look.in_steps {
            true => group.steps.iter().map(|step| *step as f64).collect(),
            false => group.secs.clone(),
        };
        let is_marked = name.starts_with(names::TEST);
        let mut series = Smoothed::default();
        curve.values.iter().for_each(|value| series.push(*value as f32));
        series.set_strength(if is_marked { 0.0 } else { look.smoothing });
        let points = series.smooth().curve(&xs, f64::NEG_INFINITY, f64::INFINITY, COLUMNS);
        Some(Curve { name: (*called).to_owned(), color: color(i), points, is_faint: false, is_marked })
    };
    runs.iter().enumerate().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{
        Experiment,
        hardware::Machine,
        plan::Plan,
        report::curves::{Curve as Kept, Group},
    };

    use super::*;

    #[test]
    fn each_has_a_curve_of_its_own_under_its_name() {
        let subject = |name: &str, micro: usize| {
            let mut experiment = Experiment { budget: plimsoll_engine::Bytes::mib(4), ..Experiment::default() };
            experiment.batch.micro = micro;
            Subject::of_plan(name, Arc::new(Plan::of(&experiment, &Machine::nominal()).expect("a plan")))
        };
        let svg = steps(&[subject("small", 8), subject("large", 512)]).svg();
        for said in ["small", "large", "budget 4 MiB", "op"] {
            assert!(svg.contains(&format!(">{said}<")), "{said} in {svg}");
        }
        let kept = Kept::named(names::TRAIN_LOSS, vec![1.0, 0.5]);
        let group = Group { steps: vec![1, 2], secs: vec![0.1, 0.2], curves: vec![kept] };
        let ran = Curves { groups: vec![group], began_secs: None };
        let svg = curves(&[("ran", Some(&ran)), ("planned", None)], Look::default()).svg();
        assert!(svg.contains(">ran<") && !svg.contains(">planned<"), "{svg}");
    }
}

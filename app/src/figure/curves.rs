//! The curves of a run as charts: loss, accuracy, memory, throughput; gradient norm, learning rate.

use eframe::egui::Color32;
use plimsoll_engine::{
    Bytes,
    memory::Category,
    report::curves::{Curves, names},
};

use super::{
    Figure,
    chart::{self, Chart, Curve, Over},
    svg::palette,
};
use crate::{
    format,
    widgets::{
        axes::Round,
        series::{Series, Smoothed},
    },
};

/// Columns of a chart in print: finer ones are not seen.
const COLUMNS: usize = 600;

/// A run whose curves are drawn.
#[derive(Debug, Clone)]
pub(crate) struct Run<'a> {
    pub(crate) title: String,
    pub(crate) curves: &'a Curves,
    /// The predicted bytes that the budget counts; `None` if they are not known any more.
    pub(crate) predicted: Option<Bytes>,
    pub(crate) budget: Bytes,
    /// The unit that the accuracy is a share of.
    pub(crate) accuracy: &'a str,
    /// The norm at which gradients are clipped; zero where they are not.
    pub(crate) clip_norm: f64,
    pub(crate) look: Look,
}

/// How curves are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Look {
    /// Share of the past in the smoothed curves.
    pub(crate) smoothing: f32,
    /// Over steps, or over seconds.
    pub(crate) in_steps: bool,
    /// The loss on a logarithmic axis.
    pub(crate) log_loss: bool,
    /// The gradient norm on a logarithmic axis.
    pub(crate) log_norm: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self { smoothing: 0.0, in_steps: true, log_loss: false, log_norm: true }
    }
}

/// Loss, accuracy, memory and, where it was measured, throughput.
pub(crate) fn live(run: &Run<'_>) -> Figure {
    chart::figure(&run.title, &[loss(run), accuracy(run), memory(run), throughput(run)], 2)
}

/// Gradient norm and learning rate, one above the other.
pub(crate) fn gradients(run: &Run<'_>) -> Figure {
    let palette = palette();
    let norm_color = palette.category(Category::Gradients);
    let clip = (run.clip_norm > 0.0).then(|| ("clipped at".to_owned(), palette.budget, run.clip_norm));
    let norm = Chart {
        rules: clip.into_iter().collect(),
        is_log: run.look.log_norm,
        ..run.chart("Gradient norm", &[("gradient norm", names::GRADIENT_NORM, norm_color, true)])
    };
    let rate_color = palette.category(Category::OptimizerState);
    let rate = run.chart("Learning rate", &[("learning rate", names::LEARNING_RATE, rate_color, false)]);
    chart::figure(&run.title, &[norm, rate], 1)
}

fn loss(run: &Run<'_>) -> Chart {
    let palette = palette();
    let curves = [("train", names::TRAIN_LOSS, palette.train, true), ("test", names::TEST_LOSS, palette.test, false)];
    Chart { is_log: run.look.log_loss, ..run.chart("Loss", &curves) }
}

fn accuracy(run: &Run<'_>) -> Chart {
    let palette = palette();
    let curves =
        [("train", names::TRAIN_ACCURACY, palette.train, true), ("test", names::TEST_ACCURACY, palette.test, false)];
    Chart { words: format::tick_score(run.accuracy == format::R2), ..run.chart(run.accuracy, &curves) }
}

fn memory(run: &Run<'_>) -> Chart {
    let palette = palette();
    let curves =
        [("live", names::LIVE, palette.measured, false), ("reserved", names::RESERVED, palette.reserved, false)];
    let mut chart = run.chart("Measured memory", &curves);
    for curve in &mut chart.curves {
        curve.points.iter_mut().for_each(|point| point[1] = Bytes(point[1].max(0.0) as u64).as_mib());
    }
    let predicted = run.predicted.map(|bytes| ("predicted".to_owned(), palette.predicted, bytes.as_mib()));
    let budget = ("budget".to_owned(), palette.budget, run.budget.as_mib());
    Chart { rules: predicted.into_iter().chain([budget]).collect(), round: Round::Binary, words: format::mib, ..chart }
}

fn throughput(run: &Run<'_>) -> Chart {
    let words = |value: f64| format::count(value.max(0.0).round() as u64);
    let curve = ("samples or tokens a second", names::THROUGHPUT, palette().throughput, true);
    Chart { words, ..run.chart("Throughput", &[curve]) }
}

impl Run<'_> {
    /// A chart of some curves: the label of each, its name among the run's, its colour, and whether it is smoothed.
    fn chart(&self, title: &str, curves: &[(&str, &str, Color32, bool)]) -> Chart {
        let drawn = curves.iter().flat_map(|(called, name, color, is_smoothed)| {
            self.curve(called, name, *color, if *is_smoothed { self.look.smoothing } else { 0.0 })
        });
        Chart {
            title: title.to_owned(),
            curves: drawn.collect(),
            rules: Vec::new(),
            over: if self.look.in_steps { Over::Steps } else { Over::Seconds },
            is_log: false,
            round: Round::Decimal,
            words: format::plain,
            from_zero: true,
        }
    }

    /// A curve of the run: as measured, and smoothed over it.
    fn curve(&self, called: &str, name: &str, color: Color32, smoothing: f32) -> Vec<Curve> {
        let Some((group, curve)) = self.curves.iter().find(|(_, curve)| curve.name == name) else { return Vec::new() };
        let xs: Vec<f64> =
            if self.look.in_steps { group.steps.iter().map(|step| *step as f64).collect() } else { group.secs.clone() };
        let mut series = Smoothed::default();
        curve.values.iter().for_each(|value| series.push(*value as f32));
        series.set_strength(smoothing);
        let is_marked = name.starts_with(names::TEST);
        let drawn = |series: &Series, is_faint| Curve {
            name: called.to_owned(),
            color,
            points: series.curve(&xs, f64::NEG_INFINITY, f64::INFINITY, COLUMNS),
            is_faint,
            is_marked,
        };
        let faint = (smoothing > 0.0).then(|| drawn(series.raw(), true));
        faint.into_iter().chain([drawn(series.smooth(), false)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::report::curves;

    use super::*;

    fn curves() -> Curves {
        let curve =
            |name: &str, values: Vec<f64>| curves::Curve { name: name.to_owned(), values, ..Default::default() };
        let train = curves::Group {
            steps: (1..=100).collect(),
            secs: (1..=100).map(f64::from).collect(),
            curves: vec![
                curve(names::TRAIN_LOSS, (1..=100).map(|i| 1.0 / f64::from(i)).collect()),
                curve(names::LIVE, vec![1e6; 100]),
                curve(names::GRADIENT_NORM, vec![0.5; 100]),
            ],
        };
        let test =
            curves::Group { steps: vec![50], secs: vec![50.0], curves: vec![curve(names::TEST_LOSS, vec![0.3])] };
        Curves { groups: vec![train, test], began_secs: None }
    }

    #[test]
    fn a_runs_curves_are_drawn_and_what_it_lacks_is_not() {
        let curves = curves();
        let run = Run {
            title: "Run 1".to_owned(),
            curves: &curves,
            predicted: Some(Bytes::mib(2)),
            budget: Bytes::mib(8),
            accuracy: "Accuracy",
            clip_norm: 1.0,
            look: Look { smoothing: 0.9, ..Look::default() },
        };
        let svg = live(&run).svg();
        assert_eq!(svg.matches(">train<").count(), 1, "the accuracy was not kept");
        assert_eq!(svg.matches(">test<").count(), 1);
        assert!(svg.contains("predicted") && svg.contains("<circle"));
        // Smoothed over measured, the test, live memory, and the rules.
        assert_eq!(run.curve("train", names::TRAIN_LOSS, palette().train, 0.9).len(), 2);
        assert!(gradients(&run).svg().contains("clipped at"));
        let in_secs = Run { look: Look { in_steps: false, ..Look::default() }, ..run };
        assert!(live(&in_secs).svg().contains(">time<"));
    }
}

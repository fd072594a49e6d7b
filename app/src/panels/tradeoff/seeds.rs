//! Runs that differ only by their seed: their mean, and their spread around it.

use std::collections::BTreeMap;

use eframe::egui::Color32;
use egui_plot::{Line, MarkerShape, PlotPoints, PlotUi, Points};
use plimsoll_engine::{store::RunState, train::Outcome};

use super::Dot;
use crate::{format, session::Status, theme::Palette};

/// Runs of several seeds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seeds {
    /// How many.
    count: usize,
    /// Mean peak in MiB, mean accuracy.
    pub(super) mean: [f64; 2],
    /// Standard deviation of both, of a sample.
    spread: [f64; 2],
}

impl Seeds {
    fn of(points: &[[f64; 2]]) -> Self {
        let count = points.len();
        let mean = [0, 1].map(|axis| points.iter().map(|point| point[axis]).sum::<f64>() / count as f64);
        let square = |axis: usize| points.iter().map(|point| (point[axis] - mean[axis]).powi(2)).sum::<f64>();
        let spread = [0, 1].map(|axis| (square(axis) / (count as f64 - 1.0)).sqrt());
        Self { count, mean, spread }
    }

    /// `3 seeds: 97.1% ± 0.4%`.
    pub(super) fn words(&self) -> String {
        format!("{} seeds: {} ± {}", self.count, format::share(self.mean[1]), format::share(self.spread[1]))
    }

    /// Draws the mean with its spread, as a cross with arms.
    pub(super) fn draw(&self, plot: &mut PlotUi<'_>, palette: &Palette) {
        let color: Color32 = palette.strong();
        let ([x, y], [dx, dy]) = (self.mean, self.spread);
        for (from, to) in [([x - dx, y], [x + dx, y]), ([x, y - dy], [x, y + dy])] {
            let arm = Line::new("spread", PlotPoints::from(vec![from, to])).color(color).width(1.4);
            plot.line(arm.allow_hover(false).allow_band(false));
        }
        let mean = Points::new(self.words(), PlotPoints::from(vec![[x, y]])).shape(MarkerShape::Diamond);
        plot.points(mean.radius(4.0).color(color));
    }
}

/// The meaning of the mark.
pub(super) const MEANING: &str = "The mean of finished runs that differ only by their seed; the arms are one standard \
                                  deviation of their memory and of their accuracy.";

/// The groups of finished runs that differ only by their seed, if there are several seeds in one. A run that was only
/// repeated counts once.
pub(super) fn groups(dots: &[Dot<'_>]) -> Vec<Seeds> {
    let mut groups: BTreeMap<u64, BTreeMap<u64, [f64; 2]>> = BTreeMap::new();
    // The result of a stopped run does not show the effect of its seed.
    for dot in dots.iter().filter(|dot| dot.in_focus && is_finished(&dot.run.status)) {
        groups.entry(dot.run.kin).or_default().insert(dot.run.experiment().run.seed, dot.at);
    }
    let several = groups.into_values().filter(|of_seeds| of_seeds.len() > 1);
    several.map(|of_seeds| Seeds::of(&of_seeds.into_values().collect::<Vec<_>>())).collect()
}

fn is_finished(status: &Status) -> bool {
    matches!(status, Status::Ended(Outcome::Finished) | Status::Kept(RunState::Finished))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, hardware::Machine, plan::Plan, train::Event};

    use super::*;
    use crate::session::Session;

    #[test]
    fn only_finished_runs_count() {
        let mut session = Session::default();
        let outcomes = [Outcome::Finished, Outcome::Stopped, Outcome::Finished];
        for (run, outcome) in (1..).zip(outcomes) {
            let mut experiment = Experiment::default();
            experiment.run.seed = run;
            let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
            session.receive(&Event::Started { run, plan: Arc::new(plan) });
            session.receive(&Event::Ended { run, outcome, summary: Box::default() });
        }
        let dot = |run| Dot { run, at: [1.0, 0.5], is_best: false, is_cut_off: false, in_focus: true };
        let dots: Vec<Dot<'_>> = session.runs().iter().map(dot).collect();
        let counts = |dots: &[Dot<'_>]| groups(dots).iter().map(|seeds| seeds.count).collect::<Vec<_>>();
        assert_eq!(counts(&dots), [2]);
        assert!(counts(&dots[..2]).is_empty(), "one alone has no spread");
        let again: Vec<Dot<'_>> = [0, 0].map(|run| dot(&session.runs()[run])).into();
        assert!(counts(&again).is_empty(), "a repeated run does not count as another seed");
    }

    #[test]
    fn seeds_have_a_mean_and_the_deviation_of_a_sample() {
        let seeds = Seeds::of(&[[4.0, 0.90], [4.0, 0.94], [4.0, 0.92]]);
        assert_eq!((seeds.count, seeds.mean[0], seeds.spread[0]), (3, 4.0, 0.0));
        assert!((seeds.mean[1] - 0.92).abs() < 1e-12 && (seeds.spread[1] - 0.02).abs() < 1e-12, "{seeds:?}");
        assert_eq!(seeds.words(), "3 seeds: 92.0% ± 2.0%");
    }
}

//! The form of a run's model in the end: as integers, without its zeros or channels, or factored. Its point is joined to
//! that of its run.
//!
//! Always holds: a run's point shows the peak of its training, and the joined one the bytes of the weights alone, so the
//! joined one is not part of a frontier.

use eframe::egui::{Rect, Ui, Vec2};
use egui_plot::{Line, LineStyle, PlotPoints, PlotUi, Points};
use plimsoll_engine::store::{Became, SmallerModel};

use super::{Dot, MARKERS, place};
use crate::{
    format,
    session::RunRecord,
    theme::{self, Palette},
};

/// A model as it is kept, with the run that trained it.
#[derive(Clone, Copy)]
pub(super) struct Smaller<'a> {
    run: &'a RunRecord,
    /// Where the point of the run is.
    from: [f64; 2],
    /// Bytes of its weights in MiB, and accuracy.
    pub(super) at: [f64; 2],
    model: SmallerModel,
}

/// The form of a model in a word or two, for a point.
fn short(became: Became) -> &'static str {
    match became {
        Became::Integers | Became::Weights8 => "8 bits",
        Became::Weights4 => "4 bits",
        Became::Pruned => "pruned",
        Became::Factored => "low rank",
    }
}

/// The smaller models of the runs in focus.
pub(super) fn of<'a>(dots: &[Dot<'a>]) -> Vec<Smaller<'a>> {
    let one = |dot: &Dot<'a>| {
        let model = dot.run.smaller?;
        let at = [model.bytes.as_mib(), model.accuracy];
        Some(Smaller { run: dot.run, from: dot.at, at, model })
    };
    dots.iter().filter(|dot| dot.in_focus).filter_map(one).collect()
}

impl Smaller<'_> {
    /// The line that joins it to its run.
    pub(super) fn joined(&self) -> [[f64; 2]; 2] {
        [self.from, self.at]
    }

    /// The words at its point.
    pub(super) fn name(&self) -> String {
        format!("{}: {}", self.run.short_label(), short(self.model.became))
    }

    /// The room that it takes around `center`.
    pub(super) fn around(center: eframe::egui::Pos2) -> Rect {
        Rect::from_center_size(center, Vec2::splat(theme::POINT_RADIUS * 2.0))
    }

    /// Draws it, hollow, and the line to its run.
    pub(super) fn draw(&self, plot: &mut PlotUi<'_>, palette: &Palette) {
        let line = Line::new("joined", PlotPoints::from(self.joined().to_vec())).style(LineStyle::dotted_dense());
        plot.line(line.color(palette.weak()).width(1.2).allow_hover(false).allow_band(false));
        let (shape, _) = MARKERS[place(self.run.experiment().model.kind) % MARKERS.len()];
        let point = Points::new(self.name(), PlotPoints::from(vec![self.at])).shape(shape).filled(false);
        plot.points(point.radius(theme::POINT_RADIUS).color(palette.process));
    }

    /// The words when the pointer is on it.
    pub(super) fn about(&self, ui: &mut Ui) {
        ui.strong(format!("{}, {}", self.run.name(), self.model.became.in_words()));
        self.lines().into_iter().for_each(|line| drop(ui.label(line)));
    }

    fn lines(&self) -> [String; 3] {
        let data = &self.run.experiment().data;
        let SmallerModel { bytes, whole_bytes: whole, accuracy, trained_accuracy, .. } = self.model;
        let [after, before] = [accuracy, trained_accuracy].map(|score| format::score(data, score));
        [
            format!("{} {after} on test data, as trained {before}", format::measure(data)),
            format!("its weights take {bytes}, in place of {whole}"),
            format!("training it took {} at the peak: the point at the other end of the line", self.run.peak_load),
        ]
    }
}

/// The meaning of the mark.
pub(super) const MEANING: &str = "Only the weights of a trained model, as integers, pruned or of low rank, with the accuracy of \
                                  that model. A line joins the point to its run, whose point is the memory of the training.";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{
        Experiment,
        hardware::Machine,
        plan::Plan,
        train::{Command, Event, Start, Trainer},
    };

    use super::*;
    use crate::session::Session;

    fn trained(change: impl FnOnce(&mut Experiment)) -> Session {
        let mut experiment = Experiment::default();
        (experiment.run.steps, experiment.run.epochs) = (Some(2), None);
        change(&mut experiment);
        let mut session = Session::default();
        let trainer = Trainer::new(|| {});
        trainer.send(Command::Start(Box::new(Start::new(experiment))));
        for event in trainer.events() {
            session.receive(&event);
            if matches!(event, Event::Ended { .. }) {
                break;
            }
        }
        session
    }

    fn seen(session: &Session) -> Option<([f64; 2], String, [String; 3])> {
        let run = session.runs().first().expect("a run");
        let dot = Dot { run, at: run.point().expect("tested"), is_best: true, is_cut_off: false, in_focus: true };
        let smaller = of(&[dot]);
        smaller.first().map(|smaller| (smaller.at, smaller.name(), smaller.lines()))
    }

    #[test]
    fn a_model_that_became_smaller_is_joined_to_its_run_and_another_is_not() {
        use plimsoll_engine::experiment::{PruneKind, QuantiseKind};
        assert!(seen(&trained(|_| ())).is_none());
        let session = trained(|e| e.quantise.kind = QuantiseKind::After);
        let (at, name, lines) = seen(&session).expect("a point");
        let summary = session.runs()[0].summary.expect("it ended");
        let integers = summary.compressed.expect("integers");
        assert_eq!(at, [integers.bytes.as_mib(), integers.test_accuracy]);
        assert!(name.ends_with(": 8 bits") && lines[1].contains(&integers.bytes.to_string()), "{name} {lines:?}");
        assert!(lines[0].contains("as trained") && at[0] < session.runs()[0].point().expect("tested")[0]);
        let (_, name, _) = seen(&trained(|e| e.prune.kind = PruneKind::Magnitude)).expect("a point");
        assert!(name.ends_with(": pruned"), "{name}");
        let (_, name, _) = seen(&trained(|e| e.low_rank.rank = 4)).expect("a point");
        assert!(name.ends_with(": low rank"), "{name}");
        // A run of other data has none.
        let plan = Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan");
        let mut other = Session::default();
        other.receive(&Event::Started { run: 1, plan: Arc::new(plan) });
        assert!(
            of(&[Dot { run: &other.runs()[0], at: [1.0, 0.5], is_best: false, is_cut_off: false, in_focus: true }])
                .is_empty()
        );
    }
}

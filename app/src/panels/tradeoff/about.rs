//! The words about a run when the pointer is on its point.

use eframe::egui::{Rect, RectAlign, Response, RichText, Tooltip, Ui};
use plimsoll_engine::experiment::Model;

use super::{
    super::{experiment::model_words, family},
    keys,
};
use crate::{
    format,
    session::{RunKey, RunRecord},
    widgets::tip::{self, Speaks},
};

/// A tooltip next to the pointer and upwards, because the field of the run's name is below the picture; or beside it. It
/// covers none of the name that is `named` there.
pub(super) fn tip(picture: &Response, speaks: Speaks, named: Option<Rect>) -> Tooltip<'_> {
    let mut tip = tip::speaking(picture, speaks);
    if let Speaks::Beside = speaks {
        return tip;
    }
    if let Speaks::At(at) = speaks
        && let Some(name) = named
    {
        tip.popup = tip.popup.anchor(name.union(Rect::from_pos(at)));
    }
    tip.popup = tip.popup.align(RectAlign::RIGHT_END).align_alternatives(&[
        RectAlign::LEFT_END,
        RectAlign::TOP_START,
        RectAlign::TOP_END,
    ]);
    tip
}

/// The facts of the runs at one place, briefly where there are several.
pub(super) fn runs(ui: &mut Ui, runs: &[&RunRecord], shown: Option<RunKey>) {
    if let [one] = runs {
        return run(ui, one);
    }
    ui.label(format!("{} here", format::counted(runs.len() as u64, "run")));
    for run in runs {
        let name = keys::name(run);
        if Some(run.key) == shown {
            ui.strong(name)
        } else {
            ui.label(name)
        };
    }
    ui.label(RichText::new("Each click looks at the next of them. By keys: the arrows.").weak().small());
}

/// The facts of a run.
fn run(ui: &mut Ui, run: &RunRecord) {
    let experiment = run.experiment();
    ui.strong(run.name());
    if !experiment.title.is_empty() {
        ui.label(&experiment.title);
    }
    ui.label(RichText::new(run.status.name()).weak());
    let accuracy = run.best_accuracy.map_or_else(|| "–".to_owned(), |best| format::score(&experiment.data, best));
    ui.label(format!("best {} {accuracy}, on test data", format::measure(&experiment.data)));
    ui.label(format!("measured peak {}, predicted {}", run.peak_load, run.predicted));
    let batch = &experiment.batch;
    let accumulated = if batch.accumulation > 1 { format!(" x {}", batch.accumulation) } else { String::new() };
    ui.label(format!(
        "micro-batch {}{accumulated}, {}, checkpointing {}",
        batch.micro,
        experiment.precision.key(),
        experiment.checkpointing
    ));
    ui.label(model_of(&experiment.model));
    ui.label(
        RichText::new(
            "Click to look at it: its curves and its settings. By keys: the arrows, Enter to load its settings.",
        )
        .weak()
        .small(),
    );
}

/// The sizes that distinguish two models of a family, such as `ViT, patch 4, width 64, blocks 2, 4 heads`.
fn model_of(model: &Model) -> String {
    let sizes = model.kind.traits().settings.iter().filter_map(|setting| model_words(*setting, model));
    std::iter::once(family(model.kind).to_owned()).chain(sizes).collect::<Vec<_>>().join(", ")
}

//! What a point shows of its run on hover.

use eframe::egui::{RichText, Ui};
use plimsoll_engine::experiment::{ActivationKind, Model, ModelSetting};

use crate::{
    format,
    session::{RunRecord, Session},
};

/// What a run was.
pub(super) fn run(ui: &mut Ui, session: &Session, run: &RunRecord) {
    let experiment = run.experiment();
    ui.strong(session.name(run));
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

/// The sizes that distinguish two models of a family, such as `vit, patch 4, width 64, depth 2, 4 heads`.
fn model_of(model: &Model) -> String {
    let size = |setting: &ModelSetting| match setting {
        ModelSetting::Width(_) => Some(format!("width {}", model.width)),
        ModelSetting::Depth(_) => Some(format!("depth {}", model.depth)),
        ModelSetting::Layers => Some(format!("{} layers", model.layers)),
        ModelSetting::Multiplier => Some(format!("multiplier {}", model.multiplier)),
        ModelSetting::Patch => Some(format!("patch {}", model.patch)),
        ModelSetting::Heads => Some(format!("{} heads", model.heads)),
        ModelSetting::Activation => {
            (model.activation != ActivationKind::Relu).then(|| model.activation.key().to_owned())
        }
        ModelSetting::Kernel
        | ModelSetting::Dense
        | ModelSetting::Stem
        | ModelSetting::KvHeads
        | ModelSetting::HeadDim
        | ModelSetting::QkNorm
        | ModelSetting::Hidden
        | ModelSetting::Tied
        | ModelSetting::QkvBias
        | ModelSetting::Dropout
        | ModelSetting::Attention
        | ModelSetting::Window
        | ModelSetting::NormEpsilon
        | ModelSetting::RotaryBase => None,
    };
    let sizes = model.kind.traits().settings.iter().filter_map(size);
    std::iter::once(model.kind.key().to_owned()).chain(sizes).collect::<Vec<_>>().join(", ")
}

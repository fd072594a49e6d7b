//! The groups of the optimizer and of the run's length.

use eframe::egui::Ui;
use plimsoll_engine::experiment::{EvaluationBatch, Hyperparameter};

use super::{PanelContext, controls, fact};
use crate::{
    format,
    widgets::control::{Form, Spec},
};

/// What few change.
pub(super) const REST: [Spec; 5] =
    [controls::UPDATE.0, controls::SCHEDULE.0, controls::WARMUP.0, controls::WEIGHT_DECAY.0, controls::CLIP.0];

/// Draws the optimizer.
pub(super) fn ui(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::OPTIMIZER.0, &controls::OPTIMIZER.1);
    form.number(ui, controls::LEARNING_RATE.0, controls::LEARNING_RATE.1);
}

/// Draws what few change of it.
pub(super) fn rest(ui: &mut Ui, form: &Form<'_>) {
    form.choice(ui, controls::UPDATE.0, &controls::UPDATE.1);
    form.choice(ui, controls::SCHEDULE.0, &controls::SCHEDULE.1);
    let of_the_rule = form.experiment().optimizer.kind.hyperparameters().iter().map(|constant| match constant {
        Hyperparameter::Momentum => controls::MOMENTUM,
        Hyperparameter::Beta1 => controls::BETA1,
        Hyperparameter::Beta2 => controls::BETA2,
        Hyperparameter::Epsilon => controls::EPSILON,
    });
    let of_all = [controls::WARMUP, controls::WEIGHT_DECAY, controls::CLIP];
    for (spec, number) in of_all.into_iter().chain(of_the_rule) {
        form.number(ui, spec, number);
    }
}

/// Draws the run.
pub(super) fn run(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    form.choice(ui, controls::LENGTH.0, &controls::LENGTH.1);
    let (spec, number) = if form.experiment().run.steps.is_some() { controls::STEPS } else { controls::EPOCHS };
    form.number(ui, spec, number);
    // Always there, of the experiment before until the next plan is made: no row below moves while a number is edited.
    let plan = context.state.newest_plan().filter(|_| context.state.prediction.obstacle.is_none());
    let [steps, an_epoch] = plan.map_or(["–".to_owned(), "–".to_owned()], |plan| {
        [plan.total_steps, plan.steps_per_epoch].map(format::count)
    });
    fact(ui, &format!("{steps} steps, {an_epoch} an epoch"));
    form.number(ui, controls::EVALUATE.0, controls::EVALUATE.1);
    form.choice(ui, controls::EVALUATION_BATCH.0, &controls::EVALUATION_BATCH.1);
    if let EvaluationBatch::Samples(_) = form.experiment().batch.evaluation {
        form.number(ui, controls::EVALUATION_SAMPLES.0, controls::EVALUATION_SAMPLES.1);
    }
    form.number(ui, controls::SEED.0, controls::SEED.1);
    for (spec, number) in [controls::SAVE_EVERY, controls::SAVE_MINUTES] {
        form.number(ui, spec, number);
    }
    form.choice(ui, controls::SAVE_BEST.0, &controls::SAVE_BEST.1);
    if form.experiment().is_on_cpu() {
        form.number(ui, controls::THREADS.0, controls::THREADS.1);
    }
}

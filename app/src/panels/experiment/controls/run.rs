//! The controls of a run: its length, its tests and their batch, its checkpoints and its seed.

use plimsoll_engine::experiment::EvaluationBatch;

use super::{Numeric, Row, length};
use crate::widgets::control::{Choice, Number, Place, Spec};

/// The unit of the length of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::panels::experiment) enum Length {
    /// Optimizer steps.
    Steps,
    /// Passes over the training data.
    Epochs,
}

/// Epochs when a preset names neither steps nor epochs.
pub(in crate::panels::experiment) const DEFAULT_EPOCHS: u64 = 10;

pub(in crate::panels::experiment) const LENGTH: (Spec, Choice<Length>) = (
    Spec {
        key: "run.length",
        name: "Length in",
        help: "An epoch is one pass over the training data; a step is one update. Neither changes the memory; both set how long \
                the run takes.",
    },
    Choice {
        options: &[(Length::Steps, "steps"), (Length::Epochs, "epochs")],
        place: Place::Own {
            get: |e| if e.run.steps.is_some() { Length::Steps } else { Length::Epochs },
            set: |e, v| match v {
                Length::Steps => (e.run.steps, e.run.epochs) = (Some(500), None),
                Length::Epochs => (e.run.steps, e.run.epochs) = (None, Some(DEFAULT_EPOCHS)),
            },
        },
    },
);

pub(in crate::panels::experiment) const STEPS: Numeric = (
    Spec {
        key: "run.steps",
        name: "Steps",
        help: "Updates of the whole run. Memory is the same from the second step on; time grows in proportion.",
    },
    Number {
        stops: &[10., 50., 100., 200., 500., 1000., 2000., 5000., 10_000., 50_000., 100_000.],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const EPOCHS: Numeric = (
    Spec {
        key: "run.epochs",
        name: "Epochs",
        help: "Passes over the training data. Memory is the same from the second step on; time grows in proportion.",
    },
    Number {
        stops: &[1., 2., 3., 5., 8., 10., 15., 20., 30., 50., 100., 200.],
        zero: None,
        place: Place::Own {
            get: |e| e.run.epochs.unwrap_or(DEFAULT_EPOCHS) as f64,
            set: |e, v| e.run.epochs = Some(v as u64),
        },
    },
);

pub(in crate::panels::experiment) const EVALUATE: Numeric = (
    Spec {
        key: "run.evaluate_every",
        name: "Evaluate every",
        help: "Steps between two tests on held-out data. A test is one forward pass after another, and takes the time of \
                the test data; the evaluation batch decides its memory.",
    },
    Number { stops: &[0., 10., 20., 50., 100., 200., 500., 1000.], zero: Some("epoch"), place: Place::Setting },
);

pub(in crate::panels::experiment) const THREADS: Numeric = (
    Spec {
        key: "run.threads",
        name: "Threads",
        help: "Threads of the processor that kernels run on. Each has scratch of its own, so fewer take less of it; and a step takes \
                longer. The losses are the same to the last bit.",
    },
    Number { stops: &[0., 1., 2., 3., 4., 6., 8., 12., 16., 32., 64.], zero: Some("all"), place: Place::Setting },
);

/// The evaluation batch, without its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::panels::experiment) enum EvaluationMode {
    /// This many samples.
    Samples,
    /// As many samples as in training.
    Micro,
    /// All samples that are held out.
    Whole,
}

pub(in crate::panels::experiment) const EVALUATION_BATCH: (Spec, Choice<EvaluationMode>) = (
    Spec {
        key: "batch.evaluation",
        name: "Evaluation batch",
        help: "Samples that go through the model at once in a test. A test keeps nothing for a backward pass, but its \
                batch and its widest outputs grow with them: a run that trains inside its memory dies at its first test if \
                it predicts on all samples at once. A test takes about the same time with any of them, and has the same \
                result up to rounding.",
    },
    Choice {
        options: &[
            (EvaluationMode::Samples, "a number of samples"),
            (EvaluationMode::Micro, "as the micro-batch"),
            (EvaluationMode::Whole, "the whole test set"),
        ],
        place: Place::Own {
            get: |e| match e.batch.evaluation {
                EvaluationBatch::Samples(_) => EvaluationMode::Samples,
                EvaluationBatch::Micro => EvaluationMode::Micro,
                EvaluationBatch::Whole => EvaluationMode::Whole,
            },
            set: |e, v| {
                e.batch.evaluation = match v {
                    EvaluationMode::Samples => EvaluationBatch::Samples(e.batch.micro),
                    EvaluationMode::Micro => EvaluationBatch::Micro,
                    EvaluationMode::Whole => EvaluationBatch::Whole,
                }
            },
        },
    },
);

pub(in crate::panels::experiment) const EVALUATION_SAMPLES: Numeric = (
    Spec {
        key: "batch.evaluation.samples",
        name: "Samples at once",
        help: "Samples that go through the model at once in a test; all of them, where there are fewer. The memory of the \
                evaluation grows with them, and its time hardly changes.",
    },
    Number {
        stops: &[1., 2., 4., 8., 16., 32., 64., 128., 256., 512., 1024., 2048., 4096., 8192., 16_384.],
        zero: None,
        place: Place::Own {
            get: |e| if let EvaluationBatch::Samples(samples) = e.batch.evaluation { samples as f64 } else { 1.0 },
            set: |e, v| e.batch.evaluation = EvaluationBatch::Samples((v as usize).max(1)),
        },
    },
);

pub(in crate::panels::experiment) const SAVE_EVERY: Numeric = (
    Spec {
        key: "run.save_every",
        name: "Save (steps)",
        help: "Steps between two checkpoints: files from which a run can go on after a crash or a power cut, with the same \
                results. Off writes none on the way; a run that stops or ends is saved in any case. The memory for writing \
                one is shown in One step, under Saving; the time depends on the disk.",
    },
    Number { stops: &[0., 10., 50., 100., 500., 1000., 5000., 10_000.], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const SAVE_MINUTES: Numeric = (
    Spec {
        key: "run.save_minutes",
        name: "Save (min)",
        help: "The same by the clock: minutes between two checkpoints. A crash or a power cut costs the steps since the last \
                one; saving more often loses less and takes more time of the disk.",
    },
    Number { stops: &[0., 1., 2., 5., 10., 15., 30., 60., 120.], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const SAVE_BEST: (Spec, Choice<bool>) = (
    Spec {
        key: "run.save_best",
        name: "Save the best",
        help: "Whether the model with the best test accuracy is saved apart, after the test that found it. It stays when later \
                steps make the model worse. A run that prunes saves none before pruning is over.",
    },
    Choice { options: &[(false, "off"), (true, "saved")], place: Place::Setting },
);

pub(in crate::panels::experiment) const SEED: Numeric = (
    Spec {
        key: "run.seed",
        name: "Seed",
        help: "Decides the split, the order, the first weights and generated data: the same seed gives the same run. It changes \
                neither memory nor time.",
    },
    Number { stops: &[1., 2., 3., 4., 5., 6., 7., 8., 9., 10.], zero: None, place: Place::Setting },
);

/// The rows of the group.
pub(in crate::panels::experiment) const RUN: &[Row] = &[
    Row::of(&LENGTH),
    Row::of(&STEPS).when(|e| e.run.steps.is_some()),
    Row::of(&EPOCHS).when(|e| e.run.steps.is_none()),
    Row::drawn(&[], |ui, _, context| length::steps(ui, context)),
    Row::of(&EVALUATE),
    Row::of(&EVALUATION_BATCH),
    Row::of(&EVALUATION_SAMPLES).when(|e| matches!(e.batch.evaluation, EvaluationBatch::Samples(_))),
    Row::of(&SEED),
    Row::of(&SAVE_EVERY),
    Row::of(&SAVE_MINUTES),
    Row::of(&SAVE_BEST),
    Row::of(&THREADS),
];

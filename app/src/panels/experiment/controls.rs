//! The controls as data: key, name, lesson, notches. One table, so that the lessons can be read side by side.

use plimsoll_engine::experiment::{Checkpointing, DataKind, ModelKind, OptimizerKind, Precision, Schedule};

use crate::widgets::control::{Choice, Number, Spec};

/// A number's description and notches.
type Numeric = (Spec, Number);

pub(super) const MICRO: Numeric = (
    Spec {
        key: "batch.micro",
        name: "Micro-batch",
        teach: "Samples that go through the model at once: activations, batch and scratch grow in proportion, while weights \
                and optimizer state do not. Larger micro-batches use the processor better and take less time per sample, \
                until it is busy.",
    },
    Number {
        notches: &[1., 2., 4., 8., 16., 32., 48., 64., 96., 128., 192., 256., 384., 512., 768., 1024., 2048., 4096.],
        whole: true,
        zero: None,
        get: |e| e.batch.micro as f64,
        set: |e, v| e.batch.micro = v as usize,
    },
);

pub(super) const ACCUMULATION: Numeric = (
    Spec {
        key: "batch.accumulation",
        name: "Accumulation",
        teach: "Forward and backward passes whose gradients are summed before one update: the update sees a larger batch \
                while memory stays that of one micro-batch. Each pass costs its full time, and an epoch has fewer updates.",
    },
    Number {
        notches: &[1., 2., 4., 8., 16., 32., 64.],
        whole: true,
        zero: None,
        get: |e| e.batch.accumulation as f64,
        set: |e, v| e.batch.accumulation = v as usize,
    },
);

pub(super) const PRECISION: (Spec, Choice<Precision>) = (
    Spec {
        key: "precision",
        name: "Precision",
        teach: "The type of activations and weights: 16-bit types halve activations, and the mixed ones keep an f32 master \
                copy of the weights beside. On graphics cards narrow types are faster; a processor without them converts at \
                every product, which takes longer.",
    },
    Choice {
        options: &[
            (Precision::Bf16, "bf16 throughout"),
            (Precision::Bf16Mixed, "bf16 mixed"),
            (Precision::F16Mixed, "f16 mixed"),
            (Precision::F32, "f32"),
            (Precision::F64, "f64"),
        ],
        get: |e| e.precision,
        set: |e, v| e.precision = v,
    },
);

/// Checkpointing without its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kept {
    /// Everything is kept.
    All,
    /// The input of every block.
    Blocks,
    /// The input of every few blocks.
    Some,
    /// The inputs of about the square root of the blocks.
    Sqrt,
    /// A share of the activations.
    Share,
    /// All but what is inside some blocks.
    Picked,
}

pub(super) const CHECKPOINTING: (Spec, Choice<Kept>) = (
    Spec {
        key: "checkpointing",
        name: "Checkpointing",
        teach: "Keeps only the inputs of blocks and computes the activations between them again on the way back, so fewer are \
                alive at the peak. The second forward pass costs up to a third more time.",
    },
    Choice {
        options: &[
            (Kept::Blocks, "every block"),
            (Kept::Some, "every few blocks"),
            (Kept::Sqrt, "square root of blocks"),
            (Kept::Share, "a share is kept"),
            (Kept::Picked, "chosen blocks"),
            (Kept::All, "none"),
        ],
        get: |e| match e.checkpointing {
            Checkpointing::None => Kept::All,
            Checkpointing::Blocks => Kept::Blocks,
            Checkpointing::Every(_) => Kept::Some,
            Checkpointing::Sqrt => Kept::Sqrt,
            Checkpointing::Percent(_) => Kept::Share,
            Checkpointing::Pick(_) => Kept::Picked,
        },
        set: |e, v| {
            e.checkpointing = match v {
                Kept::All => Checkpointing::None,
                Kept::Blocks => Checkpointing::Blocks,
                Kept::Some => Checkpointing::Every(2),
                Kept::Sqrt => Checkpointing::Sqrt,
                Kept::Share => Checkpointing::Percent(50),
                Kept::Picked => Checkpointing::Pick([1].into_iter().collect()),
            }
        },
    },
);

pub(super) const SEGMENT: Numeric = (
    Spec {
        key: "checkpointing.every",
        name: "Blocks each",
        teach: "Blocks between two kept inputs: more keep fewer inputs but hold more activations while one segment is computed \
                again. The time stays about the same: every segment is computed twice.",
    },
    Number {
        notches: &[1., 2., 3., 4., 6., 8.],
        whole: true,
        zero: None,
        get: |e| if let Checkpointing::Every(k) = e.checkpointing { k as f64 } else { 1.0 },
        set: |e, v| e.checkpointing = Checkpointing::Every((v as usize).max(1)),
    },
);

pub(super) const SHARE: Numeric = (
    Spec {
        key: "checkpointing.percent",
        name: "Percent kept",
        teach: "At most this share of the activations is kept; the blocks that free most bytes for the least time are computed \
                again. At 100 nothing is computed twice, at 0 every block is.",
    },
    Number {
        notches: &[0., 10., 20., 30., 40., 50., 60., 70., 80., 90., 100.],
        whole: true,
        zero: None,
        get: |e| if let Checkpointing::Percent(percent) = e.checkpointing { f64::from(percent) } else { 100.0 },
        set: |e, v| e.checkpointing = Checkpointing::Percent(v.clamp(0.0, 100.0) as u8),
    },
);

pub(super) const MODEL: (Spec, Choice<ModelKind>) = (
    Spec {
        key: "model.kind",
        name: "Kind",
        teach: "Dense layers hold their memory in weights, convolutions in activations; depthwise-separable convolutions need \
                about a ninth of the weights. They also need far fewer products, though less time only where the depthwise \
                part is fast.",
    },
    Choice {
        options: &[
            (ModelKind::Mlp, "dense layers (MLP)"),
            (ModelKind::Sepcnn, "separable CNN"),
            (ModelKind::Cnn, "CNN"),
        ],
        get: |e| e.model.kind,
        set: |e, v| e.model.kind = v,
    },
);

const WIDTHS: Number = Number {
    notches: &[4., 8., 16., 24., 32., 48., 64., 96., 128., 192., 256., 384., 512., 768., 1024., 2048., 4096.],
    whole: true,
    zero: None,
    get: |e| e.model.width as f64,
    set: |e, v| e.model.width = v as usize,
};

pub(super) const WIDTH: Numeric = (
    Spec {
        key: "model.width",
        name: "Width",
        teach: "Units of each hidden layer: weights between hidden layers, their gradients and their optimizer state grow with \
                its square. So does the time of their products.",
    },
    WIDTHS,
);

pub(super) const FILTERS: Numeric = (
    Spec {
        key: "model.width",
        name: "Filters",
        teach: "Filters of the first block, doubled from block to block: activations grow in proportion and weights with the \
                square. Time grows with the square too, once the filters are many.",
    },
    WIDTHS,
);

const DEPTHS: Number = Number {
    notches: &[1., 2., 3., 4., 5., 6., 8., 10., 12., 16., 24., 32.],
    whole: true,
    zero: None,
    get: |e| e.model.depth as f64,
    set: |e, v| e.model.depth = v as usize,
};

pub(super) const DEPTH: Numeric = (
    Spec {
        key: "model.depth",
        name: "Hidden layers",
        teach: "Each layer adds its weights, with gradients and optimizer state, and one set of activations that must be kept. \
                Time grows in proportion.",
    },
    DEPTHS,
);

pub(super) const BLOCKS: Numeric = (
    Spec {
        key: "model.depth",
        name: "Blocks",
        teach: "Each block halves the image and doubles the filters: late blocks hold weights, early ones activations. A deeper \
                model also shrinks what the dense layer must read, so time and memory may fall.",
    },
    DEPTHS,
);

pub(super) const KERNEL: Numeric = (
    Spec {
        key: "model.kernel",
        name: "Kernel",
        teach: "Side of the square a filter looks at: weights grow with its square, kept activations not at all. The time of a \
                convolution and the scratch for its columns grow with the square too.",
    },
    Number {
        notches: &[1., 3., 5., 7., 9.],
        whole: true,
        zero: None,
        get: |e| e.model.kernel as f64,
        set: |e, v| e.model.kernel = v as usize,
    },
);

pub(super) const DENSE: Numeric = (
    Spec {
        key: "model.dense",
        name: "Dense units",
        teach: "Units of the dense layer before the classes: it reads every value of the last block, so most weights are often \
                here. Its time is small beside the convolutions.",
    },
    Number { get: |e| e.model.dense as f64, set: |e, v| e.model.dense = v as usize, ..WIDTHS },
);

pub(super) const DATA: (Spec, Choice<DataKind>) = (
    Spec {
        key: "data.kind",
        name: "Source",
        teach: "The size of an image decides the batch and the activations of the first layers, from 8 x 8 grey digits upward. \
                Large images take more time in every convolution.",
    },
    Choice {
        options: &[
            (DataKind::Digits, "digits, 8 x 8"),
            (DataKind::Idx, "IDX files (MNIST)"),
            (DataKind::Shapes, "coloured shapes"),
            (DataKind::Cifar10, "CIFAR-10 folder"),
        ],
        get: |e| e.data.kind,
        set: |e, v| e.data.kind = v,
    },
);

pub(super) const SIDE: Numeric = (
    Spec {
        key: "data.side",
        name: "Image side",
        teach: "Height and width of an image: batch and convolutional activations grow with its square, and so do the weights of \
                a dense layer that reads the whole image. So does the time of every convolution.",
    },
    Number {
        notches: &[16., 24., 32., 48., 64., 96., 128., 160., 192., 224., 256., 384., 512.],
        whole: true,
        zero: None,
        get: |e| e.data.side as f64,
        set: |e, v| e.data.side = v as usize,
    },
);

pub(super) const CLASSES: Numeric = (
    Spec {
        key: "data.classes",
        name: "Classes",
        teach: "Kinds of shapes to tell apart; only the last layer grows with them, by very little. More classes are harder: \
                the same accuracy needs more steps or a larger model.",
    },
    Number {
        notches: &[2., 3., 4., 5., 6., 7., 8., 9., 10.],
        whole: true,
        zero: None,
        get: |e| e.data.classes as f64,
        set: |e, v| e.data.classes = v as usize,
    },
);

pub(super) const SAMPLES: Numeric = (
    Spec {
        key: "data.samples",
        name: "Samples",
        teach: "Samples generated, training and test together; they wait in ordinary memory outside the budget. More make an \
                epoch longer and the test accuracy better.",
    },
    Number {
        notches: &[500., 1000., 2000., 4000., 8000., 16000., 32000., 64000., 100_000.],
        whole: true,
        zero: None,
        get: |e| e.data.samples as f64,
        set: |e, v| e.data.samples = v as usize,
    },
);

pub(super) const TEST_FRACTION: Numeric = (
    Spec {
        key: "data.test_fraction",
        name: "Test share",
        teach: "Share of the samples held out for testing; it takes no memory of the budget. A larger share makes evaluation \
                longer and its accuracy more certain, and leaves less to learn from.",
    },
    Number {
        notches: &[0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5],
        whole: false,
        zero: None,
        get: |e| e.data.test_fraction,
        set: |e, v| e.data.test_fraction = v,
    },
);

pub(super) const OPTIMIZER: (Spec, Choice<OptimizerKind>) = (
    Spec {
        key: "optimizer.kind",
        name: "Rule",
        teach: "SGD keeps no state, momentum one value a parameter, AdamW two, all for the whole run. The update is short beside \
                the passes, and AdamW usually needs the fewest steps.",
    },
    Choice {
        options: &[
            (OptimizerKind::Sgd, "SGD"),
            (OptimizerKind::Momentum, "SGD with momentum"),
            (OptimizerKind::Adamw, "AdamW"),
        ],
        get: |e| e.optimizer.kind,
        set: |e, v| e.optimizer.kind = v,
    },
);

pub(super) const LEARNING_RATE: Numeric = (
    Spec {
        key: "optimizer.learning_rate",
        name: "Learning rate",
        teach: "The length of a step against the gradient; it changes no memory and no time per step. Too low learns slowly, too \
                high jumps about or ends in values that are not finite.",
    },
    Number {
        notches: &[1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0],
        whole: false,
        zero: None,
        get: |e| e.optimizer.learning_rate,
        set: |e, v| e.optimizer.learning_rate = v,
    },
);

pub(super) const WEIGHT_DECAY: Numeric = (
    Spec {
        key: "optimizer.weight_decay",
        name: "Weight decay",
        teach: "Pulls weights towards zero at every update, which often helps on unseen data. It takes no memory and next to no \
                time.",
    },
    Number {
        notches: &[0., 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.03, 0.1, 0.3],
        whole: false,
        zero: Some("off"),
        get: |e| e.optimizer.weight_decay,
        set: |e, v| e.optimizer.weight_decay = v,
    },
);

pub(super) const MOMENTUM: Numeric = (
    Spec {
        key: "optimizer.momentum",
        name: "Momentum",
        teach: "Share of the last step that goes into the next; its velocity is held whatever the share. It changes no time per \
                step, and usually saves many steps.",
    },
    Number {
        notches: &[0., 0.5, 0.8, 0.9, 0.95, 0.98, 0.99],
        whole: false,
        zero: None,
        get: |e| e.optimizer.momentum,
        set: |e, v| e.optimizer.momentum = v,
    },
);

pub(super) const BETA1: Numeric = (
    Spec {
        key: "optimizer.beta1",
        name: "Beta 1",
        teach: "How slowly AdamW's mean of gradients forgets; the mean is held whatever its value. It changes neither memory nor \
                time per step.",
    },
    Number { get: |e| e.optimizer.beta1, set: |e, v| e.optimizer.beta1 = v, ..MOMENTUM.1 },
);

pub(super) const BETA2: Numeric = (
    Spec {
        key: "optimizer.beta2",
        name: "Beta 2",
        teach: "How slowly AdamW's mean of squared gradients forgets; lower values follow sudden changes better. It changes \
                neither memory nor time per step.",
    },
    Number {
        notches: &[0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999],
        get: |e| e.optimizer.beta2,
        set: |e, v| e.optimizer.beta2 = v,
        ..MOMENTUM.1
    },
);

pub(super) const EPSILON: Numeric = (
    Spec {
        key: "optimizer.epsilon",
        name: "Epsilon",
        teach: "Added below the line when AdamW divides by the root of its second mean; too small a value is lost in 16-bit \
                types. It changes neither memory nor time per step.",
    },
    Number {
        notches: &[1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4],
        whole: false,
        zero: None,
        get: |e| e.optimizer.epsilon,
        set: |e, v| e.optimizer.epsilon = v,
    },
);

pub(super) const CLIP: Numeric = (
    Spec {
        key: "optimizer.clip_norm",
        name: "Clip norm",
        teach: "Shortens the whole gradient to this norm when it is longer, against sudden jumps. It needs the norm, which takes \
                one pass over the gradients and no memory worth naming.",
    },
    Number {
        notches: &[0., 0.1, 0.25, 0.5, 1., 2., 5., 10.],
        whole: false,
        zero: Some("off"),
        get: |e| e.optimizer.clip_norm,
        set: |e, v| e.optimizer.clip_norm = v,
    },
);

pub(super) const WARMUP: Numeric = (
    Spec {
        key: "optimizer.warmup_steps",
        name: "Warm-up",
        teach: "Steps over which the learning rate rises from zero, which keeps the first updates from breaking the weights. It \
                changes neither memory nor time per step.",
    },
    Number {
        notches: &[0., 10., 20., 50., 100., 200., 500., 1000.],
        whole: true,
        zero: Some("off"),
        get: |e| e.optimizer.warmup_steps as f64,
        set: |e, v| e.optimizer.warmup_steps = v as u64,
    },
);

pub(super) const SCHEDULE: (Spec, Choice<Schedule>) = (
    Spec {
        key: "optimizer.schedule",
        name: "Schedule",
        teach: "A learning rate that falls to zero along a cosine lets the run settle, and usually ends more accurate. It changes \
                neither memory nor time per step.",
    },
    Choice {
        options: &[(Schedule::Constant, "constant"), (Schedule::Cosine, "cosine to zero")],
        get: |e| e.optimizer.schedule,
        set: |e, v| e.optimizer.schedule = v,
    },
);

/// In what the length of a run is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Length {
    /// Optimizer steps.
    Steps,
    /// Passes over the training data.
    Epochs,
}

/// Epochs when a preset names neither steps nor epochs.
pub(super) const DEFAULT_EPOCHS: u64 = 10;

pub(super) const LENGTH: (Spec, Choice<Length>) = (
    Spec {
        key: "run.length",
        name: "Length in",
        teach: "An epoch is one pass over the training data; a step is one update. Neither changes the memory; both set how long \
                the run takes.",
    },
    Choice {
        options: &[(Length::Steps, "steps"), (Length::Epochs, "epochs")],
        get: |e| if e.run.steps.is_some() { Length::Steps } else { Length::Epochs },
        set: |e, v| match v {
            Length::Steps => (e.run.steps, e.run.epochs) = (Some(500), None),
            Length::Epochs => (e.run.steps, e.run.epochs) = (None, Some(DEFAULT_EPOCHS)),
        },
    },
);

pub(super) const STEPS: Numeric = (
    Spec {
        key: "run.steps",
        name: "Steps",
        teach: "Updates of the whole run. Memory is the same from the second step on; time grows in proportion.",
    },
    Number {
        notches: &[10., 50., 100., 200., 500., 1000., 2000., 5000., 10_000., 50_000., 100_000.],
        whole: true,
        zero: None,
        get: |e| e.run.steps.unwrap_or(0) as f64,
        set: |e, v| e.run.steps = Some(v as u64),
    },
);

pub(super) const EPOCHS: Numeric = (
    Spec {
        key: "run.epochs",
        name: "Epochs",
        teach: "Passes over the training data. Memory is the same from the second step on; time grows in proportion.",
    },
    Number {
        notches: &[1., 2., 3., 5., 8., 10., 15., 20., 30., 50., 100., 200.],
        whole: true,
        zero: None,
        get: |e| e.run.epochs.unwrap_or(DEFAULT_EPOCHS) as f64,
        set: |e, v| e.run.epochs = Some(v as u64),
    },
);

pub(super) const EVALUATE: Numeric = (
    Spec {
        key: "run.evaluate_every",
        name: "Evaluate every",
        teach: "Steps between two tests on held-out data. A test needs one forward pass at a time, less memory than a step, and \
                takes the time of the test data.",
    },
    Number {
        notches: &[0., 10., 20., 50., 100., 200., 500., 1000.],
        whole: true,
        zero: Some("epoch"),
        get: |e| e.run.evaluate_every as f64,
        set: |e, v| e.run.evaluate_every = v as u64,
    },
);

pub(super) const SEED: Numeric = (
    Spec {
        key: "run.seed",
        name: "Seed",
        teach: "Decides the split, the order, the first weights and generated data: the same seed gives the same run. It changes \
                neither memory nor time.",
    },
    Number {
        notches: &[1., 2., 3., 4., 5., 6., 7., 8., 9., 10.],
        whole: true,
        zero: None,
        get: |e| e.run.seed as f64,
        set: |e, v| e.run.seed = v as u64,
    },
);

//! What a user chooses: the experiment, which is also the preset format.
//!
//! Owns the types, their defaults and their text form ([`preset`]); [`check`] says what cannot be. Every field changes
//! the run that follows. The structs are flat on purpose: a key such as `model.width` means one thing whatever the kind.

pub mod check;
mod checkpointing;
pub mod preset;
mod schema;
pub mod shipped;

use std::path::PathBuf;

pub use checkpointing::{BlockSet, Checkpointing};

use serde::{Deserialize, Serialize};

use crate::{backend::DType, bytes::Bytes};

/// The preset format this program writes.
pub const VERSION: u32 = 1;

/// One experiment: everything that decides a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Experiment {
    /// Version of the preset format.
    pub version: u32,
    /// One line for menus.
    pub title: String,
    /// A paragraph that says what to look at.
    pub description: String,
    /// The most memory the run may take.
    pub budget: Bytes,
    /// Where it runs: `cpu`.
    pub device: String,
    /// What computes in which type.
    pub precision: Precision,
    /// Which activations are kept and which are computed again.
    pub checkpointing: Checkpointing,
    /// The architecture.
    pub model: Model,
    /// The data.
    pub data: Data,
    /// How many samples at once.
    pub batch: Batch,
    /// How the parameters are updated.
    pub optimizer: Optimizer,
    /// How long, from which seed.
    pub run: Run,
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            version: VERSION,
            title: "Untitled".to_owned(),
            description: String::new(),
            budget: Bytes::mib(64),
            device: "cpu".to_owned(),
            precision: Precision::F32,
            checkpointing: Checkpointing::None,
            model: Model::default(),
            data: Data::default(),
            batch: Batch::default(),
            optimizer: Optimizer::default(),
            run: Run::default(),
        }
    }
}

/// The architecture's family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Dense layers with ReLU: `depth` hidden layers of `width`.
    Mlp,
    /// `depth` blocks of convolution, ReLU and 2 x 2 max-pool (width doubles from block to block), then a hidden dense layer.
    Cnn,
    /// The same with depthwise-separable convolutions and no pool after the last block (MobileNet's block, Howard et al. 2017).
    Sepcnn,
    /// Residual networks of 18 to 101 layers (He et al. 2015).
    Resnet,
    /// MobileNetV1 (Howard et al. 2017).
    Mobilenetv1,
    /// MobileNetV2 (Sandler et al. 2018).
    Mobilenetv2,
}

impl ModelKind {
    /// Whether it has a hidden dense layer and blocks of a chosen number, width and kernel.
    pub fn is_plain_cnn(self) -> bool {
        matches!(self, Self::Cnn | Self::Sepcnn)
    }

    /// Whether it has a stem, and batch norms.
    pub fn has_stem(self) -> bool {
        matches!(self, Self::Resnet | Self::Mobilenetv1 | Self::Mobilenetv2)
    }
}

/// The first layers of a network for images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stem {
    /// Keeps the resolution: for images of 32 x 32 or so.
    Small,
    /// Reduces it at once: for images of 224 x 224 or so.
    Imagenet,
}

/// The architecture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// The family.
    pub kind: ModelKind,
    /// Units of a hidden layer (mlp), or filters of the first block (cnn, sepcnn).
    pub width: usize,
    /// Hidden layers (mlp) or blocks (cnn, sepcnn).
    pub depth: usize,
    /// Side of the convolution kernel, odd (cnn, sepcnn).
    pub kernel: usize,
    /// Units of the hidden dense layer before the classes (cnn, sepcnn).
    pub dense: usize,
    /// Layers: 18, 34, 50 or 101 (resnet).
    pub layers: usize,
    /// Multiplies every width (mobilenetv1, mobilenetv2).
    pub multiplier: f64,
    /// The first layers (resnet, mobilenetv1, mobilenetv2).
    pub stem: Stem,
}

impl Model {
    /// Residual blocks in each stage of a resnet.
    pub fn stages(&self) -> [usize; 4] {
        match self.layers {
            ..=18 => [2, 2, 2, 2],
            19..=50 => [3, 4, 6, 3],
            _ => [3, 4, 23, 3],
        }
    }

    /// Blocks that checkpointing can keep or compute again.
    pub fn blocks(&self) -> usize {
        match self.kind {
            ModelKind::Mlp | ModelKind::Cnn | ModelKind::Sepcnn => self.depth,
            ModelKind::Resnet => 1 + self.stages().iter().sum::<usize>(),
            ModelKind::Mobilenetv1 => 14,
            ModelKind::Mobilenetv2 => 19,
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            kind: ModelKind::Mlp,
            width: 256,
            depth: 2,
            kernel: 3,
            dense: 64,
            layers: 18,
            multiplier: 1.0,
            stem: Stem::Small,
        }
    }
}

/// Where samples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataKind {
    /// The 1797 hand-written digits that ship with the program, 8 x 8 x 1, ten classes.
    Digits,
    /// Generated coloured shapes, three channels, any size.
    Shapes,
    /// A folder with MNIST-format IDX files, plain or gzip.
    Idx,
    /// A folder with CIFAR-10 binary batches.
    Cifar10,
    /// A folder with CIFAR-100 in its binary version, by fine label.
    Cifar100,
    /// A folder of JPEG and PNG images, one sub-folder a class, three channels, any size.
    Images,
}

impl DataKind {
    /// Whether the samples come from a folder that the user chooses.
    pub fn is_on_disk(self) -> bool {
        matches!(self, Self::Idx | Self::Cifar10 | Self::Cifar100 | Self::Images)
    }
}

/// The data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Where samples come from.
    pub kind: DataKind,
    /// The folder (idx, cifar10, cifar100, images).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Height and width of an image (shapes, images).
    pub side: usize,
    /// Classes, 2 to 10 (shapes).
    pub classes: usize,
    /// Samples generated, training and test together (shapes).
    pub samples: usize,
    /// Share of the samples held out for testing (digits, shapes, images).
    pub test_fraction: f64,
    /// Decoded images stay in host memory (images).
    pub cache: bool,
    /// Half of the training images are mirrored, left for right.
    pub flip: bool,
    /// Pixels of black around a training image, from which one of its size is cut at random; 0 cuts nothing.
    pub crop: usize,
    /// The most that brightness, contrast and saturation of a training image change, as a share; 0 changes nothing.
    pub colour: f64,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            kind: DataKind::Digits,
            path: None,
            side: 32,
            classes: 10,
            samples: 4000,
            test_fraction: 0.2,
            cache: true,
            flip: false,
            crop: 0,
            colour: 0.0,
        }
    }
}

/// How many samples at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// Samples that one forward pass sees.
    pub micro: usize,
    /// Forward and backward passes before one update.
    pub accumulation: usize,
}

impl Batch {
    /// Samples that one update sees.
    pub fn effective(&self) -> usize {
        self.micro * self.accumulation
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { micro: 64, accumulation: 1 }
    }
}

/// What computes in which type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Everything f32.
    F32,
    /// bf16 weights and activations, f32 master weights, gradients and optimizer state.
    Bf16Mixed,
    /// f16 weights and activations, f32 master weights, gradients and optimizer state, dynamic loss scaling.
    F16Mixed,
    /// Everything bf16.
    Bf16,
    /// Everything f64.
    F64,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 5] = [Self::F32, Self::Bf16Mixed, Self::F16Mixed, Self::Bf16, Self::F64];

    /// Type of weights as the forward pass reads them, of activations and of the batch.
    pub fn compute(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16Mixed | Self::Bf16 => DType::Bf16,
            Self::F16Mixed => DType::F16,
            Self::F64 => DType::F64,
        }
    }

    /// Type of what the optimizer updates, of gradients and of the optimizer's state.
    pub fn master(self) -> DType {
        match self {
            Self::F32 | Self::Bf16Mixed | Self::F16Mixed => DType::F32,
            Self::Bf16 => DType::Bf16,
            Self::F64 => DType::F64,
        }
    }

    /// Type of statistics and other sums that are kept: f32, or f64 for f64.
    pub fn sums(self) -> DType {
        if self == Self::F64 { DType::F64 } else { DType::F32 }
    }

    /// Whether an f32 copy of the weights stands beside the narrower one.
    pub fn has_master_weights(self) -> bool {
        self.compute() != self.master()
    }

    /// The text in presets.
    pub fn key(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16Mixed => "bf16-mixed",
            Self::F16Mixed => "f16-mixed",
            Self::Bf16 => "bf16",
            Self::F64 => "f64",
        }
    }
}

/// The update rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// Plain gradient descent: no state.
    Sgd,
    /// One velocity a parameter.
    Momentum,
    /// One velocity a parameter, looking a step ahead (Nesterov 1983).
    Nesterov,
    /// Two moments a parameter, with L2 weight decay (Kingma & Ba 2015).
    Adam,
    /// Two moments a parameter (Loshchilov & Hutter 2019).
    Adamw,
    /// One momentum a parameter, of which a step follows the sign (Chen et al. 2023).
    Lion,
}

/// When the parameters are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateTime {
    /// After the backward pass: every gradient is held until then.
    AfterBackward,
    /// Each layer's as soon as its gradient is complete, which is then freed (Lv et al. 2023, "LOMO", with any rule).
    /// Forbids what needs all gradients at once: clipping by the global norm, accumulation, and loss scaling.
    InBackward,
}

/// How the learning rate goes after warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// It stays.
    Constant,
    /// It falls to zero along half a cosine (Loshchilov & Hutter 2017).
    Cosine,
}

/// How the parameters are updated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizer {
    /// The update rule.
    pub kind: OptimizerKind,
    /// When it is applied.
    pub update: UpdateTime,
    /// The learning rate after warm-up.
    pub learning_rate: f64,
    /// Weight decay: decoupled for adamw and lion, L2 otherwise.
    pub weight_decay: f64,
    /// Decay of the velocity (momentum, nesterov).
    pub momentum: f64,
    /// Decay of the first moment (adam, adamw); share of the momentum in a step (lion).
    pub beta1: f64,
    /// Decay of the second moment (adam, adamw), of the momentum (lion).
    pub beta2: f64,
    /// Added to the denominator (adam, adamw).
    pub epsilon: f64,
    /// The largest norm the whole gradient may have; 0 leaves it as it is (Pascanu et al. 2013).
    pub clip_norm: f64,
    /// Steps over which the learning rate rises from zero.
    pub warmup_steps: u64,
    /// How it goes after that.
    pub schedule: Schedule,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            kind: OptimizerKind::Adamw,
            update: UpdateTime::AfterBackward,
            learning_rate: 1e-3,
            weight_decay: 0.01,
            momentum: 0.9,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            clip_norm: 0.0,
            warmup_steps: 0,
            schedule: Schedule::Constant,
        }
    }
}

/// How long, from which seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// Optimizer steps; excludes `epochs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Passes over the training data; excludes `steps`. Ten when neither is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Decides the split, the order, the weights and generated data.
    pub seed: u64,
    /// Steps between evaluations on the test data; 0 evaluates at the end of each epoch.
    pub evaluate_every: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self { steps: None, epochs: None, seed: 1, evaluate_every: 0 }
    }
}

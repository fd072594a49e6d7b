//! What a user chooses: the experiment, which is also the preset format.
//!
//! Owns the types, their defaults and their text form ([`preset`]); [`check`] says what cannot be. Every field changes
//! the run that follows. The structs are flat on purpose: a key such as `model.width` means one thing whatever the kind.

pub mod check;
mod checkpointing;
mod model;
mod optimizer;
mod precision;
pub mod preset;
mod schema;
pub mod shipped;

use std::path::PathBuf;

pub use checkpointing::{BlockSet, Checkpointing};
pub use model::{Model, ModelKind, Stem};
pub use optimizer::{Optimizer, OptimizerKind, Schedule, UpdateTime};
pub use precision::Precision;

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

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

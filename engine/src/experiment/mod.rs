//! What a user chooses: the experiment, which is also the preset format.
//!
//! Owns the types, their defaults and their text form ([`preset`]); [`check`] says what cannot be. Every field changes
//! the run that follows. The structs are flat on purpose: a key such as `model.width` means one thing whatever the kind.

pub mod check;
mod checkpointing;
mod data;
mod dataset_info;
mod gpu;
pub mod hugging_face;
pub mod limits;
mod model;
mod optimizer;
mod precision;
pub mod preset;
mod saving;
mod schema;
pub mod shipped;

pub use crate::device::PoolPolicy;
pub use checkpointing::{BlockSet, Checkpointing};
pub use data::{Data, DataKind, DataSetting, Labelled, PathUse, Placement, SourceTraits, Task};
pub use dataset_info::{DatasetInfo, Input};
pub use gpu::Gpu;
pub use model::{AttentionKind, DepthUnit, FamilyTraits, Model, ModelKind, ModelSetting, Stem, WidthUnit};
pub use optimizer::{Hyperparameter, Optimizer, OptimizerKind, Schedule, UpdateTime};
pub use precision::Precision;
pub use saving::{Frozen, Lora, Outputs, TapeUse};

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
    /// Where it runs: `cpu`, a GPU such as `cuda:0`, or a card to plan for such as `rtx4060-8g`.
    pub device: String,
    /// How a GPU is used.
    pub gpu: Gpu,
    /// What computes in which type.
    pub precision: Precision,
    /// Which activations are kept and which are computed again.
    pub checkpointing: Checkpointing,
    /// Rows of logits that the loss works on at a time; 0: all at once.
    pub loss_chunk: usize,
    /// Which outputs of layers are kept and which are made again.
    pub outputs: Outputs,
    /// When what was saved is freed.
    pub tape: TapeUse,
    /// Which parameters are not trained.
    pub frozen: Frozen,
    /// The architecture.
    pub model: Model,
    /// The data.
    pub data: Data,
    /// How many samples at once.
    pub batch: Batch,
    /// How the parameters are updated.
    pub optimizer: Optimizer,
    /// Adapters beside frozen dense layers.
    pub lora: Lora,
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
            gpu: Gpu::default(),
            precision: Precision::F32,
            checkpointing: Checkpointing::None,
            loss_chunk: 0,
            outputs: Outputs::Kept,
            tape: TapeUse::Frees,
            frozen: Frozen::None,
            model: Model::default(),
            data: Data::default(),
            batch: Batch::default(),
            optimizer: Optimizer::default(),
            lora: Lora::default(),
            run: Run::default(),
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

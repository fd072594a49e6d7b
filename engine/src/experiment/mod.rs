//! The experiment: everything that a user chooses, which is also the preset format.
//!
//! Owns the types, their defaults and their text form ([`preset`]); [`check`] finds impossible choices. Every field changes
//! the run that follows. The structs are flat on purpose: a key such as `model.width` means the same for every kind.

mod adapters;
mod batch;
mod cache;
pub mod check;
mod checkpointing;
mod data;
mod dataset_info;
mod distil;
mod gpu;
pub mod hugging_face;
pub mod limits;
mod low_rank;
mod model;
mod normalise;
mod optimizer;
mod precision;
pub mod preset;
mod prune;
mod quantise;
mod saving;
pub(crate) mod settings;
pub mod shipped;
mod source_traits;
mod task;
mod teacher;
pub mod weights;
pub(crate) mod words;

pub use crate::device::PoolPolicy;
pub use adapters::{Lora, Projection, Targets};
pub use batch::{Batch, EvaluationBatch};
pub use cache::{CachePlace, DataCache};
pub use checkpointing::{BlockSet, Checkpointing};
pub use data::{Data, DataKind, DataSetting, Placement, TableTask};
pub use dataset_info::{DatasetInfo, Input, LabelKind};
pub use distil::{Answers, Distil};
pub use gpu::Gpu;
pub use low_rank::{Factor, LowRank, RankTable, Ranks, WholeLayer};
pub use model::{
    ActivationKind, AttentionKind, DepthUnit, FamilyTraits, Model, ModelKind, ModelSetting, Stem, WidthUnit,
};
pub(crate) use normalise::PROCESSOR;
pub use normalise::{Normalise, NormaliseWhen};
pub use optimizer::{Hyperparameter, Optimizer, OptimizerKind, Schedule, UpdateTime};
pub use precision::Precision;
pub use prune::{Prune, PruneKind, PruneSchedule, PruneScope};
pub use quantise::{BaseWeights, CodedWeights, Quantise, QuantiseKind};
pub use saving::{Frozen, Recompute};
pub use settings::Setting;
pub use source_traits::{Asked, ImageExtents, PathUse, Prompt, SourceTraits};
pub use task::{Labelled, Task};
pub use teacher::Teacher;
pub use weights::Weights;

pub use crate::backend::Execution;

pub(crate) use self::settings::{Likeness, step};
use self::{
    limits::{MAX_BUDGET, MAX_STEPS, MAX_THREADS},
    settings::{KERNELS, Limits, NOTHING, SIZES, settings},
};
use crate::{bytes::Bytes, device::cpu_threads, tensor::DType};

/// The preset format this program writes.
pub const VERSION: u32 = 2;

settings! {
    /// One experiment: everything that decides a run.
    pub struct Experiment {
        /// Version of the preset format.
        pub version: u32 = VERSION, NOTHING;
        /// One line for menus.
        pub title: String = "Untitled".to_owned(), NOTHING;
        /// A paragraph that says what to look at.
        pub description: String = String::new(), NOTHING.paragraph();
        /// The most memory the run may take.
        pub budget: Bytes = Bytes::mib(64), NOTHING.limits(Limits::Size { high: MAX_BUDGET, what: "a budget" });
        /// The device: `cpu`, a GPU such as `cuda:0`, or a card to plan for such as `rtx4060-8g`. A preset without it is for
        /// any device.
        pub device: String = "cpu".to_owned(), NOTHING.quiet();
        /// The type that each part computes in.
        pub precision: Precision = Precision::F32, KERNELS;
        /// Which activations are kept and which are computed again.
        pub checkpointing: Checkpointing = Checkpointing::None, KERNELS;
        /// Rows of logits that the loss works on at a time; 0: all at once.
        pub loss_chunk: usize = 0, KERNELS.counts(0, crate::tensor::MAX_ELEMENTS as u64, "a number of rows").quiet();
        /// Which activations the backward pass recomputes.
        pub recompute: Recompute = Recompute::None, KERNELS
            .quiet()
            .formerly("outputs")
            .words_were(&[("kept", "none"), ("made-again", "cheap")]);
        /// Whether the saved tensors stay until the end of the step, as where a program holds on to the graph of an eager
        /// framework. Otherwise each is freed once its gradient rule has run.
        pub retain_graph: bool = false, KERNELS
            .quiet()
            .formerly("tape")
            .words_were(&[("frees", "false"), ("held", "true")]);
        /// How ops run: over memory that is not read any more, several in one pass, or as in an eager framework.
        pub execution: Execution = Execution::InPlace, KERNELS.quiet();
        /// Which parameters are not trained.
        pub frozen: Frozen = Frozen::None, KERNELS.quiet();
    } and {
        /// How a GPU is used.
        pub gpu: Gpu,
        /// The architecture.
        pub model: Model,
        /// The data.
        pub data: Data,
        /// How many samples at once.
        pub batch: Batch,
        /// How the parameters are updated.
        pub optimizer: Optimizer,
        /// Adapters next to frozen dense layers.
        pub lora: Lora,
        /// The form of frozen weights.
        pub quantise: Quantise,
        /// Which layers are products of smaller ones.
        pub low_rank: LowRank,
        /// Which weights become zero.
        pub prune: Prune,
        /// Which trained model teaches this one.
        pub distil: Distil,
        /// The weights that the model begins with.
        pub weights: Weights,
        /// How long, from which seed.
        pub run: Run,
    }
}

/// Passes over the data when a preset names neither steps nor epochs.
pub const DEFAULT_EPOCHS: u64 = 10;

impl Experiment {
    /// Whether it runs on the processor, and not on a GPU or a card to plan for.
    pub fn is_on_cpu(&self) -> bool {
        self.device == "cpu"
    }

    /// Optimizer steps of one epoch and of the whole run, over data of these facts.
    pub fn steps(&self, info: &DatasetInfo) -> (u64, u64) {
        let per_epoch = info.steps_per_epoch(self.batch.effective());
        (per_epoch, self.run.steps.unwrap_or_else(|| self.run.epochs.unwrap_or(DEFAULT_EPOCHS) * per_epoch))
    }

    /// Makes it a run of so many `steps`, in which it prunes as it would in a longer one.
    pub fn shorten(&mut self, steps: u64) {
        (self.run.steps, self.run.epochs, self.prune) = (Some(steps), None, self.prune.within(steps));
    }

    /// The type in which checkpoints have the weights that products read, which is the type that the optimizer updates: in
    /// mixed precision the type of the master weights, or, if corrections take their place, the type of computation.
    pub fn weight_type(&self) -> DType {
        if self.optimizer.kind.corrects_weights() { self.precision.compute() } else { self.precision.master() }
    }

    /// Whether its steps are the steps of `other`: the same kernels on the same device, on tensors of the same sizes.
    pub fn takes_the_steps_of(&self, other: &Self) -> bool {
        self.device == other.device && step(self, Likeness::Exact) == step(other, Likeness::Exact)
    }
}

settings! {
    /// How long, from which seed.
    pub struct Run in run {
        /// Optimizer steps; excludes `epochs`.
        pub steps: Option<u64> = None, NOTHING.counts(1, MAX_STEPS, "a number of steps");
        /// Passes over the training data; excludes `steps`. Ten when neither is given.
        pub epochs: Option<u64> = None, NOTHING.counts(1, 1_000_000, "a number of epochs");
        /// Decides the split, the order, the weights and generated data.
        pub seed: u64 = 1, NOTHING.counts(0, i64::MAX as u64, "a seed");
        /// Threads of the processor that kernels run on; 0: as many as it has. The losses are the same to the last bit whatever
        /// their number.
        pub threads: usize = 0, SIZES.quiet().counts(0, MAX_THREADS, "a number of threads").when(Experiment::is_on_cpu);
        /// Steps between evaluations on the test data; 0 evaluates at the end of each epoch.
        pub evaluate_every: u64 = 0, NOTHING.counts(0, MAX_STEPS, "a number of steps");
        /// Steps between checkpoints; 0 does not count steps. Without either of the two, a run is saved when it is stopped
        /// and at its end.
        pub save_every: u64 = 0, NOTHING.counts(0, MAX_STEPS, "a number of steps").quiet();
        /// Minutes between checkpoints; 0 does not look at the clock.
        pub save_minutes: f64 = 10.0, NOTHING.numbers(0.0, 10_000.0, "a number of minutes").quiet();
        /// Whether the best test result is saved apart.
        pub save_best: bool = false, NOTHING.quiet();
    }
}

impl Run {
    /// Threads that kernels run on here, on the processor.
    pub fn threads(&self) -> usize {
        if self.threads == 0 { cpu_threads() } else { self.threads }
    }
}

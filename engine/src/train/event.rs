//! Reports of a run to callers: ordered events, and the latest value of figures that change too often to queue.

use std::{path::PathBuf, sync::Arc};

use crate::{
    bytes::Bytes,
    data::ValueErrors,
    device::graphs::Captured,
    error::Error,
    hardware::Machine,
    models::FactoredSize,
    optim::Stripped,
    plan::{Advice, Peak, Plan},
    step::{Compressed, whole_bytes},
    train::keep::SaveReason,
};

/// Numbers a run, from 1, for as long as the trainer lives.
pub type RunId = u64;

/// One optimizer step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepRecord {
    /// The step's number, counted from 1.
    pub step: u64,
    /// Mean loss over the effective batch.
    pub loss: f64,
    /// Share of the effective batch that was classified right; of values the share of the labels' variance that is explained.
    pub accuracy: f64,
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// Norm of the whole gradient before clipping.
    pub gradient_norm: f64,
    /// The loss scale (1 without loss scaling).
    pub loss_scale: f64,
    /// The update was skipped because a gradient was not finite (f16 loss scaling).
    pub skipped: bool,
    /// Seconds since the run began, pauses excluded.
    pub at_secs: f64,
    /// Seconds of this step.
    pub secs: f64,
    /// Measured: most bytes alive during this step.
    pub live: Bytes,
    /// Measured: most bytes the allocator held during this step.
    pub reserved: Bytes,
    /// Measured: resident bytes of the process; read some times a second, the last reading otherwise.
    pub process: Bytes,
}

/// A run was refused or ran into its budget.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Layer, bytes asked, live and budget.
    pub error: crate::error::BudgetError,
    /// The nearest changes that fit.
    pub advice: Vec<Advice>,
}

/// The result of a run.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, train::{Command, Event, Start, Trainer}};
///
/// let mut experiment = Experiment::default();
/// experiment.run.steps = Some(2);
/// let trainer = Trainer::new(|| {});
/// trainer.send(Command::Start(Box::new(Start::new(experiment))));
/// let summary = trainer.events().iter().find_map(|event| match event {
///     Event::Ended { summary, .. } => Some(summary),
///     _ => None,
/// });
/// let summary = summary.expect("every run ends with a summary");
///
/// // A prediction is never below the measurement.
/// assert!(summary.measured.live <= summary.predicted.live);
/// assert!(summary.measured.live.0 > summary.predicted.live.0 / 2);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Summary {
    /// Optimizer steps done.
    pub steps: u64,
    /// Seconds, pauses excluded.
    pub secs: f64,
    /// Mean loss of the last step.
    pub train_loss: Option<f64>,
    /// Accuracy of the last evaluation; of values the share of the labels' variance that is explained (R²).
    pub test_accuracy: Option<f64>,
    /// Best accuracy, or R², of all evaluations.
    pub best_test_accuracy: Option<f64>,
    /// The errors of values at the last evaluation since the run began or went on.
    pub test_errors: Option<ValueErrors>,
    /// The size of the weights after pruning, at the last evaluation.
    pub stripped: Option<Stripped>,
    /// The trained model as one of integers.
    pub compressed: Option<Compressed>,
    /// The size of the model, where its layers are factored, since the last evaluation.
    pub factored: Option<FactoredSize>,
    /// Skipped steps (f16 loss scaling).
    pub skipped_steps: u64,
    /// Seconds in which the model waited for batches, since the run began or went on.
    pub data_secs: f64,
    /// Bytes of files that were read for its batches and its tests, from the disk or from the system's cache of files.
    pub data_bytes: Bytes,
    /// Batches that were ready when the model asked for one, in the mean.
    pub batches_ready: f64,
    /// The host memory that data and loaders took.
    pub host: HostUse,
    /// The predicted peak, from the dry run.
    pub predicted: Peak,
    /// The measured peak, from the probe.
    pub measured: Peak,
    /// Whether the measured process is the highest of some samples instead of a high-water mark. The system may not allow
    /// to reset the mark at the start of a run. Always true on a GPU, because the driver keeps no mark.
    pub is_process_sampled: bool,
    /// The graphs by which steps were launched on a GPU; `None` where there were none.
    pub graphs: Option<Captured>,
    /// Measured bytes still alive after the run let everything go, less those before it began.
    pub left_over: Bytes,
}

impl Summary {
    /// The bytes of a model that became smaller as they would be otherwise, with all channels and every layer whole; `None` if
    /// it stayed as it was.
    pub fn whole_bytes(&self) -> Option<Bytes> {
        let integers = self.compressed.map(|own| own.dense_bytes);
        let as_trained =
            integers.or(self.stripped.map(|own| own.as_trained())).or(self.factored.map(|own| own.bytes))?;
        Some(whole_bytes(as_trained, self.stripped, self.factored))
    }
}

/// Host memory of the data of a run and of the loaders that make batches of them, outside the budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostUse {
    /// The most bytes, by the sizes of the data and the batches.
    pub predicted: Bytes,
    /// The most bytes while it trained, by the counter of their allocations.
    pub measured: Bytes,
    /// Bytes on a disk for samples that are kept there, once all are.
    pub predicted_disk: Bytes,
    /// The same bytes as the file system has them.
    pub measured_disk: Bytes,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The run did all its steps.
    Finished,
    /// The user stopped it.
    Stopped,
    /// Refused before anything was allocated, or stopped at the line.
    OverBudget(Box<Refusal>),
    /// An error ended it.
    Failed(Error),
}

/// How an op ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanBy {
    /// The path of its layer.
    pub layer: String,
    /// The op.
    pub op: &'static str,
    /// The way, in words.
    pub way: &'static str,
}

/// An event of a run. Events come in order.
#[derive(Debug, Clone)]
pub enum Event {
    /// More is known about the machine than before: rates, the size of the process, the memory of a GPU.
    Machine(Machine),
    /// A run begins.
    Started {
        /// The run's number.
        run: RunId,
        /// The run's prediction.
        plan: Arc<Plan>,
    },
    /// A teacher is being asked about the training samples, before the first step. Told some times, from none to all of them.
    Teaching {
        /// Samples that it was asked about.
        done: usize,
        /// All of them.
        of: usize,
    },
    /// An optimizer step is done.
    Step(StepRecord),
    /// The ways in which ops of a step ran that can run in several, such as convolutions on a GPU. Told of the first step that
    /// is measured op by op, and of a later one that ran otherwise.
    Ways {
        /// That step.
        step: u64,
        /// Those ops, in their order.
        ways: Arc<[RanBy]>,
    },
    /// The model is being evaluated on the test data, which may take longer than many steps.
    Evaluating {
        /// After this many steps.
        step: u64,
    },
    /// The model was evaluated on the test data.
    Evaluated {
        /// After this many steps.
        step: u64,
        /// Seconds since the run began, pauses excluded.
        at_secs: f64,
        /// The mean loss.
        loss: f64,
        /// Share classified right; of values the share of the labels' variance that is explained (R²).
        accuracy: f64,
        /// For values, how far they are from the labels.
        errors: Option<ValueErrors>,
    },
    /// Channels were taken out of the model.
    Thinned {
        /// After this many steps.
        step: u64,
        /// The size that is left.
        stripped: Stripped,
    },
    /// A checkpoint was written whole.
    Saved {
        /// After this many steps.
        step: u64,
        /// The file.
        path: PathBuf,
        /// The file's size.
        bytes: Bytes,
        /// Measured: most bytes alive while it was written.
        live: Bytes,
        /// The reason why it was written.
        why: SaveReason,
    },
    /// The trained model was tested as one of 8-bit integers.
    Compressed(Compressed),
    /// The run waits, or goes on.
    Paused(bool),
    /// A message for the user that does not end the run.
    Warning(String),
    /// The run is over and everything it held is given back.
    Ended {
        /// The run's number.
        run: RunId,
        /// How the run ended.
        outcome: Outcome,
        /// Its summary. Boxed, because room for thousands of events is made at once.
        summary: Box<Summary>,
    },
}

/// The latest value of figures that are drawn but not queued.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    /// The run this belongs to; 0 before the first.
    pub run: RunId,
    /// Measured: highest bytes alive during each op of a recent step, by index of the predicted timeline's points.
    pub measured_step: Arc<[Bytes]>,
    /// How each op of that step ran, where ops of its kind run in one of several ways; empty for the others, and without an
    /// entry if there is none such.
    pub ways: Arc<[&'static str]>,
    /// The optimizer step it was measured in.
    pub measured_in_step: u64,
    /// The share of the time of the steps so far in which the model waited for batches.
    pub waiting: f64,
    /// How it is fed.
    pub feeding: Feeding,
}

/// How a model is fed at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Feeding {
    /// Batches that were ready when the model asked for the last one.
    pub ready: usize,
    /// How many can be.
    pub room: usize,
    /// Bytes of files that were read so far, from the disk or from the system's cache of files.
    pub read: Bytes,
    /// The most bytes of host memory that data, batches and their threads held so far.
    pub held: Bytes,
}

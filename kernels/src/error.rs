//! Every error the engine can give, as data: what failed, where, and how to fix it.
//!
//! Owns [`Error`] and [`Result`]. An error is handled once, by the caller that shows it; the engine never prints.

use std::path::{Path, PathBuf};

use crate::{bytes::Bytes, tensor::Shape};

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// An allocation would have crossed the budget. Nothing was allocated.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The card had no room for an allocation inside the budget, because others hold it.
    #[error(transparent)]
    DeviceFull(#[from] DeviceFull),
    /// The system gave no memory to the CPU, inside the budget.
    #[error(transparent)]
    MemoryRefused(#[from] MemoryRefused),
    /// The GPU failed, and took with it all that this process had there.
    #[error(transparent)]
    DeviceLost(#[from] DeviceLost),
    /// An experiment asks for something that cannot be.
    #[error("{0}")]
    Experiment(Problem),
    /// A file cannot be used.
    #[error("{}{}: {message}", path.display(), place.as_ref().map(|p| format!(" ({p})")).unwrap_or_default())]
    File {
        /// The file.
        path: PathBuf,
        /// The place in the file: a line, a byte offset, a record; `None` when it is the file as a whole.
        place: Option<String>,
        /// The fault, and how to fix it.
        message: String,
    },
    /// The loss or a value became NaN or infinite.
    #[error("{0}")]
    NotFinite(NotFinite),
    /// A tensor would have more elements than any device holds.
    #[error("{layer}: {label} of {shape} would have more elements than any device holds")]
    TooLarge {
        /// Path of the layer.
        layer: String,
        /// The tensor's purpose.
        label: &'static str,
        /// The tensor's dimensions.
        shape: Shape,
    },
    /// The run was stopped by its user.
    #[error("stopped")]
    Stopped,
    /// A kernel met operands it does not support: a bug in the engine, reported with its place.
    #[error("{op} in {layer}: {message}")]
    Kernel {
        /// The operation.
        op: &'static str,
        /// Path of the layer.
        layer: String,
        /// The operands that do not fit, with shapes and dtypes.
        message: String,
    },
    /// The GPU's driver or one of its libraries failed.
    #[error("device: {0}")]
    Device(String),
    /// This process cannot have the GPU that was asked for, or not as training needs it. Another one may work.
    #[error("device: {0}")]
    NoDevice(String),
    /// The system gave no thread: it limits how many there may be.
    #[error("the system provides no thread for {purpose}: {reason}")]
    NoThread {
        /// The thread's purpose.
        purpose: &'static str,
        /// The system's reason.
        reason: String,
    },
    /// Parts of the engine were used in an order or with values that cannot be: a bug, to be reported.
    #[error("a fault in the engine: {0}")]
    Misused(String),
    /// The training thread panicked; the run ended, the program did not.
    #[error("the run ended by a fault in the engine: {0}")]
    Panic(String),
}

/// The limit that a run's memory is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The budget that was chosen.
    #[default]
    Budget,
    /// The free memory of the machine.
    Machine,
    /// The control group of the process, as a container has one.
    ControlGroup,
    /// The limit on the address space of the process (`ulimit -v`).
    Process,
    /// The limit on the data of the process (`ulimit -d`).
    ProcessData,
}

impl LimitedBy {
    /// The limit in words, if it leaves a run `bytes`: `a budget of 64 MiB`, `the 12 GiB that a run can use of what this
    /// machine has free`. A run can use a part of the free memory: holes between its blocks and code take the rest.
    pub fn of(&self, bytes: impl std::fmt::Display) -> String {
        match self {
            Self::Budget => format!("a budget of {bytes}"),
            Self::Machine | Self::ControlGroup | Self::Process | Self::ProcessData => {
                format!("the {bytes} that a run can use of {}", self.source())
            }
        }
    }

    /// Whether it is a limit of this process alone, which counts addresses: reserved ones and hardly used stacks as well.
    pub fn is_of_process(&self) -> bool {
        matches!(self, Self::Process | Self::ProcessData)
    }

    /// The source of the limit, in words: `what this machine has free`.
    pub fn source(&self) -> &'static str {
        match self {
            Self::Budget => "the budget",
            Self::Machine => "what this machine has free",
            Self::ControlGroup => "what the control group has left",
            Self::Process => "what the limit on this process (ulimit -v) leaves",
            Self::ProcessData => "what the limit on its data (ulimit -d) leaves",
        }
    }
}

/// The part of a run that an allocation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum During {
    /// A training step, or the making of the model.
    #[default]
    Training,
    /// The reading of weights or of a checkpoint.
    Loading,
    /// The asking of a teacher before the first step.
    Teaching,
    /// The taking out of channels.
    Pruning,
    /// A test.
    Test,
    /// The writing of a checkpoint.
    Saving,
    /// The making of a smaller model of the trained one, and its test.
    Compression,
}

impl During {
    /// The beginning of a message about it; empty for a training step.
    fn lead(self) -> &'static str {
        match self {
            Self::Training => "",
            Self::Loading => "while weights are loaded: ",
            Self::Teaching => "while the teacher is asked: ",
            Self::Pruning => "while channels are taken out: ",
            Self::Test => "in the test: ",
            Self::Saving => "while a checkpoint is written: ",
            Self::Compression => "in the compression of the trained model: ",
        }
    }
}

/// The refusal of an allocation that would have crossed the budget.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{}{layer}, {op}: {asked} more for {label} would take {} ({live} {}in use){}",
    during.lead(),
    self.in_words(),
    if *is_planned { "would be " } else { "" },
    mend.as_deref().map_or(String::new(), |mend| format!("; {mend}"))
)]
pub struct BudgetError {
    /// Path of the layer that asked.
    pub layer: String,
    /// The operation that asked.
    pub op: &'static str,
    /// The purpose of the allocation.
    pub label: &'static str,
    /// Bytes asked for.
    pub asked: Bytes,
    /// Bytes alive before.
    pub live: Bytes,
    /// The limit that was crossed.
    pub budget: Bytes,
    /// The limit that draws the line there.
    pub limited_by: LimitedBy,
    /// A dry run met it: nothing was allocated.
    pub is_planned: bool,
    /// The part of the run that asked.
    pub during: During,
    /// A change that would fit, if one is known.
    pub mend: Option<Box<str>>,
}

impl BudgetError {
    /// The same refusal as one that a dry run met.
    #[must_use]
    pub fn planned(self) -> Self {
        Self { is_planned: true, ..self }
    }

    /// Whether a text is the message of such a refusal, because a kept run has only the words of its error.
    pub fn is_told_by(text: &str) -> bool {
        text.contains(" more for ") && text.contains(" would take ") && text.contains(" in use)")
    }

    /// The bytes that would be alive, and the limit: `12.0 MiB of a budget of 8.00 MiB`.
    fn in_words(&self) -> String {
        let [would_be, budget] = Bytes(self.live.0 + self.asked.0).beside(self.budget);
        format!("{would_be} of {}", self.limited_by.of(budget))
    }
}

/// The system's refusal of memory for the CPU, inside the budget.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{}the system refused {asked}{}; close other programs, raise the limits on this process (ulimit -v and -d) or its container, or take less: a smaller micro-batch, or checkpointing",
    if layer.is_empty() { String::new() } else { format!("{layer}, {op}: ") },
    if label.is_empty() { String::new() } else { format!(" for {label}") }
)]
pub struct MemoryRefused {
    /// Path of the layer that asked; empty outside any.
    pub layer: String,
    /// The operation that asked.
    pub op: &'static str,
    /// The purpose of the allocation.
    pub label: &'static str,
    /// Bytes asked for.
    pub asked: Bytes,
}

impl MemoryRefused {
    /// A refusal of this many bytes, at any place.
    pub fn of(asked: Bytes) -> Self {
        Self { layer: String::new(), op: "", label: "", asked }
    }
}

/// The driver's refusal of an allocation inside the budget: the card is full.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{}the card has no room for {}{label}: of its {total}, this run holds {reserved} and {free} are free; the driver and other processes hold the rest, so close one of those or lower the budget",
    if layer.is_empty() { String::new() } else { format!("{layer}, {op}: ") },
    if *asked == Bytes::ZERO { String::new() } else { format!("{asked} more for ") }
)]
pub struct DeviceFull {
    /// Path of the layer that asked; empty outside any.
    pub layer: String,
    /// The operation that asked.
    pub op: &'static str,
    /// The purpose of the allocation.
    pub label: &'static str,
    /// Bytes asked for; zero if that is not known.
    pub asked: Bytes,
    /// Free bytes of the card.
    pub free: Bytes,
    /// Bytes that this run's memory pool holds.
    pub reserved: Bytes,
    /// Bytes of the card.
    pub total: Bytes,
}

/// A fault on a GPU after which the driver serves nothing that this process had there.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "the GPU failed and the run's data on it are lost ({doing}: {reason}){}; the next run reopens it, and if that fails too, start the program again; CUDA_LAUNCH_BLOCKING=1 in the environment names the kernel",
    if place.is_empty() { String::new() } else { format!(", noticed at {place}, which is often later than its cause") }
)]
pub struct DeviceLost {
    /// Where in the run it was noticed; empty if it is not known.
    pub place: String,
    /// The request to the driver that failed.
    pub doing: String,
    /// The driver's reason.
    pub reason: String,
}

/// Where a run lost its numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("step {step}: {}", match &self.layer { Some(layer) => format!("the values stopped being finite in {layer}; a lower learning rate, gradient clipping or a wider precision usually helps"), None => "the loss is not finite; a lower learning rate, gradient clipping or a wider precision usually helps".to_owned() })]
pub struct NotFinite {
    /// Optimizer step, from 1.
    pub step: u64,
    /// The first layer, in forward order, with a value that is not finite, if it could be found.
    pub layer: Option<String>,
}

/// A fault of an experiment: the key, the fault, and the valid choices.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{key}: {message}; {mend}")]
pub struct Problem {
    /// Dotted key in the preset, such as `batch.micro`.
    pub key: String,
    /// The fault.
    pub message: String,
    /// A valid choice.
    pub mend: String,
}

impl Problem {
    /// A problem with `key`.
    pub fn new(key: impl Into<String>, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), mend: mend.into() }
    }
}

impl Error {
    /// A file that cannot be used as a whole.
    pub fn file(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Self::File { path: path.as_ref().to_owned(), place: None, message: message.into() }
    }

    /// A file that cannot be used because of one place in it.
    pub fn file_at(path: impl AsRef<Path>, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self::File { path: path.as_ref().to_owned(), place: Some(place.into()), message: message.into() }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Experiment(problem)
    }
}

/// The text of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Device(error.to_string())
    }
}

//! The result of a test set.

use super::{Answers, Took, WeightsFrom};
use crate::{data::ValueErrors, experiment::Task};

/// The result of a test set.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Where the weights came from.
    pub weights: WeightsFrom,
    /// The task that the model learned.
    pub task: Task,
    /// Mean loss of the labels that count.
    pub loss: f64,
    /// Share of them that was answered right; of values the share of the labels' variance that is explained (R²).
    pub accuracy: f64,
    /// For values, how far they are from the labels.
    pub errors: Option<ValueErrors>,
    /// Samples of the test set.
    pub samples: usize,
    /// The answers, class by class and sample by sample; `None` for sequences and values.
    pub answers: Option<Answers>,
    /// The names of the classes; empty for sequences and values.
    pub class_names: Vec<String>,
    /// A warning if the data are no longer those that the model learned from, or if a part of the model begins with new values.
    pub caution: Option<String>,
    /// Its memory.
    pub took: Took,
}

impl Evaluation {
    /// The exponential of the mean loss, by which models of sequences are judged; `None` for other tasks.
    pub fn perplexity(&self) -> Option<f64> {
        (self.task == Task::Next).then(|| self.loss.exp())
    }
}

//! The loss: cross entropy with the counts for the accuracy, and the squared error of values.

use super::{Contract, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Tensor},
    device::Processor,
    error::Result,
};

/// The label of a row that the loss ignores.
pub const IGNORE_INDEX: u32 = u32::MAX;

/// The most parts whose losses a GPU sums apart.
pub(in crate::backend) const CUDA_LOSS_PARTS: usize = 512;

/// The teacher's part of the loss, in addition to the labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lesson {
    /// The divisor of both models' logits.
    pub temperature: f64,
    /// The teacher's share of the loss.
    pub weight: f64,
}

/// Kernels of the loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// in: `logits [rows, columns]`, `labels [rows]` (u32); out: `stats [2]` (f64), updated: adds the sum over rows of
    /// `-log softmax(logits)[label]` to the first and the number of rows whose largest logit is the label's to the second.
    /// Rows whose label is [`IGNORE_INDEX`] count in neither. The columns behind the classes are not read.
    CrossEntropy {
        /// The first columns, which are logits.
        classes: usize,
    },
    /// in: `labels [rows]`; out: `logits [rows, columns]`, updated: becomes `scale * (softmax(logits) - onehot(label))`,
    /// or zero where the label is [`IGNORE_INDEX`], and in the columns behind the classes.
    CrossEntropyGrad {
        /// The first columns, which are logits.
        classes: usize,
        /// The loss's weight, loss scaling included.
        scale: f64,
    },
    /// in: `logits [rows, columns]`, `taught [rows, columns of its own]`, the teacher's logits, `labels [rows]` (u32); out:
    /// `stats [2]` (f64), updated: adds the sum over rows of `(1 - weight) * -log softmax(logits)[label] + weight * T² *
    /// KL(softmax(taught / T) || softmax(logits / T))` to the first, T the temperature, and to the second what
    /// [`Loss::CrossEntropy`] does. Rows whose label is [`IGNORE_INDEX`] count in neither (Hinton et al. 2015). The columns
    /// behind the classes are not read.
    Distil {
        /// The first columns of both, which are logits.
        classes: usize,
        /// How much the teacher counts, and how soft its answers are.
        lesson: Lesson,
    },
    /// in: `taught [rows, columns of its own]`, `labels [rows]`; out: `logits [rows, columns]`, updated: becomes `scale * ((1 -
    /// weight) * (softmax(logits) - onehot(label)) + weight * T * (softmax(logits / T) - softmax(taught / T)))`, or zero where the
    /// label is [`IGNORE_INDEX`], and in the columns behind the classes.
    DistilGrad {
        /// The first columns of both, which are logits.
        classes: usize,
        /// How much the teacher counts, and how soft its answers are.
        lesson: Lesson,
        /// The loss's weight, loss scaling included.
        scale: f64,
    },
    /// in: `values [rows]`, `labels [rows]` (f32, on the CPU f64 too); out: `stats [2]` (f64), updated: adds the sum over rows
    /// of `(value - label)^2` to the first and the sum of `|value - label|` to the second.
    SquaredError,
    /// in: `labels [rows]` (f32, on the CPU f64 too); out: `values [rows]`, updated: becomes `2 * scale * (value - label)`.
    SquaredErrorGrad {
        /// The loss's weight, loss scaling included.
        scale: f64,
    },
}

impl Contract for Loss {
    fn name(&self) -> &'static str {
        match self {
            Self::CrossEntropy { .. } => "cross entropy",
            Self::CrossEntropyGrad { .. } => "cross entropy gradient",
            Self::Distil { .. } => "distillation",
            Self::DistilGrad { .. } => "distillation gradient",
            Self::SquaredError => "squared error",
            Self::SquaredErrorGrad { .. } => "squared error gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let fits = |logits: usize, labels: usize, classes: usize| {
            labels > 0 && classes > 0 && logits.is_multiple_of(labels) && logits / labels >= classes
        };
        match *self {
            Self::CrossEntropy { classes } => {
                matches!((inputs, outputs), ([logits, labels], [2]) if fits(*logits, *labels, classes))
            }
            Self::CrossEntropyGrad { classes, .. } => {
                matches!((inputs, outputs), ([labels], [logits]) if fits(*logits, *labels, classes))
            }
            Self::Distil { classes, .. } => match (inputs, outputs) {
                ([logits, taught, labels], [2]) => [logits, taught].iter().all(|all| fits(**all, *labels, classes)),
                _ => false,
            },
            Self::DistilGrad { classes, .. } => match (inputs, outputs) {
                ([taught, labels], [logits]) => [logits, taught].iter().all(|all| fits(**all, *labels, classes)),
                _ => false,
            },
            Self::SquaredError => {
                matches!((inputs, outputs), ([values, labels], [2]) if *labels > 0 && values == labels)
            }
            Self::SquaredErrorGrad { .. } => {
                matches!((inputs, outputs), ([labels], [values]) if *labels > 0 && values == labels)
            }
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        0
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        match self {
            // A loss and a count a part.
            Self::CrossEntropy { .. } | Self::Distil { .. } => 2 * CUDA_LOSS_PARTS * size_of::<f64>(),
            // One block sums them.
            Self::CrossEntropyGrad { .. }
            | Self::DistilGrad { .. }
            | Self::SquaredError
            | Self::SquaredErrorGrad { .. } => 0,
        }
    }
}

impl<B: Backend> Executor<B> {
    /// Adds the batch's loss and count of right answers to `stats [2]`; of `logits [rows, columns]`, the first `classes` columns
    /// count.
    ///
    /// # Errors
    /// Fails when the numbers of labels and rows differ, when memory would cross the budget
    /// ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn cross_entropy(
        &self,
        logits: &Tensor<B>,
        classes: usize,
        labels: &Tensor<B>,
        stats: &Tensor<B>,
    ) -> Result<()> {
        self.expect("cross entropy", logits.shape().rows() == labels.elements(), || {
            format!("{logits:?} against {labels:?}")
        })?;
        self.launch(Loss::CrossEntropy { classes }, &[logits, labels], &[stats])
    }

    /// The gradient of `scale` times the summed loss by the logits, in place when nothing else holds them; zero in the columns
    /// behind the classes.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn cross_entropy_grad(
        &self,
        logits: Tensor<B>,
        classes: usize,
        labels: &Tensor<B>,
        scale: f64,
    ) -> Result<Tensor<B>> {
        let gradient = self.own(logits, "cross entropy gradient")?;
        self.launch(Loss::CrossEntropyGrad { classes, scale }, &[labels], &[&gradient])?;
        Ok(gradient)
    }

    /// Adds the batch's loss by the labels and by the teacher's logits, and its count of right answers, to `stats [2]`. The first
    /// `classes` columns of both logits count.
    ///
    /// # Errors
    /// Fails when logits, the teacher's and labels do not have the same rows, when memory would cross the budget
    /// ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn distil(
        &self,
        (logits, taught): (&Tensor<B>, &Tensor<B>),
        classes: usize,
        labels: &Tensor<B>,
        lesson: Lesson,
        stats: &Tensor<B>,
    ) -> Result<()> {
        let agree = [logits, taught].iter().all(|all| all.shape().rows() == labels.elements());
        self.expect("distillation", agree, || format!("{logits:?} against {taught:?} and {labels:?}"))?;
        self.launch(Loss::Distil { classes, lesson }, &[logits, taught, labels], &[stats])
    }

    /// The gradient of `scale` times the summed loss of [`Executor::distil`] by the logits, in place when nothing else holds
    /// them; zero in the columns behind the classes.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn distil_grad(
        &self,
        (logits, taught): (Tensor<B>, &Tensor<B>),
        classes: usize,
        labels: &Tensor<B>,
        lesson: Lesson,
        scale: f64,
    ) -> Result<Tensor<B>> {
        let gradient = self.own(logits, "distillation gradient")?;
        self.launch(Loss::DistilGrad { classes, lesson, scale }, &[taught, labels], &[&gradient])?;
        Ok(gradient)
    }

    /// Adds the batch's squared and absolute errors to `stats [2]`.
    ///
    /// # Errors
    /// Fails when the numbers of labels and values differ, when memory would cross the budget
    /// ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn squared_error(&self, values: &Tensor<B>, labels: &Tensor<B>, stats: &Tensor<B>) -> Result<()> {
        self.expect("squared error", values.elements() == labels.elements(), || {
            format!("{values:?} against {labels:?}")
        })?;
        self.launch(Loss::SquaredError, &[values, labels], &[stats])
    }

    /// The gradient of `scale` times the summed squared error by the values, in place when nothing else holds them.
    ///
    /// # Errors
    /// Fails when memory would cross the budget ([`Error::Budget`](crate::Error::Budget)) or when the device fails.
    pub fn squared_error_grad(&self, values: Tensor<B>, labels: &Tensor<B>, scale: f64) -> Result<Tensor<B>> {
        let gradient = self.own(values, "squared error gradient")?;
        self.launch(Loss::SquaredErrorGrad { scale }, &[labels], &[&gradient])?;
        Ok(gradient)
    }
}

//! Chains of ops that treat each element by itself, and what they follow, in one pass over memory: what fused execution runs.
//!
//! Always holds: an op's results are those of its parts one after the other, to the last bit on one device. Each part rounds
//! to the type of the elements, as if its result had been stored, and sums have the order that they have apart.

mod calls;

pub use self::calls::{NormedRows, RowScale, Summands};
use super::{ActivationFunction, Contract, Dropout, OperandBytes, Rows};
use crate::{
    backend::{
        DType,
        scratch::{on_cpu, split_reduction},
    },
    device::Processor,
};

/// A rectifier, which is differentiated from its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rectifier {
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
}

/// A function of each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// One of the rectifiers, which work in place.
    Rectifier(Rectifier),
    /// A smooth function, which is differentiated from its input.
    Smooth(ActivationFunction),
}

/// What normalises the rows of a sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowNorm {
    /// As [`Norm::Layer`](super::Norm::Layer), with this epsilon.
    Layer(f64),
    /// As [`Norm::Rms`](super::Norm::Rms), with this epsilon.
    Rms(f64),
}

/// What stands where an output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Nothing that is read.
    Nothing,
    /// The input.
    X,
    /// What is added.
    Other,
}

/// Kernels of chains. Statistics are f32, or f64 for f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fused {
    /// Of a rectifier: in: `bias [columns]`; out: `y [rows, columns]`, updated: the function of `y + bias`.
    /// Of a smooth function: in: `x [rows, columns]`, `bias [columns]`; out: `y`, the function of `x + bias`.
    Bias(Function),
    /// Of a rectifier: in: `y`, the output of [`Fused::Bias`]; of a smooth function: in: `x`, `bias`, as of
    /// [`Fused::Bias`]. out: `dy [rows, columns]`, updated: becomes the gradient of what the bias is added to; when given,
    /// `db [columns]` (type of `dy` or f32), the sum of that over rows, added to `db` when `accumulate`.
    BiasGrad {
        /// The function.
        function: Function,
        /// Add to `db` rather than overwrite it.
        accumulate: bool,
    },
    /// in: `other [rows, columns]`, `bias [columns]` when `biased`, and, with a norm, its `weight [columns]` and, of a layer
    /// norm, `offset [columns]` (type of `other` or f32); out: `y`, updated: `y + bias`, with the elements dropped that
    /// [`Dropout`] drops, plus `other`; with a norm, `normed`, and its `mean [rows]` (not of an RMS norm) and
    /// `inverse [rows]`.
    Sum {
        /// Rows and columns.
        extents: Rows,
        /// Whether there is a bias.
        biased: bool,
        /// What is dropped of the first summand.
        dropout: Option<Dropout>,
        /// The norm of the sum.
        norm: Option<RowNorm>,
    },
    /// in: `x [rows, channels]`, `weight`, `bias`, as of [`Norm::Batch`](super::Norm::Batch), and `other` when it `sums`; out:
    /// as of it, with `y` the normalised `x`, plus `other`, rectified at the `end`.
    BatchNorm {
        /// Rows, and channels as columns.
        extents: Rows,
        /// Added to the variance.
        epsilon: f64,
        /// How far the running estimates move towards the batch's.
        momentum: f64,
        /// Whether another tensor is added.
        sums: bool,
        /// What is at the end.
        end: Option<Rectifier>,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, `bias`, and `other` when it `sums`; out: `y`, to the last bit as
    /// [`Fused::BatchNorm`] wrote it. What it is written `over` is not given: out: `y`, updated.
    BatchApply {
        /// Whether another tensor is added.
        sums: bool,
        /// What is at the end.
        end: Option<Rectifier>,
        /// What stands where the output is written.
        over: Over,
    },
    /// in: `x`, `mean`, `inverse`, `weight`, `bias`, as of [`Fused::BatchNorm`] without a sum; out: `dy`, updated: becomes
    /// `dx`; when given, `dweight`, `dbias` (type of `weight`), added to when `accumulate`. With `dy` as one more input, which
    /// stays, out: `dx`, overwritten.
    BatchGrad {
        /// Rows, and channels as columns.
        extents: Rows,
        /// Add to the parameters' gradients rather than overwrite them.
        accumulate: bool,
        /// What is at the end.
        end: Option<Rectifier>,
    },
}

impl Fused {
    /// The matrix whose parts are summed apart, for batch norms.
    fn summed_over_rows(&self) -> Option<&Rows> {
        match self {
            Self::BatchNorm { extents, .. } | Self::BatchGrad { extents, .. } => Some(extents),
            Self::Bias(_) | Self::BiasGrad { .. } | Self::Sum { .. } | Self::BatchApply { .. } => None,
        }
    }
}

/// Names of batch norms: of a sum and of one without, by what is at the end.
fn batch_norm_name(sums: bool, end: Option<Rectifier>) -> &'static str {
    match (sums, end) {
        (false, None) => "batch norm",
        (false, Some(Rectifier::Relu)) => "batch norm, relu",
        (false, Some(Rectifier::Relu6)) => "batch norm, relu6",
        (true, None) => "batch norm, add",
        (true, Some(Rectifier::Relu)) => "batch norm, add, relu",
        (true, Some(Rectifier::Relu6)) => "batch norm, add, relu6",
    }
}

/// Whether each of some operands has so many elements.
fn all(of: &[usize], n: usize) -> bool {
    n > 0 && of.iter().all(|i| *i == n)
}

/// Whether a sum takes these operands.
fn sum_takes(e: &Rows, biased: bool, norm: Option<RowNorm>, [inputs, outputs]: [&[usize]; 2]) -> bool {
    // The vectors that a norm reads, the matrices that are written, and the statistics.
    let [parameters, matrices, statistics] = match norm {
        None => [0, 1, 0],
        Some(RowNorm::Layer(_)) => [2, 2, 2],
        Some(RowNorm::Rms(_)) => [1, 2, 1],
    };
    inputs.len() == 1 + usize::from(biased) + parameters
        && outputs.len() == matrices + statistics
        && all(&inputs[..1], e.elements())
        && all(&inputs[1..], e.columns)
        && all(&outputs[..matrices], e.elements())
        && all(&outputs[matrices..], e.rows)
}

impl Contract for Fused {
    fn name(&self) -> &'static str {
        match self {
            Self::Bias(Function::Rectifier(Rectifier::Relu)) => "bias, relu",
            Self::Bias(Function::Rectifier(Rectifier::Relu6)) => "bias, relu6",
            Self::Bias(Function::Smooth(function)) => function.names().biased,
            Self::BiasGrad { function: Function::Rectifier(Rectifier::Relu), .. } => "bias, relu gradient",
            Self::BiasGrad { function: Function::Rectifier(Rectifier::Relu6), .. } => "bias, relu6 gradient",
            Self::BiasGrad { function: Function::Smooth(function), .. } => function.names().biased_gradient,
            Self::Sum { norm: None, biased: true, dropout: None, .. } => "bias, add",
            Self::Sum { norm: None, biased: true, dropout: Some(_), .. } => "bias, dropout, add",
            Self::Sum { norm: None, biased: false, .. } => "dropout, add",
            Self::Sum { norm: Some(RowNorm::Layer(_)), .. } => "add, layer norm",
            Self::Sum { norm: Some(RowNorm::Rms(_)), .. } => "add, rms norm",
            Self::BatchNorm { sums, end, .. } => batch_norm_name(*sums, *end),
            Self::BatchApply { .. } => "batch norm apply",
            Self::BatchGrad { end: None, .. } => "batch norm gradient",
            Self::BatchGrad { end: Some(Rectifier::Relu), .. } => "batch norm, relu gradient",
            Self::BatchGrad { end: Some(Rectifier::Relu6), .. } => "batch norm, relu6 gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        let repeats = |part: usize, all: usize| part > 0 && all > 0 && all.is_multiple_of(part);
        match self {
            Self::Bias(Function::Rectifier(_)) => matches!((inputs, outputs), ([b], [y]) if repeats(*b, *y)),
            Self::Bias(Function::Smooth(_)) => {
                matches!((inputs, outputs), ([x, b], [y]) if x == y && repeats(*b, *y))
            }
            Self::BiasGrad { function: Function::Rectifier(_), .. } => match (inputs, outputs) {
                ([y], [dy, db]) => y == dy && repeats(*db, *dy),
                _ => false,
            },
            Self::BiasGrad { function: Function::Smooth(_), .. } => match (inputs, outputs) {
                ([x, b], [dy, db @ ..]) => x == dy && repeats(*b, *dy) && db.len() <= 1 && all(db, *b),
                _ => false,
            },
            Self::Sum { extents, biased, norm, dropout } => {
                sum_takes(extents, *biased, *norm, [inputs, outputs])
                    && dropout.is_none_or(|dropout| (0.0..1.0).contains(&dropout.probability))
            }
            Self::BatchNorm { extents: e, sums, .. } => match (inputs, outputs) {
                ([x, w, b, other @ ..], [y, vectors @ ..]) => {
                    other.len() == usize::from(*sums)
                        && matches!(vectors.len(), 2 | 4)
                        && all(&[*x, *y], e.elements())
                        && all(other, e.elements())
                        && all(&[*w, *b], e.columns)
                        && all(vectors, e.columns)
                }
                _ => false,
            },
            Self::BatchApply { sums, over, .. } => match outputs {
                [y] => {
                    let [first, last] = [usize::from(*over != Over::X), usize::from(*sums && *over != Over::Other)];
                    let columns = inputs.get(first).copied().unwrap_or_default();
                    inputs.len() == first + 4 + last
                        && (*sums || *over != Over::Other)
                        && repeats(columns, *y)
                        && all(&inputs[first..first + 4], columns)
                        && inputs[..first].iter().chain(&inputs[first + 4..]).all(|matrix| matrix == y)
                }
                _ => false,
            },
            Self::BatchGrad { extents: e, .. } => match (inputs, outputs) {
                ([x, vectors @ ..], [dy, gradients @ ..]) => {
                    matches!(vectors.len(), 4 | 5)
                        && matches!(gradients.len(), 0 | 2)
                        && all(&[*x, *dy], e.elements())
                        && all(&vectors[..4], e.columns)
                        && vectors[4..].iter().all(|from| from == dy)
                        && all(gradients, e.columns)
                }
                _ => false,
            },
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        self.summed_over_rows().map_or(0, |extents| on_cpu::row_sums(extents) * size_of::<f64>())
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        match self {
            // As of the gradient of a bias alone.
            Self::BiasGrad { .. } => split_reduction::BIAS_SUMS * size_of::<f64>(),
            Self::Bias(_)
            | Self::Sum { .. }
            | Self::BatchNorm { .. }
            | Self::BatchApply { .. }
            | Self::BatchGrad { .. } => {
                self.summed_over_rows().map_or(0, |extents| split_reduction::row_sums(extents) * size_of::<f64>())
            }
        }
    }
}

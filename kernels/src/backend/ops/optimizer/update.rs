//! The rules by which an optimizer updates a parameter, as kernels know them.

use std::f64::consts::SQRT_2;

use super::{
    super::Rows,
    moments::{Moments, NarrowWeight},
    state::{StateLayout, StateSpec, StateValues},
};
use crate::{
    backend::scratch::{
        on_cpu::row_parts,
        split_reduction::{self, UPDATE_SPLITS, update_row_splits},
    },
    tensor::{DType, Shape},
};

/// One update of one parameter. Below, `g = grad_scale * grad`, and `t` counts updates from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// The rule.
    pub rule: UpdateRule,
    /// Learning rate.
    pub rate: f64,
    /// Weight decay: L2 (`g += weight_decay * w`) for the rules up to [`UpdateRule::Adam`], decoupled for the others
    /// (`w *= 1 - rate * weight_decay` first; Loshchilov & Hutter 2019).
    pub weight_decay: f64,
    /// Undoes loss scaling and applies clipping.
    pub grad_scale: f64,
}

/// A rule, and the tensors of its state: [`UpdateRule::state_layout`] is their one description.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UpdateRule {
    /// `w -= rate * g`. Keeps nothing.
    Sgd,
    /// `v = momentum * v + g; w -= rate * v` (Sutskever et al. 2013, as PyTorch writes it). Keeps `v`.
    Momentum {
        /// Decay of the velocity.
        momentum: f64,
    },
    /// As [`UpdateRule::Momentum`], but `w -= rate * (g + momentum * v)` (Nesterov 1983, as PyTorch writes it).
    Nesterov {
        /// Decay of the velocity.
        momentum: f64,
    },
    /// `v = alpha v + (1-alpha) g²; w -= rate * g / (sqrt(v) + epsilon)` (Tieleman & Hinton 2012, as PyTorch writes it,
    /// without momentum and not centred).
    RmsProp {
        /// Decay of the mean of squares.
        alpha: f64,
        /// Added to the denominator.
        epsilon: f64,
    },
    /// `m = b1 m + (1-b1) g; v = b2 v + (1-b2) g²; w -= rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)`
    /// (Kingma & Ba 2015). Keeps `m`, `v`.
    Adam(Moments),
    /// As [`UpdateRule::Adam`], with decoupled weight decay (Loshchilov & Hutter 2019).
    AdamW(Moments),
    /// As [`UpdateRule::AdamW`], its moments in 8 bits between updates (Dettmers et al. 2022, "8-bit optimizers via
    /// block-wise quantization"). Keeps, for `m` and then for `v`, a code (u8) an element and the largest magnitude
    /// (f32) of every [`UpdateRule::BLOCK`] elements: of `m`'s dynamic code with a sign, of `v`'s without. Zeros stand
    /// for zero.
    AdamW8(Moments),
    /// As [`UpdateRule::AdamW`], its moments in 4 bits between updates (Li, Chen & Zhu 2023, "Memory efficient optimizers with
    /// 4-bit states", B128/DE and Rank-1/Linear). Keeps two codes a byte, the first of a pair in the higher half. Of `m`: a
    /// dynamic code with a sign, of the largest magnitude (f32) of every [`UpdateRule::BLOCK_OF_4_BITS`] elements. Of `v`: the
    /// code `i` for `(i + 1) / 16`, which is never zero; of a matrix the largest of each row and of each column (f32), of
    /// which the smaller one scales an element; of a matrix of one row, a vector, the largest of every block. Zeros stand
    /// for zero.
    AdamW4 {
        /// The constants.
        moments: Moments,
        /// The weight as a matrix.
        extents: Rows,
    },
    /// As [`UpdateRule::AdamW`], its moments in 8 bits between updates, by codes that are finer near zero, and weights of 16
    /// bits with corrections in place of a wider copy (Gonzalez Ortiz et al. 2026, "FlashOptim: Optimizers for memory efficient
    /// training"). With `x` a share of the largest of every [`UpdateRule::GROUP`] elements, keeps for `m` the code
    /// `127 * 2x / (1 + |x|)` in two's complement, for `v` `255 x` of its root, and of a narrow weight, in two's complement, in
    /// 127ths of half the gap to the next one, what rounding took from it. Of the largest it keeps
    /// [`UpdateRule::ROOT_FACTOR`] times its root, in f16. Zeros stand for zero.
    FlashAdamW {
        /// The constants.
        moments: Moments,
        /// The type of a weight that has corrections.
        narrow: Option<NarrowWeight>,
    },
    /// APOLLO-Mini of a matrix (Zhu et al. 2024, "APOLLO: SGD-like memory, AdamW-level performance", with tensor-wise scaling
    /// and rank 1). With `p` normal, of the shorter side, `r = p^T g`, or `g p` of a matrix with more rows than columns:
    /// AdamW's moments of `r` make `u` of it; `s = |u| / (|r| + 1e-8)`; the norm `s |g|` is at most 1.01 times the norm of the
    /// update before, if that was not zero; and `w -= rate * sqrt(128) * s g`. One departure: the norm that is limited is that
    /// of moments whose bias is corrected. Keeps `m`, `v` of the longer side and that norm, in f32 (f64 for f64).
    ApolloMini {
        /// The constants.
        moments: Moments,
        /// The weight as a matrix.
        extents: Rows,
        /// The key from which `p` is drawn, by [`Rng::from_key`](crate::rng::Rng::from_key).
        key: u64,
    },
    /// `w -= rate * sign(b1 m + (1-b1) g); m = b2 m + (1-b2) g` (Chen et al. 2023). Keeps `m`.
    Lion {
        /// Share of the momentum in the step's direction.
        beta1: f64,
        /// Decay of the momentum.
        beta2: f64,
    },
    /// Adafactor without relative step and first moment (Shazeer & Stern 2018, algorithms 4 and 5). Of a matrix, with
    /// `b = 1 - t^-0.8`: `r = b r + (1-b) mean over a row of (g² + 1e-30)`, `c` the same over a column, `v = r c / mean(r)`;
    /// `u = g / sqrt(v); w -= rate * u / max(1, rms(u))`. A matrix of one row is a vector: `v = b v + (1-b) (g² + 1e-30)`.
    /// Keeps `r [rows]` and `c [columns]`, or `v`, in f32 (f64 for f64).
    Adafactor {
        /// The weight as a matrix.
        extents: Rows,
        /// The number of the update, `t`.
        step: u64,
    },
}

/// The form in which a rule reads a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightForm {
    /// Its elements alone, one by one or block by block.
    Elements,
    /// Its rows and columns; a vector is a single row.
    Rows(Rows),
    /// The rows and columns of a matrix. The rule is not for vectors.
    Matrix(Rows),
}

/// Bytes of scratch that an update takes on each kind of device.
pub(super) struct Scratch {
    pub(super) cpu: usize,
    pub(super) gpu: usize,
}

impl UpdateRule {
    /// Elements that share a scale in [`UpdateRule::AdamW8`].
    pub const BLOCK: usize = 256;
    /// Elements that share a scale in [`UpdateRule::AdamW4`].
    pub const BLOCK_OF_4_BITS: usize = 128;
    /// Elements that share a scale in [`UpdateRule::FlashAdamW`].
    pub const GROUP: usize = 32;
    /// The factor of the roots that [`UpdateRule::FlashAdamW`] keeps of scales: f16 then has all its bits for scales from 1e-11
    /// to 1e7.
    pub const ROOT_FACTOR: f32 = 16.0;

    /// Added to the norm of the part of a gradient in [`UpdateRule::ApolloMini`].
    pub(crate) const APOLLO_EPSILON: f64 = 1e-8;
    /// The most that the norm of its steps grows by.
    pub(crate) const APOLLO_GROWTH: f64 = 1.01;

    /// A factor that makes up for the rank of one: the root of 128.
    pub(crate) const APOLLO_SCALE: f64 = 8.0 * SQRT_2;

    /// The norm of a step of [`UpdateRule::ApolloMini`] that would have the norm `size`, after one of norm `before`.
    pub(crate) fn limited_norm(size: f64, before: f64) -> f64 {
        let most = Self::APOLLO_GROWTH * before;
        if before > 0.0 && size > most { most } else { size }
    }

    /// Added to every square in [`UpdateRule::Adafactor`].
    pub(crate) const ADAFACTOR_EPSILON: f64 = 1e-30;

    /// The share of a new square in the means of [`UpdateRule::Adafactor`] at `step`.
    pub(crate) fn adafactor_take(step: u64) -> f64 {
        (step.max(1) as f64).powf(-0.8)
    }

    /// The same rule at the next update.
    #[must_use]
    pub fn next(mut self) -> Self {
        match &mut self {
            Self::Adam(moments)
            | Self::AdamW(moments)
            | Self::AdamW8(moments)
            | Self::AdamW4 { moments, .. }
            | Self::FlashAdamW { moments, .. }
            | Self::ApolloMini { moments, .. } => moments.step += 1,
            Self::Adafactor { step, .. } => *step += 1,
            Self::Sgd | Self::Momentum { .. } | Self::Nesterov { .. } | Self::RmsProp { .. } | Self::Lion { .. } => {}
        }
        self
    }

    /// Whether a step follows a sign, so that the least difference of a gradient can turn it.
    pub fn is_of_signs(&self) -> bool {
        matches!(self, Self::Lion { .. })
    }

    /// Whether it treats every element alike, with a state like the weight: several parameters can be updated at once. A rule
    /// that is not listed is right all the same, and has a launch a parameter.
    pub fn is_by_element(&self) -> bool {
        matches!(self, Self::Sgd | Self::Momentum { .. } | Self::Nesterov { .. } | Self::RmsProp { .. })
            || matches!(self, Self::Adam(_) | Self::AdamW(_) | Self::Lion { .. })
    }

    /// The form in which the rule reads a weight.
    pub fn form(&self) -> WeightForm {
        match *self {
            Self::Sgd
            | Self::Momentum { .. }
            | Self::Nesterov { .. }
            | Self::Adam(_)
            | Self::AdamW(_)
            | Self::AdamW8(_)
            | Self::FlashAdamW { .. }
            | Self::RmsProp { .. }
            | Self::Lion { .. } => WeightForm::Elements,
            Self::AdamW4 { extents, .. } | Self::Adafactor { extents, .. } => WeightForm::Rows(extents),
            Self::ApolloMini { extents, .. } => WeightForm::Matrix(extents),
        }
    }

    /// Scratch of one update of a weight that is updated in `dtype`. A rule that goes element by element, or block by block,
    /// has none.
    pub(super) fn scratch_bytes(&self, dtype: DType) -> Scratch {
        match self {
            Self::Sgd
            | Self::Momentum { .. }
            | Self::Nesterov { .. }
            | Self::Adam(_)
            | Self::AdamW(_)
            | Self::AdamW8(_)
            | Self::FlashAdamW { .. }
            | Self::RmsProp { .. }
            | Self::Lion { .. } => Scratch { cpu: 0, gpu: 0 },
            Self::AdamW4 { extents, .. } => {
                let cpu = Self::four_bit_sums(extents) * size_of::<f32>();
                Scratch { cpu, gpu: four_bit_on_gpu(extents) }
            }
            Self::ApolloMini { extents, .. } => {
                let cpu = Self::apollo_sums(extents) * size_of::<f64>();
                Scratch { cpu, gpu: apollo_on_gpu(extents) }
            }
            Self::Adafactor { extents, .. } => {
                // Sums and scales do not live at the same time.
                let scales = extents.columns * dtype.accumulator().size();
                let of_matrix = (Self::adafactor_sums(extents) * size_of::<f64>()).max(scales);
                Scratch { cpu: if extents.rows == 1 { 0 } else { of_matrix }, gpu: adafactor_on_gpu(extents) }
            }
        }
    }

    /// Elements of f64 that the factored update of a matrix sums its columns in on the CPU, part by part.
    pub(in crate::backend) fn adafactor_sums(extents: &Rows) -> usize {
        row_parts(extents) * extents.columns
    }

    /// Elements of f64 that APOLLO-Mini's update takes on the CPU: the direction, and the gradient's part in it, of a wide
    /// matrix the sums of the parts.
    pub(in crate::backend) fn apollo_sums(extents: &Rows) -> usize {
        let Rows { rows, columns } = *extents;
        rows.min(columns) + if rows > columns { rows } else { row_parts(extents) * columns }
    }

    /// Elements of f32 that the update with 4-bit moments takes on the CPU: of a matrix the new largest of each row, and those
    /// of each column part by part.
    pub(in crate::backend) fn four_bit_sums(extents: &Rows) -> usize {
        if extents.rows == 1 { 0 } else { extents.rows + row_parts(extents) * extents.columns }
    }

    /// Whether it may update a weight of `elements`.
    pub(super) fn is_of(&self, elements: usize) -> bool {
        match self.form() {
            WeightForm::Elements => true,
            WeightForm::Rows(extents) | WeightForm::Matrix(extents) => extents.elements() == elements,
        }
    }

    /// The state of a `weight` that is updated in `dtype`, in the order in which kernels take it, after the weight. Every
    /// tensor starts as zeros.
    pub fn state_layout(&self, weight: Shape, dtype: DType) -> StateLayout {
        use StateValues::{NonNegative, Positive, Signed};
        let like_weight = |name, values| StateSpec { name, shape: weight, dtype, values };
        match *self {
            Self::Sgd => StateLayout::new(&[]),
            Self::Momentum { .. } | Self::Nesterov { .. } => StateLayout::new(&[like_weight("velocity", Signed)]),
            Self::Lion { .. } => StateLayout::new(&[like_weight("momentum", Signed)]),
            Self::RmsProp { .. } => StateLayout::new(&[like_weight("mean of squares", NonNegative)]),
            Self::Adam(_) | Self::AdamW(_) => {
                StateLayout::new(&[like_weight("first moment", Signed), like_weight("second moment", NonNegative)])
            }
            Self::AdamW8(_) => {
                StateLayout::new(&codes(weight.elements(), Self::BLOCK, (DType::F32, StateValues::Scales)))
            }
            Self::AdamW4 { extents, .. } => pairs_of_codes(weight.elements(), extents, Self::BLOCK_OF_4_BITS),
            Self::FlashAdamW { narrow, .. } => {
                let [first, first_scales, second, second_scales] =
                    codes(weight.elements(), Self::GROUP, (DType::F16, StateValues::ScaleRoots));
                let correction = vector("correction", weight.elements(), DType::U8, StateValues::Corrections);
                let all = [first, first_scales, second, second_scales, correction];
                StateLayout::new(if narrow.is_some() { &all } else { &all[..4] })
            }
            Self::ApolloMini { extents: Rows { rows, columns }, .. } => {
                let real = |name, count, values| vector(name, count, dtype.accumulator(), values);
                let side = rows.max(columns);
                StateLayout::new(&[
                    real("first moment", side, Signed),
                    real("second moment", side, Positive),
                    real("norm", 1, NonNegative),
                ])
            }
            Self::Adafactor { extents: Rows { rows: 1, columns }, .. } => {
                StateLayout::new(&[vector("second moment", columns, dtype.accumulator(), Positive)])
            }
            Self::Adafactor { extents: Rows { rows, columns }, .. } => StateLayout::new(&[
                vector("second moment by row", rows, dtype.accumulator(), Positive),
                vector("second moment by column", columns, dtype.accumulator(), Positive),
            ]),
        }
    }
}

/// A vector of state.
fn vector(name: &'static str, elements: usize, dtype: DType, values: StateValues) -> StateSpec {
    StateSpec { name, shape: [elements].into(), dtype, values }
}

/// Both moments of a weight of `elements`, in codes with a scale for each `block` of them, of this type and with these values.
fn codes(elements: usize, block: usize, (dtype, values): (DType, StateValues)) -> [StateSpec; 4] {
    let scales = |name| vector(name, elements.div_ceil(block), dtype, values);
    [
        vector("first moment", elements, DType::U8, StateValues::Codes),
        scales("first moment's scales"),
        vector("second moment", elements, DType::U8, StateValues::Codes),
        scales("second moment's scales"),
    ]
}

/// Both moments of a weight of `elements`, in pairs of codes: the first with a scale for each `block` of them, the second too,
/// or for a matrix with one for each row and column.
fn pairs_of_codes(elements: usize, Rows { rows, columns }: Rows, block: usize) -> StateLayout {
    let pairs = |name| vector(name, elements.div_ceil(2), DType::U8, StateValues::Pairs);
    let scales = |name, count| vector(name, count, DType::F32, StateValues::Scales);
    let (first, second) = (pairs("first moment"), pairs("second moment"));
    let first_scales = scales("first moment's scales", elements.div_ceil(block));
    if rows == 1 {
        let second_scales = scales("second moment's scales", elements.div_ceil(block));
        return StateLayout::new(&[first, first_scales, second, second_scales]);
    }
    let by_row = scales("second moment's scales by row", rows);
    let by_column = scales("second moment's scales by column", columns);
    StateLayout::new(&[first, first_scales, second, by_row, by_column])
}

/// Scratch of the update with 4-bit moments on a GPU: of a matrix the new largest of each row and of each column.
fn four_bit_on_gpu(extents: &Rows) -> usize {
    if extents.rows == 1 { 0 } else { (extents.rows + extents.columns) * size_of::<f32>() }
}

/// Scratch of APOLLO-Mini's update on a GPU: a factor, the direction, the parts of a sum, and the parts of the sums over the
/// shorter side.
fn apollo_on_gpu(extents: &Rows) -> usize {
    let Rows { rows, columns } = *extents;
    let sums = if rows > columns { rows } else { update_row_splits(extents) * columns };
    (1 + rows.min(columns) + split_reduction::apollo_squares(extents) + sums) * size_of::<f64>()
}

/// Scratch of the factored update on a GPU: the parts of two sums, then, for a matrix, the parts of the sums over its columns.
fn adafactor_on_gpu(extents: &Rows) -> usize {
    let columns = if extents.rows == 1 { 0 } else { update_row_splits(extents) * extents.columns };
    (2 * UPDATE_SPLITS + columns) * size_of::<f64>()
}

macro_rules! names {
    ($($rule:pat => $name:literal,)*) => {
        impl UpdateRule {
            /// The name of every rule.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The name on screen, in timelines and in the selftest: one of [`UpdateRule::NAMES`].
            pub fn name(&self) -> &'static str {
                match self {
                    $($rule => $name,)*
                }
            }
        }
    };
}

names! {
    Self::Sgd => "sgd",
    Self::Momentum { .. } => "momentum",
    Self::Nesterov { .. } => "nesterov",
    Self::RmsProp { .. } => "rmsprop",
    Self::Adam(_) => "adam",
    Self::AdamW(_) => "adamw",
    Self::AdamW8(_) => "adamw8bit",
    Self::AdamW4 { .. } => "adamw4bit",
    Self::FlashAdamW { .. } => "flash-adamw",
    Self::ApolloMini { .. } => "apollo-mini",
    Self::Lion { .. } => "lion",
    Self::Adafactor { .. } => "adafactor",
}

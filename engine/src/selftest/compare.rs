//! How far a result may be from what it should be.
//!
//! With `u` half the distance between neighbours near 1: every step of a sum of `k` terms rounds by the `u` of the type
//! of the arithmetic, which adds up like the root of `k`; storing rounds once more by the `u` of the result's type. So
//! `|a - b| <= 8 u sqrt(1 + k) (1 + |b|) + 2 u' |b|`. A wrong index is off by about 1.
//!
//! Tensor cores, which products of 16-bit operands go by, cut sums off instead of rounding them (Fasi et al. 2021, "Numerical
//! behavior of NVIDIA tensor cores"): what they lose has one sign and adds up with the number of partial sums.

use std::borrow::Cow;

use super::cases::{Case, FLOATS};
use crate::backend::{
    DType, Kernel,
    ops::{Coded, Convolution, Linear, Norm, Optimizer, StateValues},
};

/// Half the distance between neighbours near 1.
pub fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-53),
        DType::F32 => 2f64.powi(-24),
        DType::Bf16 => 2f64.powi(-9),
        DType::F16 => 2f64.powi(-12),
        DType::U32 | DType::U8 => 0.0,
    }
}

/// How far output `output` of a launch may be from `wanted`.
pub fn allowed(case: &Case, output: usize, wanted: f64) -> f64 {
    let dtype = case.outputs[output].1;
    if !FLOATS.contains(&dtype) {
        return integer(case);
    }
    let operand = case.inputs.iter().chain(&case.outputs).map(|o| o.1).find(|d| FLOATS.contains(d));
    let arithmetic = if operand == Some(DType::F64) { DType::F64 } else { DType::F32 };
    let sums = 8.0 * rounding(arithmetic) * (1.0 + case.terms as f64).sqrt();
    // A sum of two roundings, of which one may be of a number much larger than the sum.
    let adds = matches!(case.kernel, Kernel::Norm(Norm::BatchApply { adds: true }));
    let twice = if adds { 16.0 * rounding(dtype) } else { 0.0 };
    let once = 2.0 * rounding(dtype).max(if dtype == DType::F64 { 0.0 } else { rounding(DType::F32) });
    let is_product = matches!(
        case.kernel,
        Kernel::Linear(Linear::MatMul(_))
            | Kernel::Coded(Coded::Product(_))
            | Kernel::Convolution(Convolution::Forward(_))
            | Kernel::Convolution(Convolution::InputGrad(_))
            | Kernel::Convolution(Convolution::WeightGrad { .. })
    );
    let is_narrow = matches!(operand, Some(DType::Bf16 | DType::F16));
    let cut = if is_product && is_narrow { cut_off(case.terms as f64) } else { 0.0 };
    // What codes stand for is rounded to the type of the other operand before it is multiplied.
    let is_decoded = matches!(case.kernel, Kernel::Coded(Coded::Product(_)));
    let decoded = if is_decoded && is_narrow { 4.0 * rounding(dtype) * (1.0 + case.terms as f64).sqrt() } else { 0.0 };
    // Below the smallest normal number.
    let least = if dtype == DType::F16 { 1e-7 } else { 0.0 };
    twice + sums * (1.0 + wanted.abs()) + once * wanted.abs() + cut + decoded + least
}

/// What a sum of `k` products of numbers between -1 and 1 loses where each partial sum of eight is cut off: a sum so far is
/// about `sqrt(k) / 3`, of which four units are allowed.
fn cut_off(k: f64) -> f64 {
    4.0 * rounding(DType::F32) * k / 8.0 * k.sqrt() / 3.0
}

/// Integers are exact; the codes of moments may be neighbours, where a moment is in the middle between two.
fn integer(case: &Case) -> f64 {
    let Kernel::Optimizer(Optimizer::Update(update)) = &case.kernel else { return 0.0 };
    let layout = update.rule.state_layout([1].into(), DType::F32);
    let is_coded = |values| matches!(values, StateValues::Codes | StateValues::Pairs);
    if layout.iter().any(|spec| is_coded(spec.values)) { 1.0 } else { 0.0 }
}

/// The numbers of output `output` that are to be compared: of bytes that are a moment's pairs of codes, the codes.
pub fn compared<'a>(case: &Case, output: usize, numbers: &'a [f64]) -> Cow<'a, [f64]> {
    let Kernel::Optimizer(Optimizer::Update(update)) = &case.kernel else { return numbers.into() };
    let layout = update.rule.state_layout([1].into(), DType::F32);
    match output.checked_sub(1).and_then(|i| layout.get(i)) {
        Some(spec) if spec.values == StateValues::Pairs => {
            numbers.iter().flat_map(|pair| [(pair / 16.0).floor(), pair % 16.0]).collect()
        }
        _ => numbers.into(),
    }
}

/// The difference that was largest beside what was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Worst {
    /// The difference.
    pub error: f64,
    /// What was allowed there.
    pub tolerance: f64,
}

impl Worst {
    /// Whether the difference is allowed. A NaN is not.
    pub fn holds(&self) -> bool {
        self.error <= self.tolerance
    }

    fn share(&self) -> f64 {
        if self.error == 0.0 {
            0.0
        } else if self.error.is_nan() {
            f64::INFINITY
        } else {
            self.error / self.tolerance
        }
    }

    /// The worse of two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let is_first = self == Self::default() || other.share() > self.share();
        if is_first { other } else { self }
    }

    /// Of two numbers: those that are no number are alike, and nothing is near to them or to infinity.
    pub fn between(got: f64, wanted: f64, tolerance: f64) -> Self {
        let error = if got == wanted || (got.is_nan() && wanted.is_nan()) { 0.0 } else { (got - wanted).abs() };
        Self { error, tolerance: if wanted.is_finite() { tolerance } else { 0.0 } }
    }
}

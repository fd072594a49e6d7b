//! The tolerance of a result.
//!
//! With `u` half the distance between neighbours near 1: every step of a sum of `k` terms rounds by the `u` of the type
//! of the arithmetic, which adds up like the root of `k`; storing rounds once more by the `u` of the result's type. So
//! `|a - b| <= 8 u sqrt(1 + k) (1 + |b|) + 2 u' |b|`. A wrong index is off by about 1.
//!
//! Tensor cores, which products of 16-bit operands go by, cut sums off instead of rounding them (Fasi et al. 2021,
//! "Numerical behavior of NVIDIA tensor cores"): the lost parts have one sign and add up with the number of partial sums.

use std::borrow::Cow;

use super::cases::{Case, FLOATS};
use crate::backend::{
    DType, Kernel,
    ops::{Coded, Convolution, Fused, Linear, NarrowWeight, Norm, Optimizer, StateValues, UpdateRule},
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

/// Whether a kernel multiplies matrices: tensor cores may do so, in a workspace that is lent.
pub(super) fn is_product(kernel: &Kernel) -> bool {
    matches!(
        kernel,
        Kernel::Linear(
            Linear::MatMul(_)
                | Linear::Biased(_)
                | Linear::BiasedGelu(_)
                | Linear::GeluGrad(_)
                | Linear::WeightGrads(_)
        ) | Kernel::Coded(Coded::Product(_))
            | Kernel::Convolution(Convolution::Forward(_))
            | Kernel::Convolution(Convolution::InputGrad(_))
            | Kernel::Convolution(Convolution::WeightGrad { .. })
    )
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
    // A sum of two roundings; one may be of a number much larger than the sum.
    let adds = matches!(
        case.kernel,
        Kernel::Norm(Norm::BatchApply { adds: true })
            | Kernel::Fused(Fused::BatchNorm { sums: true, .. } | Fused::BatchApply { sums: true, .. })
    );
    // A sum of gradients that were rounded before.
    let of_rounded = matches!(case.kernel, Kernel::Fused(Fused::BiasGrad { .. })) && output == 1;
    let twice = match operand {
        _ if adds => 16.0 * rounding(dtype),
        _ if is_apart(case) => 4.0 * rounding(dtype) * (1.0 + wanted.abs()),
        // The gradient, of numbers below 1 but for the deviation, is about as large as the sum.
        _ if output == 0 && is_added_to(case) => 2.0 * rounding(dtype) * (8.0 + wanted.abs()),
        _ if output == 1 && is_summed_apart(case) => 2.0 * rounding(dtype) * (1.0 + case.terms as f64).sqrt(),
        // The gradient of this micro-batch, without that before it, which is below 1.
        Some(operand) if is_rounded_apart(case, operand) => 2.0 * rounding(operand) * (1.0 + wanted.abs()),
        Some(operand) if of_rounded => 4.0 * rounding(operand) * (1.0 + case.terms as f64).sqrt(),
        _ => 0.0,
    };
    let once = 2.0 * rounding(dtype).max(if dtype == DType::F64 { 0.0 } else { rounding(DType::F32) });
    let is_narrow = matches!(operand, Some(DType::Bf16 | DType::F16));
    let cut = if is_product(&case.kernel) && is_narrow { cut_off(case.terms as f64) } else { 0.0 };
    // The values of codes are rounded to the type of the other operand before they are multiplied.
    let is_decoded = matches!(case.kernel, Kernel::Coded(Coded::Product(_)));
    let decoded = if is_decoded && is_narrow { 4.0 * rounding(dtype) * (1.0 + case.terms as f64).sqrt() } else { 0.0 };
    // Below the smallest normal number.
    let least = if dtype == DType::F16 { 1e-7 } else { 0.0 };
    twice + sums * (1.0 + wanted.abs()) + once * wanted.abs() + cut + decoded + least
}

/// Whether kernels of our own, where a library does not serve it, round a product before its bias, of numbers below 1, and GELU
/// or its derivative.
fn is_apart(case: &Case) -> bool {
    matches!(case.kernel, Kernel::Linear(Linear::Biased(_) | Linear::BiasedGelu(_) | Linear::GeluGrad(_)))
}

/// Whether another gradient is added to that of a norm of rows.
fn is_added_to(case: &Case) -> bool {
    match case.kernel {
        Kernel::Norm(Norm::LayerGrad { .. }) => case.inputs.len() > 4,
        Kernel::Norm(Norm::RmsGrad { .. }) => case.inputs.len() > 3,
        _ => false,
    }
}

/// Whether a library rounds a bias's gradient, a sum of numbers below 1, before it is added to that of earlier micro-batches.
fn is_summed_apart(case: &Case) -> bool {
    matches!(case.kernel, Kernel::Linear(Linear::WeightGrads(product)) if product.accumulate)
}

/// Whether a library may round the gradient of a convolution's weights to the type of the images, before it is stored wider. A
/// window of one pixel is a product, whose sums are stored as wide as they are.
fn is_rounded_apart(case: &Case, operand: DType) -> bool {
    matches!(case.kernel, Kernel::Convolution(Convolution::WeightGrad { window, .. })
        if case.outputs[0].1 != operand && (window.size, window.stride, window.padding) != (1, 1, 0))
}

/// The most that a sum of `k` products of numbers between -1 and 1 loses if each partial sum of eight is cut off: a partial sum
/// is about `sqrt(k) / 3`, and four units of that are allowed.
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

/// The numbers of output `output` that are compared; for bytes that hold a moment's pairs of codes, the codes.
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

/// A number that is compared in place of the code that holds it: its value, the expected value, and the tolerance.
pub type Meant = [f64; 3];

/// For an update whose codes are finer near zero, the values that its outputs stand for, output by output: the weight with its
/// correction, both moments by their codes and scales, the scales, and the narrower copy. `None` for other kernels. The last
/// bit of a weight may decide which of two neighbours is stored, and so over all of its correction.
pub fn meant(case: &Case, got: &[Vec<f64>], wanted: &[Vec<f64>]) -> Option<Vec<Vec<Meant>>> {
    let Kernel::Optimizer(Optimizer::Update(update)) = &case.kernel else { return None };
    let UpdateRule::FlashAdamW { narrow, .. } = update.rule else { return None };
    let sums = 8.0 * rounding(if case.outputs[0].1 == DType::F64 { DType::F64 } else { DType::F32 });
    let both = |of: &dyn Fn(&[Vec<f64>], usize) -> f64, i: usize| [of(got, i), of(wanted, i)];
    let all = |count: usize, of: &dyn Fn(usize) -> Meant| (0..count).map(of).collect::<Vec<Meant>>();
    let weight =
        |outs: &[Vec<f64>], i: usize| outs[0][i] + narrow.map_or(0.0, |to| corrected(to, outs[0][i], outs[5][i]));
    let last = if narrow.is_some() { 2f64.powi(-16) } else { 2.0 * rounding(case.outputs[0].1) };
    let scale_in = |outs: &[Vec<f64>], codes: usize, i: usize| {
        (outs[codes + 1][i / UpdateRule::GROUP] / f64::from(UpdateRule::ROOT_FACTOR)).powi(2)
    };
    let scale = |codes: usize, i: usize| scale_in(wanted, codes, i);
    let mean = |outs: &[Vec<f64>], i: usize| expand(outs[1][i]) * scale_in(outs, 1, i);
    let root = |outs: &[Vec<f64>], i: usize| outs[3][i] / 255.0 * scale_in(outs, 3, i);
    let mut found = vec![all(got[0].len(), &|i| {
        let [got, wanted] = both(&weight, i);
        [got, wanted, sums * 3.0 * (1.0 + wanted.abs()) + last * wanted.abs()]
    })];
    found.push(all(got[1].len(), &|i| {
        let ([got, wanted], scale) = (both(&mean, i), scale(1, i));
        // The slope of the share by its code.
        let slope = (scale + wanted.abs()).powi(2) / scale.max(f64::MIN_POSITIVE) / 2.0 / 127.0;
        [got, wanted, 1.25 * slope + sums]
    }));
    found.push(all(got[3].len(), &|i| {
        let [got, wanted] = both(&root, i);
        [got, wanted, 1.25 / 255.0 * scale(3, i) + sums]
    }));
    for scales in [2, 4] {
        found.push(all(got[scales].len(), &|i| {
            let [got, wanted] = [got[scales][i], wanted[scales][i]];
            // The last bit may decide which of two neighbours of 16 bits is kept.
            [got, wanted, 4.0 * rounding(DType::F16) * wanted + sums * (1.0 + wanted)]
        }));
    }
    for copy in 1 + update.rule.state_layout([1].into(), DType::F32).len()..got.len() {
        found.push(all(got[copy].len(), &|i| [got[copy][i], wanted[copy][i], allowed(case, copy, wanted[copy][i])]));
    }
    Some(found)
}

/// The two's complement of a byte, in 127ths.
fn signed(code: f64) -> f64 {
    (if code < 128.0 { code } else { code - 256.0 }) / 127.0
}

/// The share of a group's largest first moment that a code stands for.
fn expand(code: f64) -> f64 {
    signed(code) / (2.0 - signed(code).abs())
}

/// The addition of a correction to a weight: a part of half the gap to its neighbour.
fn corrected(narrow: NarrowWeight, weight: f64, code: f64) -> f64 {
    let (least, fraction) = match narrow {
        NarrowWeight::Bf16 => (-126, 7),
        NarrowWeight::F16 => (-14, 10),
    };
    let exponent = if weight == 0.0 { least } else { (weight.abs().log2().floor() as i32).max(least) };
    signed(code) * 2f64.powi(exponent - fraction - 1)
}

/// The largest difference in relation to the tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Worst {
    /// The difference.
    pub error: f64,
    /// The tolerance there.
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

    /// Compares two numbers: two NaNs are equal, and no number is near to NaN or to infinity.
    pub fn between(got: f64, wanted: f64, tolerance: f64) -> Self {
        let error = if got == wanted || (got.is_nan() && wanted.is_nan()) { 0.0 } else { (got - wanted).abs() };
        Self { error, tolerance: if wanted.is_finite() { tolerance } else { 0.0 } }
    }
}

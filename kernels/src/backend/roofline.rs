//! How long a kernel takes: a roofline (Williams, Waterman & Patterson 2009).
//!
//! A kernel takes the longer of its arithmetic and its memory traffic, plus a constant for the launch. Owns [`Rates`] and
//! the rule. `plan::time` of the engine measures the rates of a processor.

use serde::{Deserialize, Serialize};

use crate::{
    backend::{DType, Kernel},
    device::Profile,
};

/// Rates of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Arithmetic of GEMM-like kernels, in flops a second, by dtype.
    pub flops: [f64; 4],
    /// Arithmetic of depthwise convolutions, which reuse little of what they read.
    pub depthwise_flops: f64,
    /// The share of the rate of products that convolutions reach, because they gather what they multiply.
    pub convolutions: f64,
    /// The share of the rate of products that attention reaches, because it takes exponentials between its products.
    pub attention: f64,
    /// The rate of products of 8-bit integers, as a multiple of that of products of f32.
    pub integers: f64,
    /// Operand bytes that streaming kernels move in a second, by dtype: narrow types are converted on their way.
    pub bytes: [f64; 4],
    /// Seconds of a launch that does nothing, with the work around it: its result is allocated, booked and dropped.
    pub launch_secs: f64,
}

/// The dtypes of floating-point numbers that have rates.
pub const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];
/// The place of f32 among [`FLOATS`].
pub const F32: usize = 1;

impl Rates {
    /// Two cores of a recent desktop processor. Used for ranking before anything is measured.
    pub const NOMINAL: Self = Self {
        flops: [6e10, 1.5e11, 1e11, 1e11],
        depthwise_flops: 1e10,
        convolutions: 0.7,
        attention: 0.3,
        integers: 0.5,
        bytes: [1e10, 1e10, 5e9, 3e9],
        launch_secs: 3e-6,
    };

    /// Whether each is a rate: a figure above zero.
    pub fn is_sane(&self) -> bool {
        let Self { flops, depthwise_flops, convolutions, attention, integers, bytes, launch_secs } = self;
        let rates = flops.iter().chain(bytes).chain([depthwise_flops, convolutions, attention, integers, launch_secs]);
        rates.into_iter().all(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// The rates of `threads` threads of a processor whose `all` threads reach these rates: their share, for memory too.
    pub fn of_threads(self, threads: usize, all: usize) -> Self {
        if threads >= all {
            return self;
        }
        let share = threads.max(1) as f64 / all as f64;
        let Self { flops, depthwise_flops, bytes, .. } = self;
        let part = |rates: [f64; 4]| rates.map(|rate| rate * share);
        Self { flops: part(flops), depthwise_flops: depthwise_flops * share, bytes: part(bytes), ..self }
    }

    /// A card's at its peak; with `tf32`, products of f32 at that rate.
    pub fn of_card(profile: &Profile, tf32: bool) -> Self {
        let peak = profile.rates;
        let f32 = if tf32 { peak.tf32 } else { peak.f32 };
        // Before Ampere no unit multiplies bf16: it is converted to f32.
        let bf16 = if profile.compute_capability >= (8, 0) { peak.half } else { peak.f32 };
        // An instruction multiplies four integers of 8 bits in the time of one number (`dp4a`).
        let at_once = if profile.compute_capability >= (6, 1) { 4.0 } else { 1.0 };
        Self {
            flops: [peak.f64, f32, bf16, peak.half],
            depthwise_flops: peak.f32,
            convolutions: 1.0,
            attention: 1.0,
            integers: at_once * peak.f32 / f32,
            bytes: [peak.bytes; 4],
            launch_secs: peak.launch_secs,
        }
    }

    /// The rates of launches that are nodes of a graph, as far as the device sees it. In NVIDIA's example, kernels of 2.9 us
    /// take 3.8 us one by one and 3.4 us in a graph (Gray 2019, "Getting Started with CUDA Graphs"): a launch costs five
    /// ninths of what it did.
    pub fn in_graphs(self) -> Self {
        Self { launch_secs: self.launch_secs * 5.0 / 9.0, ..self }
    }

    /// Predicted seconds of one launch.
    pub fn secs(&self, kernel: &Kernel, dtype: DType, operand_bytes: u64) -> f64 {
        // Integers are computed with in f32, but for products of them.
        let at = FLOATS.iter().position(|d| *d == dtype).unwrap_or(F32);
        let rate = match kernel {
            Kernel::Depthwise(_) => self.depthwise_flops,
            Kernel::Convolution(_) => self.flops[at] * self.convolutions,
            Kernel::Attention(_) => self.flops[at] * self.attention,
            Kernel::Int8(_) => self.flops[F32] * self.integers,
            // Products of matrices; those of coded weights are products of the numbers that the codes stand for.
            Kernel::Linear(_) | Kernel::Coded(_) => self.flops[at],
            // They stream through memory and count no flops.
            Kernel::Activation(_)
            | Kernel::Dropout(_)
            | Kernel::Elementwise(_)
            | Kernel::Embedding(_)
            | Kernel::Fused(_)
            | Kernel::Gather(_)
            | Kernel::Layout(_)
            | Kernel::Loss(_)
            | Kernel::Norm(_)
            | Kernel::Optimizer(_)
            | Kernel::Pool(_)
            | Kernel::Prune(_)
            | Kernel::Rotary(_) => self.flops[at],
        };
        let arithmetic = kernel.flops() as f64 / rate;
        let traffic = operand_bytes as f64 / self.bytes[at];
        arithmetic.max(traffic) + self.launch_secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{
        Window,
        ops::{Int8, Linear, MatMul},
    };

    #[test]
    fn products_of_integers_have_a_rate_of_their_own() {
        let (rows, inner, out) = (4096, 1024, 1024);
        let window =
            Window { batch: rows, height: 1, width: 1, channels: inner, filters: out, size: 1, stride: 1, padding: 0 };
        let product = MatMul { m: rows, n: out, k: inner, transpose_a: false, transpose_b: true, accumulate: false };
        let (integers, floats) = (Kernel::from(Int8::Product(window)), Kernel::from(Linear::MatMul(product)));
        assert_eq!(integers.flops(), floats.flops());
        let rates = Rates { integers: 2.0, launch_secs: 0.0, ..Rates::NOMINAL };
        let (halved, whole) = (rates.secs(&integers, DType::U8, 0), rates.secs(&floats, DType::F32, 0));
        assert_eq!(halved, whole / 2.0);
        // On a card they are no faster where only products of f32 are, by TF32.
        for profile in crate::device::profile::shipped().iter().filter(|card| card.compute_capability >= (8, 0)) {
            let secs = |tf32| Rates::of_card(profile, tf32).secs(&integers, DType::U8, 0);
            let plain = Rates::of_card(profile, false).secs(&floats, DType::F32, 0);
            assert!((secs(true) / secs(false) - 1.0).abs() < 1e-9 && secs(false) < plain, "{}", profile.slug);
        }
    }
}

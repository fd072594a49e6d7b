//! How long a kernel takes: a roofline (Williams, Waterman & Patterson 2009).
//!
//! A kernel takes the longer of its arithmetic and its memory traffic, plus a constant for the launch. Owns [`Rates`] and
//! the rule. [`plan::time`](crate::plan::time) measures the rates of a processor.

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
    /// Operand bytes that streaming kernels move in a second, by dtype: narrow types are converted on their way.
    pub bytes: [f64; 4],
    /// Seconds of a launch that does nothing, with the work around it: its result is allocated, booked and dropped.
    pub launch_secs: f64,
}

pub(crate) const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];

impl Rates {
    /// Two cores of a recent desktop processor. Used for ranking before anything is measured.
    pub const NOMINAL: Self = Self {
        flops: [6e10, 1.5e11, 1e11, 1e11],
        depthwise_flops: 1e10,
        convolutions: 0.7,
        attention: 0.3,
        bytes: [1e10, 1e10, 5e9, 3e9],
        launch_secs: 3e-6,
    };

    /// Whether each is a rate: a figure above zero.
    pub(crate) fn is_sane(&self) -> bool {
        let Self { flops, depthwise_flops, convolutions, attention, bytes, launch_secs } = self;
        let rates = flops.iter().chain(bytes).chain([depthwise_flops, convolutions, attention, launch_secs]);
        rates.into_iter().all(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// The rates of `threads` threads of a processor whose `all` threads reach these rates: their share, for memory too.
    pub fn of_threads(self, threads: usize, all: usize) -> Self {
        if threads >= all {
            return self;
        }
        let share = threads.max(1) as f64 / all as f64;
        let Self { flops, depthwise_flops, convolutions, attention, bytes, launch_secs } = self;
        let part = |rates: [f64; 4]| rates.map(|rate| rate * share);
        let depthwise_flops = depthwise_flops * share;
        Self { flops: part(flops), depthwise_flops, convolutions, attention, bytes: part(bytes), launch_secs }
    }

    /// A card's at its peak; with `tf32`, products of f32 at that rate.
    pub fn of_card(profile: &Profile, tf32: bool) -> Self {
        let peak = profile.rates;
        let f32 = if tf32 { peak.tf32 } else { peak.f32 };
        // Before Ampere no unit multiplies bf16: it is converted to f32.
        let bf16 = if profile.compute_capability >= (8, 0) { peak.half } else { peak.f32 };
        Self {
            flops: [peak.f64, f32, bf16, peak.half],
            depthwise_flops: peak.f32,
            convolutions: 1.0,
            attention: 1.0,
            bytes: [peak.bytes; 4],
            launch_secs: peak.launch_secs,
        }
    }

    /// Predicted seconds of one launch.
    pub fn secs(&self, kernel: &Kernel, dtype: DType, operand_bytes: u64) -> f64 {
        // Other types than floating-point types count as f32.
        let at = FLOATS.iter().position(|d| *d == dtype).unwrap_or(1);
        let rate = match kernel {
            Kernel::Depthwise(_) => self.depthwise_flops,
            Kernel::Convolution(_) => self.flops[at] * self.convolutions,
            Kernel::Attention(_) => self.flops[at] * self.attention,
            _ => self.flops[at],
        };
        let arithmetic = kernel.flops() as f64 / rate;
        let traffic = operand_bytes as f64 / self.bytes[at];
        arithmetic.max(traffic) + self.launch_secs
    }
}

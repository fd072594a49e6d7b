//! How long a kernel takes: a roofline (Williams, Waterman & Patterson 2009).
//!
//! A kernel takes the longer of its arithmetic and its memory traffic, plus constants for the launch and for the threads that
//! share it. Kernels that do more with a number than adding it have rates of their own. Owns [`Rates`] and the rule.
//! `plan::rates` of the engine measures the rates of a processor.

use serde::{Deserialize, Serialize};

use crate::{
    backend::{
        DType, Kernel, Window,
        ops::{Activation, Linear, Optimizer},
        scratch::on_cpu::{ATTENTION_FLOPS, GRAIN},
    },
    device::Profile,
};

/// Rates of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Arithmetic of GEMM-like kernels, in flops a second, by dtype.
    pub flops: [f64; 4],
    /// Arithmetic of depthwise convolutions, which reuse little of what they read.
    pub depthwise_flops: f64,
    /// The share of the rate of products that convolutions reach once their patches are gathered.
    pub convolutions: f64,
    /// The multiple of the rate of products that wide convolutions of 3 x 3 taps in f32 reach, which some processors compute by
    /// minimal filtering.
    pub wide: f64,
    /// The share of the rate of products that attention reaches, because it takes exponentials between its products.
    pub attention: f64,
    /// The rate of products of 8-bit integers, as a multiple of that of products of f32.
    pub integers: f64,
    /// Operand bytes that additions move in a second, by dtype: narrow types are converted on their way.
    pub bytes: [f64; 4],
    /// Operand bytes of f32 that other loops over memory move in a second.
    pub streams: Streams,
    /// Bytes of f32 operands that products pack in a second before they multiply.
    pub packed: f64,
    /// Bytes of f32 patches that convolutions gather in a second.
    pub gathered: f64,
    /// Heads of short sequences that attention goes through in a second.
    pub heads: f64,
    /// Seconds of a launch that does nothing, with the work around it: its result is allocated, booked and dropped.
    pub launch_secs: f64,
    /// Seconds until threads share a launch and are done with it, in addition to their work.
    pub fork_secs: f64,
    /// Threads that reach the rates together. A launch that is not worth sharing has one of them.
    pub threads: f64,
}

/// Operand bytes that loops over f32 in memory move in a second, by what they do with each number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// Pooling of windows.
    pub pools: f64,
    /// Norms and their gradients.
    pub norms: f64,
    /// Exponentials and other curves of each number.
    pub curves: f64,
    /// Updates of weights.
    pub updates: f64,
    /// Sums over rows or of squares.
    pub sums: f64,
}

impl Streams {
    /// The same rate for all.
    pub const fn all(rate: f64) -> Self {
        Self { pools: rate, norms: rate, curves: rate, updates: rate, sums: rate }
    }

    /// Each rate of two as `of` makes it of both.
    #[must_use]
    pub fn zip(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let Self { pools, norms, curves, updates, sums } = self;
        Self {
            pools: of(pools, other.pools),
            norms: of(norms, other.norms),
            curves: of(curves, other.curves),
            updates: of(updates, other.updates),
            sums: of(sums, other.sums),
        }
    }

    fn rates(&self) -> [f64; 5] {
        let Self { pools, norms, curves, updates, sums } = *self;
        [pools, norms, curves, updates, sums]
    }
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
        wide: 0.7,
        attention: 0.3,
        integers: 0.5,
        bytes: [1e10, 1e10, 5e9, 3e9],
        streams: Streams { pools: 3e9, norms: 5e9, curves: 5e9, updates: 8e9, sums: 5e9 },
        packed: 2e10,
        gathered: 2e10,
        heads: 5e5,
        launch_secs: 1e-6,
        fork_secs: 4e-6,
        threads: 2.0,
    };

    /// Whether each is a rate: a figure above zero.
    pub fn is_sane(&self) -> bool {
        let Self { flops, depthwise_flops, convolutions, wide, attention, integers, bytes, streams, .. } = self;
        let Self { packed, gathered, heads, launch_secs, fork_secs, threads, .. } = self;
        let shares = [convolutions, wide, attention, integers].map(|share| *share);
        let others = [depthwise_flops, packed, gathered, heads, launch_secs, threads].map(|rate| *rate);
        let rates = flops.iter().chain(bytes).copied().chain(shares).chain(others).chain(streams.rates());
        rates.into_iter().all(|rate| rate.is_finite() && rate > 0.0) && fork_secs.is_finite() && *fork_secs >= 0.0
    }

    /// The rates of `threads` threads of a processor whose `all` threads reach these rates: their share, for memory too.
    pub fn of_threads(self, threads: usize, all: usize) -> Self {
        if threads >= all {
            return self;
        }
        let share = threads.max(1) as f64 / all as f64;
        let Self { flops, depthwise_flops, bytes, streams, packed, gathered, heads, .. } = self;
        let part = |rates: [f64; 4]| rates.map(|rate| rate * share);
        Self {
            flops: part(flops),
            depthwise_flops: depthwise_flops * share,
            bytes: part(bytes),
            streams: streams.zip(streams, |rate, _| rate * share),
            packed: packed * share,
            gathered: gathered * share,
            heads: heads * share,
            threads: threads.max(1) as f64,
            ..self
        }
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
            wide: 1.0,
            attention: 1.0,
            integers: at_once * peak.f32 / f32,
            bytes: [peak.bytes; 4],
            streams: Streams::all(peak.bytes),
            packed: f64::INFINITY,
            gathered: f64::INFINITY,
            heads: f64::INFINITY,
            launch_secs: peak.launch_secs,
            fork_secs: 0.0,
            threads: 1.0,
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
        let pace = self.pace(kernel, at, operand_bytes);
        let arithmetic = kernel.flops() as f64 / pace.flops + pace.before;
        let work = arithmetic.max(operand_bytes as f64 / pace.bytes);
        let is_shared = if kernel.flops() > 0 {
            kernel.flops() >= pace.shared_flops
        } else {
            operand_bytes as usize / FLOATS[at].size() >= pace.operands * GRAIN
        };
        let work = if is_shared { work + self.fork_secs } else { work * self.threads };
        work + self.launch_secs
    }

    /// How fast a kernel of operands of the type `at` is.
    fn pace(&self, kernel: &Kernel, at: usize, operand_bytes: u64) -> Pace {
        let plain = Pace {
            flops: self.flops[at],
            before: 0.0,
            bytes: self.bytes[at],
            operands: 2,
            shared_flops: SHARED_PRODUCTS,
        };
        let stream = |of_f32: f64| Pace { bytes: of_f32 * self.bytes[at] / self.bytes[F32], ..plain };
        let Streams { pools, norms, curves, updates, sums } = self.streams;
        match kernel {
            Kernel::Depthwise(_) => Pace { flops: self.depthwise_flops, ..plain },
            // Minimal filtering gathers as it multiplies.
            Kernel::Convolution(of) if at == F32 && is_wide(of.window()) => {
                Pace { flops: plain.flops * self.wide, ..plain }
            }
            Kernel::Convolution(of) => {
                let before = 4.0 * of.gathered() as f64 / self.gathered;
                Pace { flops: plain.flops * self.convolutions, before, ..plain }
            }
            Kernel::Attention(of) => {
                let (flops, before) = (plain.flops * self.attention, of.heads() / self.heads);
                Pace { flops, before, shared_flops: ATTENTION_FLOPS as u64, ..plain }
            }
            Kernel::Int8(_) => Pace { flops: self.flops[F32] * self.integers, ..plain },
            Kernel::Linear(Linear::AddBias) => Pace { operands: 1, ..plain },
            // A sum has parts from so many elements on.
            Kernel::Linear(Linear::BiasGrad { .. }) => Pace { operands: 4, ..stream(sums) },
            Kernel::Coded(_) if kernel.flops() == 0 => plain,
            // Products of matrices; those of coded weights are products of the numbers that the codes stand for.
            Kernel::Linear(_) | Kernel::Coded(_) => Pace { before: operand_bytes as f64 / self.packed, ..plain },
            Kernel::Activation(Activation::Relu | Activation::Relu6) => Pace { operands: 1, ..plain },
            Kernel::Activation(Activation::ReluGrad | Activation::Relu6Grad) => plain,
            Kernel::Elementwise(_) | Kernel::Embedding(_) | Kernel::Gather(_) | Kernel::Layout(_) => plain,
            Kernel::Activation(_) | Kernel::Dropout(_) | Kernel::Fused(_) | Kernel::Loss(_) | Kernel::Rotary(_) => {
                stream(curves)
            }
            Kernel::Norm(_) => stream(norms),
            // Weight, gradient and moments.
            Kernel::Optimizer(Optimizer::Update(_) | Optimizer::UpdateAll { .. }) => {
                Pace { operands: 4, ..stream(updates) }
            }
            Kernel::Optimizer(_) => Pace { operands: 4, ..stream(sums) },
            Kernel::Pool(_) => stream(pools),
            Kernel::Prune(_) => stream(sums),
        }
    }
}

/// Multiplications and additions from which threads share a product.
const SHARED_PRODUCTS: u64 = 3 << 20;

/// How fast a kernel is, and from which size on threads share it.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Flops a second of its products.
    flops: f64,
    /// Seconds of the work that comes to its products besides them.
    before: f64,
    /// Operand bytes a second, where it streams through memory.
    bytes: f64,
    /// Operands of a result's size. Threads share a loop over so many times the elements that are worth it.
    operands: usize,
    /// Flops from which threads share its products.
    shared_flops: u64,
}

/// Whether a convolution is of a kind that some processors compute by minimal filtering.
fn is_wide(w: &Window) -> bool {
    let sides = [w.channels, w.filters];
    w.size == 3 && w.stride == 1 && sides.iter().all(|side| side.is_multiple_of(32) && *side >= 64)
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
        let rates = Rates { integers: 2.0, launch_secs: 0.0, fork_secs: 0.0, ..Rates::NOMINAL };
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

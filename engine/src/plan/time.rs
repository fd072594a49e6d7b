//! How long kernels take: a roofline (Williams, Waterman & Patterson 2009) with rates measured on this machine.
//!
//! A kernel takes the longer of its arithmetic and its memory traffic, plus a constant for the launch. The processor's rates
//! come from [`calibrate`], which runs the engine's own kernels for some tens of milliseconds. Until it has run, nominal
//! rates rank configurations, and seconds are only rough. A card's rates are the peaks of its profile: no step is faster,
//! and how much slower one is nobody knows before it runs.

use std::{
    sync::{OnceLock, RwLock},
    time::Instant,
};

use crate::{
    backend::{
        Candle, DType, Executor, Kernel, Window,
        kernel::MatMul,
        pool::{self, Pool},
    },
    device::{Profile, Target},
    error::Result,
    experiment::Gpu,
    memory::{Category, Ledger},
};

/// Rates of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Arithmetic of GEMM-like kernels, in flops a second, by dtype.
    flops: [f64; 4],
    /// Arithmetic of depthwise convolutions, which reuse little of what they read.
    depthwise_flops: f64,
    /// Operand bytes that streaming kernels move in a second, by dtype: narrow types are converted on their way.
    bytes: [f64; 4],
    /// Seconds of a launch that does nothing.
    pub launch_secs: f64,
}

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];

impl Rates {
    /// Two cores of a recent desktop processor, to rank with before anything is measured.
    pub(crate) const NOMINAL: Self = Self {
        flops: [6e10, 1.5e11, 1e11, 1e11],
        depthwise_flops: 1e10,
        bytes: [1e10, 1e10, 5e9, 3e9],
        launch_secs: 3e-6,
    };

    /// A card's at its peak; products of f32 at TF32's rate where that is chosen.
    pub(crate) fn of_card(profile: &Profile, choice: &Gpu) -> Self {
        let peak = profile.rates;
        let f32 = if choice.tf32 { peak.tf32 } else { peak.f32 };
        Self {
            flops: [peak.f64, f32, peak.half, peak.half],
            depthwise_flops: peak.f32,
            bytes: [peak.bytes; 4],
            launch_secs: peak.launch_secs,
        }
    }

    /// Those of `target`.
    pub fn of(target: &Target, choice: &Gpu) -> Self {
        match target {
            Target::Cpu { .. } => rates(),
            Target::Gpu(profile) => Self::of_card(profile, choice),
        }
    }

    /// Predicted seconds of one launch.
    pub fn secs(&self, kernel: &Kernel, dtype: DType, operand_bytes: u64) -> f64 {
        // What is no floating-point type counts as f32.
        let at = FLOATS.iter().position(|d| *d == dtype).unwrap_or(1);
        let is_depthwise =
            matches!(kernel, Kernel::Depthwise(_) | Kernel::DepthwiseInputGrad(_) | Kernel::DepthwiseWeightGrad { .. });
        let rate = if is_depthwise { self.depthwise_flops } else { self.flops[at] };
        let arithmetic = kernel.flops() as f64 / rate;
        let traffic = operand_bytes as f64 / self.bytes[at];
        arithmetic.max(traffic) + self.launch_secs
    }
}

fn measured() -> &'static RwLock<Option<Rates>> {
    static RATES: OnceLock<RwLock<Option<Rates>>> = OnceLock::new();
    RATES.get_or_init(RwLock::default)
}

/// The rates of this machine's CPU: measured once [`calibrate`] has run, nominal before.
pub fn rates() -> Rates {
    measured().read().ok().and_then(|rates| *rates).unwrap_or(Rates::NOMINAL)
}

/// Measures the CPU's rates with the engine's own kernels on `pool`; some tens of milliseconds.
///
/// # Errors
/// Only if a kernel fails.
pub fn calibrate(pool: &Pool) -> Result<Rates> {
    let rates = pool.run(measure)?;
    if let Ok(mut slot) = measured().write() {
        *slot = Some(rates);
    }
    Ok(rates)
}

fn measure() -> Result<Rates> {
    let executor = Executor::new(Candle::cpu(pool::threads()), Ledger::new(None, false));
    let tensor = |n: usize, dtype| executor.filled(0.5, [n, n], dtype, Category::Scratch, "calibration");
    let (mut flops, mut bytes) = ([0.0; 4], [0.0; 4]);
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let n = 256;
        let (a, b, c) = (tensor(n, dtype)?, tensor(n, dtype)?, tensor(n, dtype)?);
        let product = MatMul { m: n, n, k: n, transpose_a: false, transpose_b: true, accumulate: false };
        let kernel = Kernel::MatMul(product);
        flops[i] = kernel.flops() as f64 / fastest(9, || executor.launch(kernel, &[&a, &b], &[&c]))?;
        // Larger than the nearer caches, as activations are.
        let (x, y) = (tensor(4 * n, dtype)?, tensor(4 * n, dtype)?);
        let secs = fastest(9, || executor.launch(Kernel::Add, &[&x], &[&y]))?;
        bytes[i] = (x.bytes() + y.bytes()) as f64 / secs;
    }
    let size = 3;
    let window = Window { batch: 8, height: 32, width: 32, channels: 64, filters: 64, size, stride: 1, padding: 1 };
    let image = || executor.filled(0.5, [8, 32, 32, 64], DType::F32, Category::Scratch, "calibration");
    let (x, y) = (image()?, image()?);
    let weight = executor.filled(0.5, [size, size, 64], DType::F32, Category::Scratch, "calibration")?;
    let kernel = Kernel::Depthwise(window);
    let depthwise_flops = kernel.flops() as f64 / fastest(5, || executor.launch(kernel, &[&x, &weight], &[&y]))?;
    let small = tensor(4, DType::F32)?;
    let launch_secs = fastest(50, || executor.launch(Kernel::Relu, &[], &[&small]))?;
    Ok(Rates { flops, depthwise_flops, bytes, launch_secs })
}

/// Seconds of the fastest of `times` runs, after one to warm up.
fn fastest(times: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    run()?;
    let mut best = f64::INFINITY;
    for _ in 0..times {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best.max(1e-9))
}

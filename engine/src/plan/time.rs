//! The rates of this machine, for the [roofline](crate::backend::Rates) of kernels.
//!
//! The processor's rates come from [`measured_machine`], which runs the engine's own kernels for some tens of
//! milliseconds. On a machine that was not measured, nominal rates rank configurations, and seconds are only rough. A
//! card's rates are the peaks of its profile: no step is faster, and how much slower one is nobody knows before it
//! runs.

use std::time::Instant;

use crate::{
    backend::{
        Cpu, DType, Executor, FLOATS, Kernel, Rates, Window,
        ops::{Activation, Depthwise, Elementwise, Linear, MatMul},
        thread_pool::{ThreadPool, ThreadPriority},
    },
    device::cpu_threads,
    error::Result,
    hardware::Machine,
    memory::{Category, Ledger},
};

/// This machine, measured on `pool` while nothing else of the program runs: what the driver shows, the rates of the
/// processor by the engine's own kernels, and the size of the process. Takes some tens of milliseconds, and longer where a
/// driver has to be woken.
pub fn measured_machine(pool: &ThreadPool) -> Machine {
    let machine = Machine::detect();
    // Where a kernel fails, nominal rates still rank: no reason not to plan.
    let machine = pool.run(measure).map(|rates| machine.with_rates(rates)).unwrap_or(machine);
    machine.with_process_measured()
}

/// This machine, measured once by threads of its own that are gone afterwards.
pub fn this_machine() -> Machine {
    ThreadPool::new(ThreadPriority::Normal).map_or_else(|_| Machine::detect(), |pool| measured_machine(&pool))
}

fn measure() -> Result<Rates> {
    let executor = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false));
    let tensor = |n: usize, dtype| executor.filled(0.5, [n, n], dtype, Category::Scratch, "calibration");
    let (mut flops, mut bytes) = ([0.0; 4], [0.0; 4]);
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let n = 256;
        let (a, b, c) = (tensor(n, dtype)?, tensor(n, dtype)?, tensor(n, dtype)?);
        let product = MatMul { m: n, n, k: n, transpose_a: false, transpose_b: true, accumulate: false };
        let kernel = Kernel::from(Linear::MatMul(product));
        flops[i] = kernel.flops() as f64 / fastest(9, || executor.launch(kernel, &[&a, &b], &[&c]))?;
        // Larger than the nearer caches, as activations are.
        let (x, y) = (tensor(4 * n, dtype)?, tensor(4 * n, dtype)?);
        let secs = fastest(9, || executor.launch(Elementwise::Add, &[&x], &[&y]))?;
        bytes[i] = (x.bytes() + y.bytes()) as f64 / secs;
    }
    let size = 3;
    let window = Window { batch: 8, height: 32, width: 32, channels: 64, filters: 64, size, stride: 1, padding: 1 };
    let image = || executor.filled(0.5, [8, 32, 32, 64], DType::F32, Category::Scratch, "calibration");
    let (x, y) = (image()?, image()?);
    let weight = executor.filled(0.5, [size, size, 64], DType::F32, Category::Scratch, "calibration")?;
    let kernel = Kernel::from(Depthwise::Forward(window));
    let depthwise_flops = kernel.flops() as f64 / fastest(5, || executor.launch(kernel, &[&x, &weight], &[&y]))?;
    let small = tensor(4, DType::F32)?;
    let launch_secs = fastest(50, || executor.launch(Activation::Relu, &[], &[&small]))?;
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

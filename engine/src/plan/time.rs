//! The rates of this machine, for the [roofline](crate::backend::Rates) of kernels.
//!
//! The processor's rates come from [`measured_machine`], which runs the engine's own kernels for some tens of milliseconds. On
//! a machine that was not measured, nominal rates rank configurations, and seconds are only rough. A card's rates are the peaks
//! of its profile: no step is faster, and how much slower it is shows only when it runs.

use std::time::Instant;

use crate::{
    backend::{
        Cpu, DType, Executor, F32, FLOATS, Kernel, Rates, Window,
        ops::{Attention, AttentionShape, Convolution, Depthwise, Elementwise, Follow, Linear, MatMul},
        thread_pool::{ThreadPool, ThreadPriority},
    },
    bytes::Bytes,
    device::{Target, cpu_threads},
    error::Result,
    hardware::{Machine, kept_rates::KeptRates},
    memory::{
        Category, Ledger,
        host::{FreeMemory, LimitedBy, Line},
    },
    plan::{Plan, Resolved, predict},
};

/// This machine, measured on `pool` while nothing else of the program runs: the GPUs that the driver shows, the rates of the
/// processor by the engine's own kernels, and the size of the process. Takes some tens of milliseconds, and longer where a
/// driver has to be woken.
pub fn measured_machine(pool: &ThreadPool) -> Machine {
    let machine = Machine::detect();
    // Where a kernel fails, nominal rates still rank: no reason not to plan.
    let machine = pool.run(rates).map(|rates| machine.with_rates(rates)).unwrap_or(machine);
    // The heap that the kernels leave is no part of what a run comes on top of, as the run uses it again.
    pool.give_back();
    machine.with_process_measured()
}

/// Bytes of a process that trains in addition to one that plans: the trainer's and the loader's threads, the queue of
/// events, the store of runs. An estimate: `train` was 1.3 to 4.6 MB larger than `plan` at this point.
const TRAINS_WITH: Bytes = Bytes::kib(3200);

/// This machine, measured once by threads of its own, which end afterwards. The size of the process is that of one that trains.
pub fn this_machine() -> Machine {
    let pool = ThreadPool::new(ThreadPriority::Normal);
    let machine = pool.as_ref().map_or_else(|_| Machine::detect(), measured_machine);
    // Measured while its threads are there, as they are in a run.
    to_train_on(&machine.with_process_base(machine.process_base() + TRAINS_WITH), 0)
}

/// The same machine with the memory that a run would find free that begins now, however near it is to what was known. The run
/// has `more` threads than the usual two.
fn to_train_on(machine: &Machine, more: usize) -> Machine {
    machine.with_free_memory(None).with_free_memory(FreeMemory::to_train(more))
}

/// [`predict()`](predict::predict()) on this machine, for a run of another process: with the memory that the plan itself
/// leaves free, because a run holds a plan as well.
///
/// # Errors
/// The errors of [`predict()`](predict::predict()).
pub fn predict_here(resolved: &Resolved, machine: &Machine) -> Result<Plan> {
    let plan = predict::predict(resolved, machine)?;
    let threads = match &plan.target {
        Target::Cpu(processor) => processor.threads + plan.experiment.data.workers,
        Target::Gpu(_) => plan.experiment.data.workers,
    };
    Ok(Plan { machine: to_train_on(&plan.machine, threads.saturating_sub(2)), ..plan })
}

/// The rates of the processor: the fastest that was measured, by this program or by one before it. Other work on the machine
/// only makes a kernel slower, so each start comes nearer to the processor's real rates, and all starts agree.
fn rates() -> Result<Rates> {
    let kept = KeptRates::read();
    let known = kept.as_ref().map(|kept| kept.rates);
    let measured = measure(known.is_some())?;
    let rates = known.map_or(measured, |known| fastest_of(known, measured));
    if known.is_none_or(|known| is_faster(&rates, &known)) {
        KeptRates::write(rates, kept);
        return Ok(rates);
    }
    Ok(known.unwrap_or(rates))
}

/// Rounds of the measurement at most. The machine may be busy for the length of one round, so there are several, and rates
/// that are compared with each other, such as those of types, are measured next to each other in each.
const ROUNDS: usize = 10;
/// Fewer rounds say too little.
const LEAST_ROUNDS: usize = 4;
/// A round in which no rate rises by more is the last.
const SETTLED: f64 = 1.03;

/// Measures until nothing gets faster; of a processor that was measured before, once.
fn measure(is_known: bool) -> Result<Rates> {
    // In a range of addresses, as in a run: what the heap of a thread once held stays with the process.
    let line = Line { bytes: Bytes(u64::MAX), limited_by: LimitedBy::Budget };
    let executor = Executor::new(Cpu::in_arena(cpu_threads(), Bytes::ZERO), Ledger::within(line, true));
    let mut rates = round(&executor)?;
    let rounds = if is_known { 1 } else { ROUNDS };
    for count in 1..rounds {
        let (known, new) = (rates, round(&executor)?);
        rates = fastest_of(known, new);
        if count + 1 >= LEAST_ROUNDS && !is_faster(&rates, &known) {
            break;
        }
    }
    Ok(rates)
}

fn round(executor: &Executor<Cpu>) -> Result<Rates> {
    let tensor = |n: usize, dtype| executor.filled(0.5, [n, n], dtype, Category::Scratch, "calibration");
    let (mut flops, mut bytes) = ([0.0; 4], [0.0; 4]);
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let n = 256;
        let (a, b, c) = (tensor(n, dtype)?, tensor(n, dtype)?, tensor(n, dtype)?);
        let product = MatMul { m: n, n, k: n, transpose_a: false, transpose_b: true, accumulate: false };
        let kernel = Kernel::from(Linear::MatMul(product));
        flops[i] = kernel.flops() as f64 / fastest(3, || executor.launch(kernel, &[&a, &b], &[&c]))?;
        // Larger than the nearer caches, as activations are.
        let (x, y) = (tensor(4 * n, dtype)?, tensor(4 * n, dtype)?);
        let secs = fastest(3, || executor.launch(Elementwise::Add, &[&x], &[&y]))?;
        bytes[i] = (x.bytes() + y.bytes()) as f64 / secs;
    }
    let size = 3;
    let window = Window { batch: 8, height: 32, width: 32, channels: 64, filters: 64, size, stride: 1, padding: 1 };
    let image = || executor.filled(0.5, [8, 32, 32, 64], DType::F32, Category::Scratch, "calibration");
    let (x, y) = (image()?, image()?);
    let weight = executor.filled(0.5, [size, size, 64], DType::F32, Category::Scratch, "calibration")?;
    let kernel = Kernel::from(Depthwise::Forward(window));
    let depthwise_flops = kernel.flops() as f64 / fastest(2, || executor.launch(kernel, &[&x, &weight], &[&y]))?;
    let convolutions = (convolution_flops(executor)? / flops[F32]).min(1.0);
    let attention = (attention_flops(executor)? / flops[F32]).min(1.0);
    let integers = integer_flops(executor)? / flops[F32];
    let launch_secs = launch_secs(executor)?;
    Ok(Rates { flops, depthwise_flops, convolutions, attention, integers, bytes, launch_secs })
}

/// Flops a second of a convolution with both of its gradients, at a size that many small networks have.
fn convolution_flops(executor: &Executor<Cpu>) -> Result<f64> {
    let window = Window { batch: 32, height: 8, width: 8, channels: 32, filters: 64, size: 3, stride: 1, padding: 1 };
    let tensor = |elements: usize| executor.filled(0.5, [elements], DType::F32, Category::Scratch, "calibration");
    let (x, y) = (tensor(window.elements())?, tensor(window.out_elements())?);
    let (weight, gradient) = (tensor(window.filters * window.taps())?, tensor(window.filters * window.taps())?);
    let kernels = [
        (Convolution::Forward(window), [&x, &weight, &y]),
        (Convolution::InputGrad(window), [&y, &weight, &x]),
        (Convolution::WeightGrad { window, accumulate: false }, [&x, &y, &gradient]),
    ];
    let mut rates = (0.0, 0.0);
    for (kernel, [a, b, to]) in kernels {
        rates.0 += Kernel::from(kernel).flops() as f64;
        rates.1 += fastest(2, || executor.launch(kernel, &[a, b], &[to]))?;
    }
    Ok(rates.0 / rates.1)
}

/// Flops a second of attention with its gradient, of short sequences.
fn attention_flops(executor: &Executor<Cpu>) -> Result<f64> {
    let heads = 4;
    let s = AttentionShape { batch: 8, length: 64, heads, kv_heads: heads, head_dim: 32, is_causal: true, window: 0 };
    let tensor = |elements: usize| executor.filled(0.5, [elements], DType::F32, Category::Scratch, "calibration");
    let (qkv, gradient) = (tensor(s.rows() * s.packed())?, tensor(s.rows() * s.packed())?);
    let (y, sums) = (tensor(s.rows() * s.width())?, tensor(s.rows() * heads)?);
    let (forward, backward) = (Attention::Efficient(s), Attention::EfficientGrad(s));
    let secs = fastest(2, || executor.launch(forward, &[&qkv], &[&y, &sums]))?
        + fastest(2, || executor.launch(backward, &[&qkv, &y, &sums, &y], &[&gradient]))?;
    Ok((Kernel::from(forward).flops() + Kernel::from(backward).flops()) as f64 / secs)
}

/// Flops a second of a product of 8-bit integers, with the coding of its input, as large as the products of numbers.
fn integer_flops(executor: &Executor<Cpu>) -> Result<f64> {
    let n = 256;
    let tensor = |value, shape: [usize; 2]| executor.filled(value, shape, DType::F32, Category::Scratch, "calibration");
    let (x, weight, range) = (tensor(0.5, [n, n])?, tensor(0.5, [n, n])?, tensor(0.0, [1, 2])?);
    executor.observe(&x, &range, Follow::Widest)?;
    let codes = executor.int8_weight(&weight)?;
    let secs = fastest(3, || executor.int8_linear(&x, &range, &codes, None).map(drop))?;
    Ok((2 * n * n * n) as f64 / secs)
}

/// Seconds of a launch that does almost nothing, with the allocation and the drop of its result.
fn launch_secs(executor: &Executor<Cpu>) -> Result<f64> {
    const LAUNCHES: usize = 100;
    let x = executor.filled(0.5, [16], DType::F32, Category::Scratch, "calibration")?;
    let secs = fastest(5, || {
        for _ in 0..LAUNCHES {
            let y = executor.allocate([16], DType::F32, Category::Activations, "calibration")?;
            executor.launch(Elementwise::Add, &[&x], &[&y])?;
        }
        Ok(())
    })?;
    Ok(secs / LAUNCHES as f64)
}

/// The best of two measurements, figure by figure, because other work on the machine only makes a kernel slower.
fn fastest_of(a: Rates, b: Rates) -> Rates {
    let most = |a: [f64; 4], b: [f64; 4]| std::array::from_fn(|i| a[i].max(b[i]));
    Rates {
        flops: most(a.flops, b.flops),
        depthwise_flops: a.depthwise_flops.max(b.depthwise_flops),
        convolutions: a.convolutions.max(b.convolutions),
        attention: a.attention.max(b.attention),
        integers: a.integers.max(b.integers),
        bytes: most(a.bytes, b.bytes),
        launch_secs: a.launch_secs.min(b.launch_secs),
    }
}

/// Whether one of the rates that compare types is clearly above the known one.
fn is_faster(new: &Rates, known: &Rates) -> bool {
    let rates = |rates: &Rates| rates.flops.into_iter().chain(rates.bytes).collect::<Vec<_>>();
    rates(new).iter().zip(rates(known)).any(|(new, known)| *new > known * SETTLED)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_two_measurements_is_taken_figure_by_figure() {
        let slow = Rates { flops: [1e9; 4], bytes: [3e9; 4], ..Rates::NOMINAL };
        let other = Rates { flops: [5e8, 2e9, 5e8, 5e8], launch_secs: 1e-6, ..slow };
        let best = fastest_of(slow, other);
        assert_eq!((best.flops, best.bytes, best.launch_secs), ([1e9, 2e9, 1e9, 1e9], [3e9; 4], 1e-6));
        assert!(is_faster(&best, &slow) && !is_faster(&best, &best));
        assert!(!is_faster(&Rates { flops: slow.flops.map(|rate| rate * 1.01), ..slow }, &slow));
    }
}

//! The rates of this processor, for the [roofline](crate::backend::Rates) of kernels: measured by launches of the engine's own
//! kernels, one or two for each rate, in some tens of milliseconds.

use std::time::Instant;

use crate::{
    backend::{
        Cpu, DType, Executor, F32, FLOATS, Kernel, Rates, Shape, Streams, Tensor, Window,
        ops::{
            Activation, ActivationFunction, Attention, AttentionShape, Convolution, Depthwise, Elementwise, Follow,
            Linear, MatMul, Norm, OperandBytes, Optimizer, Pool, Rows, Update,
        },
    },
    bytes::Bytes,
    device::cpu_threads,
    error::Result,
    experiment::{self, OptimizerKind},
    hardware::kept::Kept,
    memory::{
        Category, Ledger,
        host::{LimitedBy, Line},
    },
    optim,
};

/// The file that they are kept in.
const FILE: &str = "rates.json";

/// The rates of the processor: the fastest that was measured, by this program or by one before it. Other work on the machine
/// only makes a kernel slower. So rates that are kept stay, unless products or additions are clearly faster now: then all are
/// measured again. All starts of a quiet machine agree.
pub(super) fn rates() -> Result<Rates> {
    // In a range of addresses, as in a run: what the heap of a thread once held stays with the process.
    let line = Line { bytes: Bytes(u64::MAX), limited_by: LimitedBy::Budget };
    let executor = Executor::new(Cpu::in_arena(cpu_threads(), Bytes::ZERO), Ledger::within(line, true));
    let kept = Kept::<Rates>::read(FILE).filter(|kept| kept.measured.is_sane());
    let Some(known) = kept.as_ref().map(|kept| kept.measured) else {
        let rates = measure(&executor)?;
        Kept::write(FILE, rates, None);
        return Ok(rates);
    };
    if !is_faster(products_and_additions(&executor)?, &known) {
        return Ok(known);
    }
    let rates = fastest_of(known, measure(&executor)?);
    Kept::write(FILE, rates, kept);
    Ok(rates)
}

/// Rounds of the measurement at most. The machine may be busy for the length of one round, so there are several, and rates
/// that are compared with each other, such as those of types, are measured next to each other in each.
const ROUNDS: usize = 10;
/// Fewer rounds say too little.
const LEAST_ROUNDS: usize = 4;
/// A round in which no rate rises by more is the last.
const SETTLED: f64 = 1.03;

/// Measures until products and additions get no faster.
fn measure(executor: &Executor<Cpu>) -> Result<Rates> {
    let mut rates = round(executor)?;
    for count in 1..ROUNDS {
        let (known, new) = (rates, round(executor)?);
        rates = fastest_of(known, new);
        if count + 1 >= LEAST_ROUNDS && !is_faster((rates.flops, rates.bytes), &known) {
            break;
        }
    }
    Ok(rates)
}

/// Flops a second of products, and bytes a second of additions, by dtype.
fn products_and_additions(executor: &Executor<Cpu>) -> Result<([f64; 4], [f64; 4])> {
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
    Ok((flops, bytes))
}

fn round(executor: &Executor<Cpu>) -> Result<Rates> {
    let (flops, bytes) = products_and_additions(executor)?;
    let others = Others::new(executor)?;
    let size = 3;
    let window = Window { batch: 8, height: 32, width: 32, channels: 64, filters: 64, size, stride: 1, padding: 1 };
    let image = || executor.filled(0.5, [8, 32, 32, 64], DType::F32, Category::Scratch, "calibration");
    let (x, y) = (image()?, image()?);
    let weight = executor.filled(0.5, [size, size, 64], DType::F32, Category::Scratch, "calibration")?;
    let kernel = Kernel::from(Depthwise::Forward(window));
    let depthwise_flops =
        kernel.flops() as f64 / others.fastest(executor, || executor.launch(kernel, &[&x, &weight], &[&y]))?;
    let launch_secs = launch_secs(executor)?;
    let streams = streams(executor, &others)?;
    let integers = integer_flops(executor)? / flops[F32];
    let known = Rates {
        flops,
        depthwise_flops,
        integers,
        bytes,
        streams,
        launch_secs,
        fork_secs: fork_secs(executor, &others, bytes[F32])?,
        threads: cpu_threads() as f64,
        ..Rates::NOMINAL
    };
    let packed = packed(executor, &known)?;
    let (convolutions, gathered) = convolutions(executor, &known)?;
    let wide = Window { batch: 8, height: 16, width: 16, channels: 64, filters: 64, size: 3, stride: 1, padding: 1 };
    let (of_wide, secs) = convolution(executor, wide)?;
    let wide = of_wide / unexplained(secs, 3.0 * known.fork_secs) / known.flops[F32];
    let (attention, heads) = attention(executor, &known)?;
    Ok(Rates { packed, convolutions, wide, gathered, attention, heads, ..known })
}

/// The part of a measured time that no other rate explains. It is at least a twentieth, because rates are measured as well.
fn unexplained(secs: f64, explained: f64) -> f64 {
    (secs - explained).max(secs / 20.0)
}

/// Two large tensors. Adding one to the other empties the nearer caches, as the launches of a step do for each other.
struct Others([Tensor<Cpu>; 2]);

impl Others {
    fn new(executor: &Executor<Cpu>) -> Result<Self> {
        let tensor = || executor.filled(0.5, [1024, 1024], DType::F32, Category::Scratch, "calibration");
        Ok(Self([tensor()?, tensor()?]))
    }

    /// Seconds of the fastest of some launches, each with the caches emptied before it.
    fn fastest(&self, executor: &Executor<Cpu>, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
        let [x, y] = &self.0;
        let mut best = f64::INFINITY;
        for _ in 0..4 {
            executor.launch(Elementwise::Add, &[x], &[y])?;
            let start = Instant::now();
            run()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(best.max(1e-9))
    }
}

/// Seconds until threads share a launch and are done with it: those of an addition just large enough to be shared.
fn fork_secs(executor: &Executor<Cpu>, others: &Others, bytes: f64) -> Result<f64> {
    let tensor = || executor.filled(0.5, [256, 256], DType::F32, Category::Scratch, "calibration");
    let (x, y) = (tensor()?, tensor()?);
    let secs = others.fastest(executor, || executor.launch(Elementwise::Add, &[&x], &[&y]))?;
    Ok(unexplained(secs, (x.bytes() + y.bytes()) as f64 / bytes))
}

/// Bytes of operands that products pack in a second. A product with few columns does little else.
fn packed(executor: &Executor<Cpu>, known: &Rates) -> Result<f64> {
    let (m, n, k) = (16 << 10, 8, 16);
    let tensor = |rows, columns| executor.filled(0.5, [rows, columns], DType::F32, Category::Scratch, "calibration");
    let (a, b, c) = (tensor(m, k)?, tensor(n, k)?, tensor(m, n)?);
    let product = MatMul { m, n, k, transpose_a: false, transpose_b: true, accumulate: false };
    let kernel = Kernel::from(Linear::MatMul(product));
    let secs = fastest(3, || executor.launch(kernel, &[&a, &b], &[&c]))?;
    let explained = kernel.flops() as f64 / known.flops[F32] + known.fork_secs;
    Ok((a.bytes() + b.bytes() + c.bytes()) as f64 / unexplained(secs, explained))
}

/// The share of the rate of products that convolutions reach at a size that many small networks have, and the bytes of patches
/// that they gather in a second, from convolutions of few channels.
fn convolutions(executor: &Executor<Cpu>, known: &Rates) -> Result<(f64, f64)> {
    let few = Window { batch: 32, height: 16, width: 16, channels: 8, filters: 8, size: 3, stride: 1, padding: 1 };
    let many = Window { batch: 32, height: 8, width: 8, channels: 32, filters: 64, size: 3, stride: 1, padding: 1 };
    let (forks, rate) = (3.0 * known.fork_secs, known.flops[F32]);
    // Of each of the three.
    let bytes = |window: Window| 12.0 * (window.out_pixels() * window.taps()) as f64;
    let (_, secs) = convolution(executor, few)?;
    let gathered = bytes(few) / secs;
    let (flops, secs) = convolution(executor, many)?;
    let products = unexplained(secs, bytes(many) / gathered + forks);
    Ok(((flops / products / rate).min(1.0), gathered))
}

/// Flops and seconds of a convolution with both of its gradients.
fn convolution(executor: &Executor<Cpu>, window: Window) -> Result<(f64, f64)> {
    let tensor = |elements: usize| executor.filled(0.5, [elements], DType::F32, Category::Scratch, "calibration");
    let (x, y) = (tensor(window.elements())?, tensor(window.out_elements())?);
    let (weight, gradient) = (tensor(window.filters * window.taps())?, tensor(window.filters * window.taps())?);
    let kernels = [
        (Convolution::Forward(window), [&x, &weight, &y]),
        (Convolution::InputGrad(window), [&y, &weight, &x]),
        (Convolution::WeightGrad { window, accumulate: false }, [&x, &y, &gradient]),
    ];
    let mut all = (0.0, 0.0);
    for (kernel, [a, b, to]) in kernels {
        all.0 += Kernel::from(kernel).flops() as f64;
        all.1 += fastest(2, || executor.launch(kernel, &[a, b], &[to]))?;
    }
    Ok(all)
}

/// The share of the rate of products that attention and its gradient reach, and the heads that they go through in a second where
/// sequences are short.
fn attention(executor: &Executor<Cpu>, known: &Rates) -> Result<(f64, f64)> {
    let heads = 4;
    let s = AttentionShape { batch: 8, length: 64, heads, kv_heads: heads, head_dim: 32, is_causal: true, window: 0 };
    let (flops, secs) = attended(executor, s)?;
    let share = (flops / secs / known.flops[F32]).min(1.0);
    let short = AttentionShape { batch: 32, length: 16, head_dim: 16, ..s };
    let (_, secs) = attended(executor, short)?;
    // A gradient counts as half a head more.
    Ok((share, 2.5 * (short.batch * short.heads) as f64 / secs))
}

/// Flops and seconds of attention with its gradient.
fn attended(executor: &Executor<Cpu>, s: AttentionShape) -> Result<(f64, f64)> {
    let tensor = |elements: usize| executor.filled(0.5, [elements], DType::F32, Category::Scratch, "calibration");
    let (qkv, gradient) = (tensor(s.rows() * s.packed())?, tensor(s.rows() * s.packed())?);
    let (y, sums) = (tensor(s.rows() * s.width())?, tensor(s.rows() * s.heads)?);
    let (forward, backward) = (Attention::Efficient(s), Attention::EfficientGrad(s));
    let secs = fastest(2, || executor.launch(forward, &[&qkv], &[&y, &sums]))?
        + fastest(2, || executor.launch(backward, &[&qkv, &y, &sums, &y], &[&gradient]))?;
    Ok(((Kernel::from(forward).flops() + Kernel::from(backward).flops()) as f64, secs))
}

/// A launch, with what it reads and what it writes.
type Timed<'a> = (Kernel, &'a [&'a Tensor<Cpu>], &'a [&'a Tensor<Cpu>]);

/// Bytes a second of loops over memory that do more with a number than adding it.
fn streams(executor: &Executor<Cpu>, others: &Others) -> Result<Streams> {
    let (rows, columns) = (1024, 256);
    let tensor = |elements: usize| executor.filled(0.5, [elements], DType::F32, Category::Scratch, "calibration");
    let (x, y, sums) = (tensor(rows * columns)?, tensor(rows * columns)?, tensor(rows)?);
    let (weight, bias) = (tensor(columns)?, tensor(columns)?);
    // The bytes of all launches over their seconds, each at its fastest.
    let rate = |launches: &[Timed<'_>]| -> Result<f64> {
        let (mut bytes, mut secs) = (0, 0.0);
        for (kernel, reads, writes) in launches {
            let of = |tensors: &[&Tensor<Cpu>]| tensors.iter().map(|tensor| tensor.bytes()).sum::<u64>();
            let operands = OperandBytes { dtype: DType::F32, read: of(reads), written: of(writes) };
            bytes += kernel.traffic_bytes(&operands);
            secs += others.fastest(executor, || executor.launch(*kernel, reads, writes))?;
        }
        Ok(bytes as f64 / secs)
    };
    let window = Window { batch: 8, height: 32, width: 32, channels: 32, filters: 32, size: 2, stride: 2, padding: 0 };
    let pooled = tensor(window.out_elements())?;
    let index = executor.filled(0.0, [window.out_elements()], DType::U8, Category::Scratch, "calibration")?;
    let extents = Rows { rows, columns };
    let (norm, norm_grad) = (Norm::Layer { extents, epsilon: 1e-5 }, Norm::LayerGrad { extents, accumulate: false });
    let (inverse, gradients) = (tensor(rows)?, [tensor(columns)?, tensor(columns)?]);
    let (value, gradient) =
        (Activation::Apply(ActivationFunction::GeluTanh), Activation::ApplyGrad(ActivationFunction::GeluTanh));
    let moments = [tensor(rows * columns)?, tensor(rows * columns)?];
    let rule = optim::of_kind(
        OptimizerKind::Adamw,
        &experiment::Optimizer::default(),
        (Shape::from([rows * columns]), DType::F32, 0),
        3,
    );
    // Without a rate, so that numbers stay as they are, however often it is made.
    let update = Update { rule, rate: 0.0, weight_decay: 0.0, grad_scale: 1.0 };
    let square = executor.filled(0.0, [1], DType::F64, Category::Scratch, "calibration")?;
    Ok(Streams {
        pools: rate(&[
            (Pool::Max(window).into(), &[&x], &[&pooled, &index]),
            (Pool::MaxGrad(window).into(), &[&pooled, &index], &[&x]),
        ])?,
        norms: rate(&[
            (norm.into(), &[&x, &weight, &bias], &[&y, &sums, &inverse]),
            (norm_grad.into(), &[&x, &sums, &inverse, &weight], &[&y, &gradients[0], &gradients[1]]),
        ])?,
        curves: rate(&[(value.into(), &[&x], &[&y]), (gradient.into(), &[&x], &[&y])])?,
        updates: rate(&[(Optimizer::Update(update).into(), &[&y], &[&x, &moments[0], &moments[1]])])?,
        sums: rate(&[
            (Linear::BiasGrad { accumulate: false }.into(), &[&x], &[&bias]),
            (Optimizer::SumSquares.into(), &[&x], &[&square]),
        ])?,
    })
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
        wide: a.wide.max(b.wide),
        attention: a.attention.max(b.attention),
        integers: a.integers.max(b.integers),
        bytes: most(a.bytes, b.bytes),
        streams: a.streams.zip(b.streams, f64::max),
        packed: a.packed.max(b.packed),
        gathered: a.gathered.max(b.gathered),
        heads: a.heads.max(b.heads),
        launch_secs: a.launch_secs.min(b.launch_secs),
        fork_secs: a.fork_secs.min(b.fork_secs),
        threads: a.threads,
    }
}

/// Whether products or additions of a type are clearly faster than the known ones.
fn is_faster((flops, bytes): ([f64; 4], [f64; 4]), known: &Rates) -> bool {
    let new = flops.into_iter().chain(bytes);
    new.zip(known.flops.into_iter().chain(known.bytes)).any(|(new, known)| new > known * SETTLED)
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
    use crate::backend::thread_pool::{ThreadPool, ThreadPriority};

    #[test]
    fn every_rate_is_measured() {
        let pool = ThreadPool::new(ThreadPriority::Normal).expect("threads");
        let rates = pool.run(|| round(&Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false))));
        let rates = rates.map_err(|error| error.to_string()).expect("kernels that run");
        assert!(rates.is_sane(), "{rates:?}");
    }

    #[test]
    fn the_best_of_two_measurements_is_taken_figure_by_figure() {
        let slow = Rates { flops: [1e9; 4], bytes: [3e9; 4], ..Rates::NOMINAL };
        let other = Rates { flops: [5e8, 2e9, 5e8, 5e8], launch_secs: 1e-6, ..slow };
        let best = fastest_of(slow, other);
        assert_eq!((best.flops, best.bytes, best.launch_secs), ([1e9, 2e9, 1e9, 1e9], [3e9; 4], 1e-6));
        assert!(is_faster((best.flops, best.bytes), &slow) && !is_faster((best.flops, best.bytes), &best));
        assert!(!is_faster((slow.flops.map(|rate| rate * 1.01), slow.bytes), &slow));
    }
}

//! The speed of a GPU's kernels compared with the card's peak.
//!
//! Owns the launches that are timed: one or more of each family, at sizes that fill a card. Always holds: a launch that fails
//! says why, and the others go on; seconds are for launches one after the other, waited for once. Refuses a device that is not
//! a GPU of this machine.

use std::time::Instant;

use serde::Serialize;

use crate::{
    backend::{
        Cuda, DType, Executor, Kernel, Rates, Shape, Tensor, Window,
        ops::{
            Activation, ActivationFunction, Attention, AttentionShape, Convolution, Depthwise, Dropout, Elementwise,
            Embedding, Layout, Linear, Loss, MatMul, Norm, OperandBytes, Optimizer, Pool, Rotary, Rows, Update,
        },
    },
    device::{Profile, target::cuda_index},
    error::{Error, Problem, Result},
    experiment::{self, OptimizerKind, limits::MAX_BUDGET},
    hardware::Machine,
    memory::{Category, Ledger},
    optim,
    step::workspace,
    train::gpu::Gpu,
};

/// Seconds for which a kernel is launched again and again, if it is a fast one.
const SECS: f64 = 0.05;
/// Launches of a kernel at most.
const MOST: usize = 200;

/// The measured rate of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelRate {
    /// Its work, with its sizes.
    pub name: String,
    /// The type of its operands; `tf32` is f32 with products rounded.
    pub arithmetic: &'static str,
    /// Seconds of a launch; `None` if it failed.
    pub secs: Option<f64>,
    /// Seconds that no launch is faster than, by the card's peaks.
    pub peak_secs: f64,
    /// The peak over the launch: 1 is the peak.
    pub share: Option<f64>,
    /// Multiplications and additions.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Why it failed.
    pub fault: Option<String>,
}

/// One launch: the elements and types of its operands.
struct Launch {
    kernel: Kernel,
    sizes: String,
    reads: Vec<(usize, DType)>,
    writes: Vec<(usize, DType)>,
}

/// Times the kernels of the GPU of this name, and hands each one out as soon as it is known. With `small`, it uses sizes for a
/// simulated card.
///
/// # Errors
/// Fails if there is no such GPU, or if it cannot be opened.
pub fn kernel_rates(device: &str, small: bool, report: &mut dyn FnMut(KernelRate)) -> Result<()> {
    let mut machine = Machine::detect();
    machine.target(device)?;
    let Some(index) = cuda_index(device) else {
        let message = format!("{device} is not a GPU of this machine");
        return Err(Problem::new("device", message, "choose one, such as cuda:0").into());
    };
    let gpu = Gpu::open(index as usize, &mut machine)?;
    let target = machine.target(device)?;
    let profile = machine.profile(device).ok_or_else(|| Error::Misused(format!("{device} is not a GPU")))?;
    for (dtype, tf32) in [(DType::F32, false), (DType::F32, true), (DType::Bf16, false)] {
        let choice = experiment::Gpu { tf32, ..experiment::Gpu::default() };
        let backend = gpu.backend(&profile, &choice, profile.capacity, false)?;
        let ledger = Ledger::for_target(&target, choice.pool, MAX_BUDGET, false, false);
        let executor = Executor::new(backend, ledger);
        let _workspace = workspace(&executor, choice.workspace)?;
        let arithmetic = if tf32 { "tf32" } else { dtype.name() };
        for launch in launches(dtype, small).into_iter().filter(|launch| !tf32 || multiplies(&launch.kernel)) {
            report(time(&executor, &profile, &launch, dtype, arithmetic));
        }
    }
    Ok(())
}

/// Whether TF32 changes it.
fn multiplies(kernel: &Kernel) -> bool {
    matches!(kernel, Kernel::Linear(Linear::MatMul(_)) | Kernel::Convolution(_))
}

fn time(
    executor: &Executor<Cuda>,
    profile: &Profile,
    launch: &Launch,
    dtype: DType,
    arithmetic: &'static str,
) -> KernelRate {
    let bytes = |of: &[(usize, DType)]| of.iter().map(|(count, dtype)| (count * dtype.size()) as u64).sum();
    let operands = OperandBytes { dtype, read: bytes(&launch.reads), written: bytes(&launch.writes) };
    let traffic = launch.kernel.traffic_bytes(&operands);
    let peak_secs = Rates::of_card(profile, arithmetic == "tf32").secs(&launch.kernel, dtype, traffic);
    let timed = of_one(executor, launch);
    KernelRate {
        name: format!("{} {}", launch.kernel.name(), launch.sizes),
        arithmetic,
        secs: timed.as_ref().ok().copied(),
        peak_secs,
        share: timed.as_ref().ok().map(|secs| peak_secs / secs),
        flops: launch.kernel.flops(),
        bytes: traffic,
        fault: timed.err().map(|error| error.to_string()),
    }
}

/// Seconds of a launch.
fn of_one(executor: &Executor<Cuda>, launch: &Launch) -> Result<f64> {
    let make = |of: &[(usize, DType)]| -> Result<Vec<Tensor<Cuda>>> {
        // Small integers are places in any table.
        let value = |dtype: DType| if matches!(dtype, DType::U32 | DType::U8) { 1.0 } else { 0.5 };
        let tensor = |(count, dtype): &(usize, DType)| {
            executor.filled(value(*dtype), [*count], *dtype, Category::Scratch, "operand")
        };
        of.iter().map(tensor).collect()
    };
    let (reads, writes) = (make(&launch.reads)?, make(&launch.writes)?);
    let (reads, writes) = (reads.iter().collect::<Vec<_>>(), writes.iter().collect::<Vec<_>>());
    let run = |times: usize| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..times {
            executor.launch(launch.kernel, &reads, &writes)?;
        }
        executor.backend().device().finish()?;
        Ok(start.elapsed().as_secs_f64() / times as f64)
    };
    // The first one compiles and loads.
    run(1)?;
    let once = run(1)?;
    let times = (SECS / once.max(1e-6)) as usize;
    if times < 2 { Ok(once) } else { run(times.min(MOST)) }
}

/// The launches of every family that are timed, with operands of `dtype`.
fn launches(dtype: DType, small: bool) -> Vec<Launch> {
    let mut all = products(dtype, small);
    all.extend(convolutions(dtype, small));
    all.extend(attentions(dtype, small));
    all.extend(streams(dtype, small));
    all
}

fn launch(kernel: impl Into<Kernel>, sizes: String, reads: Vec<(usize, DType)>, writes: Vec<(usize, DType)>) -> Launch {
    Launch { kernel: kernel.into(), sizes, reads, writes }
}

/// The layers of a Transformer of width 768 on 8 x 1024 tokens, and a square.
fn products(dtype: DType, small: bool) -> Vec<Launch> {
    let sizes: &[[usize; 3]] =
        if small { &[[64, 96, 32]] } else { &[[4096, 4096, 4096], [8192, 3072, 768], [8192, 768, 3072]] };
    let of = |[m, n, k]: &[usize; 3]| {
        let product = MatMul { m: *m, n: *n, k: *k, transpose_a: false, transpose_b: true, accumulate: false };
        let reads = vec![(m * k, dtype), (k * n, dtype)];
        launch(Linear::MatMul(product), format!("{m} x {n} x {k}"), reads, vec![(m * n, dtype)])
    };
    sizes.iter().map(of).collect()
}

/// Layers of ResNet-50 and MobileNetV2 on images of 224 x 224, with their gradients.
fn convolutions(dtype: DType, small: bool) -> Vec<Launch> {
    let window = |batch, side, channels, filters, size, stride| {
        let [height, width] = [side; 2];
        Window { batch, height, width, channels, filters, size, stride, padding: size / 2 }
    };
    let (dense, apart) = if small {
        (vec![window(2, 8, 4, 8, 3, 1)], window(2, 8, 8, 8, 3, 1))
    } else {
        let dense = vec![window(64, 56, 64, 64, 3, 1), window(64, 14, 256, 256, 3, 1), window(64, 56, 256, 64, 1, 1)];
        (dense, window(128, 56, 144, 144, 3, 1))
    };
    let mut all = Vec::new();
    for w in dense {
        let [x, weight, y] = [w.elements(), w.filters * w.taps(), w.out_elements()].map(|count| (count, dtype));
        let gradient = (weight.0, dtype.accumulator());
        let kernel = Convolution::WeightGrad { window: w, accumulate: false };
        all.push(launch(Convolution::Forward(w), described(&w), vec![x, weight], vec![y]));
        all.push(launch(Convolution::InputGrad(w), described(&w), vec![y, weight], vec![x]));
        all.push(launch(kernel, described(&w), vec![x, y], vec![gradient]));
    }
    let w = apart;
    let [x, weight, y] = [w.elements(), w.taps(), w.out_elements()].map(|count| (count, dtype));
    let kernel = Depthwise::WeightGrad { window: w, accumulate: false };
    all.push(launch(Depthwise::Forward(w), described(&w), vec![x, weight], vec![y]));
    all.push(launch(Depthwise::InputGrad(w), described(&w), vec![y, weight], vec![x]));
    all.push(launch(kernel, described(&w), vec![x, y], vec![(weight.0, dtype.accumulator())]));
    let pool = Window { filters: w.channels, stride: 2, ..w };
    let pooled = (pool.out_elements(), dtype);
    all.push(launch(Pool::Max(pool), described(&pool), vec![x], vec![pooled, (pooled.0, DType::U8)]));
    all
}

fn described(w: &Window) -> String {
    let Window { batch, height, width, channels, filters, size, stride, .. } = w;
    format!("{batch} x {height} x {width} x {channels}, {filters} filters of {size} x {size}, stride {stride}")
}

/// Heads of 64 numbers on sequences of 1024.
fn attentions(dtype: DType, small: bool) -> Vec<Launch> {
    let (batch, length, heads) = if small { (1, 32, 2) } else { (8, 1024, 12) };
    let s = AttentionShape { batch, length, heads, kv_heads: heads, head_dim: 64, is_causal: true, window: 0 };
    let sizes = format!("{batch} x {length}, {heads} heads of 64, causal");
    let (qkv, y) = ((s.rows() * s.packed(), dtype), (s.rows() * s.width(), dtype));
    let sums = (batch * heads * length, dtype.accumulator());
    let rotary = Rotary { shape: s, first: 0, base: 10_000.0, is_inverse: false };
    vec![
        launch(Attention::Efficient(s), sizes.clone(), vec![qkv], vec![y, sums]),
        launch(Attention::EfficientGrad(s), sizes.clone(), vec![qkv, y, sums, y], vec![qkv]),
        launch(rotary, sizes, vec![], vec![qkv]),
    ]
}

/// The launches that stream through memory.
fn streams(dtype: DType, small: bool) -> Vec<Launch> {
    let (rows, columns) = if small { (64, 96) } else { (8192, 3072) };
    let (tokens, vocabulary) = if small { (32, 500) } else { (2048, 50_257) };
    let (extents, all) = (Rows { rows, columns }, (rows * columns, dtype));
    let sizes = || format!("{rows} x {columns}");
    let sums = |count: usize| (count, dtype.accumulator());
    let weight = sums(columns);
    let adamw = optim::of_kind(
        OptimizerKind::Adamw,
        &experiment::Optimizer::default(),
        (Shape::from([all.0]), DType::F32, 0),
        3,
    );
    let update = Update { rule: adamw, rate: 1e-3, weight_decay: 0.01, grad_scale: 1.0 };
    let moments = [(all.0, DType::F32); 3].to_vec();
    let (logits, labels) = ((tokens * vocabulary, dtype), (tokens, DType::U32));
    let of_logits = format!("{tokens} x {vocabulary}");
    let (table, width) = ((vocabulary * 96, dtype), 96);
    let layer = Norm::Layer { extents, epsilon: 1e-5 };
    let layer_gradient = Norm::LayerGrad { extents, accumulate: false };
    let batch = Norm::Batch { extents, epsilon: 1e-5, momentum: 0.1 };
    let batch_gradient = Norm::BatchGrad { extents, accumulate: false };
    let gelu = ActivationFunction::GeluTanh;
    vec![
        launch(Elementwise::Add, sizes(), vec![all], vec![all]),
        launch(Activation::Relu, sizes(), vec![], vec![all]),
        launch(Activation::Apply(gelu), sizes(), vec![all], vec![all]),
        launch(Activation::ApplyGrad(gelu), sizes(), vec![all], vec![all]),
        launch(Linear::AddBias, sizes(), vec![(columns, dtype)], vec![all]),
        launch(Linear::BiasGrad { accumulate: false }, sizes(), vec![all], vec![weight]),
        launch(Dropout { probability: 0.1, key: 1 }, sizes(), vec![], vec![all]),
        launch(Layout::Transpose { batch: 1, rows, columns }, sizes(), vec![all], vec![all]),
        launch(layer, sizes(), vec![all, weight, weight], vec![all, sums(rows), sums(rows)]),
        launch(layer_gradient, sizes(), vec![all, sums(rows), sums(rows), weight], vec![all, weight, weight]),
        launch(batch, sizes(), vec![all, weight, weight], vec![all, weight, weight]),
        launch(batch_gradient, sizes(), vec![all, weight, weight, weight], vec![all, weight, weight]),
        launch(
            Loss::CrossEntropy { classes: vocabulary },
            of_logits.clone(),
            vec![logits, labels],
            vec![(2, DType::F64)],
        ),
        launch(Loss::CrossEntropyGrad { classes: vocabulary, scale: 1.0 }, of_logits, vec![labels], vec![logits]),
        launch(
            Embedding::Forward,
            format!("{tokens} of {vocabulary} x {width}"),
            vec![labels, table],
            vec![(tokens * width, dtype)],
        ),
        launch(Optimizer::SumSquares, sizes(), vec![(all.0, DType::F32)], vec![(1, DType::F64)]),
        launch(Optimizer::Update(update), sizes(), vec![(all.0, DType::F32)], moments),
    ]
}

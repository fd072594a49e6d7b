//! Times kernels and whole steps: `cargo bench -p plimsoll-engine [-- FILTER]`. Prints medians of a number of runs.
//!
//! The steps are those of the workloads the program's own benchmark names, launched by hand: forward, backward, AdamW.

use plimsoll_engine::backend::ops::{
    Activation, Convolution, Depthwise, Elementwise, Int8, Layout, Linear, Loss, Optimizer, Pool,
};
use std::{collections::BTreeMap, time::Instant};

use plimsoll_engine::{
    Result,
    backend::{
        Backend, Cpu, DType, Executor, HostSlice, Kernel, Tensor, Window, cpu,
        ops::{MatMul, Moments, Rows, Update, UpdateRule},
    },
    memory::{Category, Ledger},
    rng::Rng,
};

type T = Tensor<Cpu>;

/// An executor with random tensors.
struct Bench {
    executor: Executor<Cpu>,
    filter: Option<String>,
}

impl Bench {
    fn tensor(&self, elements: usize, dtype: DType) -> Result<T> {
        let tensor = self.executor.allocate([elements], dtype, Category::Batch, "operand")?;
        match dtype {
            DType::U32 => self.executor.backend().write(&tensor, HostSlice::U32(&vec![1; elements]))?,
            DType::U8 => self.executor.launch(Elementwise::Fill(1.0), &[], &[&tensor])?,
            _ => {
                let rng = Rng::from_key(elements as u64);
                let numbers: Vec<f32> = (0..elements).map(|i| rng.range(i as u64, -0.1, 0.1) as f32).collect();
                self.executor.backend().write(&tensor, HostSlice::F32(&numbers))?;
            }
        }
        Ok(tensor)
    }

    /// Median seconds of a call.
    fn seconds(&self, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
        let mut times = vec![];
        let start = Instant::now();
        while times.len() < 5 || (start.elapsed().as_secs_f64() < 0.4 && times.len() < 2000) {
            let before = Instant::now();
            call()?;
            times.push(before.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    fn kernel(
        &self,
        name: &str,
        kernel: impl Into<Kernel>,
        ins: &[(usize, DType)],
        outs: &[(usize, DType)],
    ) -> Result<()> {
        if self.filter.as_ref().is_some_and(|f| !name.contains(f.as_str())) {
            return Ok(());
        }
        let kernel = kernel.into();
        let make = |of: &[(usize, DType)]| of.iter().map(|&(n, d)| self.tensor(n, d)).collect::<Result<Vec<_>>>();
        let (ins, outs) = (make(ins)?, make(outs)?);
        let (ins, outs): (Vec<_>, Vec<_>) = (ins.iter().collect(), outs.iter().collect());
        let seconds = self.seconds(|| self.executor.launch(kernel, &ins, &outs))?;
        let bytes: u64 = ins.iter().chain(&outs).map(|t| t.bytes()).sum();
        let (flops, bytes) = (kernel.flops() as f64 / seconds / 1e9, bytes as f64 / seconds / 1e9);
        println!("{name:<44} {:>9.4} ms {flops:>8.1} GFLOP/s {bytes:>7.1} GB/s", seconds * 1e3);
        Ok(())
    }
}

fn matmuls(bench: &Bench) -> Result<()> {
    for (m, n, k) in [
        (1024, 1024, 1024),
        (64, 256, 256),
        (64, 256, 64),
        (64, 10, 256),
        (64, 64, 256),
        (64, 64, 16384),
        (1024, 64, 288),
    ] {
        for (kind, m, n, k, transpose_a, transpose_b) in [
            ("forward", m, n, k, false, true),
            ("by input", m, k, n, false, false),
            ("by weight", n, k, m, true, false),
        ] {
            for dtype in [DType::F32, DType::Bf16] {
                let p = MatMul { m, n, k, transpose_a, transpose_b, accumulate: false };
                let name = format!("matmul {kind} {m} x {n} x {k} {}", dtype.name());
                bench.kernel(&name, Linear::MatMul(p), &[(m * k, dtype), (k * n, dtype)], &[(m * n, dtype)])?;
            }
        }
    }
    Ok(())
}

/// Products of 8-bit integers against products of f32: convolutions of a ResNet-18 over images of 32 x 32, and dense layers.
fn integers(bench: &Bench) -> Result<()> {
    let window = |batch, side: usize, channels, filters, size: usize| Window {
        batch,
        height: side,
        width: side,
        channels,
        filters,
        size,
        stride: 1,
        padding: size / 2,
    };
    for w in [
        window(32, 32, 3, 64, 3),
        window(32, 32, 64, 64, 3),
        window(32, 16, 128, 128, 3),
        window(32, 8, 256, 256, 3),
        window(32, 4, 512, 512, 3),
        window(32, 16, 64, 128, 1),
        window(64, 1, 256, 256, 1),
        window(1024, 1, 1024, 1024, 1),
    ] {
        let (x, y, k) = (w.elements(), w.out_elements(), w.filters * w.taps());
        let name = format!("{} x {}² {}->{} by {}", w.batch, w.height, w.channels, w.filters, w.size);
        let (f32, u8) = (DType::F32, DType::U8);
        bench.kernel(
            &format!("int8: f32 for comparison {name}"),
            Convolution::Forward(w),
            &[(x, f32), (k, f32)],
            &[(y, f32)],
        )?;
        bench.kernel(&format!("int8: codes {name}"), Int8::Code, &[(x, f32), (2, f32)], &[(x, u8)])?;
        let ins = [(x, u8), (2, f32), (k, u8), (w.filters, f32), (w.filters, DType::U32)];
        bench.kernel(&format!("int8: product {name}"), Int8::Product(w), &ins, &[(y, f32)])?;
    }
    Ok(())
}

fn windows(bench: &Bench) -> Result<()> {
    let conv = |side: usize, channels, filters| Window {
        batch: 64,
        height: side,
        width: side,
        channels,
        filters,
        size: 3,
        stride: 1,
        padding: 1,
    };
    for dtype in [DType::F32, DType::Bf16, DType::F16] {
        for w in [conv(8, 1, 32), conv(4, 32, 64), conv(32, 64, 64)] {
            let (x, y, k) =
                (w.batch * w.height * w.width * w.channels, w.out_pixels() * w.filters, w.filters * w.taps());
            let name = format!("{}² {}->{} {}", w.height, w.channels, w.filters, dtype.name());
            bench.kernel(&format!("conv {name}"), Convolution::Forward(w), &[(x, dtype), (k, dtype)], &[(y, dtype)])?;
            bench.kernel(
                &format!("conv by input {name}"),
                Convolution::InputGrad(w),
                &[(y, dtype), (k, dtype)],
                &[(x, dtype)],
            )?;
            let kernel = Kernel::from(Convolution::WeightGrad { window: w, accumulate: false });
            bench.kernel(&format!("conv by weight {name}"), kernel, &[(x, dtype), (y, dtype)], &[(k, dtype)])?;
        }
        for (side, channels) in [(32, 3), (16, 32), (32, 64)] {
            let w = Window { filters: channels, ..conv(side, channels, channels) };
            let (x, y, k) = (w.batch * w.height * w.width * w.channels, w.out_pixels() * w.filters, w.taps());
            let name = format!("{side}² {channels} {}", dtype.name());
            bench.kernel(
                &format!("depthwise {name}"),
                Depthwise::Forward(w),
                &[(x, dtype), (k, dtype)],
                &[(y, dtype)],
            )?;
            bench.kernel(
                &format!("depthwise by input {name}"),
                Depthwise::InputGrad(w),
                &[(y, dtype), (k, dtype)],
                &[(x, dtype)],
            )?;
            let kernel = Kernel::from(Depthwise::WeightGrad { window: w, accumulate: false });
            bench.kernel(&format!("depthwise by weight {name}"), kernel, &[(x, dtype), (y, dtype)], &[(k, dtype)])?;
        }
        for (side, channels) in [(8, 32), (32, 32)] {
            let w = Window { size: 2, stride: 2, padding: 0, ..conv(side, channels, channels) };
            let (x, y) = (w.batch * w.height * w.width * w.channels, w.out_pixels() * w.filters);
            let name = format!("{side}² {channels} {}", dtype.name());
            bench.kernel(&format!("pool {name}"), Pool::Max(w), &[(x, dtype)], &[(y, dtype), (y, DType::U8)])?;
            bench.kernel(
                &format!("pool gradient {name}"),
                Pool::MaxGrad(w),
                &[(y, dtype), (y, DType::U8)],
                &[(x, dtype)],
            )?;
        }
    }
    Ok(())
}

fn moments(step: u64) -> Moments {
    Moments { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step }
}

fn update(rule: UpdateRule) -> Kernel {
    Kernel::from(Optimizer::Update(Update { rule, rate: 1e-3, weight_decay: 0.01, grad_scale: 1.0 }))
}

fn streams(bench: &Bench) -> Result<()> {
    let step = update(UpdateRule::AdamW(moments(3)));
    for n in [16 << 10, 64 << 10, 1 << 20] {
        for dtype in [DType::F32, DType::Bf16, DType::F16] {
            let (t, name) = ((n, dtype), format!("{n} {}", dtype.name()));
            bench.kernel(&format!("adamw {name}"), step, &[t], &[t, t, t])?;
            let (codes, scales) = ((n, DType::U8), (n / UpdateRule::BLOCK, DType::F32));
            let coded = update(UpdateRule::AdamW8(moments(3)));
            bench.kernel(&format!("adamw8bit {name}"), coded, &[t], &[t, codes, scales, codes, scales])?;
            let extents = Rows { rows: n / 256, columns: 256 };
            let factored = update(UpdateRule::Adafactor { extents, step: 3 });
            let means = [(extents.rows, DType::F32), (extents.columns, DType::F32)];
            bench.kernel(&format!("adafactor {name}"), factored, &[t], &[t, means[0], means[1]])?;
            bench.kernel(&format!("relu {name}"), Activation::Relu, &[], &[t])?;
            bench.kernel(&format!("relu gradient {name}"), Activation::ReluGrad, &[t], &[t])?;
            bench.kernel(&format!("add bias {name}"), Linear::AddBias, &[(64, dtype)], &[t])?;
            bench.kernel(
                &format!("bias gradient {name}"),
                Linear::BiasGrad { accumulate: false },
                &[t],
                &[(64, dtype)],
            )?;
            bench.kernel(&format!("sum of squares {name}"), Optimizer::SumSquares, &[t], &[(1, DType::F64)])?;
            bench.kernel(&format!("cast to f32 {name}"), Layout::Cast, &[t], &[(n, DType::F32)])?;
        }
    }
    let logits = (640, DType::F32);
    bench.kernel("cross entropy 64 x 10", Loss::CrossEntropy, &[logits, (64, DType::U32)], &[(2, DType::F64)])?;
    bench.kernel(
        "cross entropy gradient 64 x 10",
        Loss::CrossEntropyGrad { scale: 1.0 },
        &[(64, DType::U32)],
        &[logits],
    )
}

/// A layer of a step: what it launches forward, and backward.
#[derive(Clone, Copy)]
enum Layer {
    Dense(usize, usize),
    Conv(Window),
    Depthwise(Window),
    Pool(Window),
    Relu,
}

/// A whole step, with the time of each kernel by name.
struct Step<'a> {
    bench: &'a Bench,
    layers: Vec<(Layer, Vec<[T; 4]>)>,
    times: BTreeMap<&'static str, f64>,
}

impl<'a> Step<'a> {
    fn new(bench: &'a Bench, layers: &[Layer]) -> Result<Self> {
        let parameter = |n: usize| -> Result<[T; 4]> {
            let make = || bench.tensor(n, DType::F32);
            let zero = || bench.executor.filled(0.0, [n], DType::F32, Category::OptimizerState, "moment");
            Ok([make()?, make()?, zero()?, zero()?])
        };
        let layers = layers.iter().map(|&layer| {
            let parameters = match layer {
                Layer::Dense(i, o) => vec![parameter(i * o)?, parameter(o)?],
                Layer::Conv(w) => vec![parameter(w.filters * w.taps())?, parameter(w.filters)?],
                Layer::Depthwise(w) => vec![parameter(w.taps())?],
                Layer::Pool(_) | Layer::Relu => vec![],
            };
            Ok((layer, parameters))
        });
        Ok(Self { bench, layers: layers.collect::<Result<_>>()?, times: BTreeMap::new() })
    }

    fn launch(&mut self, kernel: impl Into<Kernel>, ins: &[&T], outs: &[&T]) -> Result<()> {
        let kernel = kernel.into();
        let before = Instant::now();
        self.bench.executor.launch(kernel, ins, outs)?;
        *self.times.entry(kernel.name()).or_default() += before.elapsed().as_secs_f64();
        Ok(())
    }

    fn room(&self, n: usize, dtype: DType) -> Result<T> {
        self.bench.executor.allocate([n], dtype, Category::Activations, "output")
    }

    fn run(&mut self, x: &T, labels: &T, stats: &T) -> Result<()> {
        let (batch, layers) = (labels.elements(), std::mem::take(&mut self.layers));
        let mut saved: Vec<(T, Option<T>)> = vec![];
        let mut at = x.clone();
        for (layer, p) in &layers {
            let weight = p.first().map(|p| &p[0]);
            let mut index = None;
            let y = match (*layer, weight) {
                (Layer::Dense(i, o), Some(w)) => {
                    let y = self.room(batch * o, DType::F32)?;
                    let p = MatMul { m: batch, n: o, k: i, transpose_a: false, transpose_b: true, accumulate: false };
                    self.launch(Linear::MatMul(p), &[&at, w], &[&y])?;
                    y
                }
                (Layer::Conv(w), Some(weight)) => {
                    let y = self.room(w.out_pixels() * w.filters, DType::F32)?;
                    self.launch(Convolution::Forward(w), &[&at, weight], &[&y])?;
                    y
                }
                (Layer::Depthwise(w), Some(weight)) => {
                    let y = self.room(w.out_pixels() * w.filters, DType::F32)?;
                    self.launch(Depthwise::Forward(w), &[&at, weight], &[&y])?;
                    y
                }
                (Layer::Pool(w), _) => {
                    let n = w.out_pixels() * w.filters;
                    let (y, places) = (self.room(n, DType::F32)?, self.room(n, DType::U8)?);
                    self.launch(Pool::Max(w), &[&at], &[&y, &places])?;
                    index = Some(places);
                    y
                }
                _ => at.clone(),
            };
            if let Some(bias) = p.get(1) {
                self.launch(Linear::AddBias, &[&bias[0]], &[&y])?;
            }
            if matches!(layer, Layer::Relu) {
                self.launch(Activation::Relu, &[], &[&y])?;
            }
            saved.push((std::mem::replace(&mut at, y), index));
        }
        self.launch(Loss::CrossEntropy, &[&at, labels], &[stats])?;
        self.launch(Loss::CrossEntropyGrad { scale: 1.0 / batch as f64 }, &[labels], &[&at])?;
        for ((layer, p), (x, index)) in layers.iter().zip(saved).rev() {
            let first = std::ptr::eq(layer, &layers[0].0);
            at = self.backward(*layer, p, batch, &x, index, at, first)?;
        }
        let kernel = update(UpdateRule::AdamW(moments(7)));
        for [w, g, m, v] in layers.iter().flat_map(|(_, p)| p) {
            self.launch(kernel, &[g], &[w, m, v])?;
        }
        self.layers = layers;
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "what the forward pass left")]
    fn backward(
        &mut self,
        layer: Layer,
        p: &[[T; 4]],
        batch: usize,
        x: &T,
        index: Option<T>,
        dy: T,
        first: bool,
    ) -> Result<T> {
        if let Some(bias) = p.get(1) {
            self.launch(Linear::BiasGrad { accumulate: false }, &[&dy], &[&bias[1]])?;
        }
        let product = |m, n, k, transpose_a| MatMul { m, n, k, transpose_a, transpose_b: false, accumulate: false };
        let (by_weight, by_input) = match layer {
            Layer::Dense(i, o) => (
                Kernel::from(Linear::MatMul(product(o, i, batch, true))),
                Kernel::from(Linear::MatMul(product(batch, i, o, false))),
            ),
            Layer::Conv(w) => (
                Kernel::from(Convolution::WeightGrad { window: w, accumulate: false }),
                Kernel::from(Convolution::InputGrad(w)),
            ),
            Layer::Depthwise(w) => (
                Kernel::from(Depthwise::WeightGrad { window: w, accumulate: false }),
                Kernel::from(Depthwise::InputGrad(w)),
            ),
            Layer::Pool(w) => {
                let dx = self.room(x.elements(), DType::F32)?;
                let index = index.expect("the forward pass kept it");
                self.launch(Pool::MaxGrad(w), &[&dy, &index], &[&dx])?;
                return Ok(dx);
            }
            Layer::Relu => {
                self.launch(Activation::ReluGrad, &[x], &[&dy])?;
                return Ok(dy);
            }
        };
        let [weight, gradient, ..] = &p[0];
        if matches!(layer, Layer::Dense(..)) {
            self.launch(by_weight, &[&dy, x], &[gradient])?;
        } else {
            self.launch(by_weight, &[x, &dy], &[gradient])?;
        }
        if first {
            return Ok(dy);
        }
        let dx = self.room(x.elements(), DType::F32)?;
        self.launch(by_input, &[&dy, weight], &[&dx])?;
        Ok(dx)
    }
}

fn steps(bench: &Bench) -> Result<()> {
    let window = |side, channels, filters, size, stride, padding| Window {
        batch: 64,
        height: side,
        width: side,
        channels,
        filters,
        size,
        stride,
        padding,
    };
    let conv = |side, i, o| Layer::Conv(window(side, i, o, 3, 1, 1));
    let pool = |side, c| Layer::Pool(window(side, c, c, 2, 2, 0));
    let own = |side, c| Layer::Depthwise(window(side, c, c, 3, 1, 1));
    let point = |side, i, o| Layer::Conv(window(side, i, o, 1, 1, 0));
    use Layer::{Dense, Relu};
    let models: [(&str, usize, Vec<Layer>); 3] = [
        ("step mlp-digits-b64", 64, vec![Dense(64, 256), Relu, Dense(256, 256), Relu, Dense(256, 10)]),
        (
            "step cnn-digits-b64",
            64,
            vec![
                conv(8, 1, 32),
                Relu,
                pool(8, 32),
                conv(4, 32, 64),
                Relu,
                pool(4, 64),
                Dense(256, 64),
                Relu,
                Dense(64, 10),
            ],
        ),
        (
            "step sepcnn-cifar-b64",
            3072,
            vec![
                own(32, 3),
                point(32, 3, 32),
                Relu,
                pool(32, 32),
                own(16, 32),
                point(16, 32, 64),
                Relu,
                Dense(16384, 64),
                Relu,
                Dense(64, 10),
            ],
        ),
    ];
    for (name, inputs, layers) in models {
        if bench.filter.as_ref().is_some_and(|f| !name.contains(f.as_str())) {
            continue;
        }
        let (x, labels) = (bench.tensor(64 * inputs, DType::F32)?, bench.tensor(64, DType::U32)?);
        let stats = bench.executor.filled(0.0, [2], DType::F64, Category::Activations, "statistics")?;
        let mut step = Step::new(bench, &layers)?;
        for _ in 0..5 {
            step.run(&x, &labels, &stats)?;
        }
        step.times.clear();
        let mut count = 0;
        let seconds = bench.seconds(|| {
            count += 1;
            step.run(&x, &labels, &stats)
        })?;
        println!("{name:<44} {:>9.4} ms", seconds * 1e3);
        for (kernel, time) in &step.times {
            println!("    {kernel:<40} {:>9.4} ms", time / f64::from(count) * 1e3);
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    pool.install(|| {
        cpu::warm_up();
        let bench = Bench { executor: Executor::new(Cpu::new(2), Ledger::new(None, false)), filter };
        steps(&bench)?;
        matmuls(&bench)?;
        windows(&bench)?;
        integers(&bench)?;
        streams(&bench)
    })
}

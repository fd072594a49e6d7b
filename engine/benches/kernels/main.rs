//! Times kernels and whole steps: `cargo bench -p plimsoll-engine [-- FILTER]`. Prints medians of a number of runs.
//!
//! The steps are those of the workloads the program's own benchmark names, launched by hand: forward, backward, AdamW.

mod step;

use std::time::Instant;

use plimsoll_engine::{
    Result,
    backend::{
        Backend, Cpu, DType, Executor, HostSlice, Kernel, Tensor, Window, cpu,
        ops::{
            Activation, Convolution, Depthwise, Elementwise, Int8, Layout, Linear, Loss, MatMul, Moments, Optimizer,
            Pool, Rows, Update, UpdateRule,
        },
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
    bench.kernel(
        "cross entropy 64 x 10",
        Loss::CrossEntropy { classes: 10 },
        &[logits, (64, DType::U32)],
        &[(2, DType::F64)],
    )?;
    bench.kernel(
        "cross entropy gradient 64 x 10",
        Loss::CrossEntropyGrad { classes: 10, scale: 1.0 },
        &[(64, DType::U32)],
        &[logits],
    )
}

fn main() -> Result<()> {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
    pool.install(|| {
        cpu::warm_up();
        let bench = Bench { executor: Executor::new(Cpu::new(2), Ledger::new(None, false)), filter };
        step::steps(&bench)?;
        matmuls(&bench)?;
        windows(&bench)?;
        integers(&bench)?;
        streams(&bench)
    })
}

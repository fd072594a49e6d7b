//! Times the kernels of a decoder's training step (256 wide, 6 blocks, 8 heads, 16 sequences of 128 bytes), each alone, and
//! adds them up as often as the step launches them: `cargo bench -p plimsoll-engine --bench decoder [-- TYPE] [THREADS]
//! [PART OF A KERNEL'S NAME]`.

use plimsoll_engine::backend::ops::{
    Activation, ActivationFunction, Attention, Elementwise, Embedding, Linear, Loss, Norm, Optimizer, Rotary,
};
use std::time::Instant;

use plimsoll_engine::{
    Result,
    backend::{
        AttentionShape, Backend, Cpu, DType, Executor, HostSlice, Kernel, Tensor, cpu,
        ops::{MatMul, Moments, Rows, Update, UpdateRule},
    },
    memory::{Category, Ledger},
    rng::Rng,
};

type Operands = Vec<(usize, DType)>;

/// A kernel, its operands, and how often a step launches it.
struct Launch {
    name: &'static str,
    times: usize,
    kernel: Kernel,
    inputs: Operands,
    outputs: Operands,
}

const LAYERS: usize = 6;
const WIDTH: usize = 256;
const VOCABULARY: usize = 256;

fn products(t: DType, rows: usize, launches: &mut Vec<Launch>) {
    let dense = [
        ("queries, keys, values", LAYERS, 3 * WIDTH, WIDTH),
        ("attention's output", LAYERS, WIDTH, WIDTH),
        ("feed forward, up", LAYERS, 4 * WIDTH, WIDTH),
        ("feed forward, down", LAYERS, WIDTH, 4 * WIDTH),
        ("logits", 1, VOCABULARY, WIDTH),
    ];
    for (name, times, out, inner) in dense {
        for (m, n, k, transpose_a, transpose_b) in
            [(rows, out, inner, false, true), (rows, inner, out, false, false), (out, inner, rows, true, false)]
        {
            let kernel = Kernel::from(Linear::MatMul(MatMul { m, n, k, transpose_a, transpose_b, accumulate: false }));
            let (inputs, outputs) = (vec![(m * k, t), (k * n, t)], vec![(m * n, t)]);
            launches.push(Launch { name, times, kernel, inputs, outputs });
        }
        let (bias, y) = (vec![(out, t)], vec![(rows * out, t)]);
        let kernel = Kernel::from(Linear::BiasGrad { accumulate: false });
        launches.push(Launch {
            name,
            times,
            kernel: Kernel::from(Linear::AddBias),
            inputs: bias.clone(),
            outputs: y.clone(),
        });
        launches.push(Launch { name, times, kernel, inputs: y, outputs: bias });
    }
}

fn launches(t: DType) -> Vec<Launch> {
    let s = AttentionShape { batch: 16, length: 128, heads: 8, kv_heads: 8, head_dim: 32, is_causal: true, window: 0 };
    let (rows, sums) = (s.rows(), if t == DType::F64 { t } else { DType::F32 });
    let (qkv, y, lse) = ((rows * s.packed(), t), (rows * WIDTH, t), (s.batch * s.heads * s.length, sums));
    let (statistic, parameter, hidden) = ((rows, sums), (WIDTH, sums), (rows * 4 * WIDTH, t));
    let extents = Rows { rows, columns: WIDTH };
    let (tokens, logits, table) = ((rows, DType::U32), (rows * VOCABULARY, t), (VOCABULARY * WIDTH, t));
    let p = (s.batch * s.heads * s.length * s.length, t);
    let mut launches = vec![];
    products(t, rows, &mut launches);
    let curve = ActivationFunction::GeluTanh;
    let layer_norm_gradient = Kernel::from(Norm::LayerGrad { extents, accumulate: false });
    let moments = Moments { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step: 3 };
    let update = Kernel::from(Optimizer::Update(Update {
        rule: UpdateRule::AdamW(moments),
        rate: 1e-3,
        weight_decay: 0.01,
        grad_scale: 1.0,
    }));
    let weights = (4_902_912, DType::F32);
    let rest: [(&'static str, usize, Kernel, Operands, Operands); 17] = [
        ("attention", LAYERS, Kernel::from(Attention::Efficient(s)), vec![qkv], vec![y, lse]),
        ("attention", LAYERS, Kernel::from(Attention::EfficientGrad(s)), vec![qkv, y, lse, y], vec![qkv]),
        ("not counted", 0, Kernel::from(Attention::Plain(s)), vec![qkv], vec![y, p]),
        ("not counted", 0, Kernel::from(Attention::PlainGrad(s)), vec![qkv, p, y], vec![qkv]),
        (
            "not counted",
            0,
            Kernel::from(Rotary { shape: s, first: 0, base: 1e4, is_inverse: false }),
            vec![],
            vec![qkv],
        ),
        ("not counted", 0, Kernel::from(Activation::SwiGlu { extents }), vec![(2 * y.0, t)], vec![y]),
        (
            "norms",
            2 * LAYERS + 1,
            Kernel::from(Norm::Layer { extents, epsilon: 1e-5 }),
            vec![y, parameter, parameter],
            vec![y, statistic, statistic],
        ),
        (
            "norms",
            2 * LAYERS + 1,
            layer_norm_gradient,
            vec![y, statistic, statistic, parameter],
            vec![y, parameter, parameter],
        ),
        ("gelu", LAYERS, Kernel::from(Activation::Apply(curve)), vec![hidden], vec![hidden]),
        ("gelu", LAYERS, Kernel::from(Activation::ApplyGrad(curve)), vec![hidden], vec![hidden]),
        ("residual", 4 * LAYERS, Kernel::from(Elementwise::Add), vec![y], vec![y]),
        ("tokens", 1, Kernel::from(Embedding::Forward), vec![tokens, table], vec![y]),
        ("tokens", 1, Kernel::from(Embedding::Grad { rows, accumulate: false }), vec![tokens, y], vec![table]),
        (
            "loss",
            1,
            Kernel::from(Loss::CrossEntropy { classes: VOCABULARY }),
            vec![logits, tokens],
            vec![(2, DType::F64)],
        ),
        (
            "loss",
            1,
            Kernel::from(Loss::CrossEntropyGrad { classes: VOCABULARY, scale: 1.0 }),
            vec![tokens],
            vec![logits],
        ),
        ("update", 1, update, vec![weights], vec![weights; 3]),
        ("update", 1, Kernel::from(Optimizer::SumSquares), vec![weights], vec![(1, DType::F64)]),
    ];
    let rest =
        rest.into_iter().map(|(name, times, kernel, inputs, outputs)| Launch { name, times, kernel, inputs, outputs });
    launches.extend(rest);
    launches
}

fn tensor(executor: &Executor<Cpu>, (elements, dtype): (usize, DType)) -> Result<Tensor<Cpu>> {
    let tensor = executor.allocate([elements], dtype, Category::Batch, "operand")?;
    let rng = Rng::from_key(elements as u64);
    if dtype == DType::U32 {
        let tokens: Vec<u32> = (0..elements).map(|i| rng.below(i as u64, VOCABULARY) as u32).collect();
        executor.backend().write(&tensor, HostSlice::U32(&tokens))?;
    } else {
        let numbers: Vec<f32> = (0..elements).map(|i| rng.normal(i as u64) as f32).collect();
        executor.backend().write(&tensor, HostSlice::F32(&numbers))?;
    }
    Ok(tensor)
}

/// Seconds of the fastest of many launches: what disturbs the machine only adds.
fn seconds(executor: &Executor<Cpu>, launch: &Launch) -> Result<f64> {
    let make = |of: &Operands| of.iter().map(|&o| tensor(executor, o)).collect::<Result<Vec<_>>>();
    let (ins, outs) = (make(&launch.inputs)?, make(&launch.outputs)?);
    let (ins, outs): (Vec<_>, Vec<_>) = (ins.iter().collect(), outs.iter().collect());
    let (mut times, start) = (vec![], Instant::now());
    while times.len() < 5 || (start.elapsed().as_secs_f64() < 0.3 && times.len() < 500) {
        let before = Instant::now();
        executor.launch(launch.kernel, &ins, &outs)?;
        times.push(before.elapsed().as_secs_f64());
    }
    Ok(times.into_iter().fold(f64::INFINITY, f64::min))
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let threads = words.iter().find_map(|word| word.parse().ok()).unwrap_or(2);
    let types = [DType::F32, DType::Bf16, DType::F16];
    let chosen = |t: &DType| words.iter().any(|word| word == t.name());
    let part = words.iter().find(|word| word.parse::<usize>().is_err() && !types.iter().any(|t| t.name() == *word));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| {
        cpu::warm_up();
        let executor = Executor::new(Cpu::new(threads), Ledger::new(None, false));
        for t in types.into_iter().filter(|t| chosen(t) || !types.iter().any(chosen)) {
            let mut sum = 0.0;
            for launch in launches(t) {
                if part.is_some_and(|part| !launch.kernel.name().contains(part.as_str())) {
                    continue;
                }
                let seconds = seconds(&executor, &launch)?;
                let bytes: usize = launch.inputs.iter().chain(&launch.outputs).map(|(n, d)| n * d.size()).sum();
                let [flops, bytes] = [launch.kernel.flops() as f64, bytes as f64].map(|count| count / seconds / 1e9);
                let of_step = seconds * launch.times as f64;
                sum += of_step;
                println!(
                    "{:<22} {:<24} {:>8.3} ms x {:>2} {:>8.2} ms {flops:>7.1} GFLOP/s {bytes:>6.1} GB/s",
                    launch.name,
                    launch.kernel.name(),
                    seconds * 1e3,
                    launch.times,
                    of_step * 1e3
                );
            }
            println!("decoder {:<5} {:>8.1} ms\n", t.name(), sum * 1e3);
        }
        Ok(())
    })
}

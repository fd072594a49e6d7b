//! Times a step of ResNet-18 (the stem for 32 x 32 images, a batch of 32): forward, backward, AdamW.

use std::time::Instant;

use plimsoll_engine::{
    Result,
    autograd::{Tape, Value},
    backend::{Cpu, DType, Executor, HostSlice, Tensor},
    experiment::{Optimizer, Precision},
    memory::{Category, Ledger},
    nn::{BatchNorm, Conv2d, ConvShape, GlobalPool, Init, Layer, Linear, Relu, Residual, chain},
    optim,
};

type Layers = Vec<Box<dyn Layer<Cpu>>>;

fn conv(init: &mut Init<'_, Cpu>, path: &str, i: usize, o: usize, size: usize, stride: usize) -> Result<Layers> {
    let shape = ConvShape { channels: i, filters: o, size, stride, padding: size / 2, bias: false };
    Ok(vec![
        Box::new(Conv2d::with(init, &format!("{path}/conv"), shape)?),
        Box::new(BatchNorm::new(init, &format!("{path}/norm"), o)?),
    ])
}

fn resnet(init: &mut Init<'_, Cpu>) -> Result<Layers> {
    let executor = init.executor();
    let mut layers = conv(init, "stem", 3, 64, 3, 1)?;
    layers.push(Box::new(Relu::new(executor, "stem/relu")));
    let mut channels = 64;
    for (i, (filters, first)) in [(64, 1), (128, 2), (256, 2), (512, 2)].into_iter().enumerate() {
        for (j, stride) in [(1, first), (2, 1)] {
            let path = format!("stage{i}/block{j}");
            let mut main = conv(init, &format!("{path}/1"), channels, filters, 3, stride)?;
            main.push(Box::new(Relu::new(executor, &format!("{path}/relu1"))));
            main.extend(conv(init, &format!("{path}/2"), filters, filters, 3, 1)?);
            let same = channels == filters && stride == 1;
            let shortcut =
                if same { vec![] } else { conv(init, &format!("{path}/shortcut"), channels, filters, 1, stride)? };
            layers.push(Box::new(Residual::new(executor, &path, main, shortcut)));
            layers.push(Box::new(Relu::new(executor, &format!("{path}/relu2"))));
            channels = filters;
        }
    }
    layers.push(Box::new(GlobalPool::new(executor, "pool")));
    layers.push(Box::new(Linear::new(init, "classes", 512, 10)?));
    Ok(layers)
}

fn step(executor: &Executor<Cpu>, layers: &Layers, x: &Tensor<Cpu>, labels: &Tensor<Cpu>) -> Result<()> {
    let mut tape = Tape::recording(executor);
    let logits = chain(layers, &mut tape, Value::constant(x.clone()))?;
    let id = logits.id().expect("there are parameters");
    let stats = executor.filled(0.0, [2], DType::F64, Category::Scratch, "statistics")?;
    executor.cross_entropy(&logits.tensor, 10, labels, &stats)?;
    let gradient = executor.cross_entropy_grad(logits.tensor, 10, labels, 1.0 / 32.0)?;
    tape.backward(id, gradient, None, &mut |_| Ok(()))?;
    let choice = Optimizer::default();
    let update = optim::Update { rate: 1e-3, grad_scale: 1.0, step: 1 };
    layers
        .iter()
        .flat_map(|layer| layer.params())
        .try_for_each(|param| optim::update(executor, &choice, param, update, None))
}

fn main() -> Result<()> {
    let pool = plimsoll_engine::backend::thread_pool::ThreadPool::new(
        plimsoll_engine::backend::thread_pool::ThreadPriority::Normal,
    )?;
    for precision in [Precision::F32, Precision::Bf16Mixed] {
        pool.run(|| -> Result<()> {
            let executor = Executor::new(Cpu::new(2), Ledger::new(None, false));
            let layers = resnet(&mut Init::new(&executor, precision, 1))?;
            let numbers: Vec<f32> = (0..32 * 32 * 32 * 3).map(|i| (i as f32 * 0.7).sin()).collect();
            let x = executor.upload(HostSlice::F32(&numbers), [32, 32, 32, 3], precision.compute(), "images")?;
            let labels = executor.upload(HostSlice::U32(&[1; 32]), [32], DType::U32, "labels")?;
            let mut times = vec![];
            for _ in 0..8 {
                let start = Instant::now();
                step(&executor, &layers, &x, &labels)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            times.sort_by(f64::total_cmp);
            let peak = executor.ledger().peak();
            println!("resnet18-cifar-b32 {:<10} {:>8.1} ms, peak {peak}", precision.key(), times[times.len() / 2]);
            Ok(())
        })?;
    }
    Ok(())
}

//! Whole steps, launched by hand: forward, backward, AdamW.

use std::{collections::BTreeMap, time::Instant};

use plimsoll_engine::{
    Result,
    backend::{
        DType, Kernel, Window,
        ops::{Activation, Convolution, Depthwise, Linear, Loss, MatMul, Pool, UpdateRule},
    },
    memory::Category,
};

use super::{Bench, T, moments, update};

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
        let classes = at.shape().last();
        self.launch(Loss::CrossEntropy { classes }, &[&at, labels], &[stats])?;
        self.launch(Loss::CrossEntropyGrad { classes, scale: 1.0 / batch as f64 }, &[labels], &[&at])?;
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

/// The models: their names, the elements of a sample, and their layers.
fn models() -> [(&'static str, usize, Vec<Layer>); 3] {
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
    [
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
    ]
}

/// Times the steps of the models.
pub(super) fn steps(bench: &Bench) -> Result<()> {
    for (name, inputs, layers) in models() {
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

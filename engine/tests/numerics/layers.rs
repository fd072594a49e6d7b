//! Every layer by itself: its gradients against finite differences in f64, checkpointed against kept, and what it keeps.

use plimsoll_engine::backend::ops::{
    ActivationFunction::{Gelu, GeluTanh, Mish, Silu},
    Elementwise, Optimizer,
};
use plimsoll_engine::{
    Result,
    autograd::{Pass, Tape, Value},
    backend::{
        AttentionShape, Backend, Cpu, DType, Executor, Kernel, Tensor,
        ops::{Update, UpdateRule},
    },
    experiment::{AttentionKind, Precision},
    memory::{Category, Ledger},
    nn::{
        Attention, AvgPool, BatchNorm, ClassToken, Conv2d, ConvShape, Depthwise, Dropout, GlobalPool, Init, Layer,
        LayerNorm, Linear, MaxPool, Positions, Relu, Relu6, Residual, RmsNorm, Rotary, Smooth, Start, SwiGlu,
        TakeFirst, Transpose, UpConv2d, chain,
    },
    rng::{Rng, Stream},
    selftest::draw::fresh_seed,
};

type Layers = Vec<Box<dyn Layer<Cpu>>>;
type Build = fn(&mut Init<'_, Cpu>) -> Layers;

const SHAPE: [usize; 4] = [3, 6, 5, 4];
/// Pixels of an image of [`SHAPE`], as places of a sequence.
const LENGTH: usize = 30;

/// A chain of layers with an input.
struct Bench {
    executor: Executor<Cpu>,
    build: Build,
    precision: Precision,
    layers: Layers,
    input: Tensor<Cpu>,
    seed: u64,
}

fn conv(filters: usize, size: usize, stride: usize, padding: usize, bias: bool) -> ConvShape {
    ConvShape { channels: 4, filters, size, stride, padding, bias }
}

fn boxed(layer: impl Layer<Cpu> + 'static) -> Box<dyn Layer<Cpu>> {
    Box::new(layer)
}

/// Chains over an input of [`SHAPE`].
const CHAINS: [(&str, Build); 16] = [
    ("a strided convolution", |i| vec![boxed(Conv2d::with(i, "conv", conv(5, 3, 2, 1, true)).expect("room"))]),
    ("a depthwise one", |i| vec![boxed(Depthwise::with(i, "own", conv(4, 3, 2, 1, true)).expect("room"))]),
    ("batch norm", |i| vec![boxed(BatchNorm::new(i, "norm", 4).expect("room"))]),
    ("pools", |i| {
        let e = i.executor();
        vec![boxed(MaxPool::with(e, "max", 3, 2, 1)), boxed(AvgPool::new(e, "average", 3, 2, 1))]
    }),
    ("layer norm and gelu", |i| {
        vec![boxed(LayerNorm::new(i, "norm", 4, 1e-5).expect("room")), boxed(Smooth::new(i.executor(), "gelu", Gelu))]
    }),
    ("rms norm, gelu by tanh and silu", |i| {
        let e = i.executor();
        let norm = boxed(RmsNorm::new(i, "norm", 4, 1e-6).expect("room"));
        vec![
            boxed(Smooth::new(e, "gelu", GeluTanh)),
            norm,
            boxed(Smooth::new(e, "silu", Silu)),
            boxed(Smooth::new(e, "mish", Mish)),
        ]
    }),
    ("dropout", |i| {
        let norm = boxed(LayerNorm::new(i, "norm", 4, 1e-5).expect("room"));
        vec![norm, boxed(Dropout::new(i, "drop", 0.3)), boxed(Smooth::new(i.executor(), "gelu", Gelu))]
    }),
    ("attention between dense layers", |i| attention(i, AttentionKind::Efficient, 2, true, 3)),
    ("attention that keeps its probabilities", |i| attention(i, AttentionKind::Plain, 1, false, 0)),
    ("a class token with positions", |i| {
        let start = Start::Normal { std: 1.0 };
        vec![
            boxed(ClassToken::new(i, "token", LENGTH, 4, start).expect("room")),
            boxed(Positions::new(i, "positions", LENGTH + 1, 4, start).expect("room")),
            boxed(Smooth::new(i.executor(), "gelu", Gelu)),
            boxed(TakeFirst::new(i.executor(), "first", LENGTH + 1)),
        ]
    }),
    ("gated units over columns", |i| {
        let dense = boxed(Linear::new(i, "dense", LENGTH, 6).expect("room"));
        let e = i.executor();
        let there = boxed(Transpose::new(e, "transpose", LENGTH));
        vec![there, dense, boxed(SwiGlu::new(e, "swiglu")), boxed(Transpose::new(e, "back", 4))]
    }),
    ("an up-convolution", |i| vec![boxed(UpConv2d::new(i, "up", 4, 3).expect("room"))]),
    ("the mean", |i| vec![boxed(GlobalPool::new(i.executor(), "mean"))]),
    ("clipped", |i| vec![boxed(Relu6::new(i.executor(), "relu6"))]),
    ("an identity next to a block", identity_block),
    ("a projection next to rectifiers that would write over their input", |i| {
        let main = vec![
            boxed(Relu::new(i.executor(), "r1")),
            boxed(Conv2d::with(i, "c1", conv(6, 3, 2, 1, false)).expect("room")),
            boxed(Relu6::new(i.executor(), "r2")),
        ];
        let shortcut = vec![boxed(Conv2d::with(i, "c2", conv(6, 1, 2, 0, false)).expect("room"))];
        let first = boxed(BatchNorm::new(i, "first", 4).expect("room"));
        vec![first, boxed(Residual::new(i.executor(), "add", main, shortcut))]
    }),
];

/// Attention over packed queries, keys and values of two query heads, with rotary positions.
fn attention(i: &mut Init<'_, Cpu>, kind: AttentionKind, kv_heads: usize, is_causal: bool, window: usize) -> Layers {
    let shape = AttentionShape { batch: 0, length: LENGTH, heads: 2, kv_heads, head_dim: 4, is_causal, window };
    let e = i.executor();
    vec![
        boxed(Linear::new(i, "qkv", 4, shape.packed()).expect("room")),
        boxed(Rotary::new(e, "rotary", shape, 100.0)),
        boxed(Attention::new(e, "heads", kind, shape)),
        boxed(Linear::new(i, "out", shape.width(), 4).expect("room")),
    ]
}

fn identity_block(i: &mut Init<'_, Cpu>) -> Layers {
    let main = vec![
        boxed(Conv2d::with(i, "c1", conv(4, 3, 1, 1, false)).expect("room")),
        boxed(BatchNorm::new(i, "b1", 4).expect("room")),
        boxed(Relu::new(i.executor(), "r1")),
        boxed(Conv2d::with(i, "c2", conv(4, 3, 1, 1, false)).expect("room")),
        boxed(BatchNorm::new(i, "b2", 4).expect("room")),
    ];
    vec![boxed(Residual::new(i.executor(), "add", main, vec![])), boxed(Relu::new(i.executor(), "r2"))]
}

impl Bench {
    fn new(build: Build, precision: Precision, seed: u64) -> Self {
        let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
        let layers = build(&mut Init::new(&executor, precision, seed));
        let input = random(&executor, SHAPE.iter().product(), precision.compute(), seed, 0);
        let input = input.reshape(SHAPE);
        Self { executor, build, precision, layers, input, seed }
    }

    /// A random weighing of the outputs in training, without a gradient: of the first pass, of layers made anew, for a
    /// second one would drop others.
    fn value(&self) -> f64 {
        let layers = (self.build)(&mut Init::new(&self.executor, self.precision, self.seed));
        let params =
            |of: &Layers| of.iter().flat_map(|layer| layer.params()).map(|p| p.weight().clone()).collect::<Vec<_>>();
        for (from, to) in params(&self.layers).iter().zip(&params(&layers)) {
            self.executor.cast_into(from, to).expect("a copy");
        }
        let tape = &mut Tape::recording(&self.executor);
        let y = chain(&layers, tape, Value::constant(self.copy())).expect("forward").tensor;
        let weights = random(&self.executor, y.elements(), y.dtype(), self.seed, 1);
        values(&self.executor, &y).iter().zip(values(&self.executor, &weights)).map(|(y, w)| y * w).sum()
    }

    fn copy(&self) -> Tensor<Cpu> {
        let (shape, dtype) = (self.input.shape(), self.input.dtype());
        let copy = self.executor.allocate(shape, dtype, Category::Batch, "input").expect("room");
        self.executor.cast_into(&self.input, &copy).expect("a copy");
        copy
    }

    /// Output, gradient of the input, gradients of the parameters.
    fn gradients(&self, checkpointed: bool) -> Vec<Vec<f64>> {
        let mut tape = Tape::recording(&self.executor);
        let x = tape.leaf(self.copy());
        let x_id = x.id();
        let y = if checkpointed {
            checkpoint(&mut tape, x, |tape, x| chain(&self.layers, tape, x))
        } else {
            chain(&self.layers, &mut tape, x)
        };
        let y = y.expect("forward");
        let weights = random(&self.executor, y.tensor.elements(), y.tensor.dtype(), self.seed, 1);
        let (id, weights) = (y.id().expect("a gradient is wanted"), weights.reshape_as(&y.tensor));
        let output = values(&self.executor, &y.tensor);
        drop(y);
        let dx = tape.backward(id, weights, x_id, &mut |_| Ok(())).expect("backward").expect("the input's gradient");
        let mut all = vec![output, values(&self.executor, &dx)];
        for param in self.layers.iter().flat_map(|layer| layer.params()) {
            all.push(values(&self.executor, &param.take_gradient().expect("every parameter has a gradient")));
        }
        all
    }
}

trait ReshapeAs {
    fn reshape_as(&self, other: &Self) -> Self;
}

impl ReshapeAs for Tensor<Cpu> {
    fn reshape_as(&self, other: &Self) -> Self {
        match *other.shape().dims() {
            [a, b] => self.reshape([a, b]),
            [a, b, c, d] => self.reshape([a, b, c, d]),
            _ => self.clone(),
        }
    }
}

/// A checkpointed segment of one value.
fn checkpoint<'m>(
    tape: &mut Tape<'m, Cpu>,
    x: Value<Cpu>,
    segment: impl Fn(&mut Tape<'m, Cpu>, Value<Cpu>) -> Result<Value<Cpu>> + 'm,
) -> Result<Value<Cpu>> {
    let one = |mut values: Vec<Value<Cpu>>| values.pop().expect("one value");
    tape.checkpoint(vec![x], move |tape, values| segment(tape, one(values)).map(|y| vec![y])).map(one)
}

fn random(executor: &Executor<Cpu>, elements: usize, dtype: DType, seed: u64, index: u64) -> Tensor<Cpu> {
    let tensor = executor.allocate([elements], dtype, Category::Batch, "noise").expect("room");
    let key = Rng::new(seed, Stream::Data, index).key();
    executor.launch(Elementwise::Uniform { bound: 2.0, key }, &[], &[&tensor]).expect("noise");
    tensor
}

fn values<B: Backend>(executor: &Executor<B>, tensor: &Tensor<B>) -> Vec<f64> {
    executor.read(tensor).expect("readable").expect("real numbers")
}

#[test]
fn gradients_of_input_and_parameters_agree_with_finite_differences() {
    let seed = fresh_seed();
    for (name, build) in CHAINS {
        let bench = Bench::new(build, Precision::F64, seed);
        let gradients = bench.gradients(false);
        let params: Vec<_> = bench.layers.iter().flat_map(|layer| layer.params()).map(|p| p.weight().clone()).collect();
        for (i, moved) in [bench.input.clone()].iter().chain(&params).enumerate() {
            let direction = random(&bench.executor, moved.elements(), DType::F64, seed, 2 + i as u64);
            let expected: f64 =
                values(&bench.executor, &direction).iter().zip(&gradients[1 + i]).map(|(d, g)| d * g).sum();
            let epsilon = 1e-6;
            let walk = |rate: f64| {
                let kernel = Kernel::from(Optimizer::Update(Update {
                    rule: UpdateRule::Sgd,
                    rate,
                    weight_decay: 0.0,
                    grad_scale: 1.0,
                }));
                bench.executor.launch(kernel, &[&direction], &[moved]).expect("a step");
            };
            walk(-epsilon);
            let above = bench.value();
            walk(2.0 * epsilon);
            let below = bench.value();
            walk(-epsilon);
            let measured = (above - below) / (2.0 * epsilon);
            let is_near = |slope: f64, share: f64| (slope - expected).abs() <= share * (1.0 + expected.abs());
            // Where a bend lies inside the step, the slope of the other side is the gradient's.
            let center = bench.value();
            let sides = [(above - center) / epsilon, (center - below) / epsilon];
            assert!(
                is_near(measured, 1e-5) || sides.into_iter().any(|side| is_near(side, 1e-4)),
                "seed {seed}, {name}, tensor {i}: {measured} measured, {expected} from the tape"
            );
        }
    }
}

#[test]
fn a_checkpointed_chain_gives_the_same_bits() {
    let seed = fresh_seed();
    for precision in Precision::ALL {
        for (name, build) in CHAINS {
            let kept = Bench::new(build, precision, seed).gradients(false);
            let again = Bench::new(build, precision, seed).gradients(true);
            assert!(kept == again, "seed {seed}, {name}, {precision:?}");
        }
    }
}

#[test]
fn running_estimates_move_once_a_pass_and_serve_evaluation() {
    let seed = fresh_seed();
    let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
    let norm = BatchNorm::new(&mut Init::new(&executor, Precision::F64, seed), "norm", 4).expect("room");
    let input = random(&executor, SHAPE.iter().product(), DType::F64, seed, 0).reshape(SHAPE);
    let numbers = values(&executor, &input);
    let n = (numbers.len() / 4) as f64;
    let column = |j: usize| numbers.iter().skip(j).step_by(4);
    let mean: Vec<f64> = (0..4).map(|j| column(j).sum::<f64>() / n).collect();
    let variance = |j: usize| column(j).map(|x| (x - mean[j]).powi(2)).sum::<f64>() / (n - 1.0);

    let mut tape = Tape::recording(&executor);
    assert_eq!(tape.pass(), Pass::Training);
    let x = tape.leaf(input.clone());
    let y = checkpoint(&mut tape, x, |tape, x| norm.forward(tape, x)).expect("forward");
    let (id, dy) = (y.id().expect("wanted"), y.tensor.clone());
    drop(y);
    tape.backward(id, dy, None, &mut |_| Ok(())).expect("backward");
    let [running_mean, running_variance] = norm.running().map(|t| values(&executor, t));
    for j in 0..4 {
        assert!((running_mean[j] - 0.1 * mean[j]).abs() < 1e-12, "seed {seed}: moved once, not by the recomputation");
        assert!((running_variance[j] - (0.9 + 0.1 * variance(j))).abs() < 1e-12, "seed {seed}: the unbiased variance");
    }

    let before = values(&executor, &input);
    let mut tape = Tape::no_grad(&executor);
    let y = norm.forward(&mut tape, Value::constant(input.clone())).expect("evaluation").tensor;
    for (i, (x, y)) in before.iter().zip(values(&executor, &y)).enumerate() {
        let want = (x - running_mean[i % 4]) / (running_variance[i % 4] + 1e-5).sqrt();
        assert!((y - want).abs() < 1e-9, "seed {seed}: {y}, not {want}");
    }
    assert_eq!(values(&executor, &input), before, "a shared input is not written over");
    assert_eq!(norm.running().map(|t| values(&executor, t)), [running_mean, running_variance]);
}

#[test]
fn a_residual_block_holds_no_more_than_it_needs() {
    let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
    let layers = identity_block(&mut Init::new(&executor, Precision::F32, 1));
    let before = executor.ledger().live().0;
    let one = (SHAPE.iter().product::<usize>() * 4) as u64;
    let mut tape = Tape::recording(&executor);
    let input = executor.filled(0.5, SHAPE, DType::F32, Category::Batch, "input").expect("room");
    let x = tape.leaf(input);
    let y = chain(&layers, &mut tape, x).expect("forward");
    // Alive: the input, the inputs of both norms, the rectifiers' outputs; and 16 statistics of f32.
    assert_eq!(executor.ledger().live().0 - before, 5 * one + 64);
    drop((y, tape));
    assert_eq!(executor.ledger().live().0, before);
}

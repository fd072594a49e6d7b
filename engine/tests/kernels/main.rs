//! Every kernel on the CPU: against a plain reference, against finite differences, against its rule of scratch, and
//! against itself on another number of threads. Shapes and numbers are fresh in every run; a failure prints the seed.

mod bench;
mod optimizers;
mod reference;

use bench::{Draw, FLOATS, Operand, Outcome, Threads, dry, fresh_seed, rounding};
use plimsoll_engine::backend::{
    DType, Kernel, Window,
    kernel::{Curve, Moments, Rows, Rule, Update},
};

/// A launch to try, and how many terms its longest sum has.
struct Trial {
    kernel: Kernel,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    terms: usize,
}

impl Trial {
    fn new(kernel: Kernel, inputs: Vec<Operand>, outputs: Vec<Operand>, terms: usize) -> Self {
        Self { kernel, inputs, outputs, terms }
    }
}

/// f32 as often as the type itself, where a sum may be wider than its terms.
fn sum_type(draw: &mut Draw, dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { draw.pick(&[dtype, DType::F32]) }
}

fn products(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let p = draw.matmul(largest * 16);
    let mut trials = vec![];
    let numbers = |draw: &mut Draw, count: usize, dtype: DType| (draw.numbers(count), dtype);
    let sum = sum_type(draw, dtype);
    let operands = vec![numbers(draw, p.m * p.k, dtype), numbers(draw, p.k * p.n, dtype)];
    trials.push(Trial::new(Kernel::MatMul(p), operands, vec![numbers(draw, p.m * p.n, sum)], p.k));
    for own in [false, true] {
        let w = draw.window(largest, own);
        let x = numbers(draw, w.batch * w.height * w.width * w.channels, dtype);
        let y = numbers(draw, w.out_pixels() * w.filters, dtype);
        let weights = if own { w.taps() } else { w.taps() * w.filters };
        let dw = numbers(draw, weights, sum);
        let weights = numbers(draw, weights, dtype);
        let accumulate = draw.coin();
        let (pixels, taps) = (w.out_pixels(), w.taps());
        let [forward, input, weight] = if own {
            [Kernel::Depthwise(w), Kernel::DepthwiseInputGrad(w), Kernel::DepthwiseWeightGrad { window: w, accumulate }]
        } else {
            [Kernel::Conv2d(w), Kernel::Conv2dInputGrad(w), Kernel::Conv2dWeightGrad { window: w, accumulate }]
        };
        trials.push(Trial::new(forward, vec![x.clone(), weights.clone()], vec![y.clone()], taps));
        trials.push(Trial::new(input, vec![y.clone(), weights], vec![x.clone()], taps * w.filters));
        trials.push(Trial::new(weight, vec![x, y], vec![dw], pixels));
    }
    trials
}

fn streams(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let (rows, columns) = (draw.between(1, largest * 8), draw.between(1, largest * 8));
    let n = rows * columns;
    let numbers = |draw: &mut Draw, count: usize, dtype: DType| (draw.numbers(count), dtype);
    let (x, y) = (numbers(draw, n, dtype), numbers(draw, n, dtype));
    let row = numbers(draw, columns, dtype);
    let (sum, other) = (sum_type(draw, dtype), draw.pick(&FLOATS));
    let labels = ((0..rows).map(|_| draw.between(0, columns - 1) as f64).collect(), DType::U32);
    let bias = Kernel::BiasGrad { accumulate: draw.coin() };
    let w = draw.window(largest, true);
    let image = numbers(draw, w.batch * w.height * w.width * w.channels, dtype);
    let out = (vec![0.0; w.out_pixels() * w.channels], dtype);
    let index = (vec![0.0; w.out_pixels() * w.channels], DType::U8);
    let out_gradient = draw.numbers(w.out_pixels() * w.channels);
    let images = draw.between(1, 3);
    let curve = draw.pick(&[Curve::Gelu, Curve::GeluTanh, Curve::Silu]);
    let wide: Operand = (x.0.iter().map(|x| 5.0 * x).collect(), dtype);
    let (several, means) = (numbers(draw, images * n, dtype), numbers(draw, images * columns, dtype));
    vec![
        Trial::new(Kernel::Fill(0.25), vec![], vec![y.clone()], 1),
        Trial::new(Kernel::Uniform { bound: 0.7, key: n as u64 }, vec![], vec![y.clone()], 1),
        Trial::new(Kernel::Cast, vec![x.clone()], vec![(y.0.clone(), other)], 1),
        Trial::new(Kernel::AddBias, vec![row.clone()], vec![y.clone()], 2),
        Trial::new(bias, vec![x.clone()], vec![(row.0, sum)], rows),
        Trial::new(Kernel::Relu, vec![], vec![y.clone()], 1),
        Trial::new(Kernel::ReluGrad, vec![x.clone()], vec![y.clone()], 1),
        Trial::new(Kernel::Relu6, vec![], vec![(y.0.iter().map(|y| 9.0 * y).collect(), dtype)], 1),
        Trial::new(
            Kernel::Relu6Grad,
            vec![(x.0.iter().map(|x| (9.0 * x).clamp(0.0, 6.0)).collect(), dtype)],
            vec![y.clone()],
            1,
        ),
        Trial::new(Kernel::Add, vec![x.clone()], vec![y.clone()], 2),
        Trial::new(Kernel::Scale(-0.375), vec![], vec![y.clone()], 1),
        Trial::new(Kernel::SumSquares, vec![x.clone()], vec![(vec![0.5], DType::F64)], n),
        Trial::new(Kernel::CrossEntropy, vec![x, labels.clone()], vec![(vec![0.5, 2.0], DType::F64)], n),
        Trial::new(Kernel::CrossEntropyGrad { scale: 0.5 }, vec![labels], vec![y.clone()], columns),
        Trial::new(Kernel::Curve(curve), vec![wide.clone()], vec![y.clone()], 32),
        Trial::new(Kernel::CurveGrad(curve), vec![wide], vec![y.clone()], 64),
        Trial::new(Kernel::Dropout { share: 0.25, key: n as u64 }, vec![], vec![y.clone()], 2),
        Trial::new(Kernel::AvgPool(w), vec![image.clone()], vec![out.clone()], w.size * w.size),
        Trial::new(Kernel::AvgPoolGrad(w), vec![(out_gradient, dtype)], vec![image.clone()], w.size * w.size),
        Trial::new(
            Kernel::GlobalPool { pixels: rows, channels: columns },
            vec![several.clone()],
            vec![means.clone()],
            rows,
        ),
        Trial::new(Kernel::GlobalPoolGrad { pixels: rows, channels: columns }, vec![means], vec![several], 1),
        Trial::new(Kernel::MaxPool(w), vec![image.clone()], vec![out.clone()], 1),
        Trial::new(Kernel::MaxPool(w), vec![image], vec![out, index], 1),
    ]
}

fn norms(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let (rows, columns) = (draw.between(2, largest * 50), draw.between(1, largest * 12));
    let extents = Rows { rows, columns };
    let (weight, sums) = (sum_type(draw, dtype), if dtype == DType::F64 { dtype } else { DType::F32 });
    let x = (draw.numbers(rows * columns).iter().map(|x| x + 3.0).collect(), dtype);
    let mut vector = |shift: f64, dtype: DType| (draw.numbers(columns).iter().map(|x| x + shift).collect(), dtype);
    let (scale, offset) = (vector(0.0, weight), vector(0.0, weight));
    let (mean, deviation) = (vector(3.0, sums), vector(1.5, sums));
    let mut outputs = vec![x.clone(), mean.clone(), mean.clone()];
    let fixed = vec![mean.clone(), deviation.clone(), scale.clone(), offset.clone()];
    let kernel = Kernel::BatchNorm { extents, epsilon: 1e-3, momentum: 0.125 };
    let inputs = vec![x.clone(), scale.clone(), offset.clone()];
    let plain = Trial::new(kernel, inputs.clone(), outputs.clone(), rows * 4);
    outputs.extend([mean.clone(), deviation.clone()]);
    let gradient = Kernel::BatchNormGrad { extents, accumulate: draw.coin() };
    let dy = (draw.numbers(rows * columns), dtype);
    let row_mean = (draw.numbers(rows).iter().map(|x| x + 3.0).collect(), sums);
    let row_deviation: Operand = (draw.numbers(rows).iter().map(|x| x + 1.5).collect(), sums);
    let [layer, rms] = [Kernel::LayerNorm { extents, epsilon: 1e-3 }, Kernel::RmsNorm { extents, epsilon: 1e-3 }];
    let accumulate = draw.coin();
    let layer_gradient = Kernel::LayerNormGrad { extents, accumulate };
    let rms_gradient = Kernel::RmsNormGrad { extents, accumulate };
    let (saved, more) = ([x.clone(), row_mean.clone(), row_deviation.clone(), scale.clone()], (rows + columns) * 64);
    let without_mean = vec![x.clone(), row_deviation.clone(), scale.clone()];
    let dx = vec![dy.clone(), scale.clone(), offset.clone()];
    let normalised = vec![dy.clone(), row_mean, row_deviation.clone()];
    vec![
        Trial::new(layer, inputs.clone(), normalised, columns * 16),
        Trial::new(layer_gradient, saved.to_vec(), dx.clone(), more),
        Trial::new(rms, inputs[..2].to_vec(), vec![dy.clone(), row_deviation], columns * 16),
        Trial::new(rms_gradient, without_mean, dx[..2].to_vec(), more),
        plain,
        Trial::new(kernel, inputs, outputs, rows * 4),
        Trial::new(gradient, vec![x.clone(), mean, deviation, scale.clone()], vec![dy, scale, offset], rows * 16),
        Trial::new(Kernel::BatchNormFixed { epsilon: 1e-3 }, fixed, vec![x], 64),
    ]
}

fn updates(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let n = draw.between(1, largest * largest * 64);
    let (rate, weight_decay, grad_scale) = (0.0625, 0.125, 0.5);
    let step = draw.between(1, 50) as u64;
    let moments = Moments { beta1: 0.875, beta2: 0.9375, epsilon: 1e-3, step };
    let momentum = 0.875;
    let extents = Rows { rows: draw.between(2, largest * 50), columns: draw.between(2, largest * 12) };
    let vector = Rows { rows: 1, columns: n };
    let rules = [
        Rule::Sgd,
        Rule::Momentum { momentum },
        Rule::Nesterov { momentum },
        Rule::Lion { beta1: 0.875, beta2: 0.9375 },
        Rule::Adam(moments),
        Rule::AdamW(moments),
        Rule::AdamW8(moments),
        Rule::Adafactor { extents: vector, step },
        Rule::Adafactor { extents, step },
    ];
    let mut trials = vec![];
    for rule in rules {
        let narrow = matches!(dtype, DType::Bf16 | DType::F16);
        // The weight's own type, or f32 with gradients of either width and a narrow copy.
        let (weight, grad) =
            if narrow && draw.coin() { (DType::F32, draw.pick(&[dtype, DType::F32])) } else { (dtype, dtype) };
        let sums = if dtype == DType::F64 { dtype } else { DType::F32 };
        let (mut count, mut positive) =
            (n, |count| (draw.numbers(count).iter().map(|v| v.abs() + 0.125).collect(), sums));
        let kept: Vec<Operand> = match rule {
            Rule::Sgd => vec![],
            Rule::Momentum { .. } | Rule::Nesterov { .. } | Rule::Lion { .. } => vec![(draw.numbers(n), weight)],
            Rule::Adam(_) | Rule::AdamW(_) => {
                let second = draw.numbers(n).iter().map(|v| v.abs()).collect();
                vec![(draw.numbers(n), weight), (second, weight)]
            }
            Rule::AdamW8(_) => {
                let scales: Operand = (vec![0.5; n.div_ceil(Rule::BLOCK)], DType::F32);
                vec![(vec![40.0; n], DType::U8), scales.clone(), (vec![200.0; n], DType::U8), scales]
            }
            Rule::Adafactor { extents: Rows { rows: 1, columns }, .. } => vec![positive(columns)],
            Rule::Adafactor { extents: Rows { rows, columns }, .. } => {
                count = rows * columns;
                vec![positive(rows), positive(columns)]
            }
        };
        let mut outputs: Vec<Operand> = [(draw.numbers(count), weight)].into_iter().chain(kept).collect();
        if weight != dtype {
            outputs.push((vec![0.0; count], dtype));
        }
        let kernel = Kernel::Update(Update { rule, rate, weight_decay, grad_scale });
        let terms = if matches!(rule, Rule::Adafactor { .. }) { count } else { 4 };
        trials.push(Trial::new(kernel, vec![(draw.numbers(count), grad)], outputs, terms));
    }
    trials
}

fn trials(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let mut trials = products(draw, dtype, largest);
    trials.extend(streams(draw, dtype, largest));
    trials.extend(norms(draw, dtype, largest));
    trials.extend(updates(draw, dtype, largest));
    trials
}

fn compare(trial: &Trial, outcome: &Outcome, context: &str) {
    if matches!(trial.kernel, Kernel::Update(Update { rule: Rule::AdamW8(_), .. })) {
        // Its codes have a test of their own.
        return;
    }
    let want = reference::run(&trial.kernel, &outcome.inputs, &outcome.before);
    let operand = trial.inputs.iter().chain(&trial.outputs).map(|o| o.1).find(|d| FLOATS.contains(d));
    let arithmetic = if operand == Some(DType::F64) { DType::F64 } else { DType::F32 };
    for (i, ((want, got), (_, dtype))) in want.iter().zip(&outcome.after).zip(&trial.outputs).enumerate() {
        // One rounding of the result, and of each step of the sums.
        let sums = 8.0 * rounding(arithmetic) * (1.0 + trial.terms as f64).sqrt();
        let once = 2.0 * rounding(*dtype).max(if *dtype == DType::F64 { 0.0 } else { rounding(DType::F32) });
        for (j, (want, got)) in want.iter().zip(got).enumerate() {
            let allowed = sums * (1.0 + want.abs()) + once * want.abs() + if *dtype == DType::F16 { 1e-7 } else { 0.0 };
            assert!(
                (want - got).abs() <= allowed,
                "{context}: output {i} of {dtype:?} at {j}: {got}, not {want} within {allowed:e}: {:?}",
                trial.kernel
            );
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_plain_reference_on_one_thread_and_on_two_alike() {
    let seed = fresh_seed();
    let (one, two) = (Threads::new(1), Threads::new(2));
    let mut draw = Draw::new(seed);
    for round in 0..12 {
        for dtype in FLOATS {
            // Small shapes for the edges, larger ones for tiles and threads.
            for trial in trials(&mut draw, dtype, if round % 4 == 3 { 17 } else { 6 }) {
                let (outcome, _) = one.launch(trial.kernel, &trial.inputs, &trial.outputs);
                compare(&trial, &outcome, &format!("seed {seed}, {dtype:?}"));
                let (again, _) = two.launch(trial.kernel, &trial.inputs, &trial.outputs);
                assert!(outcome == again, "seed {seed}, {dtype:?}: two threads differ from one: {:?}", trial.kernel);
            }
        }
    }
}

#[test]
fn a_launch_takes_no_more_than_its_rule_and_a_dry_run_books_the_same() {
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for count in [1, 2, 3] {
        let threads = Threads::new(count);
        for round in 0..8 {
            for dtype in FLOATS {
                for trial in trials(&mut draw, dtype, if round % 4 == 3 { 17 } else { 8 }) {
                    let context = format!("seed {seed}, {dtype:?}, {count} threads, {:?}", trial.kernel);
                    let (_, cost) = threads.launch(trial.kernel, &trial.inputs, &trial.outputs);
                    assert!(cost.measured <= cost.booked, "{cost:?}: {context}");
                    assert_eq!(cost.booked, dry(count, trial.kernel, &trial.inputs, &trial.outputs), "{context}");
                    assert!(count > 2 || cost.booked <= 1 << 20, "{cost:?}: {context}");
                }
            }
        }
    }
}

#[test]
fn the_rule_stays_within_a_mebibyte_on_two_threads_at_every_size() {
    use plimsoll_engine::backend::scratch;
    let seed = fresh_seed();
    let mut draw = Draw::new(seed);
    for _ in 0..20_000 {
        let dtype = draw.pick(&FLOATS);
        let mut w: Window = draw.window(64, false);
        w.batch = draw.between(1, 256);
        w.channels = draw.between(1, 700);
        w.filters = draw.between(1, 700);
        let accumulate = draw.coin();
        for kernel in [
            Kernel::MatMul(draw.matmul(3000)),
            Kernel::Conv2d(w),
            Kernel::Conv2dInputGrad(w),
            Kernel::Conv2dWeightGrad { window: w, accumulate },
            Kernel::DepthwiseWeightGrad { window: w, accumulate },
            Kernel::BatchNormGrad { extents: Rows { rows: w.out_pixels(), columns: w.channels * 4 }, accumulate },
        ] {
            let bytes = scratch::bytes(&kernel, dtype, 2);
            assert!(bytes <= 1 << 20, "seed {seed}: {bytes} for {dtype:?} {kernel:?}");
        }
    }
}

/// A forward kernel with one operand moved, and the gradient that should tell how its output follows.
struct Slope {
    forward: Kernel,
    inputs: Vec<Vec<f64>>,
    /// The output's elements before (for kernels that update), and how many.
    output: Vec<f64>,
    /// Which input is moved; `None`: the output, which the kernel updates.
    moved: Option<usize>,
    gradient: Kernel,
    /// The gradient kernel's inputs, given the gradient of the output, and what its output holds before.
    gradient_inputs: fn(&Slope, &[f64]) -> Vec<Vec<f64>>,
    gradient_output: Vec<f64>,
}

fn in_f64(operands: &[Vec<f64>]) -> Vec<Operand> {
    operands.iter().map(|o| (o.clone(), DType::F64)).collect()
}

impl Slope {
    /// Compares, in f64, the change of a random weighing of the outputs along a random direction with the gradient's.
    /// The kernels here are linear in each operand, or in pieces wider than the step: the difference is exact.
    fn check(&self, threads: &Threads, draw: &mut Draw, context: &str) {
        const STEP: f64 = 1.0 / 4096.0;
        let at = self.moved.map_or(&self.output, |i| &self.inputs[i]);
        let direction: Vec<f64> = at.iter().map(|_| draw.between(0, 2) as f64 - 1.0).collect();
        let weights = draw.numbers(self.output.len());
        let value = |sign: f64| {
            let (mut inputs, mut output) = (self.inputs.clone(), self.output.clone());
            let place = match self.moved {
                Some(i) => &mut inputs[i],
                None => &mut output,
            };
            place.iter_mut().zip(&direction).for_each(|(x, d)| *x += sign * STEP * d);
            let (outcome, _) = threads.launch(self.forward, &in_f64(&inputs), &in_f64(&[output]));
            outcome.after[0].iter().zip(&weights).map(|(y, w)| y * w).sum::<f64>()
        };
        let difference = (value(1.0) - value(-1.0)) / (2.0 * STEP);
        let inputs = in_f64(&(self.gradient_inputs)(self, &weights));
        let before = if matches!(self.gradient, Kernel::ReluGrad) { weights } else { self.gradient_output.clone() };
        let (outcome, _) = threads.launch(self.gradient, &inputs, &in_f64(&[before]));
        let slope: f64 = outcome.after[0].iter().zip(&direction).map(|(g, d)| g * d).sum();
        let allowed = 1e-8 * (1.0 + difference.abs());
        assert!((slope - difference).abs() <= allowed, "{context}: {slope}, not {difference}: {:?}", self.gradient);
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    use plimsoll_engine::backend::kernel::MatMul;
    let seed = fresh_seed();
    let (threads, mut draw) = (Threads::new(2), Draw::new(seed));
    let of_input = |s: &Slope, dy: &[f64]| vec![dy.to_vec(), s.inputs[1].clone()];
    let of_weight = |s: &Slope, dy: &[f64]| vec![s.inputs[0].clone(), dy.to_vec()];
    for _ in 0..20 {
        let mut slopes = vec![];
        let w = draw.window(6, false);
        let own = Window { filters: w.channels, ..w };
        let accumulate = false;
        for (w, taps, kernels) in [
            (
                w,
                w.filters * w.taps(),
                [Kernel::Conv2d(w), Kernel::Conv2dInputGrad(w), Kernel::Conv2dWeightGrad { window: w, accumulate }],
            ),
            (
                own,
                w.taps(),
                [
                    Kernel::Depthwise(own),
                    Kernel::DepthwiseInputGrad(own),
                    Kernel::DepthwiseWeightGrad { window: own, accumulate },
                ],
            ),
        ] {
            let x = draw.numbers(w.batch * w.height * w.width * w.channels);
            let (weights, y) = (draw.numbers(taps), vec![0.0; w.out_pixels() * w.filters]);
            for (moved, gradient, gradient_inputs) in
                [(0, kernels[1], of_input as fn(&Slope, &[f64]) -> Vec<Vec<f64>>), (1, kernels[2], of_weight)]
            {
                slopes.push(Slope {
                    forward: kernels[0],
                    inputs: vec![x.clone(), weights.clone()],
                    output: y.clone(),
                    moved: Some(moved),
                    gradient,
                    gradient_inputs,
                    gradient_output: if moved == 0 { x.clone() } else { weights.clone() },
                });
            }
        }
        let [rows, inner, out] = [draw.between(1, 90), draw.between(1, 90), draw.between(1, 90)];
        let product = |m, n, k, transpose_a, transpose_b| {
            Kernel::MatMul(MatMul { m, n, k, transpose_a, transpose_b, accumulate: false })
        };
        let inputs = vec![draw.numbers(rows * inner), draw.numbers(out * inner)];
        for (moved, gradient, gradient_inputs) in [
            (0, product(rows, inner, out, false, false), of_input as fn(&Slope, &[f64]) -> Vec<Vec<f64>>),
            (1, product(out, inner, rows, true, false), |s: &Slope, dy: &[f64]| vec![dy.to_vec(), s.inputs[0].clone()]),
        ] {
            slopes.push(Slope {
                forward: product(rows, out, inner, false, true),
                inputs: inputs.clone(),
                output: vec![0.0; rows * out],
                moved: Some(moved),
                gradient,
                gradient_inputs,
                gradient_output: inputs[moved].clone(),
            });
        }
        slopes.push(Slope {
            forward: Kernel::AddBias,
            inputs: vec![draw.numbers(out)],
            output: draw.numbers(rows * out),
            moved: Some(0),
            gradient: Kernel::BiasGrad { accumulate: false },
            gradient_inputs: |_, dy| vec![dy.to_vec()],
            gradient_output: vec![7.0; out],
        });
        slopes.push(Slope {
            forward: Kernel::Relu,
            inputs: vec![],
            // Odd multiples of 1/2048: the step crosses no bend.
            output: (0..rows * out).map(|_| draw.number() + 1.0 / 2048.0).collect(),
            moved: None,
            gradient: Kernel::ReluGrad,
            gradient_inputs: |s, _| vec![s.output.iter().map(|y| y.max(0.0)).collect()],
            gradient_output: vec![],
        });
        for slope in &slopes {
            slope.check(&threads, &mut draw, &format!("seed {seed}"));
        }
    }
}

#[test]
fn the_gradient_of_the_loss_and_of_pooling_agree_with_finite_differences() {
    let seed = fresh_seed();
    let (threads, mut draw) = (Threads::new(2), Draw::new(seed));
    const STEP: f64 = 1.0 / 4096.0;
    for _ in 0..10 {
        let (rows, classes) = (draw.between(1, 20), draw.between(2, 20));
        let labels: Operand = ((0..rows).map(|_| draw.between(0, classes - 1) as f64).collect(), DType::U32);
        let logits = draw.numbers(rows * classes);
        let place = draw.between(0, rows * classes - 1);
        let loss = |step: f64| {
            let mut logits = logits.clone();
            logits[place] += step;
            let inputs = [(logits, DType::F64), labels.clone()];
            threads.launch(Kernel::CrossEntropy, &inputs, &[(vec![0.0; 2], DType::F64)]).0.after[0][0]
        };
        let difference = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
        let kernel = Kernel::CrossEntropyGrad { scale: 1.0 };
        let (outcome, _) = threads.launch(kernel, std::slice::from_ref(&labels), &[(logits.clone(), DType::F64)]);
        let slope = outcome.after[0][place];
        assert!((slope - difference).abs() < 1e-7, "seed {seed}: {slope}, not {difference}");

        // Distinct values further apart than the step: the winners stay.
        let w = draw.window(5, true);
        let count = w.batch * w.height * w.width * w.channels;
        let mut x: Vec<f64> = (0..count).map(|i| i as f64 / 1024.0).collect();
        for i in (1..count).rev() {
            x.swap(i, draw.between(0, i));
        }
        let out = || (vec![0.0; w.out_pixels() * w.channels], DType::F64);
        let pooled = |x: &[f64]| threads.launch(Kernel::MaxPool(w), &[(x.to_vec(), DType::F64)], &[out()]).0.after;
        let (weights, direction) = (draw.numbers(out().0.len()), draw.numbers(count));
        let value = |sign: f64| {
            let x: Vec<f64> = x.iter().zip(&direction).map(|(x, d)| x + sign * STEP * d).collect();
            pooled(&x)[0].iter().zip(&weights).map(|(y, w)| y * w).sum::<f64>()
        };
        let difference = (value(1.0) - value(-1.0)) / (2.0 * STEP);
        let [.., gradient] = threads.pool_and_back(w, &(x, DType::F64), &(weights, DType::F64));
        let slope: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        assert!(
            (slope - difference).abs() < 1e-6 * (1.0 + difference.abs()),
            "seed {seed}: {slope}, not {difference}: {w:?}"
        );
    }
}

#[test]
fn the_gradient_of_pooling_agrees_with_the_plain_reference() {
    let seed = fresh_seed();
    let (one, two, mut draw) = (Threads::new(1), Threads::new(2), Draw::new(seed));
    for dtype in FLOATS.into_iter().cycle().take(60) {
        let w = draw.window(12, true);
        let x = (draw.numbers(w.batch * w.height * w.width * w.channels), dtype);
        let dy = (draw.numbers(w.out_pixels() * w.channels), dtype);
        let seen @ [_, dy_seen, index, dx] = &one.pool_and_back(w, &x, &dy);
        let want = reference::run(&Kernel::MaxPoolGrad(w), &[dy_seen.clone(), index.clone()], std::slice::from_ref(dx));
        for (want, got) in want[0].iter().zip(dx) {
            let allowed = 2.0 * rounding(dtype).max(rounding(DType::F32)) * (1.0 + want.abs());
            assert!((want - got).abs() <= allowed, "seed {seed}: {got}, not {want}: {dtype:?} {w:?}");
        }
        assert!(*seen == two.pool_and_back(w, &x, &dy), "seed {seed}: two threads differ from one: {dtype:?} {w:?}");
    }
}

#[test]
fn nan_is_never_lost() {
    let threads = Threads::new(1);
    let nan = f64::NAN;
    for dtype in FLOATS {
        let one = |kernel, ins: &[Operand], outs: &[Operand]| threads.launch(kernel, ins, outs).0.after;
        assert!(one(Kernel::Relu, &[], &[(vec![nan, -1.0], dtype)])[0][0].is_nan());
        let gradient = one(Kernel::ReluGrad, &[(vec![nan], dtype)], &[(vec![3.0], dtype)]);
        assert_eq!(gradient[0], [3.0], "a gradient passes where the output is no number");
        let w = Window { batch: 1, height: 1, width: 3, channels: 1, filters: 1, size: 1, stride: 1, padding: 0 };
        let w = Window { height: 3, size: 3, ..w };
        let x = vec![1.0, 2.0, 3.0, 9.0, nan, 9.0, 5.0, nan, 9.0];
        let pooled = one(Kernel::MaxPool(w), &[(x, dtype)], &[(vec![0.0], dtype), (vec![0.0], DType::U8)]);
        assert!(pooled[0][0].is_nan() && pooled[1][0] == 4.0, "the first NaN wins: {pooled:?}");
        let labels = (vec![0.0], DType::U32);
        let loss = one(Kernel::CrossEntropy, &[(vec![1.0, nan], dtype), labels], &[(vec![0.0; 2], DType::F64)]);
        assert!(loss[0][0].is_nan() && loss[0][1] == 0.0);
        assert!(one(Kernel::SumSquares, &[(vec![1.0, nan], dtype)], &[(vec![0.0], DType::F64)])[0][0].is_nan());
    }
    let huge = threads.launch(Kernel::SumSquares, &[(vec![3e38; 40], DType::F32)], &[(vec![0.0], DType::F64)]);
    assert!(huge.0.after[0][0].is_finite(), "a finite f32 has a finite square in f64");
}

#[test]
fn operands_that_do_not_fit_are_an_error_and_not_a_panic() {
    use plimsoll_engine::{
        Error,
        backend::{Backend as _, Candle, Executor, HostSlice},
        memory::{Category, Ledger},
    };
    let executor = Executor::new(Candle::cpu(1), Ledger::new(None, false));
    let make = |n: usize, dtype| executor.allocate([n], dtype, Category::Batch, "operand").expect("no budget");
    let (short, long) = (make(3, DType::F32), make(4, DType::F32));
    let (narrow, labels, stats) = (make(4, DType::Bf16), make(1, DType::U32), make(2, DType::F64));
    executor.backend().write(&labels, HostSlice::U32(&[4])).expect("labels");
    for (kernel, inputs, outputs) in [
        (Kernel::Add, vec![&short], vec![&long]),
        (Kernel::Add, vec![&narrow], vec![&long]),
        (Kernel::Add, vec![&long], vec![&long]),
        (Kernel::Relu, vec![], vec![&labels]),
        (Kernel::Relu, vec![], vec![]),
        (Kernel::CrossEntropy, vec![&long, &labels], vec![&stats]),
    ] {
        let refused = executor.launch(kernel, &inputs, &outputs);
        assert!(matches!(refused, Err(Error::Kernel { .. })), "{kernel:?}: {refused:?}");
    }
    assert!(matches!(executor.backend().write(&long, HostSlice::F32(&[1.0])), Err(Error::Kernel { .. })));
    assert!(matches!(executor.backend().write(&long, HostSlice::U32(&[1; 4])), Err(Error::Kernel { .. })));
}

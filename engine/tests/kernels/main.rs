//! Every kernel on the CPU: against a plain reference, against finite differences, against its rule of scratch, and
//! against itself on another number of threads. Shapes and numbers are fresh in every run; a failure prints the seed.

mod bench;
mod reference;

use bench::{Draw, FLOATS, Operand, Outcome, Threads, dry, fresh_seed, rounding};
use plimsoll_engine::backend::{DType, Kernel, Window};

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
    vec![
        Trial::new(Kernel::Fill(0.25), vec![], vec![y.clone()], 1),
        Trial::new(Kernel::Uniform { bound: 0.7, key: n as u64 }, vec![], vec![y.clone()], 1),
        Trial::new(Kernel::Cast, vec![x.clone()], vec![(y.0.clone(), other)], 1),
        Trial::new(Kernel::AddBias, vec![row.clone()], vec![y.clone()], 2),
        Trial::new(bias, vec![x.clone()], vec![(row.0, sum)], rows),
        Trial::new(Kernel::Relu, vec![], vec![y.clone()], 1),
        Trial::new(Kernel::ReluGrad, vec![x.clone()], vec![y.clone()], 1),
        Trial::new(Kernel::Add, vec![x.clone()], vec![y.clone()], 2),
        Trial::new(Kernel::Scale(-0.375), vec![], vec![y.clone()], 1),
        Trial::new(Kernel::SumSquares, vec![x.clone()], vec![(vec![0.5], DType::F64)], n),
        Trial::new(Kernel::CrossEntropy, vec![x, labels.clone()], vec![(vec![0.5, 2.0], DType::F64)], n),
        Trial::new(Kernel::CrossEntropyGrad { scale: 0.5 }, vec![labels], vec![y], columns),
        Trial::new(Kernel::MaxPool(w), vec![image.clone()], vec![out.clone()], 1),
        Trial::new(Kernel::MaxPool(w), vec![image], vec![out, index], 1),
    ]
}

fn updates(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let n = draw.between(1, largest * largest * 64);
    let (rate, weight_decay, grad_scale) = (0.0625, 0.125, 0.5);
    let step = draw.between(1, 50) as u64;
    let kernels = [
        Kernel::Sgd { rate, weight_decay, grad_scale },
        Kernel::Momentum { rate, momentum: 0.875, weight_decay, grad_scale },
        Kernel::AdamW { rate, beta1: 0.875, beta2: 0.9375, epsilon: 1e-3, weight_decay, grad_scale, step },
    ];
    let mut trials = vec![];
    for (states, kernel) in kernels.into_iter().enumerate() {
        let narrow = matches!(dtype, DType::Bf16 | DType::F16);
        // The weight's own type, or f32 with gradients of either width and a narrow copy.
        let (weight, grad) =
            if narrow && draw.coin() { (DType::F32, draw.pick(&[dtype, DType::F32])) } else { (dtype, dtype) };
        let mut outputs: Vec<Operand> = (0..=states).map(|_| (draw.numbers(n), weight)).collect();
        if let Some((square, _)) = outputs.get_mut(2) {
            square.iter_mut().for_each(|v| *v = v.abs());
        }
        if weight != dtype {
            outputs.push((vec![0.0; n], dtype));
        }
        trials.push(Trial::new(kernel, vec![(draw.numbers(n), grad)], outputs, 4));
    }
    trials
}

fn trials(draw: &mut Draw, dtype: DType, largest: usize) -> Vec<Trial> {
    let mut trials = products(draw, dtype, largest);
    trials.extend(streams(draw, dtype, largest));
    trials.extend(updates(draw, dtype, largest));
    trials
}

fn compare(trial: &Trial, outcome: &Outcome, context: &str) {
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
        ] {
            let bytes = scratch::bytes(&kernel, dtype, 2);
            assert!(bytes <= 1 << 20, "seed {seed}: {bytes} for {dtype:?} {kernel:?}");
        }
    }
}

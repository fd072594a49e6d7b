//! Gradients of layers' kernels against finite differences.

use plimsoll_engine::backend::ops::{Activation, Convolution, Depthwise, Lesson, Linear, Loss, Pool};
use plimsoll_engine::{
    backend::{DType, Kernel, Window},
    selftest::{
        cases::Operand,
        draw::{Draw, fresh_seed},
    },
};

use super::bench::{Shapes, Threads};

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
        let before = if matches!(self.gradient, Kernel::Activation(Activation::ReluGrad)) {
            weights
        } else {
            self.gradient_output.clone()
        };
        let (outcome, _) = threads.launch(self.gradient, &inputs, &in_f64(&[before]));
        let slope: f64 = outcome.after[0].iter().zip(&direction).map(|(g, d)| g * d).sum();
        let allowed = 1e-8 * (1.0 + difference.abs());
        assert!((slope - difference).abs() <= allowed, "{context}: {slope}, not {difference}: {:?}", self.gradient);
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    use plimsoll_engine::backend::ops::MatMul;
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
                [
                    Kernel::from(Convolution::Forward(w)),
                    Kernel::from(Convolution::InputGrad(w)),
                    Kernel::from(Convolution::WeightGrad { window: w, accumulate }),
                ],
            ),
            (
                own,
                w.taps(),
                [
                    Kernel::from(Depthwise::Forward(own)),
                    Kernel::from(Depthwise::InputGrad(own)),
                    Kernel::from(Depthwise::WeightGrad { window: own, accumulate }),
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
            Kernel::from(Linear::MatMul(MatMul { m, n, k, transpose_a, transpose_b, accumulate: false }))
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
            forward: Kernel::from(Linear::AddBias),
            inputs: vec![draw.numbers(out)],
            output: draw.numbers(rows * out),
            moved: Some(0),
            gradient: Kernel::from(Linear::BiasGrad { accumulate: false }),
            gradient_inputs: |_, dy| vec![dy.to_vec()],
            gradient_output: vec![7.0; out],
        });
        slopes.push(Slope {
            forward: Kernel::from(Activation::Relu),
            inputs: vec![],
            // Odd multiples of 1/2048: the step crosses no bend.
            output: (0..rows * out).map(|_| draw.number() + 1.0 / 2048.0).collect(),
            moved: None,
            gradient: Kernel::from(Activation::ReluGrad),
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
        let classed: Operand = ((0..rows).map(|_| draw.between(0, classes - 1) as f64).collect(), DType::U32);
        let valued: Operand = (draw.numbers(rows), DType::F32);
        let taught: Operand = (draw.numbers(rows * classes).iter().map(|x| 4.0 * x).collect(), DType::F64);
        let lesson = Lesson { temperature: draw.between(1, 32) as f64 / 4.0, weight: draw.between(0, 8) as f64 / 8.0 };
        let losses = [
            (
                Loss::CrossEntropy { classes },
                Loss::CrossEntropyGrad { classes, scale: 1.0 },
                vec![classed.clone()],
                rows * classes,
                1e-7,
            ),
            (
                Loss::Distil { classes, lesson },
                Loss::DistilGrad { classes, lesson, scale: 1.0 },
                vec![taught, classed],
                rows * classes,
                1e-6,
            ),
            (Loss::SquaredError, Loss::SquaredErrorGrad { scale: 1.0 }, vec![valued], rows, 1e-9),
        ];
        for (forward, backward, told, count, allowed) in losses {
            let (outputs, place) = (draw.numbers(count), draw.between(0, count - 1));
            let loss = |step: f64| {
                let mut outputs = outputs.clone();
                outputs[place] += step;
                let inputs = [vec![(outputs, DType::F64)], told.clone()].concat();
                threads.launch(forward, &inputs, &[(vec![0.0; 2], DType::F64)]).0.after[0][0]
            };
            let difference = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            let gradient = &[(outputs.clone(), DType::F64)];
            let (outcome, _) = threads.launch(Kernel::from(backward), &told, gradient);
            let slope = outcome.after[0][place];
            assert!((slope - difference).abs() < allowed, "seed {seed}: {slope}, not {difference}");
        }

        // Distinct values further apart than the step: the winners stay.
        let w = draw.window(5, true);
        let count = w.batch * w.height * w.width * w.channels;
        let mut x: Vec<f64> = (0..count).map(|i| i as f64 / 1024.0).collect();
        for i in (1..count).rev() {
            x.swap(i, draw.between(0, i));
        }
        let out = || (vec![0.0; w.out_pixels() * w.channels], DType::F64);
        let pooled = |x: &[f64]| threads.launch(Pool::Max(w), &[(x.to_vec(), DType::F64)], &[out()]).0.after;
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

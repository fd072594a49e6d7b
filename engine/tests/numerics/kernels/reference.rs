//! Every kernel again, in f64 and in the plainest loops, to compare with.

mod sequence;

use plimsoll_engine::backend::ops::{
    Activation, ActivationFunction, Attention, Convolution, Depthwise, Dropout, Elementwise, Embedding, Gather, Layout,
    Linear, Loss, Norm, Optimizer, Pool,
};
use plimsoll_engine::{
    backend::{
        DType, IGNORE_INDEX, Kernel, Window,
        ops::{MatMul, Moments, Rows, Update, UpdateRule},
    },
    rng::Rng,
};

use super::{coded, gathers, int8, pruning};

/// What the outputs of `kernel` become; `outs` holds them before.
pub(crate) fn run(kernel: &Kernel, ins: &[Vec<f64>], outs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut outs = outs.to_vec();
    match kernel {
        Kernel::Gather(Gather::Images) => gathers::images(ins, &mut outs[0]),
        Kernel::Gather(Gather::Labels) => gathers::labels(ins, &mut outs[0]),
        Kernel::Gather(Gather::Tokens { scored }) => gathers::tokens(*scored, ins, &mut outs),
        Kernel::Elementwise(Elementwise::Fill(value)) => outs[0].fill(*value),
        Kernel::Elementwise(Elementwise::Uniform { bound, key }) => {
            let rng = Rng::from_key(*key);
            (0..).zip(&mut outs[0]).for_each(|(i, y)| *y = rng.range(i, -bound, *bound));
        }
        Kernel::Layout(Layout::Cast) => outs[0].clone_from(&ins[0]),
        Kernel::Coded(kernel) => coded::run(kernel, ins, &mut outs),
        Kernel::Int8(kernel) => int8::run(kernel, ins, &mut outs),
        Kernel::Prune(kernel) => pruning::run(kernel, ins, &mut outs),
        Kernel::Linear(Linear::MatMul(p)) => matmul(p, &ins[0], &ins[1], &mut outs[0]),
        Kernel::Linear(Linear::AddBias) => {
            let columns = ins[0].len();
            (0..).zip(&mut outs[0]).for_each(|(i, y): (usize, _)| *y += ins[0][i % columns]);
        }
        Kernel::Linear(Linear::BiasGrad { accumulate }) => {
            let columns = start(&mut outs[0], *accumulate).len();
            (0..).zip(&ins[0]).for_each(|(i, dy): (usize, _)| outs[0][i % columns] += dy);
        }
        Kernel::Activation(Activation::Relu) => outs[0].iter_mut().for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y }),
        Kernel::Activation(Activation::ReluGrad) => {
            outs[0].iter_mut().zip(&ins[0]).for_each(|(dy, y)| *dy = if *y <= 0.0 { 0.0 } else { *dy })
        }
        Kernel::Activation(Activation::Relu6) => outs[0].iter_mut().for_each(|y| *y = y.clamp(0.0, 6.0)),
        Kernel::Activation(Activation::Relu6Grad) => {
            let passes = |y: f64| y > 0.0 && y < 6.0;
            outs[0].iter_mut().zip(&ins[0]).for_each(|(dy, y)| *dy = if passes(*y) { *dy } else { 0.0 });
        }
        Kernel::Elementwise(Elementwise::Add) => outs[0].iter_mut().zip(&ins[0]).for_each(|(y, x)| *y += x),
        Kernel::Elementwise(Elementwise::Scale(factor)) => outs[0].iter_mut().for_each(|y| *y *= factor),
        Kernel::Convolution(Convolution::Forward(w)) => {
            outs[0].fill(0.0);
            taps(w, |x, weight, y| outs[0][y] += ins[0][x] * ins[1][weight]);
        }
        Kernel::Convolution(Convolution::InputGrad(w)) => {
            outs[0].fill(0.0);
            taps(w, |x, weight, y| outs[0][x] += ins[0][y] * ins[1][weight]);
        }
        Kernel::Convolution(Convolution::WeightGrad { window, accumulate }) => {
            start(&mut outs[0], *accumulate);
            taps(window, |x, weight, y| outs[0][weight] += ins[0][x] * ins[1][y]);
        }
        Kernel::Depthwise(Depthwise::Forward(w)) => {
            outs[0].fill(0.0);
            own_taps(w, |x, weight, y| outs[0][y] += ins[0][x] * ins[1][weight]);
        }
        Kernel::Depthwise(Depthwise::InputGrad(w)) => {
            outs[0].fill(0.0);
            own_taps(w, |x, weight, y| outs[0][x] += ins[0][y] * ins[1][weight]);
        }
        Kernel::Depthwise(Depthwise::WeightGrad { window, accumulate }) => {
            start(&mut outs[0], *accumulate);
            own_taps(window, |x, weight, y| outs[0][weight] += ins[0][x] * ins[1][y]);
        }
        Kernel::Pool(Pool::Max(w)) => max_pool(w, &ins[0], &mut outs),
        Kernel::Pool(Pool::MaxGrad(w)) => {
            outs[0].fill(0.0);
            own_taps(w, |x, weight, y| {
                if ins[1][y] == (weight / w.channels) as f64 {
                    outs[0][x] += ins[0][y];
                }
            });
        }
        Kernel::Pool(Pool::Average(w)) => {
            outs[0].fill(0.0);
            own_taps(w, |x, _, y| outs[0][y] += ins[0][x] / (w.size * w.size) as f64);
        }
        Kernel::Pool(Pool::AverageGrad(w)) => {
            outs[0].fill(0.0);
            own_taps(w, |x, _, y| outs[0][x] += ins[0][y] / (w.size * w.size) as f64);
        }
        Kernel::Pool(Pool::Global { pixels, channels }) => {
            outs[0].fill(0.0);
            for (i, x) in ins[0].iter().enumerate() {
                outs[0][i / (pixels * channels) * channels + i % channels] += x / *pixels as f64;
            }
        }
        Kernel::Pool(Pool::GlobalGrad { pixels, channels }) => {
            let mean = |i: usize| ins[0][i / (pixels * channels) * channels + i % channels] / *pixels as f64;
            outs[0].iter_mut().enumerate().for_each(|(i, dx)| *dx = mean(i));
        }
        Kernel::Norm(Norm::Batch { epsilon, momentum, .. }) => batch_norm(*epsilon, *momentum, ins, &mut outs),
        Kernel::Norm(Norm::BatchGrad { accumulate, .. }) => batch_norm_gradient(*accumulate, ins, &mut outs),
        Kernel::Norm(Norm::BatchApply { adds }) => {
            let from = ins.len() - 4;
            for (i, y) in outs[0].iter_mut().enumerate() {
                let (x, j) = (if from > 0 { ins[0][i] } else { *y }, i % ins[from].len());
                let before = if *adds { *y } else { 0.0 };
                *y = before + (x - ins[from][j]) * ins[from + 1][j] * ins[from + 2][j] + ins[from + 3][j];
            }
        }
        Kernel::Norm(Norm::BatchFixed { epsilon }) => {
            let columns = ins[0].len();
            for (i, y) in outs[0].iter_mut().enumerate() {
                let j = i % columns;
                *y = (*y - ins[0][j]) / (ins[1][j] + epsilon).sqrt() * ins[2][j] + ins[3][j];
            }
        }
        Kernel::Norm(Norm::Layer { extents, epsilon }) => row_norm(extents.columns, *epsilon, true, ins, &mut outs),
        Kernel::Norm(Norm::Rms { extents, epsilon }) => row_norm(extents.columns, *epsilon, false, ins, &mut outs),
        Kernel::Norm(Norm::LayerGrad { extents, accumulate }) => {
            row_norm_gradient(extents.columns, *accumulate, ins, &mut outs)
        }
        Kernel::Norm(Norm::RmsGrad { extents, accumulate }) => {
            row_norm_gradient(extents.columns, *accumulate, ins, &mut outs)
        }
        Kernel::Activation(Activation::Apply(curve)) => {
            outs[0].iter_mut().zip(&ins[0]).for_each(|(y, x)| *y = curved(*curve, *x))
        }
        Kernel::Activation(Activation::ApplyGrad(curve)) => {
            outs[0].iter_mut().zip(&ins[0]).for_each(|(dy, x)| *dy *= slope(*curve, *x));
        }
        Kernel::Dropout(Dropout { probability, key }) => {
            let rng = Rng::from_key(*key);
            let kept = |i: usize| rng.uniform(i as u64) >= *probability;
            outs[0].iter_mut().enumerate().for_each(|(i, y)| *y = if kept(i) { *y / (1.0 - probability) } else { 0.0 });
        }
        Kernel::Loss(Loss::CrossEntropy) => {
            let classes = ins[0].len() / ins[1].len();
            for (row, label) in ins[0].chunks(classes).zip(&ins[1]).filter(|(_, label)| is_scored(**label)) {
                let (place, probabilities) = softmax(row);
                outs[0][0] -= probabilities[*label as usize].ln();
                outs[0][1] += f64::from(u8::from(place == *label as usize));
            }
        }
        Kernel::Loss(Loss::CrossEntropyGrad { scale }) => {
            let classes = outs[0].len() / ins[0].len();
            for (row, label) in outs[0].chunks_mut(classes).zip(&ins[0]) {
                let (_, probabilities) = softmax(row);
                let scale = if is_scored(*label) { *scale } else { 0.0 };
                for (class, (x, p)) in row.iter_mut().zip(probabilities).enumerate() {
                    *x = scale * (p - if class == *label as usize { 1.0 } else { 0.0 });
                }
            }
        }
        Kernel::Loss(Loss::Distil(lesson)) => {
            let (classes, square) = (ins[0].len() / ins[2].len(), lesson.temperature.powi(2));
            let rows = ins[0].chunks(classes).zip(ins[1].chunks(classes)).zip(&ins[2]);
            for ((row, told), label) in rows.filter(|(_, label)| is_scored(**label)) {
                let (place, probabilities) = softmax(row);
                let [own, told] = [row, told].map(|row| softened(row, lesson.temperature));
                let divergence: f64 = told.iter().zip(&own).map(|(p, q)| p * (p / q).ln()).sum();
                outs[0][0] -= (1.0 - lesson.weight) * probabilities[*label as usize].ln();
                outs[0][0] += lesson.weight * square * divergence;
                outs[0][1] += f64::from(u8::from(place == *label as usize));
            }
        }
        Kernel::Loss(Loss::DistilGrad { lesson, scale }) => {
            let classes = outs[0].len() / ins[1].len();
            for ((row, told), label) in outs[0].chunks_mut(classes).zip(ins[0].chunks(classes)).zip(&ins[1]) {
                let (_, probabilities) = softmax(row);
                let (own, told) = (softened(row, lesson.temperature), softened(told, lesson.temperature));
                let scale = if is_scored(*label) { *scale } else { 0.0 };
                for (class, x) in row.iter_mut().enumerate() {
                    let by_label = probabilities[class] - if class == *label as usize { 1.0 } else { 0.0 };
                    let by_teacher = lesson.temperature * (own[class] - told[class]);
                    *x = scale * ((1.0 - lesson.weight) * by_label + lesson.weight * by_teacher);
                }
            }
        }
        Kernel::Loss(Loss::SquaredError) => {
            for (value, label) in ins[0].iter().zip(&ins[1]) {
                outs[0][0] += (value - label).powi(2);
                outs[0][1] += (value - label).abs();
            }
        }
        Kernel::Loss(Loss::SquaredErrorGrad { scale }) => {
            outs[0].iter_mut().zip(&ins[0]).for_each(|(value, label)| *value = 2.0 * scale * (*value - label));
        }
        Kernel::Elementwise(Elementwise::Normal { .. })
        | Kernel::Layout(Layout::CopyColumns(_))
        | Kernel::Layout(Layout::Transpose { .. })
        | Kernel::Embedding(Embedding::Forward)
        | Kernel::Embedding(Embedding::Grad { .. })
        | Kernel::Rotary(_)
        | Kernel::Activation(Activation::SwiGlu { .. })
        | Kernel::Activation(Activation::SwiGluGrad { .. })
        | Kernel::Attention(Attention::Efficient(_))
        | Kernel::Attention(Attention::EfficientGrad(_))
        | Kernel::Attention(Attention::Plain(_))
        | Kernel::Attention(Attention::PlainGrad(_))
        | Kernel::Attention(Attention::Cached(_)) => sequence::run(kernel, ins, &mut outs),
        Kernel::Optimizer(Optimizer::SumSquares) => outs[0][0] += ins[0].iter().map(|x| x * x).sum::<f64>(),
        Kernel::Optimizer(Optimizer::Clip { limit }) => outs[0][0] = (limit / ins[0][0].sqrt()).min(1.0),
        Kernel::Optimizer(Optimizer::Normalise { epsilon }) => {
            outs[0].iter_mut().for_each(|x| *x /= ins[0][0].sqrt() + epsilon);
        }
        Kernel::Optimizer(Optimizer::Update(of)) => {
            let scale = ins.get(1).map_or(1.0, |scale| scale[0]);
            update(&Update { grad_scale: scale * of.grad_scale, ..*of }, &ins[0], &mut outs);
        }
    }
    outs
}

fn is_scored(label: f64) -> bool {
    label != f64::from(IGNORE_INDEX)
}

fn start(y: &mut [f64], accumulate: bool) -> &mut [f64] {
    if !accumulate {
        y.fill(0.0);
    }
    y
}

fn matmul(p: &MatMul, a: &[f64], b: &[f64], c: &mut [f64]) {
    start(c, p.accumulate);
    for i in 0..p.m {
        for j in 0..p.n {
            for k in 0..p.k {
                let left = if p.transpose_a { a[k * p.m + i] } else { a[i * p.k + k] };
                let right = if p.transpose_b { b[j * p.k + k] } else { b[k * p.n + j] };
                c[i * p.n + j] += left * right;
            }
        }
    }
}

/// Calls `f` with the places of input, weight and output of every product of a convolution.
fn taps(w: &Window, mut f: impl FnMut(usize, usize, usize)) {
    pixels(w, |image, [oy, ox], [ky, kx], [iy, ix]| {
        for filter in 0..w.filters {
            for c in 0..w.channels {
                f(
                    ((image * w.height + iy) * w.width + ix) * w.channels + c,
                    ((filter * w.size + ky) * w.size + kx) * w.channels + c,
                    ((image * w.out_height() + oy) * w.out_width() + ox) * w.filters + filter,
                );
            }
        }
    });
}

/// The same of a depthwise convolution or a pooling.
fn own_taps(w: &Window, mut f: impl FnMut(usize, usize, usize)) {
    pixels(w, |image, [oy, ox], [ky, kx], [iy, ix]| {
        for c in 0..w.channels {
            f(
                ((image * w.height + iy) * w.width + ix) * w.channels + c,
                (ky * w.size + kx) * w.channels + c,
                ((image * w.out_height() + oy) * w.out_width() + ox) * w.channels + c,
            );
        }
    });
}

fn pixels(w: &Window, mut f: impl FnMut(usize, [usize; 2], [usize; 2], [usize; 2])) {
    for image in 0..w.batch {
        for oy in 0..w.out_height() {
            for ox in 0..w.out_width() {
                for ky in 0..w.size {
                    for kx in 0..w.size {
                        let (y, x) = (oy * w.stride + ky, ox * w.stride + kx);
                        let inside = |at: usize, extent: usize| at >= w.padding && at < extent + w.padding;
                        if inside(y, w.height) && inside(x, w.width) {
                            f(image, [oy, ox], [ky, kx], [y - w.padding, x - w.padding]);
                        }
                    }
                }
            }
        }
    }
}

fn max_pool(w: &Window, x: &[f64], outs: &mut [Vec<f64>]) {
    let mut best: Vec<Option<(f64, usize)>> = vec![None; outs[0].len()];
    own_taps(w, |from, weight, to| {
        let (value, tap) = (x[from], weight / w.channels);
        best[to] = match best[to] {
            Some((so_far, place)) if so_far.is_nan() || value <= so_far => Some((so_far, place)),
            _ => Some((value, tap)),
        };
    });
    for (i, best) in best.into_iter().enumerate() {
        let (value, tap) = best.expect("every window sees a pixel");
        outs[0][i] = value;
        if let Some(index) = outs.get_mut(1) {
            index[i] = tap as f64;
        }
    }
}

fn batch_norm(epsilon: f64, momentum: f64, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let columns = ins[1].len();
    let rows = (ins[0].len() / columns) as f64;
    for j in 0..columns {
        let column = || ins[0].iter().skip(j).step_by(columns);
        let mean = column().sum::<f64>() / rows;
        let squares = column().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let inverse = 1.0 / (squares / rows + epsilon).sqrt();
        (outs[1][j], outs[2][j]) = (mean, inverse);
        if outs.len() > 3 {
            outs[3][j] = (1.0 - momentum) * outs[3][j] + momentum * mean;
            outs[4][j] = (1.0 - momentum) * outs[4][j] + momentum * squares / (rows - 1.0);
        }
        for i in (j..ins[0].len()).step_by(columns) {
            outs[0][i] = (ins[0][i] - mean) * inverse * ins[1][j] + ins[2][j];
        }
    }
}

fn batch_norm_gradient(accumulate: bool, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let columns = ins[1].len();
    let rows = (ins[0].len() / columns) as f64;
    for j in 0..columns {
        let (mean, inverse, weight) = (ins[1][j], ins[2][j], ins[3][j]);
        let place = || (j..ins[0].len()).step_by(columns);
        let normal = |i: usize| (ins[0][i] - mean) * inverse;
        let plain = place().map(|i| outs[0][i]).sum::<f64>();
        let product = place().map(|i| outs[0][i] * normal(i)).sum::<f64>();
        for i in place() {
            outs[0][i] = weight * inverse * (outs[0][i] - plain / rows - normal(i) * product / rows);
        }
        for (gradient, sum) in outs[1..].iter_mut().zip([product, plain]) {
            gradient[j] = sum + if accumulate { gradient[j] } else { 0.0 };
        }
    }
}

fn curved(curve: ActivationFunction, x: f64) -> f64 {
    match curve {
        ActivationFunction::Silu => x / (1.0 + (-x).exp()),
        ActivationFunction::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        ActivationFunction::Gelu => x * distribution(x),
        ActivationFunction::Mish => x * x.exp().ln_1p().tanh(),
    }
}

/// The normal distribution function (Marsaglia 2004).
fn distribution(x: f64) -> f64 {
    // A half, and the density times (x + x³/3 + x⁵/15 + ...): terms of one sign.
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

fn slope(curve: ActivationFunction, x: f64) -> f64 {
    use std::f64::consts::PI;
    match curve {
        ActivationFunction::Silu => {
            let e = (-x).exp();
            (1.0 + e + x * e) / (1.0 + e).powi(2)
        }
        ActivationFunction::GeluTanh => {
            let inner = (2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3));
            let inner_slope = (2.0 / PI).sqrt() * (1.0 + 0.134145 * x * x);
            0.5 * (1.0 + inner.tanh()) + 0.5 * x * inner_slope / inner.cosh().powi(2)
        }
        ActivationFunction::Gelu => distribution(x) + x * (-x * x / 2.0).exp() / (2.0 * PI).sqrt(),
        ActivationFunction::Mish => {
            let softplus = x.exp().ln_1p();
            softplus.tanh() + x / (1.0 + (-x).exp()) / softplus.cosh().powi(2)
        }
    }
}

fn row_norm(columns: usize, epsilon: f64, centered: bool, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let inverses = outs.len() - 1;
    for (i, x) in ins[0].chunks(columns).enumerate() {
        let mean = if centered { x.iter().sum::<f64>() / columns as f64 } else { 0.0 };
        let squares = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        outs[1][i] = mean;
        outs[inverses][i] = 1.0 / (squares / columns as f64 + epsilon).sqrt();
        for (j, x) in x.iter().enumerate() {
            outs[0][i * columns + j] =
                (x - mean) * outs[inverses][i] * ins[1][j] + ins.get(2).map_or(0.0, |bias| bias[j]);
        }
    }
}

fn row_norm_gradient(columns: usize, accumulate: bool, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let (inverse, weight, centered) = (&ins[ins.len() - 2], &ins[ins.len() - 1], ins.len() == 4);
    outs[1..].iter_mut().for_each(|gradient| {
        start(gradient, accumulate);
    });
    for i in 0..inverse.len() {
        let place = i * columns..(i + 1) * columns;
        let mean = if centered { ins[1][i] } else { 0.0 };
        let normal: Vec<f64> = ins[0][place.clone()].iter().map(|x| (x - mean) * inverse[i]).collect();
        let dy = outs[0][place.clone()].to_vec();
        let plain = dy.iter().zip(weight).map(|(dy, w)| dy * w).sum::<f64>() / columns as f64;
        let product = (0..columns).map(|j| dy[j] * weight[j] * normal[j]).sum::<f64>() / columns as f64;
        for j in 0..columns {
            for (gradient, of) in outs[1..].iter_mut().zip([dy[j] * normal[j], dy[j]]) {
                gradient[j] += of;
            }
            let off = if centered { plain } else { 0.0 };
            outs[0][place.start + j] = inverse[i] * (dy[j] * weight[j] - off - normal[j] * product);
        }
    }
}

fn softmax(row: &[f64]) -> (usize, Vec<f64>) {
    let place = (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
    let total: f64 = row.iter().map(|x| (x - row[place]).exp()).sum();
    (place, row.iter().map(|x| (x - row[place]).exp() / total).collect())
}

/// The probabilities of a row at a temperature.
fn softened(row: &[f64], temperature: f64) -> Vec<f64> {
    softmax(&row.iter().map(|x| x / temperature).collect::<Vec<_>>()).1
}

/// A step by `g` of the rules that treat every element alike: the weight after, the state updated.
fn step(update: &Update, g: f64, w: f64, [first, second]: [&mut f64; 2]) -> f64 {
    let Update { rate, weight_decay, .. } = *update;
    let decayed = w * (1.0 - rate * weight_decay);
    let mut adam = |g: f64, Moments { beta1, beta2, epsilon, step }: Moments| {
        *first = beta1 * *first + (1.0 - beta1) * g;
        *second = beta2 * *second + (1.0 - beta2) * g * g;
        let mean = *first / (1.0 - beta1.powf(step as f64));
        rate * mean / ((*second / (1.0 - beta2.powf(step as f64))).sqrt() + epsilon)
    };
    let with_l2 = g + weight_decay * w;
    match update.rule {
        UpdateRule::Sgd => w - rate * with_l2,
        UpdateRule::Adam(moments) => w - adam(with_l2, moments),
        UpdateRule::AdamW(moments) => decayed - adam(g, moments),
        UpdateRule::Momentum { momentum } => {
            *first = momentum * *first + with_l2;
            w - rate * *first
        }
        UpdateRule::Nesterov { momentum } => {
            *first = momentum * *first + with_l2;
            w - rate * (with_l2 + momentum * *first)
        }
        UpdateRule::RmsProp { alpha, epsilon } => {
            *first = alpha * *first + (1.0 - alpha) * with_l2 * with_l2;
            w - rate * with_l2 / (first.sqrt() + epsilon)
        }
        UpdateRule::Lion { beta1, beta2 } => {
            let direction = beta1 * *first + (1.0 - beta1) * g;
            *first = beta2 * *first + (1.0 - beta2) * g;
            decayed - if direction == 0.0 { 0.0 } else { rate * direction.signum() }
        }
        UpdateRule::AdamW8(_)
        | UpdateRule::AdamW4 { .. }
        | UpdateRule::FlashAdamW { .. }
        | UpdateRule::ApolloMini { .. }
        | UpdateRule::Adafactor { .. } => unreachable!("not by element"),
    }
}

/// Shazeer & Stern 2018: algorithm 4 for a matrix, algorithm 5 for a vector, with their sums in place of means.
fn adafactor(update: &Update, extents: Rows, t: u64, grad: &[f64], outs: &mut [Vec<f64>]) -> usize {
    let Rows { rows, columns } = extents;
    let beta = 1.0 - (t as f64).powf(-0.8);
    let g = |i: usize| update.grad_scale * grad[i];
    let square = |i: usize| g(i) * g(i) + 1e-30;
    let (second, states): (Vec<f64>, usize) = if rows == 1 {
        (0..columns).for_each(|i| outs[1][i] = beta * outs[1][i] + (1.0 - beta) * square(i));
        (outs[1].clone(), 1)
    } else {
        for (i, row) in outs[1].iter_mut().enumerate() {
            let sum: f64 = (0..columns).map(|j| square(i * columns + j)).sum();
            *row = beta * *row + (1.0 - beta) * sum / columns as f64;
        }
        for (j, column) in outs[2].iter_mut().enumerate() {
            let sum: f64 = (0..rows).map(|i| square(i * columns + j)).sum();
            *column = beta * *column + (1.0 - beta) * sum / rows as f64;
        }
        // R C / (1^T R), with sums: a row's is `columns` means, a column's `rows` means.
        let total: f64 = outs[1].iter().map(|r| r * columns as f64).sum();
        let of = |i: usize| (outs[1][i / columns] * columns as f64) * (outs[2][i % columns] * rows as f64) / total;
        ((0..rows * columns).map(of).collect(), 2)
    };
    let steps: Vec<f64> = second.iter().enumerate().map(|(i, v)| g(i) / v.sqrt()).collect();
    let size = (steps.iter().map(|u| u * u).sum::<f64>() / steps.len() as f64).sqrt();
    for (w, u) in outs[0].iter_mut().zip(steps) {
        *w = *w * (1.0 - update.rate * update.weight_decay) - update.rate * u / size.max(1.0);
    }
    states
}

/// Zhu et al. 2024: algorithm 1 with rank 1, scaled as a whole, and the norm that grows by one part in a hundred at the most.
fn apollo(
    update: &Update,
    moments: &Moments,
    (extents, key): (Rows, u64),
    grad: &[f64],
    outs: &mut [Vec<f64>],
) -> usize {
    let (Rows { rows, columns }, Moments { beta1, beta2, epsilon, step }) = (extents, *moments);
    let (rng, g) = (Rng::from_key(key), |i: usize| update.grad_scale * grad[i]);
    let seen: Vec<f64> = if rows > columns {
        (0..rows).map(|r| (0..columns).map(|c| g(r * columns + c) * rng.normal(c as u64)).sum()).collect()
    } else {
        (0..columns).map(|c| (0..rows).map(|r| g(r * columns + c) * rng.normal(r as u64)).sum()).collect()
    };
    let mut steps = Vec::new();
    for (i, r) in seen.iter().enumerate() {
        outs[1][i] = beta1 * outs[1][i] + (1.0 - beta1) * r;
        outs[2][i] = beta2 * outs[2][i] + (1.0 - beta2) * r * r;
        let mean = outs[1][i] / (1.0 - beta1.powf(step as f64));
        steps.push(mean / ((outs[2][i] / (1.0 - beta2.powf(step as f64))).sqrt() + epsilon));
    }
    let norm = |of: &[f64]| of.iter().map(|x| x * x).sum::<f64>().sqrt();
    let scale = norm(&steps) / (norm(&seen) + 1e-8);
    let scaled: Vec<f64> = (0..grad.len()).map(|i| scale * g(i)).collect();
    let (size, before) = (norm(&scaled), outs[3][0]);
    let limiter = if before > 0.0 { (size / before).max(1.01) / 1.01 } else { 1.0 };
    outs[3][0] = size / limiter;
    let rate = update.rate * 128f64.sqrt();
    for (w, g) in outs[0].iter_mut().zip(scaled) {
        *w = *w * (1.0 - update.rate * update.weight_decay) - rate * g / limiter;
    }
    3
}

fn update(update: &Update, grad: &[f64], outs: &mut [Vec<f64>]) {
    let states = match update.rule {
        UpdateRule::Adafactor { extents, step } => adafactor(update, extents, step, grad, outs),
        UpdateRule::ApolloMini { moments, extents, key } => apollo(update, &moments, (extents, key), grad, outs),
        UpdateRule::AdamW8(_) | UpdateRule::AdamW4 { .. } | UpdateRule::FlashAdamW { .. } => return,
        rule => {
            let states = rule.state_layout([grad.len()].into(), DType::F64).len();
            for i in 0..grad.len() {
                let mut state = [0, 1].map(|s| if s < states { outs[1 + s][i] } else { 0.0 });
                let [first, second] = &mut state;
                outs[0][i] = step(update, update.grad_scale * grad[i], outs[0][i], [first, second]);
                (0..states).for_each(|s| outs[1 + s][i] = state[s]);
            }
            states
        }
    };
    if outs.len() > 1 + states {
        outs[1 + states] = outs[0].clone();
    }
}

//! Update rules, and what goes before them.

use plimsoll_engine::{
    backend::{
        DType,
        ops::{Moments, Optimizer, Rows, Update, UpdateRule},
    },
    rng::Rng,
};

pub(super) fn run(kernel: &Optimizer, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Optimizer::SumSquares => outs[0][0] += ins[0].iter().map(|x| x * x).sum::<f64>(),
        Optimizer::SumAllSquares { accumulate, .. } => {
            let before = if *accumulate { outs[0][0] } else { 0.0 };
            outs[0][0] = before + ins.iter().flatten().map(|x| x * x).sum::<f64>();
        }
        Optimizer::Clip { limit } => outs[0][0] = (limit / ins[0][0].sqrt()).min(1.0),
        Optimizer::Normalise { epsilon } => {
            outs[0].iter_mut().for_each(|x| *x /= ins[0][0].sqrt() + epsilon);
        }
        Optimizer::Update(of) => {
            let scale = ins.get(1).map_or(1.0, |scale| scale[0]);
            update(&Update { grad_scale: scale * of.grad_scale, ..*of }, &ins[0], outs);
        }
        Optimizer::UpdateAll { update: of, count } => {
            let scale = ins.get(*count).map_or(1.0, |scale| scale[0]);
            for (i, grad) in ins.iter().take(*count).enumerate() {
                let mut own: Vec<_> = outs.iter().skip(i).step_by(*count).cloned().collect();
                update(&Update { grad_scale: scale * of.grad_scale, ..*of }, grad, &mut own);
                outs.iter_mut().skip(i).step_by(*count).zip(own).for_each(|(out, own)| *out = own);
            }
        }
    }
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

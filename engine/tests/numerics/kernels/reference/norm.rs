//! Normalisations by a batch and by rows.

use plimsoll_engine::backend::ops::Norm;

use super::start;

pub(super) fn run(kernel: &Norm, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Norm::Batch { epsilon, momentum, .. } => batch_norm(*epsilon, *momentum, ins, outs),
        Norm::BatchGrad { accumulate, .. } => batch_norm_gradient(*accumulate, ins, outs),
        Norm::BatchApply { adds } => {
            let from = ins.len() - 4;
            for (i, y) in outs[0].iter_mut().enumerate() {
                let (x, j) = (if from > 0 { ins[0][i] } else { *y }, i % ins[from].len());
                let before = if *adds { *y } else { 0.0 };
                *y = before + (x - ins[from][j]) * ins[from + 1][j] * ins[from + 2][j] + ins[from + 3][j];
            }
        }
        Norm::BatchFixed { epsilon } => {
            let columns = ins[0].len();
            for (i, y) in outs[0].iter_mut().enumerate() {
                let j = i % columns;
                *y = (*y - ins[0][j]) / (ins[1][j] + epsilon).sqrt() * ins[2][j] + ins[3][j];
            }
        }
        Norm::Layer { extents, epsilon } => row_norm(extents.columns, *epsilon, true, ins, outs),
        Norm::Rms { extents, epsilon } => row_norm(extents.columns, *epsilon, false, ins, outs),
        Norm::LayerGrad { extents, accumulate } => row_norm_gradient(extents.columns, *accumulate, true, ins, outs),
        Norm::RmsGrad { extents, accumulate } => row_norm_gradient(extents.columns, *accumulate, false, ins, outs),
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

fn row_norm_gradient(columns: usize, accumulate: bool, centered: bool, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let last = if centered { 3 } else { 2 };
    let (inverse, weight, other) = (&ins[last - 1], &ins[last], ins.get(last + 1));
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
            let beside = other.map_or(0.0, |other| other[place.start + j]);
            outs[0][place.start + j] = inverse[i] * (dy[j] * weight[j] - off - normal[j] * product) + beside;
        }
    }
}

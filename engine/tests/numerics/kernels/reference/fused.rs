//! Chains of ops, by the references of their parts.

use plimsoll_engine::backend::ops::{Activation, Function, Fused, Norm, Over, Rectifier, RowNorm};

use super::{activation, dropout, norm, start};

pub(super) fn run(kernel: &Fused, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Fused::Bias(function) => {
            let bias = &ins[ins.len() - 1];
            let x = if ins.len() > 1 { ins[0].clone() } else { outs[0].clone() };
            outs[0] = added(&x, bias);
            apply(Some(function), &mut outs[0]);
        }
        Fused::BiasGrad { function, accumulate } => {
            match function {
                Function::Rectifier(rectifier) => mask(rectifier, &ins[0], &mut outs[0]),
                Function::Smooth(curve) => {
                    activation::run(&Activation::ApplyGrad(curve), &[added(&ins[0], &ins[1])], &mut outs[..1]);
                }
            }
            if let [dy, db] = outs {
                let columns = start(db, accumulate).len();
                dy.iter().enumerate().for_each(|(i, dy)| db[i % columns] += dy);
            }
        }
        Fused::Sum { extents, biased, dropout: dropped, norm: of, .. } => {
            if biased {
                outs[0] = added(&outs[0], &ins[1]);
            }
            if let Some(dropped) = dropped {
                dropout(&dropped, &mut outs[0]);
            }
            outs[0].iter_mut().zip(&ins[0]).for_each(|(y, other)| *y += other);
            let vectors = &ins[1 + usize::from(biased)..];
            let kernel = match of {
                None => return,
                Some(RowNorm::Layer(epsilon)) => Norm::Layer { extents, epsilon },
                Some(RowNorm::Rms(epsilon)) => Norm::Rms { extents, epsilon },
            };
            let inputs = [&outs[..1], vectors].concat();
            norm::run(&kernel, &inputs, &mut outs[1..]);
        }
        Fused::BatchNorm { extents, epsilon, momentum, end, .. } => {
            norm::run(&Norm::Batch { extents, epsilon, momentum }, &ins[..3], outs);
            add_and_end(ins.get(3), end, &mut outs[0]);
        }
        Fused::BatchApply { end, over, .. } => {
            let (standing, first) = (outs[0].clone(), usize::from(over != Over::X));
            norm::run(&Norm::BatchApply { adds: false }, &ins[..first + 4], outs);
            let other = if over == Over::Other { Some(&standing) } else { ins.get(first + 4) };
            add_and_end(other, end, &mut outs[0]);
        }
        Fused::BatchGrad { extents, accumulate, end } => {
            let mut y = vec![vec![0.0; ins[0].len()]];
            norm::run(&Norm::BatchApply { adds: false }, &ins[..5], &mut y);
            if let Some(dy) = ins.get(5) {
                outs[0].clone_from(dy);
            }
            if let Some(end) = end {
                mask(end, &y[0], &mut outs[0]);
            }
            norm::run(&Norm::BatchGrad { extents, accumulate }, &ins[..4], outs);
        }
    }
}

fn added(x: &[f64], bias: &[f64]) -> Vec<f64> {
    x.iter().enumerate().map(|(i, x)| x + bias[i % bias.len()]).collect()
}

fn add_and_end(other: Option<&Vec<f64>>, end: Option<Rectifier>, y: &mut Vec<f64>) {
    if let Some(other) = other {
        y.iter_mut().zip(other).for_each(|(y, other)| *y += other);
    }
    apply(end.map(Function::Rectifier), y);
}

fn apply(function: Option<Function>, y: &mut Vec<f64>) {
    let (kernel, ins) = match function {
        None => return,
        Some(Function::Rectifier(Rectifier::Relu)) => (Activation::Relu, vec![]),
        Some(Function::Rectifier(Rectifier::Relu6)) => (Activation::Relu6, vec![]),
        Some(Function::Smooth(curve)) => (Activation::Apply(curve), vec![y.clone()]),
    };
    let mut outs = [std::mem::take(y)];
    activation::run(&kernel, &ins, &mut outs);
    [*y] = outs;
}

fn mask(rectifier: Rectifier, y: &[f64], dy: &mut Vec<f64>) {
    let kernel = match rectifier {
        Rectifier::Relu => Activation::ReluGrad,
        Rectifier::Relu6 => Activation::Relu6Grad,
    };
    let mut outs = [std::mem::take(dy)];
    activation::run(&kernel, &[y.to_vec()], &mut outs);
    [*dy] = outs;
}

//! Every kernel again, in f64 and in the plainest loops, to compare with.
//!
//! Families with more than a few lines have a file of their own.

mod activation;
mod attention;
mod fused;
mod loss;
mod norm;
mod optimizer;
mod window;

use plimsoll_engine::{
    backend::{
        Kernel,
        ops::{
            Activation, ActivationFunction, CopyColumns, Dropout, Elementwise, Embedding, Gather, Layout, Linear,
            MatMul,
        },
    },
    rng::Rng,
};

use super::{coded, gathers, int8, pruning};

/// What the outputs of `kernel` become; `outs` holds them before.
pub(crate) fn run(kernel: &Kernel, ins: &[Vec<f64>], outs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut outs = outs.to_vec();
    match kernel {
        Kernel::Activation(kernel) => activation::run(kernel, ins, &mut outs),
        Kernel::Attention(kernel) => attention::run(kernel, ins, &mut outs),
        Kernel::Coded(kernel) => coded::run(kernel, ins, &mut outs),
        Kernel::Convolution(kernel) => window::convolution(kernel, ins, &mut outs),
        Kernel::Depthwise(kernel) => window::depthwise(kernel, ins, &mut outs),
        Kernel::Dropout(kernel) => dropout(kernel, &mut outs[0]),
        Kernel::Elementwise(kernel) => elementwise(kernel, ins, &mut outs),
        Kernel::Embedding(kernel) => embedding(kernel, ins, &mut outs),
        Kernel::Fused(kernel) => fused::run(kernel, ins, &mut outs),
        Kernel::Gather(kernel) => gather(kernel, ins, &mut outs),
        Kernel::Int8(kernel) => int8::run(kernel, ins, &mut outs),
        Kernel::Layout(kernel) => layout(kernel, ins, &mut outs),
        Kernel::Linear(kernel) => linear(kernel, ins, &mut outs),
        Kernel::Loss(kernel) => loss::run(kernel, ins, &mut outs),
        Kernel::Norm(kernel) => norm::run(kernel, ins, &mut outs),
        Kernel::Optimizer(kernel) => optimizer::run(kernel, ins, &mut outs),
        Kernel::Pool(kernel) => window::pool(kernel, ins, &mut outs),
        Kernel::Prune(kernel) => pruning::run(kernel, ins, &mut outs),
        Kernel::Rotary(kernel) => attention::turn(kernel, &mut outs[0]),
    }
    outs
}

fn dropout(Dropout { probability, key }: &Dropout, y: &mut [f64]) {
    let rng = Rng::from_key(*key);
    let kept = |i: usize| rng.uniform(i as u64) >= *probability;
    y.iter_mut().enumerate().for_each(|(i, y)| *y = if kept(i) { *y / (1.0 - probability) } else { 0.0 });
}

fn elementwise(kernel: &Elementwise, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Elementwise::Fill(value) => outs[0].fill(value),
        Elementwise::Uniform { bound, key } => {
            let rng = Rng::from_key(key);
            (0..).zip(&mut outs[0]).for_each(|(i, y)| *y = rng.range(i, -bound, bound));
        }
        Elementwise::Add => outs[0].iter_mut().zip(&ins[0]).for_each(|(y, x)| *y += x),
        Elementwise::Scale(factor) => outs[0].iter_mut().for_each(|y| *y *= factor),
        Elementwise::Normal { std, key } => {
            let rng = Rng::from_key(key);
            (0..).zip(&mut outs[0]).for_each(|(i, y)| *y = std * rng.normal(i));
        }
    }
}

fn embedding(kernel: &Embedding, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Embedding::Forward => {
            let width = outs[0].len() / ins[0].len();
            for (i, y) in outs[0].iter_mut().enumerate() {
                *y = ins[1][ins[0][i / width] as usize * width + i % width];
            }
        }
        Embedding::Grad { rows, accumulate } => {
            let width = ins[1].len() / rows;
            start(&mut outs[0], accumulate);
            for (i, dy) in ins[1].iter().enumerate() {
                outs[0][ins[0][i / width] as usize * width + i % width] += dy;
            }
        }
    }
}

fn gather(kernel: &Gather, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Gather::Images => gathers::images(ins, &mut outs[0]),
        Gather::Labels => gathers::labels(ins, &mut outs[0]),
        Gather::Tokens { scored } => gathers::tokens(*scored, ins, outs),
    }
}

fn layout(kernel: &Layout, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Layout::Cast => outs[0].clone_from(&ins[0]),
        Layout::CopyColumns(CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset }) => {
            for (row, j) in (0..rows).flat_map(|row| (0..columns).map(move |j| (row, j))) {
                outs[0][row * to_stride + to_offset + j] = ins[0][row * from_stride + from_offset + j];
            }
        }
        Layout::Transpose { rows, columns, .. } => {
            for (i, x) in ins[0].iter().enumerate() {
                let (matrix, row, column) = (i / (rows * columns), i / columns % rows, i % columns);
                outs[0][(matrix * columns + column) * rows + row] = *x;
            }
        }
    }
}

fn linear(kernel: &Linear, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match kernel {
        Linear::MatMul(p) => matmul(p, &ins[0], &ins[1], &mut outs[0]),
        Linear::AddBias => {
            let columns = ins[0].len();
            (0..).zip(&mut outs[0]).for_each(|(i, y): (usize, _)| *y += ins[0][i % columns]);
        }
        Linear::BiasGrad { accumulate } => {
            let columns = start(&mut outs[0], *accumulate).len();
            (0..).zip(&ins[0]).for_each(|(i, dy): (usize, _)| outs[0][i % columns] += dy);
        }
        Linear::Biased(p) | Linear::BiasedGelu(p) => {
            linear(&Linear::MatMul(*p), ins, outs);
            linear(&Linear::AddBias, &ins[2..], &mut outs[..1]);
            if let [c, y] = outs {
                let gelu = Activation::Apply(ActivationFunction::GeluTanh);
                activation::run(&gelu, std::slice::from_ref(c), std::slice::from_mut(y));
            }
        }
        Linear::GeluGrad(p) => {
            linear(&Linear::MatMul(*p), ins, outs);
            activation::run(&Activation::ApplyGrad(ActivationFunction::GeluTanh), &ins[2..], outs);
        }
        Linear::WeightGrads(p) => {
            linear(&Linear::MatMul(*p), ins, outs);
            linear(&Linear::BiasGrad { accumulate: p.accumulate }, ins, &mut outs[1..]);
        }
    }
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

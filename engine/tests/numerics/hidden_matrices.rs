//! The rules that treat the matrices of hidden layers apart: which parameters they take for such, and Muon's steps against
//! plain loops in f64.

use plimsoll_engine::{
    backend::{Backend, Cpu, Executor, HostSlice, ops::GradInto},
    experiment::{self, OptimizerKind, Precision},
    memory::Ledger,
    nn::{Conv2d, Depthwise, Embedding, Init, Layer, Linear, ParamUse, RmsNorm, Start, UpConv2d},
    optim::{self, Update},
    selftest::draw::Draw,
};

/// A matrix by rows.
type Matrix = Vec<Vec<f64>>;

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let sum = |row: &Vec<f64>, j: usize| row.iter().zip(b).map(|(x, other)| x * other[j]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|j| sum(row, j)).collect()).collect()
}

fn transposed(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

fn sum(a: &Matrix, by: f64, b: &Matrix) -> Matrix {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + by * y).collect()).collect()
}

fn scaled(a: &Matrix, by: f64) -> Matrix {
    a.iter().map(|row| row.iter().map(|x| by * x).collect()).collect()
}

/// `zeropower_via_newtonschulz5` of Jordan's program.
fn orthogonal(g: &Matrix) -> Matrix {
    let is_tall = g.len() > g[0].len();
    let norm = g.iter().flatten().map(|x| x * x).sum::<f64>().sqrt();
    let mut x = scaled(&if is_tall { transposed(g) } else { g.clone() }, 1.0 / (norm + 1e-7));
    for _ in 0..5 {
        let a = product(&x, &transposed(&x));
        let b = sum(&scaled(&a, -4.775), 2.0315, &product(&a, &a));
        x = sum(&scaled(&x, 3.4445), 1.0, &product(&b, &x));
    }
    if is_tall { transposed(&x) } else { x }
}

fn executor() -> Executor<Cpu> {
    Executor::new(Cpu::new(2), Ledger::new(None, false))
}

fn numbers(executor: &Executor<Cpu>, of: &plimsoll_engine::backend::Tensor<Cpu>) -> Vec<f64> {
    executor.read(of).expect("here").expect("numbers")
}

#[test]
fn muon_steps_along_the_orthogonal_part_of_its_momentum() {
    let mut draw = Draw::new(11);
    for [inner, out] in [[7, 5], [5, 7], [6, 6]] {
        let executor = executor();
        let mut init = Init::new(&executor, Precision::F64, 3);
        let layer = Linear::new(&mut init, "block1/dense", inner, out).expect("room");
        let param = layer.params()[0];
        let choice = experiment::Optimizer {
            kind: OptimizerKind::Muon,
            momentum: 0.875,
            weight_decay: 0.125,
            ..experiment::Optimizer::default()
        };
        let matrix = |of: &[f64]| -> Matrix { of.chunks(inner).map(<[f64]>::to_vec).collect() };
        let mut weight = matrix(&numbers(&executor, param.weight()));
        let mut velocity = scaled(&weight, 0.0);
        for step in 1..=4 {
            let drawn: Vec<f32> = draw.numbers(inner * out).iter().map(|x| *x as f32).collect();
            let write = |into: GradInto<'_, Cpu>| match into {
                GradInto::Fresh(into) | GradInto::Accumulate(into) => {
                    executor.backend().write(into, HostSlice::F32(&drawn))
                }
            };
            param.accumulate(&executor, write).expect("room");
            let update = Update { rate: 0.0625, grad_scale: 0.5, step };
            optim::update(&executor, &choice, param, update, None).expect("room");
            let g = scaled(&matrix(&drawn.iter().map(|x| f64::from(*x)).collect::<Vec<_>>()), 0.5);
            velocity = sum(&g, 0.875, &velocity);
            let direction = orthogonal(&sum(&g, 0.875, &velocity));
            let scale = 0.2 * (inner.max(out) as f64).sqrt();
            weight = sum(&scaled(&weight, 1.0 - 0.0625 * 0.125), -0.0625 * scale, &direction);
            let found = matrix(&numbers(&executor, param.weight()));
            for (found, wanted) in found.iter().flatten().zip(weight.iter().flatten()) {
                assert!((found - wanted).abs() < 1e-9, "{inner} to {out}, step {step}: {found}, not {wanted}");
            }
        }
        // Weight, bias and momentum.
        assert_eq!(executor.ledger().live().0, 8 * (2 * inner * out + out) as u64, "scratch is left");
    }
}

#[test]
fn only_the_matrices_that_hidden_layers_multiply_by_are_hidden() {
    let executor = executor();
    let init = &mut Init::new(&executor, Precision::F32, 3);
    let layers: Vec<(Box<dyn Layer<Cpu>>, bool)> = vec![
        (Box::new(Linear::new(init, "block1/dense", 8, 8).expect("room")), true),
        (Box::new(Linear::new(init, "head/classes", 8, 8).expect("room").giving_classes()), false),
        (Box::new(Conv2d::new(init, "block1/conv", 8, 8, 3).expect("room")), true),
        (Box::new(UpConv2d::new(init, "block2/up", 8, 8).expect("room")), true),
        (Box::new(Depthwise::new(init, "block1/depthwise", 8, 3).expect("room")), false),
        (Box::new(Embedding::new(init, "embedding", 8, 8, Start::Normal { std: 0.02 }).expect("room")), false),
        (Box::new(RmsNorm::new(init, "block1/norm", 8, 1e-5).expect("room")), false),
    ];
    for (layer, is_hidden) in layers {
        for (i, param) in layer.params().into_iter().enumerate() {
            let wanted = if is_hidden && i == 0 { ParamUse::HiddenMatrix } else { ParamUse::Other };
            let layer = executor.ledger().path_of(param.layer());
            assert_eq!(param.used_as(), wanted, "{layer}, {}", param.name());
            for (kind, of_hidden) in [(OptimizerKind::Muon, 1), (OptimizerKind::ApolloMini, 3)] {
                let choice = experiment::Optimizer { kind, ..experiment::Optimizer::default() };
                let count = if wanted == ParamUse::HiddenMatrix { of_hidden } else { 2 };
                assert_eq!(optim::state_layout(&choice, param).len(), count, "{kind:?}: {layer}, {}", param.name());
            }
        }
    }
}

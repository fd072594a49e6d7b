//! Muon: a step along the momentum of a matrix, made nearly semi-orthogonal by five Newton–Schulz iterations (Jordan et al.
//! 2024, "Muon: An optimizer for hidden layers in neural networks").
//!
//! A step has the root mean square of AdamW's: `0.2 sqrt(max(rows, columns))` times the orthogonal matrix (Liu et al. 2025,
//! "Muon is scalable for LLM training"), so AdamW's rates and decays carry over. One departure: queries, keys and values of
//! a block are one matrix here, and so are gate and up.
//!
//! It consists of kernels of other ops. In addition to its momentum it needs scratch in the ledger: for a moment two
//! matrices of the weight's size, and two squares of its smaller side. Products have the type that the model computes with;
//! instead of f16, whose small numbers end early, they have the master weight's type.

use super::{Update, matrix, of_kind};
use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        ops::{self, Elementwise, Linear, MatMul, Rows, UpdateRule},
    },
    error::Result,
    experiment::{self, OptimizerKind},
    memory::Category,
    nn::Param,
};

/// How often the polynomial is applied.
const ITERATIONS: usize = 5;
/// The polynomial `a x + b x³ + c x⁵` of the singular values.
const POLYNOMIAL: [f64; 3] = [3.4445, -4.7750, 2.0315];
/// Added to the norm that the momentum is divided by at first.
const EPSILON: f64 = 1e-7;
/// The root mean square of a step of AdamW, as a share of the rate.
const RMS: f64 = 0.2;

/// Updates the matrix of a hidden layer from its gradient, which is freed before the first product; its momentum is there.
///
/// # Errors
/// Fails when scratch would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
pub(super) fn update<B: Backend>(
    executor: &Executor<B>,
    choice: &experiment::Optimizer,
    param: &Param<B>,
    update: Update,
    (gradient, clip): (Tensor<B>, Option<&Tensor<B>>),
) -> Result<()> {
    let (shape, extents) = (param.weight().shape(), matrix(param.weight().shape()));
    let rule = of_kind(OptimizerKind::Muon, choice, (shape, param.master().dtype(), param.key()), update.step);
    let momentum = param.state(executor, || rule.state_layout(shape, param.master().dtype()))?;
    // `x -= -1 * (g + momentum * v)` of zeros.
    let direction = executor.filled(0.0, shape, param.master().dtype(), Category::Scratch, "direction")?;
    let along = ops::Update { rule, rate: -1.0, weight_decay: 0.0, grad_scale: update.grad_scale };
    let inputs: Vec<&Tensor<B>> = [&gradient].into_iter().chain(clip).collect();
    let outputs: Vec<&Tensor<B>> = [&direction].into_iter().chain(&*momentum).collect();
    executor.launch(ops::Optimizer::Update(along), &inputs, &outputs)?;
    drop(gradient);
    let orthogonal = orthogonal(executor, normal(executor, direction, param.weight().dtype())?, &extents)?;
    let size = RMS * (extents.rows.max(extents.columns) as f64).sqrt();
    // Decay is of the rate alone: `w -= rate * size * (o + decay / size * w)`.
    let (rate, weight_decay) = (update.rate * size, choice.weight_decay / size);
    let step = ops::Update { rule: UpdateRule::Sgd, rate, weight_decay, grad_scale: 1.0 };
    let outputs: Vec<&Tensor<B>> = [param.master()].into_iter().chain(param.copy()).collect();
    executor.launch(ops::Optimizer::Update(step), &[&orthogonal], &outputs)
}

/// `x` with a norm of one, in the type of the products.
fn normal<B: Backend>(executor: &Executor<B>, x: Tensor<B>, compute: DType) -> Result<Tensor<B>> {
    let squares = executor.filled(0.0, [1], DType::F64, Category::Scratch, "norm")?;
    executor.add_sum_of_squares(&x, &squares)?;
    executor.launch(ops::Optimizer::Normalise { epsilon: EPSILON }, &[&squares], &[&x])?;
    if compute == DType::F16 || compute == x.dtype() { Ok(x) } else { copy(executor, &x, compute) }
}

fn copy<B: Backend>(executor: &Executor<B>, x: &Tensor<B>, dtype: DType) -> Result<Tensor<B>> {
    let y = executor.allocate(x.shape(), dtype, Category::Scratch, "direction")?;
    executor.cast_into(x, &y)?;
    Ok(y)
}

/// A matrix of the singular vectors of `x`, whose singular values are 1 at most, with values between about 0.7 and 1.2.
fn orthogonal<B: Backend>(executor: &Executor<B>, mut x: Tensor<B>, extents: &Rows) -> Result<Tensor<B>> {
    for _ in 0..ITERATIONS {
        x = iterate(executor, x, extents)?;
    }
    Ok(x)
}

/// `a x + (b g + c g²) x` with `g = x x^T`, or, of a matrix with more rows than columns, `a x + x (b g + c g²)` with
/// `g = x^T x`.
fn iterate<B: Backend>(executor: &Executor<B>, x: Tensor<B>, extents: &Rows) -> Result<Tensor<B>> {
    let ([a, b, c], Rows { rows, columns }) = (POLYNOMIAL, *extents);
    let (side, is_tall) = (rows.min(columns), rows > columns);
    let add = |product: MatMul, [left, right]: [&Tensor<B>; 2], to: &Tensor<B>| {
        executor.launch(Linear::MatMul(product), &[left, right], &[to])
    };
    let scale = |x: &Tensor<B>, factor: f64| executor.launch(Elementwise::Scale(factor), &[], &[x]);
    let square = MatMul { m: side, n: side, k: side, transpose_a: false, transpose_b: false, accumulate: true };
    let gram = executor.allocate([side, side], x.dtype(), Category::Scratch, "products")?;
    let of_itself =
        MatMul { k: rows.max(columns), transpose_a: is_tall, transpose_b: !is_tall, accumulate: false, ..square };
    add(of_itself, [&x, &x], &gram)?;
    // All but the last factor `c`: `g² + b / c g`, and `x` times that plus `a / c x`.
    let factors = copy(executor, &gram, gram.dtype())?;
    scale(&factors, b / c)?;
    add(square, [&gram, &gram], &factors)?;
    drop(gram);
    let next = copy(executor, &x, x.dtype())?;
    scale(&next, a / c)?;
    let product = MatMul { m: rows, n: columns, ..square };
    add(product, if is_tall { [&x, &factors] } else { [&factors, &x] }, &next)?;
    scale(&next, c)?;
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{Cpu, HostSlice},
        memory::Ledger,
        rng::{Rng, Stream},
    };

    /// The singular values of the output are near to one, so its rows or its columns are nearly orthonormal; and it points
    /// along the input.
    #[test]
    fn five_iterations_make_a_matrix_nearly_orthogonal() {
        let executor = Executor::new(Cpu::new(2), Ledger::new(None, false));
        for (rows, columns) in [(7, 40), (40, 7), (24, 24)] {
            let (rng, extents) = (Rng::new(5, Stream::Data, 0), Rows { rows, columns });
            let numbers: Vec<f32> = (0..rows * columns).map(|i| 100.0 * rng.normal(i as u64) as f32).collect();
            let x = executor.filled(0.0, [rows, columns], DType::F64, Category::Scratch, "x").expect("room");
            executor.backend().write(&x, HostSlice::F32(&numbers)).expect("numbers");
            let unit = normal(&executor, x, DType::F64).expect("a norm");
            let read = |x: &Tensor<Cpu>| executor.read(x).expect("here").expect("numbers");
            assert!((read(&unit).iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-6);
            let before = read(&unit);
            let y = read(&orthogonal(&executor, unit, &extents).expect("products"));
            // The sum of the singular values of the one along the other is at least that of the smallest factors.
            let along: f64 = before.iter().zip(&y).map(|(x, y)| x * y).sum();
            assert!(along > 0.5, "{rows} x {columns}: {along}");
            let side = rows.min(columns) as f64;
            let squares = y.iter().map(|y| y * y).sum::<f64>() / side;
            assert!((0.4..1.5).contains(&squares), "{rows} x {columns}: {squares}");
            // The fourth powers of the singular values: alike only where the values are.
            let at = |i: usize, j: usize| y[i * columns + j];
            let gram = |i: usize, j: usize| match rows > columns {
                true => (0..rows).map(|k| at(k, i) * at(k, j)).sum::<f64>(),
                false => (0..columns).map(|k| at(i, k) * at(j, k)).sum(),
            };
            let side = rows.min(columns);
            let fourth: f64 = (0..side * side).map(|i| gram(i / side, i % side).powi(2)).sum::<f64>() / side as f64;
            assert!(fourth - squares * squares < 0.15, "{rows} x {columns}: {fourth} {squares}");
        }
    }
}

//! Dense layers: products of matrices, and the bias.

use super::{
    activation,
    by_type::{by_float, by_sum},
    float::Float,
    gemm,
    operands::Operands,
    parallel,
    simd::simd,
};
use crate::{
    backend::ops::{ActivationFunction, Linear},
    error::Result,
};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Linear, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Linear::MatMul(product) => by_sum!(o.input_type(0), o.output_type(0), T, W => {
            gemm::matmul::<T, W>(product, &o.input::<T>(0)?, &o.input::<T>(1)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Linear::AddBias => by_float!(o.output_type(0), T => {
            add_bias::<T>(&o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Linear::BiasGrad { accumulate } => by_sum!(o.input_type(0), o.output_type(0), T, W => {
            bias_gradient::<T, W>(*accumulate, &o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Linear::Biased(product) | Linear::BiasedGelu(product) => by_float!(o.output_type(0), T => {
            gemm::matmul::<T, T>(product, &o.input::<T>(0)?, &o.input::<T>(1)?, &mut o.output(0)?);
            add_bias::<T>(&o.input::<T>(2)?, &mut o.output::<T>(0)?);
            if o.outputs() > 1 {
                activation::forward::<T>(ActivationFunction::GeluTanh, &o.output::<T>(0)?, &mut o.output::<T>(1)?);
            }
            Ok(())
        }, else o.unsupported()),
        Linear::GeluGrad(product) => by_float!(o.output_type(0), T => {
            gemm::matmul::<T, T>(product, &o.input::<T>(0)?, &o.input::<T>(1)?, &mut o.output(0)?);
            activation::gradient::<T>(ActivationFunction::GeluTanh, &o.input::<T>(2)?, &mut o.output::<T>(0)?);
            Ok(())
        }, else o.unsupported()),
        Linear::WeightGrads(product) => by_sum!(o.input_type(0), o.output_type(0), T, W => {
            bias_gradient::<T, W>(product.accumulate, &o.input(0)?, &mut o.output(1)?);
            gemm::matmul::<T, W>(product, &o.input::<T>(0)?, &o.input::<T>(1)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
    }
}

/// Runs [`Linear::AddBias`](crate::backend::ops::Linear::AddBias).
fn add_bias<T: Float>(bias: &[T], y: &mut [T]) {
    let columns = bias.len();
    let rows = y.len() / columns.max(1);
    parallel::ranges(rows, columns, parallel::rows(y, columns), |_, y| add_bias_rows(bias, y));
}

/// Columns summed at a time.
pub(super) const COLUMNS: usize = 64;
/// Parts of the rows that are summed apart.
pub(super) const PARTS: usize = 8;

/// How many parts the rows of so many elements have.
pub(super) fn parts_of(elements: usize) -> usize {
    if elements < 4 * parallel::GRAIN { 1 } else { PARTS }
}

/// Runs [`Linear::BiasGrad`](crate::backend::ops::Linear::BiasGrad).
fn bias_gradient<T: Float, W: Float<Acc = T::Acc>>(accumulate: bool, dy: &[T], db: &mut [W]) {
    let columns = db.len();
    let rows = dy.len() / columns.max(1);
    let parts = parts_of(dy.len());
    for (block, db) in db.chunks_mut(COLUMNS).enumerate() {
        let mut sums = [[T::Acc::ZERO; COLUMNS]; PARTS];
        parallel::pieces(parts, parts > 1, parallel::rows(&mut sums, 1), |p, sums| {
            let rows = &dy[p * rows / parts * columns..(p + 1) * rows / parts * columns];
            sum_columns(rows, columns, block * COLUMNS, db.len(), &mut sums[0]);
        });
        for (j, db) in db.iter_mut().enumerate() {
            let before = if accumulate { db.up() } else { T::Acc::ZERO };
            *db = W::down(sums[..parts].iter().fold(before, |sum, part| sum + part[j]));
        }
    }
}

simd! {
    fn add_bias_rows [T: Float] (bias: &[T], y: &mut [T]) {
        for row in y.chunks_exact_mut(bias.len()) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y = T::down(y.up() + b.up());
            }
        }
    }

    fn sum_columns [T: Float] (rows: &[T], columns: usize, start: usize, count: usize, sums: &mut [T::Acc; COLUMNS]) {
        // Blocks have the whole width if possible, so that the sums stay in registers.
        if count == COLUMNS {
            for row in rows.chunks_exact(columns) {
                for (sum, x) in sums.iter_mut().zip(&row[start..start + COLUMNS]) {
                    *sum += x.up();
                }
            }
        } else {
            for row in rows.chunks_exact(columns) {
                for (sum, x) in sums.iter_mut().zip(&row[start..start + count]) {
                    *sum += x.up();
                }
            }
        }
    }
}

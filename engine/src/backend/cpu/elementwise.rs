//! Kernels that stream through memory: fill, initialise, cast, bias, ReLU, add, scale, sum of squares.
//!
//! Sums are taken over parts that the number of elements fixes, in order.

use super::{by_type::by_float, operands::Operands};
use super::{float::Float, parallel, simd::simd};
use crate::backend::ops::Elementwise;
use crate::rng::Rng;
use crate::{error::Result, tensor::DType};

/// Runs one of them.
pub(super) fn launch(kernel: &Elementwise, o: &Operands<'_>) -> Result<()> {
    match (kernel, o.output_type(0)) {
        (Elementwise::Fill(value), DType::U32) => fill(*value as u32, &mut o.integers(0)?),
        (Elementwise::Fill(value), DType::U8) => fill(*value as u8, &mut o.bytes(0)?),
        (_, dtype) => by_float!(dtype, T => typed::<T>(kernel, o)?, else return o.unsupported()),
    }
    Ok(())
}

fn typed<T: Float>(kernel: &Elementwise, o: &Operands<'_>) -> Result<()> {
    let mut y = o.output::<T>(0)?;
    match *kernel {
        Elementwise::Fill(value) => fill(T::from_f64(value), &mut y),
        Elementwise::Uniform { bound, key } => uniform(bound, key, &mut y),
        Elementwise::Normal { std, key } => normal(std, key, &mut y),
        Elementwise::Add => add(&o.input::<T>(0)?, &mut y),
        Elementwise::Scale(factor) => scale::<T>(factor, &mut y),
    }
    Ok(())
}

/// Runs `f` over pieces of `y`, with the place of each.
fn each<T: Send>(y: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    parallel::ranges(y.len(), 1, parallel::rows(y, 1), |range, y| f(range.start, y));
}

/// [`Elementwise::Fill`](crate::backend::ops::Elementwise::Fill).
pub(super) fn fill<T: Copy + Send + Sync>(value: T, y: &mut [T]) {
    each(y, |_, y| y.fill(value));
}

/// [`Elementwise::Uniform`](crate::backend::ops::Elementwise::Uniform).
pub(super) fn uniform<T: Float>(bound: f64, key: u64, y: &mut [T]) {
    let rng = Rng::from_key(key);
    each(y, |start, y| {
        for (i, y) in y.iter_mut().enumerate() {
            *y = T::from_f64(rng.range((start + i) as u64, -bound, bound));
        }
    });
}

/// [`Elementwise::Normal`](crate::backend::ops::Elementwise::Normal).
pub(super) fn normal<T: Float>(std: f64, key: u64, y: &mut [T]) {
    let rng = Rng::from_key(key);
    each(y, |start, y| {
        for (i, y) in (start as u64..).zip(y) {
            *y = T::from_f64(std * rng.normal(i));
        }
    });
}

/// [`Layout::Cast`](crate::backend::ops::Layout::Cast). Between f64 and a 16-bit type it rounds through f32.
pub(super) fn cast<T: Float, U: Float>(x: &[T], y: &mut [U]) {
    each(y, |start, y| convert(&x[start..start + y.len()], y));
}

/// [`Linear::AddBias`](crate::backend::ops::Linear::AddBias).
pub(super) fn add_bias<T: Float>(bias: &[T], y: &mut [T]) {
    let columns = bias.len();
    let rows = y.len() / columns.max(1);
    parallel::ranges(rows, columns, parallel::rows(y, columns), |_, y| add_bias_rows(bias, y));
}

/// Columns summed at a time.
const COLUMNS: usize = 64;
/// Parts of the rows that are summed apart.
const PARTS: usize = 8;

/// [`Linear::BiasGrad`](crate::backend::ops::Linear::BiasGrad).
pub(super) fn bias_gradient<T: Float, W: Float<Acc = T::Acc>>(accumulate: bool, dy: &[T], db: &mut [W]) {
    let columns = db.len();
    let rows = dy.len() / columns.max(1);
    let parts = if dy.len() < 4 * parallel::GRAIN { 1 } else { PARTS };
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

/// [`Activation::Relu`](crate::backend::ops::Activation::Relu).
pub(super) fn relu<T: Float>(y: &mut [T]) {
    each(y, |_, y| relu_part(y));
}

/// [`Activation::ReluGrad`](crate::backend::ops::Activation::ReluGrad). Where `y` is NaN the gradient passes, so that it is not lost.
pub(super) fn relu_gradient<T: Float>(y: &[T], dy: &mut [T]) {
    each(dy, |start, dy| relu_gradient_part(&y[start..start + dy.len()], dy));
}

/// [`Activation::Relu6`](crate::backend::ops::Activation::Relu6).
pub(super) fn relu6<T: Float>(y: &mut [T]) {
    each(y, |_, y| relu6_part(y));
}

/// [`Activation::Relu6Grad`](crate::backend::ops::Activation::Relu6Grad). Where `y` is NaN the gradient passes, so that it is not lost.
pub(super) fn relu6_gradient<T: Float>(y: &[T], dy: &mut [T]) {
    each(dy, |start, dy| relu6_gradient_part(&y[start..start + dy.len()], dy));
}

/// [`Elementwise::Add`](crate::backend::ops::Elementwise::Add).
pub(super) fn add<T: Float>(x: &[T], y: &mut [T]) {
    each(y, |start, y| add_part(&x[start..start + y.len()], y));
}

/// [`Elementwise::Scale`](crate::backend::ops::Elementwise::Scale).
pub(super) fn scale<T: Float>(factor: f64, y: &mut [T]) {
    let factor = T::Acc::from_f64(factor);
    each(y, |_, y| scale_part(factor, y));
}

/// [`Optimizer::SumSquares`](crate::backend::ops::Optimizer::SumSquares).
pub(super) fn sum_squares<T: Float>(x: &[T], sum: &mut [f64]) {
    const PARTS: usize = 32;
    let parts = if x.len() < parallel::GRAIN { 1 } else { PARTS };
    let mut sums = [0.0; PARTS];
    parallel::pieces(parts, parts > 1, parallel::rows(&mut sums, 1), |p, sum| {
        sum[0] = sum_squares_part(&x[p * x.len() / parts..(p + 1) * x.len() / parts]);
    });
    sum[0] += sums[..parts].iter().sum::<f64>();
}

simd! {
    /// Copies, converting. Between f64 and a 16-bit type it rounds through f32.
    pub(super) fn convert [T: Float, U: Float] (x: &[T], y: &mut [U]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = U::from_f64(x.to_f64());
        }
    }

    fn add_bias_rows [T: Float] (bias: &[T], y: &mut [T]) {
        for row in y.chunks_exact_mut(bias.len()) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y = T::down(y.up() + b.up());
            }
        }
    }

    fn sum_columns [T: Float] (rows: &[T], columns: usize, start: usize, count: usize, sums: &mut [T::Acc; COLUMNS]) {
        // Of the whole width where it can be, so that the sums stay in registers.
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

    fn relu_part [T: Float] (y: &mut [T]) {
        for y in y {
            let value = y.up();
            *y = if value < T::Acc::ZERO { T::ZERO } else { *y };
        }
    }

    fn relu_gradient_part [T: Float] (y: &[T], dy: &mut [T]) {
        for (dy, y) in dy.iter_mut().zip(y) {
            *dy = if y.up() <= T::Acc::ZERO { T::ZERO } else { *dy };
        }
    }

    fn relu6_part [T: Float] (y: &mut [T]) {
        let six = T::from_f64(6.0);
        for y in y {
            let value = y.up();
            let clipped = if value > six.up() { six } else { *y };
            *y = if value < T::Acc::ZERO { T::ZERO } else { clipped };
        }
    }

    fn relu6_gradient_part [T: Float] (y: &[T], dy: &mut [T]) {
        let six = T::from_f64(6.0).up();
        for (dy, y) in dy.iter_mut().zip(y) {
            let y = y.up();
            *dy = if (y <= T::Acc::ZERO) | (y >= six) { T::ZERO } else { *dy };
        }
    }

    fn add_part [T: Float] (x: &[T], y: &mut [T]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = T::down(y.up() + x.up());
        }
    }

    fn scale_part [T: Float] (factor: T::Acc, y: &mut [T]) {
        for y in y {
            *y = T::down(y.up() * factor);
        }
    }

    fn sum_squares_part [T: Float] (x: &[T]) -> f64 {
        // Sixteen sums side by side, in f64: the square of any f32 is finite there, so only what is not finite makes
        // the sum so.
        let mut sums = [0.0; 16];
        let blocks = x.chunks_exact(16);
        let rest = blocks.remainder();
        for block in blocks {
            for (sum, x) in sums.iter_mut().zip(block) {
                let x = x.to_f64();
                *sum += x * x;
            }
        }
        let rest: f64 = rest.iter().map(|x| x.to_f64() * x.to_f64()).sum();
        sums.iter().sum::<f64>() + rest
    }
}

//! The check that attention on a card's tensor cores is right. It takes about a second and runs on the very card.
//!
//! Holds: the same operands go through the kernels for tensor cores and through those in f32, whose sums are compared with the
//! CPU's by the selftest; results farther apart than roundings of the narrow type are a failure. Refuses nothing: a check
//! that cannot be made is one that failed.

use crate::{
    backend::{
        Cuda, DType, Executor, Tensor,
        ops::{Attention, AttentionShape, Elementwise},
    },
    error::Result,
    memory::{Category, Ledger},
};

/// Shapes that take different paths: narrow and wide heads, shared keys, a window, a length that does not fill a tile.
const SHAPES: [AttentionShape; 3] = [
    AttentionShape { batch: 2, length: 129, heads: 2, kv_heads: 1, head_dim: 64, is_causal: true, window: 0 },
    AttentionShape { batch: 1, length: 130, heads: 2, kv_heads: 2, head_dim: 128, is_causal: false, window: 0 },
    AttentionShape { batch: 1, length: 257, heads: 2, kv_heads: 1, head_dim: 32, is_causal: true, window: 70 },
];
/// How much results may differ, in units of the largest one: some roundings of the type.
const ROUNDINGS: f64 = 6.0;

/// Compares backends that `open` makes, with tensor cores and without.
///
/// # Errors
/// A kernel that fails, or a card without room for some MiB.
pub(super) fn is_right(open: impl Fn(bool) -> Result<Cuda>, account: impl Fn() -> Ledger) -> Result<bool> {
    for dtype in [DType::Bf16, DType::F16] {
        let rounding = if dtype == DType::Bf16 { 2f64.powi(-8) } else { 2f64.powi(-11) };
        let by = |tensor_cores| -> Result<Vec<Vec<f64>>> {
            let executor = Executor::new(open(tensor_cores)?, account());
            let mut all = Vec::new();
            for shape in SHAPES {
                all.extend(results(&executor, shape, dtype)?);
            }
            Ok(all)
        };
        let (cores, plain) = (by(true)?, by(false)?);
        if !cores.iter().zip(&plain).all(|(a, b)| are_near(a, b, ROUNDINGS * rounding)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether no two numbers differ by more than this share of the largest.
fn are_near(a: &[f64], b: &[f64], share: f64) -> bool {
    let largest = b.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    a.len() == b.len() && largest > 0.0 && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= share * largest)
}

/// The output of an attention and the gradient of its operands.
fn results(executor: &Executor<Cuda>, shape: AttentionShape, dtype: DType) -> Result<[Vec<f64>; 2]> {
    let tensor = |count: usize, dtype| executor.allocate([count], dtype, Category::Scratch, "check");
    let noise = |count: usize, key: u64| -> Result<Tensor<Cuda>> {
        let tensor = tensor(count, dtype)?;
        executor.launch(Elementwise::Normal { std: 1.0, key }, &[], &[&tensor])?;
        Ok(tensor)
    };
    let (packed, width) = (shape.rows() * shape.packed(), shape.rows() * shape.width());
    let (qkv, dy) = (noise(packed, 1)?, noise(width, 2)?);
    let (y, dqkv) = (tensor(width, dtype)?, tensor(packed, dtype)?);
    let sums = tensor(shape.batch * shape.heads * shape.length, DType::F32)?;
    executor.launch(Attention::Efficient(shape), &[&qkv], &[&y, &sums])?;
    executor.launch(Attention::EfficientGrad(shape), &[&qkv, &y, &sums, &dy], &[&dqkv])?;
    let read = |tensor: &Tensor<Cuda>| -> Result<Vec<f64>> { Ok(executor.read(tensor)?.unwrap_or_default()) };
    Ok([read(&y)?, read(&dqkv)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_farther_apart_than_roundings_is_wrong() {
        let right = [1.0, -4.0, 0.5];
        assert!(are_near(&[1.001, -4.002, 0.5], &right, 1e-3));
        for wrong in [&[1.0, -4.0, 0.6][..], &[1.0, f64::NAN, 0.5], &[1.0, -4.0]] {
            assert!(!are_near(wrong, &right, 1e-3), "{wrong:?}");
        }
        assert!(!are_near(&[0.0], &[0.0], 1.0), "nothing was computed");
    }
}

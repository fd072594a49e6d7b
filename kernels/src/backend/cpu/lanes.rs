//! Sums and maxima along a row, carried in sixteen lanes: vector code on every processor, and the same result.

use super::float::{Accumulator, Float};

/// How many are carried side by side.
pub(super) const LANES: usize = 16;

/// The sum of `f` over a row, changing its elements.
#[inline(always)]
pub(super) fn sum_mut<T: Float>(row: &mut [T], f: impl Fn(&mut T) -> T::Acc) -> T::Acc {
    let mut lanes = [T::Acc::ZERO; LANES];
    let mut blocks = row.chunks_exact_mut(LANES);
    for block in &mut blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += f(x);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(blocks.into_remainder()) {
        *lane += f(x);
    }
    together(&lanes)
}

/// The sum of `f` over a row.
#[inline(always)]
pub(super) fn sum<T: Float>(row: &[T], f: impl Fn(T::Acc) -> T::Acc) -> T::Acc {
    let mut lanes = [T::Acc::ZERO; LANES];
    let blocks = row.chunks_exact(LANES);
    let rest = blocks.remainder();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            *lane += f(x.up());
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += f(x.up());
    }
    together(&lanes)
}

/// The sum over two rows of the products of their elements.
#[inline(always)]
pub(super) fn dot<T: Float, U: Float<Acc = T::Acc>>(a: &[T], b: &[U]) -> T::Acc {
    let mut lanes = [T::Acc::ZERO; LANES];
    let (blocks, more) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (rest, more_rest) = (blocks.remainder(), more.remainder());
    for (a, b) in blocks.zip(more) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a.up() * b.up();
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(rest).zip(more_rest) {
        *lane += a.up() * b.up();
    }
    together(&lanes)
}

/// The largest of a row that is not empty. A NaN may be ignored; a sum over the row shows it.
#[inline(always)]
pub(super) fn largest<T: Float>(row: &[T]) -> T::Acc {
    let mut lanes = [row[0].up(); LANES];
    let blocks = row.chunks_exact(LANES);
    let rest = blocks.remainder();
    for block in blocks {
        for (lane, x) in lanes.iter_mut().zip(block) {
            let x = x.up();
            *lane = if *lane >= x { *lane } else { x };
        }
    }
    rest.iter().map(|x| x.up()).chain(lanes).fold(lanes[0], |max, x| if max >= x { max } else { x })
}

/// The largest magnitude of a block of whole lanes, without NaN; the scale of its codes.
#[inline(always)]
pub(super) fn largest_magnitude<const N: usize>(of: &[f32; N]) -> f32 {
    const { assert!(N.is_multiple_of(LANES), "whole lanes") };
    let mut lanes = [0.0f32; LANES];
    for chunk in of.as_chunks::<LANES>().0 {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            let x = x.abs();
            *lane = if x > *lane { x } else { *lane };
        }
    }
    lanes.into_iter().fold(0.0, f32::max)
}

#[inline(always)]
fn together<A: Accumulator>(lanes: &[A; LANES]) -> A {
    lanes.iter().fold(A::ZERO, |sum, lane| sum + *lane)
}

//! A sum with the bias and the dropout before it and the norm of its rows after it.
//!
//! A few rows at a time are added up and, while they are near the processor, normalised by the norm's own loop.

use crate::{
    backend::{
        cpu::{float::Float, norm::row, operands::Operands, parallel, simd::simd},
        ops::{Dropout, RowNorm, Rows},
    },
    error::Result,
    rng::Rng,
};

/// Elements that are added up before they are normalised.
const NEAR: usize = 4 << 10;
/// An element's arithmetic in streamed elements, with random numbers and without.
const WEIGHTS: [usize; 2] = [4, 2];

/// Runs [`Fused::Sum`](crate::backend::ops::Fused::Sum).
pub(super) fn launch<T: Float, W: Float<Acc = T::Acc>>(
    o: &Operands<'_>,
    Rows { rows, columns }: Rows,
    biased: bool,
    dropout: Option<Dropout>,
    norm: Option<RowNorm>,
) -> Result<()> {
    let other = o.input::<T>(0)?;
    let bias = biased.then(|| o.input::<T>(1)).transpose()?;
    let first = 1 + usize::from(biased);
    let of = Summed { columns, other: &other, bias: bias.as_deref(), dropped: dropout.map(Dropped::new::<T>) };
    let weight = WEIGHTS[usize::from(dropout.is_none())] * columns;
    let mut y = o.output::<T>(0)?;
    let Some(norm) = norm else {
        parallel::ranges(rows, weight, parallel::rows(&mut y, columns), |rows, y| of.add(rows.start, y));
        return Ok(());
    };
    let weights = o.input::<W>(first)?;
    let (epsilon, offset, mut mean) = match norm {
        RowNorm::Layer(epsilon) => (epsilon, Some(o.input::<W>(first + 1)?), Some(o.output::<T::Acc>(2)?)),
        RowNorm::Rms(epsilon) => (epsilon, None, None),
    };
    let (mut normed, mut inverse) = (o.output::<T>(1)?, o.output::<T::Acc>(o.outputs() - 1)?);
    let parameters = [&*weights, offset.as_deref().unwrap_or_default()];
    let mean = mean.as_deref_mut().map(|mean| parallel::rows(mean, 1));
    let matrices = (parallel::rows(&mut y, columns), parallel::rows(&mut normed, columns));
    parallel::ranges(
        rows,
        weight,
        (matrices, (mean, parallel::rows(&mut inverse, 1))),
        |rows, (matrices, statistics)| {
            of.add_normed(rows.start, epsilon, parameters, matrices, statistics);
        },
    );
    Ok(())
}

/// The terms that are added to the output.
struct Summed<'a, T: Float> {
    columns: usize,
    other: &'a [T],
    bias: Option<&'a [T]>,
    dropped: Option<Dropped<T::Acc>>,
}

/// Which elements are dropped, and the factor of the others.
#[derive(Clone, Copy)]
struct Dropped<A> {
    rng: Rng,
    /// The probability as a bound of 64 random bits.
    bound: u64,
    scale: A,
}

impl<A> Dropped<A> {
    fn new<T: Float<Acc = A>>(Dropout { probability, key }: Dropout) -> Self
    where
        A: Float,
    {
        let scale = A::from_f64(1.0 / (1.0 - probability));
        Self { rng: Rng::from_key(key), bound: (probability * 2f64.powi(64)) as u64, scale }
    }
}

impl<T: Float> Summed<'_, T> {
    /// Adds to rows of the output, from the row `first`.
    fn add(&self, first: usize, y: &mut [T]) {
        let start = first * self.columns;
        let other = &self.other[start..start + y.len()];
        match (self.bias, self.dropped) {
            (Some(bias), None) => add_rows(other, bias, y),
            (Some(bias), Some(Dropped { rng, bound, scale })) => {
                drop_rows(other, bias, rng, bound, scale, start as u64, y);
            }
            (None, Some(Dropped { rng, bound, scale })) => drop_part(other, rng, bound, scale, start as u64, y),
            (None, None) => add_part(other, y),
        }
    }

    /// [`Summed::add`], and the norm of each row.
    fn add_normed<W: Float<Acc = T::Acc>>(
        &self,
        first: usize,
        epsilon: f64,
        parameters: [&[W]; 2],
        (y, normed): (&mut [T], &mut [T]),
        (mean, inverse): (Option<&mut [T::Acc]>, &mut [T::Acc]),
    ) {
        let (columns, mut mean) = (self.columns, mean.unwrap_or_default());
        let near = (NEAR / columns).max(1);
        let blocks = y.chunks_mut(near * columns).zip(normed.chunks_mut(near * columns)).zip(inverse.chunks_mut(near));
        for (i, ((y, normed), inverse)) in blocks.enumerate() {
            self.add(first + i * near, y);
            let (own, rest) = mean.split_at_mut(inverse.len().min(mean.len()));
            row::forward_part::<T, W>(epsilon, y, parameters, normed, [own, inverse]);
            mean = rest;
        }
    }
}

simd! {
    fn add_part [T: Float] (other: &[T], y: &mut [T]) {
        for (y, other) in y.iter_mut().zip(other) {
            *y = T::down(y.up() + other.up());
        }
    }

    fn add_rows [T: Float] (other: &[T], bias: &[T], y: &mut [T]) {
        for (y, other) in y.chunks_exact_mut(bias.len()).zip(other.chunks_exact(bias.len())) {
            for ((y, other), bias) in y.iter_mut().zip(other).zip(bias) {
                *y = T::down(T::down(y.up() + bias.up()).up() + other.up());
            }
        }
    }

    fn drop_part [T: Float] (other: &[T], rng: Rng, bound: u64, scale: T::Acc, start: u64, y: &mut [T]) {
        for ((i, y), other) in (start..).zip(y).zip(other) {
            let kept = T::down(y.up() * scale);
            let kept = if rng.bits(i) < bound { T::ZERO } else { kept };
            *y = T::down(kept.up() + other.up());
        }
    }

    fn drop_rows [T: Float] (
        other: &[T], bias: &[T], rng: Rng, bound: u64, scale: T::Acc, start: u64, y: &mut [T],
    ) {
        let columns = bias.len();
        for (row, (y, other)) in y.chunks_exact_mut(columns).zip(other.chunks_exact(columns)).enumerate() {
            for (((i, y), other), bias) in (start + (row * columns) as u64..).zip(y).zip(other).zip(bias) {
                let kept = T::down(T::down(y.up() + bias.up()).up() * scale);
                let kept = if rng.bits(i) < bound { T::ZERO } else { kept };
                *y = T::down(kept.up() + other.up());
            }
        }
    }
}

//! Embedding lookup, and the gradient of the table.
//!
//! The gradient sums the rows of one token in their order, on any number of threads: tokens are sorted first, with their
//! positions, and one thread sums all rows of a token.

use super::{
    by_type::{by_float, by_sum},
    operands::Operands,
};
use super::{convert::convert, float::Float, parallel, scratch::Scratch, simd::simd};
use crate::{backend::ops::Embedding, error::Result};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Embedding, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Embedding::Forward => by_float!(o.output_type(0), T => {
            let (table, mut y) = (o.input::<T>(1)?, o.output::<T>(0)?);
            let tokens = o.tokens(0, table.len() / (y.len() / o.input_elements(0)))?;
            forward(&tokens, &table, &mut y);
            Ok(())
        }, else o.unsupported()),
        Embedding::Grad { accumulate, rows } => by_sum!(o.input_type(1), o.output_type(0), T, W => {
            let dy = o.input::<T>(1)?;
            let tokens = o.tokens(0, o.output_elements(0) / (dy.len() / rows))?;
            gradient::<T, W>(accumulate, &tokens, &dy, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
    }
}

/// Columns summed at a time.
const COLUMNS: usize = 64;

/// [`Embedding::Forward`](crate::backend::ops::Embedding::Forward); every token has a row in the table.
fn forward<T: Float>(tokens: &[u32], table: &[T], y: &mut [T]) {
    let width = y.len() / tokens.len();
    parallel::ranges(tokens.len(), width, parallel::rows(y, width), |rows, y| {
        for (y, token) in y.chunks_exact_mut(width).zip(&tokens[rows]) {
            convert(&table[*token as usize * width..][..width], y);
        }
    });
}

/// [`Embedding::Grad`](crate::backend::ops::Embedding::Grad); every token has a row in the table.
fn gradient<T: Float, W: Float<Acc = T::Acc>>(accumulate: bool, tokens: &[u32], dy: &[T], dtable: &mut [W]) {
    let (rows, width) = (tokens.len(), dy.len() / tokens.len());
    let mut room = Scratch::<u64>::new(rows);
    let sorted = room.elements();
    for (place, (to, token)) in sorted.iter_mut().zip(tokens).enumerate() {
        *to = u64::from(*token) << 32 | place as u64;
    }
    sorted.sort_unstable();
    let (sorted, vocabulary) = (&*sorted, dtable.len() / width);
    let token = |entry: &u64| (entry >> 32) as usize;
    // The average cost of a row of the table, and at least the cost of its zeros.
    let weight = width * (1 + rows / vocabulary);
    parallel::ranges(vocabulary, weight, parallel::rows(dtable, width), |range, dtable| {
        if !accumulate {
            dtable.fill(W::ZERO);
        }
        let from = sorted.partition_point(|entry| token(entry) < range.start);
        let to = sorted.partition_point(|entry| token(entry) < range.end);
        for group in sorted[from..to].chunk_by(|a, b| token(a) == token(b)) {
            let start = (token(&group[0]) - range.start) * width;
            add_rows(group, dy, &mut dtable[start..start + width]);
        }
    });
}

simd! {
    /// Adds the rows of `dy` at the low halves of `places`.
    fn add_rows [T: Float, W: Float<Acc = T::Acc>] (places: &[u64], dy: &[T], to: &mut [W]) {
        let width = to.len();
        for (block, to) in to.chunks_mut(COLUMNS).enumerate() {
            let mut sums = [T::Acc::ZERO; COLUMNS];
            for (sum, to) in sums.iter_mut().zip(&*to) {
                *sum = to.up();
            }
            for place in places {
                let start = (*place as u32) as usize * width + block * COLUMNS;
                for (sum, dy) in sums.iter_mut().zip(&dy[start..start + to.len()]) {
                    *sum += dy.up();
                }
            }
            for (to, sum) in to.iter_mut().zip(&sums) {
                *to = W::down(*sum);
            }
        }
    }
}

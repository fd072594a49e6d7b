//! Pruning by magnitude.
//!
//! Counting goes over a weight on one thread: it happens once in many steps, and counts that are shared between threads would
//! take more than they save.

use super::{
    by_type::by_float,
    float::Float,
    operands::Operands,
    parallel::{self, rows},
};
use crate::{
    backend::ops::{KeyBits, Prune},
    error::Result,
};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Prune, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Prune::Count(bits) => by_float!(o.input_type(0), T => {
            count::<T>(bits, &o.input(0)?, &o.input_integers(1)?, &mut o.integers(0)?);
            Ok(())
        }, else o.unsupported()),
        Prune::Pick { bits, rank } => {
            pick(bits, rank, &mut o.integers(0)?, &mut o.integers(1)?);
            Ok(())
        }
        Prune::Mask => by_float!(o.input_type(0), T => {
            let (bound, weight) = (o.input_integers(1)?[0], o.input::<T>(0)?);
            let weight: &[T] = &weight;
            write_mask(weight.len(), &mut o.bytes(0)?, |i| key(weight[i]) > bound);
            Ok(())
        }, else o.unsupported()),
        Prune::Groups { columns, kept, of } => by_float!(o.input_type(0), T => {
            let weight = o.input::<T>(0)?;
            let weight: &[T] = &weight;
            write_mask(weight.len(), &mut o.bytes(0)?, |i| is_among(weight, i, columns, kept, of));
            Ok(())
        }, else o.unsupported()),
        Prune::Apply => (0..o.outputs()).try_for_each(|i| {
            by_float!(o.output_type(i), T => {
                apply::<T>(&o.input_bytes(0)?, &mut o.output(i)?);
                Ok(())
            }, else o.unsupported())
        }),
    }
}

/// The magnitude as an integer, in the order of the magnitudes.
fn key<T: Float>(weight: T) -> u32 {
    (weight.to_f64() as f32).to_bits() & (u32::MAX >> 1)
}

/// Runs [`Prune::Count`].
fn count<T: Float>(bits: KeyBits, weight: &[T], bound: &[u32], counts: &mut [u32]) {
    let last = (1 << bits.count) - 1;
    for key in weight.iter().map(|weight| key(*weight)) {
        let prefix = key >> bits.shift >> bits.count;
        if bits.are_highest() || prefix == bound[0] {
            let own = &mut counts[(key >> bits.shift & last) as usize];
            *own = own.wrapping_add(1);
        }
    }
}

/// Runs [`Prune::Pick`].
fn pick(bits: KeyBits, rank: u32, counts: &mut [u32], bound: &mut [u32]) {
    let (prefix, mut left) = if bits.are_highest() { (0, rank) } else { (bound[0], bound[1]) };
    let last = (1_usize << bits.count) - 1;
    let mut value = last;
    for (at, count) in counts[..last].iter().enumerate() {
        if left <= *count {
            value = at;
            break;
        }
        left -= count;
    }
    (bound[0], bound[1]) = (prefix << bits.count | value as u32, left);
    counts.fill(0);
}

/// Writes a bit an element.
fn write_mask(elements: usize, mask: &mut [u8], is_kept: impl Fn(usize) -> bool + Sync) {
    parallel::ranges(mask.len(), 8, rows(mask, 1), |range, mask| {
        for (byte, at) in mask.iter_mut().zip(range) {
            let own = 8 * at..elements.min(8 * (at + 1));
            *byte = own.enumerate().fold(0, |bits, (bit, i)| bits | u8::from(is_kept(i)) << bit);
        }
    });
}

/// Whether element `i` is one of the `kept` largest in its group.
fn is_among<T: Float>(weight: &[T], i: usize, columns: usize, kept: usize, of: usize) -> bool {
    let column = i % columns;
    let begin = i - column % of;
    let end = (begin + of).min(i - column + columns);
    let own = key(weight[i]);
    let comes_before = |other: &usize| key(weight[*other]) > own || key(weight[*other]) == own && *other < i;
    (begin..end).filter(comes_before).count() < kept
}

/// Runs [`Prune::Apply`].
fn apply<T: Float>(mask: &[u8], weight: &mut [T]) {
    parallel::each(weight, |start, weight| {
        for (i, weight) in (start..).zip(weight) {
            if mask[i / 8] >> (i % 8) & 1 == 0 {
                *weight = T::ZERO;
            }
        }
    });
}

//! Batches gathered from a training set that lies on the device.
//!
//! Refuses an index outside the set before it writes anything.

use super::by_type::by_float;
use super::{float::Float, operands::Operands, parallel};
use crate::backend::ops::Gather;
use crate::{
    backend::{DType, IGNORE_INDEX},
    error::Result,
};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Gather, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Gather::Images => by_float!(o.output_type(0), T => images::<T>(o), else o.unsupported()),
        Gather::Labels => labels(o),
        Gather::Tokens { scored } => tokens(*scored, o),
    }
}

/// Runs [`Gather::Images`](crate::backend::ops::Gather::Images).
fn images<T: Float>(o: &Operands<'_>) -> Result<()> {
    let size = o.output_elements(0) / o.input_elements(2);
    let places = o.places(2, o.input_elements(0) / size)?;
    scaled::<T>(&o.input_bytes(0)?, &o.input(1)?, &places, &mut o.output(0)?);
    Ok(())
}

/// Runs [`Gather::Labels`](crate::backend::ops::Gather::Labels).
fn labels(o: &Operands<'_>) -> Result<()> {
    let targets = o.output_elements(0) / o.input_elements(1);
    let places = o.places(1, o.input_elements(0) / targets)?;
    match o.input_type(0) {
        DType::U8 => rows(&o.input_bytes(0)?, &places, &mut o.integers(0)?),
        DType::U32 => rows(&o.input_integers(0)?, &places, &mut o.integers(0)?),
        _ => return o.unsupported(),
    }
    Ok(())
}

/// Runs [`Gather::Tokens`](crate::backend::ops::Gather::Tokens).
fn tokens(scored: usize, o: &Operands<'_>) -> Result<()> {
    let length = o.output_elements(0) / o.input_elements(1);
    // The places from which a sample and the token after it still lie in the set.
    let places = o.places(1, o.input_elements(0).saturating_sub(length))?;
    let (mut inputs, mut labels) = (o.integers(0)?, o.integers(1)?);
    match o.input_type(0) {
        DType::U8 => windows(&o.input_bytes(0)?, &places, scored, &mut inputs, &mut labels),
        DType::U32 => windows(&o.input_integers(0)?, &places, scored, &mut inputs, &mut labels),
        _ => return o.unsupported(),
    }
    Ok(())
}

/// Pixels times a factor plus a summand.
fn scaled<T: Float>(pixels: &[u8], scaling: &[f32], places: &[u32], y: &mut [T]) {
    let size = y.len() / places.len();
    let (scale, offset) = scaling.split_at(scaling.len() / 2);
    parallel::ranges(places.len(), size, parallel::rows(y, size), |range, y| {
        for (image, place) in y.chunks_exact_mut(size).zip(&places[range]) {
            let from = &pixels[*place as usize * size..][..size];
            for (to, from) in image.chunks_exact_mut(scale.len()).zip(from.chunks_exact(scale.len())) {
                for (((to, from), scale), offset) in to.iter_mut().zip(from).zip(scale).zip(offset) {
                    // As on the host: scaled in f32, then converted.
                    *to = T::from_f64(f64::from(f32::from(*from) * scale + offset));
                }
            }
        }
    });
}

/// Rows of a table.
fn rows<L: Copy + Into<u32> + Sync>(table: &[L], places: &[u32], y: &mut [u32]) {
    let targets = y.len() / places.len();
    parallel::ranges(places.len(), targets, parallel::rows(y, targets), |range, y| {
        for (row, place) in y.chunks_exact_mut(targets).zip(&places[range]) {
            let from = &table[*place as usize * targets..][..targets];
            row.iter_mut().zip(from).for_each(|(to, from)| *to = (*from).into());
        }
    });
}

/// Inputs and labels from each place.
fn windows<L: Copy + Into<u32> + Sync>(
    tokens: &[L],
    places: &[u32],
    scored: usize,
    inputs: &mut [u32],
    labels: &mut [u32],
) {
    let length = inputs.len() / places.len();
    let parts = [inputs, labels].map(|elements| parallel::rows(elements, length));
    parallel::ranges(places.len(), 2 * length, parts, |range, [inputs, labels]| {
        let rows = inputs.chunks_exact_mut(length).zip(labels.chunks_exact_mut(length));
        for ((inputs, labels), place) in rows.zip(&places[range]) {
            let from = &tokens[*place as usize..][..length + 1];
            inputs.iter_mut().zip(from).for_each(|(to, from)| *to = (*from).into());
            labels.iter_mut().zip(&from[1..]).for_each(|(to, from)| *to = (*from).into());
            labels[..length - scored].fill(IGNORE_INDEX);
        }
    });
}

//! Kernels that stream through memory: fill, initialise, add, scale.

use super::{by_type::by_float, operands::Operands};
use super::{float::Float, parallel, simd::simd};
use crate::backend::ops::Elementwise;
use crate::rng::Rng;
use crate::{error::Result, tensor::DType};

/// Runs a kernel of this family.
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

/// Runs [`Elementwise::Fill`](crate::backend::ops::Elementwise::Fill).
fn fill<T: Copy + Send + Sync>(value: T, y: &mut [T]) {
    parallel::each(y, |_, y| y.fill(value));
}

/// Runs [`Elementwise::Uniform`](crate::backend::ops::Elementwise::Uniform).
fn uniform<T: Float>(bound: f64, key: u64, y: &mut [T]) {
    let rng = Rng::from_key(key);
    parallel::each(y, |start, y| {
        for (i, y) in y.iter_mut().enumerate() {
            *y = T::from_f64(rng.range((start + i) as u64, -bound, bound));
        }
    });
}

/// Runs [`Elementwise::Normal`](crate::backend::ops::Elementwise::Normal).
fn normal<T: Float>(std: f64, key: u64, y: &mut [T]) {
    let rng = Rng::from_key(key);
    parallel::each(y, |start, y| {
        for (i, y) in (start as u64..).zip(y) {
            *y = T::from_f64(std * rng.normal(i));
        }
    });
}

/// Runs [`Elementwise::Add`](crate::backend::ops::Elementwise::Add).
pub(super) fn add<T: Float>(x: &[T], y: &mut [T]) {
    parallel::each(y, |start, y| add_part(&x[start..start + y.len()], y));
}

/// Runs [`Elementwise::Scale`](crate::backend::ops::Elementwise::Scale).
fn scale<T: Float>(factor: f64, y: &mut [T]) {
    let factor = T::Acc::from_f64(factor);
    parallel::each(y, |_, y| scale_part(factor, y));
}

simd! {
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

}

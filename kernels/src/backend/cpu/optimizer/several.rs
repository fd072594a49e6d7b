//! Kernels of several tensors: one after another, each as by a kernel of its own. A run on the CPU launches none of them, because
//! a launch is a call here; they are what those of a GPU are compared with.

use super::{by_types, clip};
use crate::{
    backend::{
        cpu::{by_type::by_float, operands::Operands},
        ops::{Optimizer, Update},
    },
    error::Result,
};

/// Runs [`Optimizer::SumAllSquares`].
pub(super) fn sum_squares(accumulate: bool, o: &Operands<'_>) -> Result<()> {
    by_float!(o.input_type(0), T => {
        if !accumulate {
            o.output::<f64>(0)?.fill(0.0);
        }
        for i in 0..o.inputs() {
            clip::sum_squares::<T>(&o.input(i)?, &mut o.output(0)?);
        }
        Ok(())
    }, else o.unsupported())
}

/// Runs [`Optimizer::UpdateAll`].
pub(super) fn update(update: &Update, count: usize, o: &Operands<'_>) -> Result<()> {
    /// Weight, two states and copy.
    const MOST: usize = 4;
    let kernel = Optimizer::Update(*update).into();
    for i in 0..count {
        let mut outputs = [o.outputs[i]; MOST];
        for (output, of) in outputs.iter_mut().zip(o.outputs.chunks(count)) {
            *output = of[i];
        }
        let inputs = [o.inputs[i], o.inputs[o.inputs() - 1]];
        let (ins, outs) = (1 + o.inputs() - count, o.outputs() / count);
        by_types(update, &Operands::new(&kernel, &inputs[..ins], &outputs[..outs])?)?;
    }
    Ok(())
}

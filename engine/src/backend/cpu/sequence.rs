//! Which function runs for which kernel of sequence models.

use super::{
    activation,
    attention::{self, Weights},
    copy::{self, Strided},
    dispatch::{by_float, by_sum},
    embedding,
    float::Float,
    operands::Operands,
    rotary,
};
use crate::{
    backend::{DType, Kernel},
    error::Result,
};
use half::{bf16, f16};

/// Runs one of them.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Kernel::CopyColumns { rows, columns, from_stride, from_offset, to_stride, to_offset } => {
            let from = Strided { stride: from_stride, offset: from_offset };
            let to = Strided { stride: to_stride, offset: to_offset };
            by_float!(o.input_type(0), T => by_float!(o.output_type(0), U => {
                copy::copy::<T, U>([rows, columns], &o.input(0)?, from, &mut o.output(0)?, to);
                Ok(())
            }, else o.unsupported()), else o.unsupported())
        }
        Kernel::EmbeddingGrad { accumulate, rows } => by_sum!(o.input_type(1), o.output_type(0), T, W => {
            let dy = o.input::<T>(1)?;
            let tokens = o.tokens(0, o.output_elements(0) / (dy.len() / rows))?;
            embedding::gradient::<T, W>(accumulate, &tokens, &dy, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        _ => by_float!(o.output_type(0), T => of_one_type::<T>(kernel, o), else o.unsupported()),
    }
}

fn of_one_type<T: Float>(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let mut y = o.output::<T>(0)?;
    match *kernel {
        Kernel::Transpose { rows, columns, .. } => copy::transpose([rows, columns], &o.input::<T>(0)?, &mut y),
        Kernel::Embedding => {
            let table = o.input::<T>(1)?;
            let tokens = o.tokens(0, table.len() / (y.len() / o.input_elements(0)))?;
            embedding::forward(&tokens, &table, &mut y);
        }
        Kernel::Rotary { shape, base, is_inverse } => rotary::rotate::<T>(&shape, base, is_inverse, &mut y),
        Kernel::SwiGlu { extents } => activation::swiglu(extents.columns, &o.input::<T>(0)?, &mut y),
        Kernel::SwiGluGrad { extents } => {
            activation::swiglu_gradient(extents.columns, &o.input::<T>(0)?, &o.input::<T>(1)?, &mut y);
        }
        Kernel::Attention(s) => attention::forward(&s, &o.input::<T>(0)?, &mut y, &mut o.output::<T::Acc>(1)?),
        Kernel::AttentionPlain(s) => attention::forward_plain(&s, &o.input::<T>(0)?, &mut y, &mut o.output::<T>(1)?),
        Kernel::AttentionGrad(s) => {
            let (before, lse) = (o.input::<T>(1)?, o.input::<T::Acc>(2)?);
            let weights = Weights::Again { y: &before, lse: &lse };
            attention::gradient(&s, &o.input::<T>(0)?, weights, &o.input::<T>(3)?, &mut y);
        }
        Kernel::AttentionPlainGrad(s) => {
            let weights = o.input::<T>(1)?;
            attention::gradient(&s, &o.input::<T>(0)?, Weights::Kept(&weights), &o.input::<T>(2)?, &mut y);
        }
        _ => return o.unsupported(),
    }
    Ok(())
}

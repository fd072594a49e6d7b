//! Dense layers: products of matrices, and the bias.

use super::{
    by_type::{by_float, by_sum},
    elementwise, gemm,
    operands::Operands,
};
use crate::{backend::ops::Linear, error::Result};

/// Runs one of them.
pub(super) fn launch(kernel: &Linear, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Linear::MatMul(product) => by_sum!(o.input_type(0), o.output_type(0), T, W => {
            gemm::matmul::<T, W>(product, &o.input::<T>(0)?, &o.input::<T>(1)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Linear::AddBias => by_float!(o.output_type(0), T => {
            elementwise::add_bias::<T>(&o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Linear::BiasGrad { accumulate } => by_sum!(o.input_type(0), o.output_type(0), T, W => {
            elementwise::bias_gradient::<T, W>(*accumulate, &o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
    }
}

//! Batches gathered from a training set that lies on the device.
//!
//! An index outside the set reads as NaN, as an unscored label or as a token outside every table.

use super::{
    DType, Operands, Source, Types, args,
    launch::Grid,
    threads::{is_wide, runs_of_rows},
};
use crate::{backend::ops::Gather, error::Result};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "gather",
    text: concat!(include_str!("vectors.cuh"), "#line 1 \"gather.cu\"\n", include_str!("gather.cu")),
    types: Types::Element,
};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Gather, o: &Operands<'_>) -> Result<()> {
    if o.input_type(o.inputs() - 1) != DType::U32 {
        return o.unsupported();
    }
    // The kernels for integers are in every module.
    let integers = |of_bytes, of_words, n, args: &[_]| {
        let name = match o.input_type(0) {
            DType::U8 => of_bytes,
            DType::U32 => of_words,
            DType::F64 | DType::F32 | DType::Bf16 | DType::F16 => return o.unsupported(),
        };
        o.launch_for(&SOURCE, DType::F32, name, Grid::elements(n), args)
    };
    let (all, n) = (o.input_elements(0), o.output_elements(0));
    let is_typed = match kernel {
        Gather::Images => (o.input_type(0), o.input_type(1)) == (DType::U8, DType::F32),
        Gather::Labels => o.output_type(0) == DType::U32,
        Gather::Tokens { .. } => [o.output_type(0), o.output_type(1)] == [DType::U32; 2],
    };
    if !is_typed {
        return o.unsupported();
    }
    match *kernel {
        Gather::Images => {
            let (row, batch) = (o.input_elements(1) / 2, o.input_elements(2));
            let (rows, samples, y) = (n / row, all / (n / batch), (o.output(0), o.output_type(0)));
            let wide = is_wide(&[(o.input(0), DType::U8), (o.input(1), DType::F32), y], &[row]);
            let args = args![o.input(0), o.input(1), o.input(2), y.0, rows, rows / batch, row, samples, wide];
            o.launch_for(&SOURCE, y.1, c"gather_images", runs_of_rows(rows, row, wide), args)
        }
        Gather::Labels => {
            let targets = n / o.input_elements(1);
            let args = args![o.input(0), o.input(1), o.output(0), n, targets, all / targets];
            integers(c"gather_labels_u8", c"gather_labels_u32", n, args)
        }
        Gather::Tokens { scored } => {
            let length = n / o.input_elements(1);
            // The places from which a sample and the token after it still lie in the set.
            let places = all.saturating_sub(length);
            let args = args![o.input(0), o.input(1), o.output(0), o.output(1), n, length, length - scored, places];
            integers(c"gather_tokens_u8", c"gather_tokens_u32", n, args)
        }
    }
}

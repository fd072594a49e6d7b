//! Kernels that fill a tensor or change its elements one by one.

use super::{
    DType, Operands, Source, Types, args,
    launch::Grid,
    threads::{is_wide, runs},
};
use crate::{backend::ops::Elementwise, error::Result};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "elementwise",
    text: concat!(include_str!("vectors.cuh"), "#line 1 \"elementwise.cu\"\n", include_str!("elementwise.cu")),
    types: Types::Element,
};

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Elementwise, o: &Operands<'_>) -> Result<()> {
    let (y, n, dtype) = (o.output(0), o.output_elements(0), o.output_type(0));
    let run = |name, args: &[_]| o.launch_for(&SOURCE, dtype, name, Grid::elements(n), args);
    match *kernel {
        Elementwise::Fill(value) => match dtype {
            // The kernels for integers are in every module.
            DType::U32 => o.launch_for(&SOURCE, DType::F32, c"fill_u32", Grid::elements(n), args![y, n, value]),
            DType::U8 => o.launch_for(&SOURCE, DType::F32, c"fill_u8", Grid::elements(n), args![y, n, value]),
            DType::F64 | DType::F32 | DType::Bf16 | DType::F16 => run(c"fill", args![y, n, value]),
        },
        Elementwise::Uniform { bound, key } => run(c"uniform", args![y, n, bound, key]),
        Elementwise::Normal { std, key } => run(c"normal", args![y, n, std, key]),
        Elementwise::Scale(factor) => {
            let wide = is_wide(&[(y, dtype)], &[]);
            o.launch_for(&SOURCE, dtype, c"scale", runs(n, wide), args![y, n, factor, wide])
        }
        Elementwise::Add => {
            if o.input_type(0) != dtype {
                return o.unsupported();
            }
            let x = o.input(0);
            let wide = is_wide(&[(x, dtype), (y, dtype)], &[]);
            o.launch_for(&SOURCE, dtype, c"add", runs(n, wide), args![x, y, n, wide])
        }
    }
}

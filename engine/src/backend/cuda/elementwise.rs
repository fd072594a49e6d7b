//! Kernels that treat each element by itself.

use super::{
    DType, Operands, Source, Types, args,
    launch::Grid,
    threads::{is_wide, runs},
};
use crate::{backend::Kernel, error::Result};

/// The kernels.
pub(super) const SOURCE: Source = Source {
    name: "elementwise",
    text: concat!(include_str!("vectors.cuh"), "#line 1 \"elementwise.cu\"\n", include_str!("elementwise.cu")),
    types: Types::Element,
};

/// Launches one of them.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let (y, n, dtype) = (o.output(0), o.output_elements(0), o.output_type(0));
    let run = |name, args: &[_]| o.launch_for(&SOURCE, dtype, name, Grid::elements(n), args);
    match *kernel {
        Kernel::Fill(value) => match dtype {
            // The integers' kernels are in every module.
            DType::U32 => o.launch_for(&SOURCE, DType::F32, c"fill_u32", Grid::elements(n), args![y, n, value]),
            DType::U8 => o.launch_for(&SOURCE, DType::F32, c"fill_u8", Grid::elements(n), args![y, n, value]),
            _ => run(c"fill", args![y, n, value]),
        },
        Kernel::Uniform { bound, key } => run(c"uniform", args![y, n, bound, key]),
        Kernel::Normal { std, key } => run(c"normal", args![y, n, std, key]),
        Kernel::Clip { limit } => {
            let args = args![o.input(0), y, limit];
            o.launch_for(&SOURCE, DType::F64, c"clip", Grid::blocks(1, 32), args)
        }
        _ => in_runs(kernel, o),
    }
}

/// Those that change a run of elements a thread.
fn in_runs(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let (y, n, dtype) = (o.output(0), o.output_elements(0), o.output_type(0));
    let alone = is_wide(&[(y, dtype)], &[]);
    let run = |name, wide, args: &[_]| o.launch_for(&SOURCE, dtype, name, runs(n, wide), args);
    match *kernel {
        Kernel::Relu => return run(c"relu", alone, args![y, n, alone]),
        Kernel::Relu6 => return run(c"relu6", alone, args![y, n, alone]),
        Kernel::Scale(factor) => return run(c"scale", alone, args![y, n, factor, alone]),
        _ => {}
    }
    let name = match kernel {
        Kernel::ReluGrad => c"relu_gradient",
        Kernel::Relu6Grad => c"relu6_gradient",
        Kernel::Add => c"add",
        _ => return o.unsupported(),
    };
    if o.input_type(0) != dtype {
        return o.unsupported();
    }
    let x = o.input(0);
    let both = is_wide(&[(x, dtype), (y, dtype)], &[]);
    run(name, both, args![x, y, n, both])
}

//! Kernels that treat each element by itself.

use super::{DType, Operands, Source, Types, args, launch::Grid};
use crate::{backend::Kernel, error::Result};

/// The kernels.
pub(super) const SOURCE: Source =
    Source { name: "elementwise", text: include_str!("elementwise.cu"), types: Types::Element };

/// Launches one of them.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let (y, n) = (o.output(0), o.output_elements(0));
    let run = |name, args: &[_]| o.launch_for(&SOURCE, o.output_type(0), name, Grid::elements(n), args);
    match *kernel {
        Kernel::Fill(value) => match o.output_type(0) {
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
        Kernel::Relu => run(c"relu", args![y, n]),
        Kernel::Relu6 => run(c"relu6", args![y, n]),
        Kernel::Scale(factor) => run(c"scale", args![y, n, factor]),
        _ if o.input_type(0) != o.output_type(0) => o.unsupported(),
        Kernel::ReluGrad => run(c"relu_gradient", args![o.input(0), y, n]),
        Kernel::Relu6Grad => run(c"relu6_gradient", args![o.input(0), y, n]),
        Kernel::Add => run(c"add", args![o.input(0), y, n]),
        _ => o.unsupported(),
    }
}

//! The update of several parameters by one launch, by the rules that treat every element alike.
//!
//! Always holds: each parameter has blocks of its own, so an element comes out as by a launch of that parameter alone.

use super::kernel_by_element;
use crate::{
    backend::{
        cuda::{
            DType, Operands, Source, Types, args,
            launch::{Pointer, THREADS, Table},
            optimizer::{FOUR, types},
        },
        ops::{Optimizer, Update},
    },
    error::Result,
};

/// Parameters of a launch at the most, as a literal for the source.
macro_rules! most {
    () => {
        64
    };
}
const _: () = assert!(most!() == Optimizer::UPDATED, "the contract's number");

/// The kernels.
pub(in crate::backend::cuda) const SOURCE: Source = Source {
    name: "several",
    text: concat!(
        "#define MOST ",
        most!(),
        "\n",
        include_str!("../tables.cuh"),
        include_str!("by_element.cuh"),
        include_str!("several.cuh"),
        "#line 1 \"optimizer.cu\"\n",
        include_str!("../optimizer.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Elements that a thread of a large parameter takes, so that a block finds its tensor once for many.
const EACH: usize = 4 * FOUR;
/// The most blocks of a parameter, whose threads step over the rest.
const BLOCKS: usize = 1 << 16;

/// Launches the update.
pub(super) fn launch(update: &Update, count: usize, o: &Operands<'_>) -> Result<()> {
    let [grad, weight] = types(o);
    let kept = update.rule.state_layout([1].into(), weight).len();
    let (own, copies) = ((1 + kept) * count, o.outputs() > (1 + kept) * count);
    let of_type = |range: std::ops::Range<usize>, dtype| range.into_iter().all(|i| o.output_type(i) == dtype);
    let copy = o.output_type(own);
    let is_copied = matches!((grad, weight, copy), (DType::F32 | DType::Bf16, DType::F32, DType::Bf16))
        || matches!((grad, weight, copy), (DType::F32 | DType::F16, DType::F32, DType::F16));
    let is_known = (0..count).all(|i| o.input_type(i) == grad)
        && of_type(0..own, weight)
        && (!copies || is_copied && of_type(own..own + count, copy))
        && (o.inputs() == count || o.input_type(count) == DType::F64);
    let Some((name, constants)) = kernel_by_element(update, o.input(count)).filter(|_| is_known) else {
        return o.unsupported();
    };
    let address = |output: usize, is_there: bool| if is_there { o.output(output).0 } else { Pointer::default().0 };
    let row = |i: usize| {
        let state = |s: usize| address((1 + s) * count + i, s < kept);
        let n = o.output_elements(i);
        let row = [o.input(i).0, o.output(i).0, state(0), state(1), address(own + i, copies), n as u64];
        (row, n.div_ceil(EACH * THREADS as usize).clamp(1, BLOCKS))
    };
    let table = Table::new(Optimizer::UPDATED, &(0..count).map(row).collect::<Vec<_>>());
    let args = [args![copy == DType::F16], &constants[..]].concat();
    o.launch_table(&SOURCE, [grad, weight], name, (table.grid(THREADS), table), &args)
}

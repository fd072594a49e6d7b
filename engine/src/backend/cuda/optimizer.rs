//! The update rules that treat every element alike, and which source runs a rule.
//!
//! The gradient, `T`, may be narrower than the weight, `W`. The weight's narrower copy is written in the same pass.

pub(super) mod adafactor;
pub(super) mod quantised;
pub(super) mod sum_squares;

use super::{
    DType, Operands, Source, Types, args,
    launch::{Arg, Grid, Pointer},
};
use crate::{
    backend::kernel::{Moments, Rule, Update},
    error::Result,
};

/// The kernels.
pub(super) const SOURCE: Source =
    Source { name: "optimizer", text: include_str!("optimizer.cu"), types: Types::ElementAndWeight };

/// Elements that a thread takes at once.
const FOUR: usize = 4;

/// Launches an update.
pub(super) fn launch(update: &Update, o: &Operands<'_>) -> Result<()> {
    let (_, kept) = update.rule.kept(o.output_elements(0));
    let Some(copies) = copies(o, 1 + kept) else { return o.unsupported() };
    if o.inputs() > 1 && o.input_type(1) != DType::F64 {
        return o.unsupported();
    }
    match update.rule {
        Rule::AdamW8(moments) => quantised::launch(update, &moments, copies, o),
        Rule::Adafactor { extents, step } => adafactor::launch(update, &extents, step, copies, o),
        _ => by_element(update, kept, copies, o),
    }
}

fn by_element(update: &Update, kept: usize, copies: [Pointer; 2], o: &Operands<'_>) -> Result<()> {
    let (types, n) = (types(o), o.output_elements(0));
    if (1..=kept).any(|i| o.output_type(i) != types[1]) {
        return o.unsupported();
    }
    let Update { rate, weight_decay, grad_scale, .. } = *update;
    let decay = 1.0 - rate * weight_decay;
    let run = |name, constants: &[Arg]| {
        let all = [args![o.input(0), o.output(0), copies[0], copies[1], n], constants].concat();
        o.launch(&SOURCE, types, name, Grid::elements(n.div_ceil(FOUR)), &all)
    };
    let state = o.output(1);
    match update.rule {
        Rule::Sgd => run(c"sgd", args![rate, weight_decay, grad_scale, o.input(1)]),
        Rule::Momentum { momentum } => {
            run(c"momentum", args![state, rate, momentum, weight_decay, grad_scale, o.input(1)])
        }
        Rule::Nesterov { momentum } => {
            run(c"nesterov", args![state, rate, momentum, weight_decay, grad_scale, o.input(1)])
        }
        Rule::Lion { beta1, beta2 } => run(c"lion", args![state, rate, decay, beta1, beta2, grad_scale, o.input(1)]),
        Rule::Adam(ref moments) | Rule::AdamW(ref moments) => {
            let c = update.adam(moments, matches!(update.rule, Rule::AdamW(_)));
            let Moments { beta1, beta2, .. } = *moments;
            run(
                c"adam",
                args![state, o.output(2), c.rate, c.decay, c.l2, beta1, beta2, c.epsilon, grad_scale, o.input(1)],
            )
        }
        Rule::AdamW8(_) | Rule::Adafactor { .. } => o.unsupported(),
    }
}

/// Types of the gradient and of the weight.
pub(super) fn types(o: &Operands<'_>) -> [DType; 2] {
    [o.input_type(0), o.output_type(0)]
}

/// The weight's narrower copy among the outputs at `i`, as bf16 or as f16; none where there is no copy of a type that
/// goes with the others.
fn copies(o: &Operands<'_>, i: usize) -> Option<[Pointer; 2]> {
    let copy = o.output(i);
    match (types(o), (i < o.outputs()).then(|| o.output_type(i))) {
        (_, None) => Some([Pointer::default(); 2]),
        ([DType::F32 | DType::Bf16, DType::F32], Some(DType::Bf16)) => Some([copy, Pointer::default()]),
        ([DType::F32 | DType::F16, DType::F32], Some(DType::F16)) => Some([Pointer::default(), copy]),
        _ => None,
    }
}

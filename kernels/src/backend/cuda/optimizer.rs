//! Updates of parameters: the rules that treat every element alike, and the sources of the other rules.
//!
//! The gradient, `T`, may be narrower than the weight, `W`. The weight's narrower copy is written in the same pass.

pub(super) mod adafactor;
pub(super) mod apollo;
pub(super) mod flash;
pub(super) mod four_bit;
pub(super) mod gradient_norm;
pub(super) mod quantised;
pub(super) mod several;

use std::ffi::CStr;

use super::{
    DType, Operands, Source, Types, args,
    launch::{Arg, Grid, Pointer},
};
use crate::{
    backend::ops::{Moments, Optimizer, Update, UpdateRule},
    error::Result,
};

/// The kernels of one parameter.
pub(super) const SOURCE: Source = Source {
    name: "optimizer",
    text: concat!(
        include_str!("optimizer/by_element.cuh"),
        include_str!("optimizer/one.cuh"),
        "#line 1 \"optimizer.cu\"\n",
        include_str!("optimizer.cu")
    ),
    types: Types::ElementAndWeight,
};

/// Elements that a thread takes at once.
const FOUR: usize = 4;

/// Launches a kernel of this family.
pub(super) fn launch(kernel: &Optimizer, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Optimizer::SumSquares => gradient_norm::sum_squares(o),
        Optimizer::SumAllSquares { parts, accumulate } => gradient_norm::sum_all_squares(*parts, *accumulate, o),
        Optimizer::Clip { limit } => gradient_norm::clip(*limit, o),
        Optimizer::Normalise { epsilon } => gradient_norm::normalise(*epsilon, o),
        Optimizer::Update(update) => by_rule(update, o),
        Optimizer::UpdateAll { update, count } => several::launch(update, *count, o),
    }
}

fn by_rule(update: &Update, o: &Operands<'_>) -> Result<()> {
    let state = update.rule.state_layout([o.output_elements(0)].into(), o.output_type(0));
    if state.iter().zip(1..).any(|(spec, i)| i >= o.outputs() || o.output_type(i) != spec.dtype) {
        return o.unsupported();
    }
    let Some(copies) = copies(o, 1 + state.len()) else { return o.unsupported() };
    if o.inputs() > 1 && o.input_type(1) != DType::F64 {
        return o.unsupported();
    }
    match update.rule {
        UpdateRule::AdamW8(moments) => quantised::launch(update, &moments, copies, o),
        UpdateRule::AdamW4 { moments, extents } => four_bit::launch(update, (&moments, &extents), copies, o),
        UpdateRule::FlashAdamW { moments, narrow } => flash::launch(update, (&moments, narrow), copies, o),
        UpdateRule::ApolloMini { moments, extents, key } => {
            apollo::launch(update, (&moments, &extents, key), copies, o)
        }
        UpdateRule::Adafactor { extents, step } => adafactor::launch(update, &extents, step, copies, o),
        UpdateRule::Sgd
        | UpdateRule::Momentum { .. }
        | UpdateRule::Nesterov { .. }
        | UpdateRule::Adam(_)
        | UpdateRule::AdamW(_)
        | UpdateRule::RmsProp { .. }
        | UpdateRule::Lion { .. } => by_element(update, copies, o),
    }
}

fn by_element(update: &Update, copies: [Pointer; 2], o: &Operands<'_>) -> Result<()> {
    let (types, n) = (types(o), o.output_elements(0));
    let Some((name, constants)) = kernel_by_element(update, o.input(1)) else { return o.unsupported() };
    let kept = update.rule.state_layout([n].into(), types[1]).len();
    let state = |i: usize| if i < kept { o.output(1 + i) } else { Pointer::default() };
    let tensors = args![o.input(0), o.output(0), state(0), state(1), copies[0], copies[1], n];
    o.launch(&SOURCE, types, name, Grid::elements(n.div_ceil(FOUR)), &[&tensors[..], &constants].concat())
}

/// The kernel of a rule that goes element by element, and its arguments behind those that tell of tensors; `None` for another
/// rule.
fn kernel_by_element(update: &Update, clip: Pointer) -> Option<(&'static CStr, Vec<Arg>)> {
    let Update { rate, weight_decay, grad_scale, .. } = *update;
    let decay = 1.0 - rate * weight_decay;
    let of = |name, constants: &[Arg]| Some((name, constants.to_vec()));
    match update.rule {
        UpdateRule::Sgd => of(c"sgd", args![rate, weight_decay, grad_scale, clip]),
        UpdateRule::Momentum { momentum } => of(c"momentum", args![rate, momentum, weight_decay, grad_scale, clip]),
        UpdateRule::Nesterov { momentum } => of(c"nesterov", args![rate, momentum, weight_decay, grad_scale, clip]),
        UpdateRule::Lion { beta1, beta2 } => of(c"lion", args![rate, decay, beta1, beta2, grad_scale, clip]),
        UpdateRule::RmsProp { alpha, epsilon } => {
            of(c"rms_prop", args![rate, alpha, epsilon, weight_decay, grad_scale, clip])
        }
        UpdateRule::Adam(ref moments) | UpdateRule::AdamW(ref moments) => {
            let c = update.adam(moments, matches!(update.rule, UpdateRule::AdamW(_)));
            let Moments { beta1, beta2, .. } = *moments;
            of(c"adam", args![c.rate, c.decay, c.l2, beta1, beta2, c.epsilon, grad_scale, clip])
        }
        UpdateRule::AdamW8(_)
        | UpdateRule::AdamW4 { .. }
        | UpdateRule::FlashAdamW { .. }
        | UpdateRule::ApolloMini { .. }
        | UpdateRule::Adafactor { .. } => None,
    }
}

/// Types of the gradient and of the weight.
pub(super) fn types(o: &Operands<'_>) -> [DType; 2] {
    [o.input_type(0), o.output_type(0)]
}

/// The weight's narrower copy among the outputs at `i`, as bf16 or as f16; `None` if there is no copy of a type that goes with
/// the others.
fn copies(o: &Operands<'_>, i: usize) -> Option<[Pointer; 2]> {
    let copy = o.output(i);
    match (types(o), (i < o.outputs()).then(|| o.output_type(i))) {
        (_, None) => Some([Pointer::default(); 2]),
        ([DType::F32 | DType::Bf16, DType::F32], Some(DType::Bf16)) => Some([copy, Pointer::default()]),
        ([DType::F32 | DType::F16, DType::F32], Some(DType::F16)) => Some([Pointer::default(), copy]),
        _ => None,
    }
}

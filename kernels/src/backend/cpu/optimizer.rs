//! The update rules, in one pass over a parameter: read the gradient, update the state and the weight, write the copy.
//!
//! A gradient may be narrower than the weight, or wider than one that has corrections. The weight's narrower copy, where there
//! is one, is written in the same pass, so that it never lags behind. The factored rule reads the gradient three times, because
//! it needs sums over rows and columns before it can step; see its file.

mod adafactor;
mod apollo;
mod clip;
mod flash;
mod four_bit;
pub(in crate::backend::cpu) mod quantised;
mod several;

use half::{bf16, f16};

use super::{
    by_type::by_float,
    float::{Accumulator, Float},
    operands::Operands,
    parallel,
    simd::simd,
};
use crate::{
    backend::{
        DType,
        ops::{AdamConstants, Moments, NarrowWeight, Optimizer, Rows, Update, UpdateRule},
    },
    error::Result,
};

/// The divisor of shares of a block's `scale`: any number for a block of zeros.
#[inline(always)]
fn unit(scale: f32) -> f32 {
    if scale > 0.0 { scale } else { 1.0 }
}

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Optimizer, o: &Operands<'_>) -> Result<()> {
    match kernel {
        Optimizer::SumSquares => by_float!(o.input_type(0), T => {
            clip::sum_squares::<T>(&o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
        Optimizer::SumAllSquares { accumulate, .. } => several::sum_squares(*accumulate, o),
        Optimizer::Clip { limit } => {
            o.output::<f64>(0)?[0] = clip::factor(*limit, o.input::<f64>(0)?[0]);
            Ok(())
        }
        Optimizer::Normalise { epsilon } => {
            let factor = 1.0 / (o.input::<f64>(0)?[0].sqrt() + epsilon);
            by_float!(o.output_type(0), T => {
                clip::scale::<T>(factor, &mut o.output(0)?);
                Ok(())
            }, else o.unsupported())
        }
        Optimizer::Update(update) => by_types(update, o),
        Optimizer::UpdateAll { update, count } => several::update(update, *count, o),
    }
}

/// Runs [`Optimizer::Update`](crate::backend::ops::Optimizer::Update).
fn by_types(update: &Update, o: &Operands<'_>) -> Result<()> {
    let state = update.rule.state_layout([o.output_elements(0)].into(), o.output_type(0)).len();
    let copy = (o.outputs() > 1 + state).then_some(1 + state);
    use DType::{Bf16, F16, F32, F64};
    match (o.output_type(0), o.input_type(0), copy.map(|i| o.output_type(i))) {
        (F64, F64, None) => typed::<f64, f64, f64>(update, o, None),
        (F32, F32, None) => typed::<f32, f32, f32>(update, o, None),
        (F32, F32, Some(Bf16)) => typed::<f32, f32, bf16>(update, o, copy),
        (F32, F32, Some(F16)) => typed::<f32, f32, f16>(update, o, copy),
        (F32, Bf16, None) => typed::<f32, bf16, bf16>(update, o, None),
        (F32, Bf16, Some(Bf16)) => typed::<f32, bf16, bf16>(update, o, copy),
        (F32, F16, None) => typed::<f32, f16, f16>(update, o, None),
        (F32, F16, Some(F16)) => typed::<f32, f16, f16>(update, o, copy),
        (Bf16, Bf16, None) => typed::<bf16, bf16, bf16>(update, o, None),
        (F16, F16, None) => typed::<f16, f16, f16>(update, o, None),
        (Bf16, F32, None) => typed::<bf16, f32, bf16>(update, o, None),
        (F16, F32, None) => typed::<f16, f32, f16>(update, o, None),
        _ => o.unsupported(),
    }
}

/// Runs a rule, with the weight's narrower copy among the outputs at `copy`.
fn typed<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
    update: &Update,
    o: &Operands<'_>,
    copy: Option<usize>,
) -> Result<()> {
    let mut update = *update;
    if o.inputs() > 1 {
        update.grad_scale *= o.input::<f64>(1)?[0];
    }
    let update = &update;
    let (grad, mut weight) = (o.input::<G>(0)?, o.output::<W>(0)?);
    let mut copy = copy.map(|i| o.output::<C>(i)).transpose()?;
    let copy = copy.as_deref_mut();
    match Pass::<W::Acc>::of(update) {
        Pass::ByElement(rule) => {
            let layout = update.rule.state_layout([weight.len()].into(), o.output_type(0));
            let state = |i: usize| (i < layout.len()).then(|| o.output::<W>(1 + i)).transpose();
            let (mut first, mut second) = (state(0)?, state(1)?);
            let states = [first.as_deref_mut().unwrap_or_default(), second.as_deref_mut().unwrap_or_default()];
            by_element(rule, &grad, &mut weight, states, copy);
        }
        Pass::Quantised(moments) => {
            let mut first = (o.bytes(1)?, o.output::<f32>(2)?);
            let mut second = (o.bytes(3)?, o.output::<f32>(4)?);
            let states = [(&mut *first.0, &mut *first.1), (&mut *second.0, &mut *second.1)];
            quantised::adamw(update, &moments, &grad, &mut weight, states, copy);
        }
        Pass::FourBit(moments, extents) => {
            with_four_bits(o, &extents, |states| {
                four_bit::adamw(update, (&moments, &extents), &grad, &mut weight, states, copy);
            })?;
        }
        Pass::Flash(moments, narrow) => {
            with_flash(o, narrow, |states| flash::adamw(update, &moments, &grad, &mut weight, states, copy))?;
        }
        Pass::Projected { moments, extents, key } => {
            let (mut first, mut second) = (o.output::<W::Acc>(1)?, o.output::<W::Acc>(2)?);
            let mut norm = o.output::<W::Acc>(3)?;
            let projected = apollo::ApolloMini { extents, moments, key, update };
            projected.step(&grad, &mut weight, [&mut first, &mut second, &mut norm], copy);
        }
        Pass::Factored { extents, step } => {
            let factored = adafactor::Adafactor { extents, step, update };
            if extents.rows == 1 {
                factored.vector(&grad, &mut weight, &mut o.output::<W::Acc>(1)?, copy);
            } else {
                let means = [&mut *o.output::<W::Acc>(1)?, &mut *o.output::<W::Acc>(2)?];
                factored.matrix(&grad, &mut weight, means, copy);
            }
        }
    }
    Ok(())
}

/// Runs `f` on the states of the rule with moments in 4 bits.
fn with_four_bits(o: &Operands<'_>, extents: &Rows, f: impl FnOnce(four_bit::States<'_>)) -> Result<()> {
    let (mut first, mut first_scales) = (o.bytes(1)?, o.output::<f32>(2)?);
    let (mut second, mut scales) = (o.bytes(3)?, o.output::<f32>(4)?);
    let mut by_column = (extents.rows > 1).then(|| o.output::<f32>(5)).transpose()?;
    f(four_bit::States {
        first: (&mut first, &mut first_scales),
        second: &mut second,
        scales: (&mut scales, by_column.as_deref_mut()),
    });
    Ok(())
}

/// Runs `f` on the states of FlashAdamW, whose weight may be kept in a narrower type.
fn with_flash(o: &Operands<'_>, narrow: Option<NarrowWeight>, f: impl FnOnce(flash::States<'_>)) -> Result<()> {
    let (mut first, mut first_scales) = (o.bytes(1)?, o.output::<f16>(2)?);
    let (mut second, mut second_scales) = (o.bytes(3)?, o.output::<f16>(4)?);
    let mut corrections = narrow.map(|_| o.bytes(5)).transpose()?;
    f(flash::States {
        first: (&mut first, &mut first_scales),
        second: (&mut second, &mut second_scales),
        corrections: narrow.zip(corrections.as_deref_mut()),
    });
    Ok(())
}

/// How a rule goes over a parameter.
#[derive(Debug, Clone, Copy)]
enum Pass<A> {
    ByElement(Elementwise<A>),
    /// A rule whose states are blocks of codes.
    Quantised(Moments),
    /// A rule whose states are blocks of pairs of codes.
    FourBit(Moments, Rows),
    /// A rule whose states are groups of codes.
    Flash(Moments, Option<NarrowWeight>),
    /// A rule whose states are the gradient's part in one direction.
    Projected {
        moments: Moments,
        extents: Rows,
        key: u64,
    },
    /// A rule whose states are means over rows and columns.
    Factored {
        extents: Rows,
        step: u64,
    },
}

/// A rule that treats every element alike, with its constants in the type of arithmetic.
#[derive(Debug, Clone, Copy)]
enum Elementwise<A> {
    Sgd { rate: A, weight_decay: A, grad_scale: A },
    Momentum { rate: A, momentum: A, weight_decay: A, grad_scale: A },
    Nesterov { rate: A, momentum: A, weight_decay: A, grad_scale: A },
    Lion { rate: A, decay: A, beta1: [A; 2], beta2: [A; 2], grad_scale: A },
    RmsProp { rate: A, alpha: [A; 2], epsilon: A, weight_decay: A, grad_scale: A },
    Adam(Adam<A>),
}

/// Adam with either weight decay.
#[derive(Debug, Clone, Copy)]
struct Adam<A> {
    rate: A,
    decay: A,
    l2: A,
    beta1: [A; 2],
    beta2: [A; 2],
    epsilon: A,
    grad_scale: A,
}

impl<A: Accumulator> Adam<A> {
    fn new(update: &Update, moments: &Moments, is_decoupled: bool) -> Self {
        let (c, Moments { beta1, beta2, .. }) = (A::from_f64, *moments);
        let AdamConstants { rate, decay, l2, epsilon } = update.adam(moments, is_decoupled);
        Self {
            rate: c(rate),
            decay: c(decay),
            l2: c(l2),
            beta1: [c(beta1), c(1.0 - beta1)],
            beta2: [c(beta2), c(1.0 - beta2)],
            epsilon: c(epsilon),
            grad_scale: c(update.grad_scale),
        }
    }
}

impl<A: Accumulator> Pass<A> {
    /// The kernel of an update. Every rule is named, so that a new one cannot be forgotten.
    fn of(update: &Update) -> Self {
        let c = A::from_f64;
        let (rate, weight_decay, grad_scale) = (c(update.rate), c(update.weight_decay), c(update.grad_scale));
        Self::ByElement(match update.rule {
            UpdateRule::Sgd => Elementwise::Sgd { rate, weight_decay, grad_scale },
            UpdateRule::Momentum { momentum } => {
                Elementwise::Momentum { rate, momentum: c(momentum), weight_decay, grad_scale }
            }
            UpdateRule::Nesterov { momentum } => {
                Elementwise::Nesterov { rate, momentum: c(momentum), weight_decay, grad_scale }
            }
            UpdateRule::Lion { beta1, beta2 } => Elementwise::Lion {
                rate,
                decay: c(1.0 - update.rate * update.weight_decay),
                beta1: [c(beta1), c(1.0 - beta1)],
                beta2: [c(beta2), c(1.0 - beta2)],
                grad_scale,
            },
            UpdateRule::RmsProp { alpha, epsilon } => Elementwise::RmsProp {
                rate,
                alpha: [c(alpha), c(1.0 - alpha)],
                epsilon: c(epsilon),
                weight_decay,
                grad_scale,
            },
            UpdateRule::Adam(moments) => Elementwise::Adam(Adam::new(update, &moments, false)),
            UpdateRule::AdamW(moments) => Elementwise::Adam(Adam::new(update, &moments, true)),
            UpdateRule::AdamW8(moments) => return Self::Quantised(moments),
            UpdateRule::AdamW4 { moments, extents } => return Self::FourBit(moments, extents),
            UpdateRule::FlashAdamW { moments, narrow } => return Self::Flash(moments, narrow),
            UpdateRule::ApolloMini { moments, extents, key } => return Self::Projected { moments, extents, key },
            UpdateRule::Adafactor { extents, step } => return Self::Factored { extents, step },
        })
    }
}

/// Applies `rule` to a parameter; a tensor of `states` that the rule does not have is empty.
fn by_element<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
    rule: Elementwise<W::Acc>,
    grad: &[G],
    weight: &mut [W],
    states: [&mut [W]; 2],
    copy: Option<&mut [C]>,
) {
    let length = weight.len();
    let states = states.map(|state| {
        let per_element = usize::from(!state.is_empty());
        parallel::rows(state, per_element)
    });
    let of = ((parallel::rows(weight, 1), copy.map(|copy| parallel::rows(copy, 1))), states);
    parallel::ranges(length, 1, of, |range, ((weight, copy), [first, second])| {
        let grad = &grad[range];
        match rule {
            Elementwise::Sgd { rate, weight_decay, grad_scale } => sgd(rate, weight_decay, grad_scale, grad, weight),
            Elementwise::Momentum { rate, momentum, weight_decay, grad_scale } => {
                momentum_sgd(rate, momentum, weight_decay, grad_scale, grad, weight, first);
            }
            Elementwise::Nesterov { rate, momentum, weight_decay, grad_scale } => {
                nesterov(rate, momentum, weight_decay, grad_scale, grad, weight, first);
            }
            Elementwise::Lion { rate, decay, beta1, beta2, grad_scale } => {
                lion(rate, decay, beta1, beta2, grad_scale, grad, weight, first);
            }
            Elementwise::RmsProp { rate, alpha, epsilon, weight_decay, grad_scale } => {
                rms_prop(rate, alpha, epsilon, weight_decay, grad_scale, grad, weight, first);
            }
            Elementwise::Adam(constants) => adam(constants, grad, weight, first, second),
        }
        if let Some(copy) = copy {
            write_copy(weight, copy);
        }
    });
}

simd! {
    fn sgd [W: Float, G: Float<Acc = W::Acc>] (
        rate: W::Acc, weight_decay: W::Acc, grad_scale: W::Acc, grad: &[G], weight: &mut [W],
    ) {
        for (w, g) in weight.iter_mut().zip(grad) {
            let before = w.up();
            *w = W::down(before - rate * (grad_scale * g.up() + weight_decay * before));
        }
    }

    fn momentum_sgd [W: Float, G: Float<Acc = W::Acc>] (
        rate: W::Acc, momentum: W::Acc, weight_decay: W::Acc, grad_scale: W::Acc,
        grad: &[G], weight: &mut [W], velocity: &mut [W],
    ) {
        for ((w, v), g) in weight.iter_mut().zip(velocity).zip(grad) {
            let before = w.up();
            let next = momentum * v.up() + (grad_scale * g.up() + weight_decay * before);
            *v = W::down(next);
            *w = W::down(before - rate * next);
        }
    }

    fn nesterov [W: Float, G: Float<Acc = W::Acc>] (
        rate: W::Acc, momentum: W::Acc, weight_decay: W::Acc, grad_scale: W::Acc,
        grad: &[G], weight: &mut [W], velocity: &mut [W],
    ) {
        for ((w, v), g) in weight.iter_mut().zip(velocity).zip(grad) {
            let before = w.up();
            let g = grad_scale * g.up() + weight_decay * before;
            let next = momentum * v.up() + g;
            *v = W::down(next);
            *w = W::down(before - rate * (g + momentum * next));
        }
    }

    fn lion [W: Float, G: Float<Acc = W::Acc>] (
        rate: W::Acc, decay: W::Acc, beta1: [W::Acc; 2], beta2: [W::Acc; 2], grad_scale: W::Acc,
        grad: &[G], weight: &mut [W], momentum: &mut [W],
    ) {
        for ((w, m), g) in weight.iter_mut().zip(momentum).zip(grad) {
            let (g, before) = (grad_scale * g.up(), m.up());
            let direction = beta1[0] * before + beta1[1] * g;
            let zero = W::Acc::ZERO;
            let up = if direction > zero { rate } else { zero };
            let step = if direction < zero { zero - rate } else { up };
            *m = W::down(beta2[0] * before + beta2[1] * g);
            *w = W::down(decay * w.up() - step);
        }
    }

    fn rms_prop [W: Float, G: Float<Acc = W::Acc>] (
        rate: W::Acc, alpha: [W::Acc; 2], epsilon: W::Acc, weight_decay: W::Acc, grad_scale: W::Acc,
        grad: &[G], weight: &mut [W], squares: &mut [W],
    ) {
        for ((w, v), g) in weight.iter_mut().zip(squares).zip(grad) {
            let before = w.up();
            let g = grad_scale * g.up() + weight_decay * before;
            let square = alpha[0] * v.up() + alpha[1] * (g * g);
            *v = W::down(square);
            *w = W::down(before - rate * g / (square.sqrt() + epsilon));
        }
    }

    fn adam [W: Float, G: Float<Acc = W::Acc>] (
        constants: Adam<W::Acc>, grad: &[G], weight: &mut [W], first: &mut [W], second: &mut [W],
    ) {
        let Adam { rate, decay, l2, beta1, beta2, epsilon, grad_scale } = constants;
        for (((w, m), v), g) in weight.iter_mut().zip(first).zip(second).zip(grad) {
            let before = w.up();
            let g = grad_scale * g.up() + l2 * before;
            let mean = beta1[0] * m.up() + beta1[1] * g;
            let square = beta2[0] * v.up() + beta2[1] * (g * g);
            *m = W::down(mean);
            *v = W::down(square);
            *w = W::down(decay * before - rate * mean / (square.sqrt() + epsilon));
        }
    }

    fn write_copy [W: Float, C: Float<Acc = W::Acc>] (weight: &[W], copy: &mut [C]) {
        for (c, w) in copy.iter_mut().zip(weight) {
            *c = C::down(w.up());
        }
    }
}

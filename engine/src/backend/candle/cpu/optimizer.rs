//! The update rules, in one pass over a parameter: read the gradient, update the state and the weight, write the copy.
//!
//! A gradient may be narrower than the weight. The weight's narrower copy, where there is one, is written in the same
//! pass, so that it never lags behind.

use super::{
    float::{Accumulator, Float},
    parallel::{self, Shared},
    simd::simd,
};
use crate::backend::Kernel;

/// A rule with its constants in the type of arithmetic.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule<A> {
    /// [`Kernel::Sgd`].
    Sgd { rate: A, weight_decay: A, grad_scale: A },
    /// [`Kernel::Momentum`].
    Momentum { rate: A, momentum: A, weight_decay: A, grad_scale: A },
    /// [`Kernel::Nesterov`].
    Nesterov { rate: A, momentum: A, weight_decay: A, grad_scale: A },
    /// [`Kernel::Lion`].
    Lion { rate: A, decay: A, beta1: [A; 2], beta2: [A; 2], grad_scale: A },
    /// [`Kernel::AdamW`], or with `l2` [`Kernel::Adam`].
    AdamW { rate: A, decay: A, l2: A, beta1: [A; 2], beta2: [A; 2], epsilon: A, grad_scale: A },
}

impl<A: Accumulator> Rule<A> {
    /// Of a kernel, if it is an optimizer's.
    pub(super) fn of(kernel: &Kernel) -> Option<Self> {
        let c = A::from_f64;
        Some(match *kernel {
            Kernel::Sgd { rate, weight_decay, grad_scale } => {
                Self::Sgd { rate: c(rate), weight_decay: c(weight_decay), grad_scale: c(grad_scale) }
            }
            Kernel::Momentum { rate, momentum, weight_decay, grad_scale } => Self::Momentum {
                rate: c(rate),
                momentum: c(momentum),
                weight_decay: c(weight_decay),
                grad_scale: c(grad_scale),
            },
            Kernel::Nesterov { rate, momentum, weight_decay, grad_scale } => Self::Nesterov {
                rate: c(rate),
                momentum: c(momentum),
                weight_decay: c(weight_decay),
                grad_scale: c(grad_scale),
            },
            Kernel::Lion { rate, beta1, beta2, weight_decay, grad_scale } => Self::Lion {
                rate: c(rate),
                decay: c(1.0 - rate * weight_decay),
                beta1: [c(beta1), c(1.0 - beta1)],
                beta2: [c(beta2), c(1.0 - beta2)],
                grad_scale: c(grad_scale),
            },
            Kernel::AdamW { rate, beta1, beta2, epsilon, weight_decay, grad_scale, step }
            | Kernel::Adam { rate, beta1, beta2, epsilon, weight_decay, grad_scale, step } => {
                let decoupled = matches!(kernel, Kernel::AdamW { .. });
                // rate * (m / c1) / (sqrt(v / c2) + e) = (rate * sqrt(c2) / c1) * m / (sqrt(v) + e * sqrt(c2))
                let step = i32::try_from(step).unwrap_or(i32::MAX);
                let (c1, c2) = (1.0 - beta1.powi(step), (1.0 - beta2.powi(step)).sqrt());
                Self::AdamW {
                    rate: c(rate * c2 / c1),
                    decay: c(if decoupled { 1.0 - rate * weight_decay } else { 1.0 }),
                    l2: c(if decoupled { 0.0 } else { weight_decay }),
                    beta1: [c(beta1), c(1.0 - beta1)],
                    beta2: [c(beta2), c(1.0 - beta2)],
                    epsilon: c(epsilon * c2),
                    grad_scale: c(grad_scale),
                }
            }
            _ => return None,
        })
    }

    /// How many tensors of state it keeps.
    pub(super) fn states(&self) -> usize {
        match self {
            Self::Sgd { .. } => 0,
            Self::Momentum { .. } | Self::Nesterov { .. } | Self::Lion { .. } => 1,
            Self::AdamW { .. } => 2,
        }
    }
}

/// Applies `rule` to a parameter; `states` as many as the rule keeps.
pub(super) fn update<W: Float, G: Float<Acc = W::Acc>, C: Float<Acc = W::Acc>>(
    rule: Rule<W::Acc>,
    grad: &[G],
    weight: &mut [W],
    states: [&mut [W]; 2],
    copy: Option<&mut [C]>,
) {
    let (length, weight) = (weight.len(), Shared::new(weight));
    let states = states.map(Shared::new);
    let copy = copy.map(Shared::new);
    parallel::ranges(length, 1, |range| {
        let grad = &grad[range.clone()];
        let kept = rule.states();
        let part = |i: usize| if i < kept { range.clone() } else { 0..0 };
        // SAFETY: ranges are disjoint.
        let (weight, first, second) = unsafe {
            let first = states[0].part(part(0));
            (weight.part(range.clone()), first, states[1].part(part(1)))
        };
        match rule {
            Rule::Sgd { rate, weight_decay, grad_scale } => sgd(rate, weight_decay, grad_scale, grad, weight),
            Rule::Momentum { rate, momentum, weight_decay, grad_scale } => {
                momentum_sgd(rate, momentum, weight_decay, grad_scale, grad, weight, first);
            }
            Rule::Nesterov { rate, momentum, weight_decay, grad_scale } => {
                nesterov(rate, momentum, weight_decay, grad_scale, grad, weight, first);
            }
            Rule::Lion { rate, decay, beta1, beta2, grad_scale } => {
                lion(rate, decay, beta1, beta2, grad_scale, grad, weight, first);
            }
            Rule::AdamW { rate, decay, l2, beta1, beta2, epsilon, grad_scale } => {
                adamw(rate, decay, l2, beta1, beta2, epsilon, grad_scale, grad, weight, first, second);
            }
        }
        if let Some(copy) = &copy {
            // SAFETY: ranges are disjoint.
            write_copy(weight, unsafe { copy.part(range) });
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

    fn adamw [W: Float, G: Float<Acc = W::Acc>] (
        rate: W::Acc, decay: W::Acc, l2: W::Acc, beta1: [W::Acc; 2], beta2: [W::Acc; 2], epsilon: W::Acc, grad_scale: W::Acc,
        grad: &[G], weight: &mut [W], first: &mut [W], second: &mut [W],
    ) {
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

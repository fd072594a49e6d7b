//! Optimizers: in place, without temporaries of a parameter's size, except for Muon, whose products need some. A kernel updates
//! a parameter, or on a GPU as many as it can.

mod muon;
mod prune;
mod together;

pub use prune::{Pruning, Stripped, Zeros};
use smallvec::SmallVec;
pub use together::update_all;

use crate::{
    backend::{
        Backend, Executor, Shape, Tensor,
        ops::{self, Moments, NarrowWeight, Rows, StateLayout, UpdateRule},
    },
    error::Result,
    experiment::{self, OptimizerKind},
    nn::{Param, ParamUse},
    rng::{Rng, Stream},
    tensor::DType,
};

/// Elements below which AdamW with codes keeps a parameter's moments as AdamW does: small tensors save little, and a few wrong
/// values weigh more in them (the programs of both papers have the same number).
const QUANTISED_FROM: usize = 4096;

/// Updates after which APOLLO-Mini sees gradients in another direction (the paper has the same number).
const DIRECTION_UPDATES: u64 = 200;

/// The inputs of one update in addition to the experiment's choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Learning rate of this step.
    pub rate: f64,
    /// Multiplies every gradient: undoes loss scaling.
    pub grad_scale: f64,
    /// Updates done, this one included.
    pub step: u64,
}

/// The operands of an update, which mostly take no allocation: a model of many layers has tens of thousands of updates.
type Operands<'a, B> = SmallVec<[&'a Tensor<B>; 8]>;

/// Updates one parameter from its gradient, which is freed. The optimizer's state is allocated at the first update.
/// `clip [1]`, where gradients are clipped, is the result of [`Executor::clip_scale`].
///
/// # Errors
/// Fails when the state would cross the budget at the first update ([`Error::Budget`](crate::error::Error::Budget)) or
/// when the device fails.
pub fn update<B: Backend>(
    executor: &Executor<B>,
    choice: &experiment::Optimizer,
    param: &Param<B>,
    update: Update,
    clip: Option<&Tensor<B>>,
) -> Result<()> {
    let Some(gradient) = param.take_gradient() else { return Ok(()) };
    let _layer = executor.enter(param.layer());
    let rule = rule(choice, param, update.step);
    let state = param.state(executor, || rule.state_layout(param.weight().shape(), param.master().dtype()))?;
    if is_orthogonal(choice, param) {
        return muon::update(executor, choice, param, update, (gradient, clip));
    }
    let Update { rate, grad_scale, .. } = update;
    let kernel = ops::Optimizer::Update(ops::Update { rule, rate, weight_decay: choice.weight_decay, grad_scale });
    let outputs: Operands<'_, B> = [param.master()].into_iter().chain(&*state).chain(param.copy()).collect();
    let inputs: Operands<'_, B> = [&gradient].into_iter().chain(clip).collect();
    executor.launch(kernel, &inputs, &outputs)
}

/// The tensors of state that the optimizer keeps for a parameter.
pub fn state_layout<B: Backend>(choice: &experiment::Optimizer, param: &Param<B>) -> StateLayout {
    rule(choice, param, 1).state_layout(param.weight().shape(), param.master().dtype())
}

/// The rule of a parameter at update `step`.
fn rule<B: Backend>(choice: &experiment::Optimizer, param: &Param<B>, step: u64) -> UpdateRule {
    let (kind, shape) = (choice.kind, param.weight().shape());
    let is_small = shape.elements() < QUANTISED_FROM;
    let is_as_adamw = match kind {
        OptimizerKind::Adamw8bit | OptimizerKind::Adamw4bit => is_small,
        OptimizerKind::Muon => !is_orthogonal(choice, param),
        OptimizerKind::ApolloMini => !is_hidden_matrix(param),
        OptimizerKind::Sgd
        | OptimizerKind::Momentum
        | OptimizerKind::Nesterov
        | OptimizerKind::Rmsprop
        | OptimizerKind::Adam
        | OptimizerKind::Adamw
        | OptimizerKind::FlashAdamw
        | OptimizerKind::Adafactor
        | OptimizerKind::Lion => false,
    };
    let kind = if is_as_adamw { OptimizerKind::Adamw } else { kind };
    let key = Rng::new(param.key(), Stream::Projection, step.saturating_sub(1) / DIRECTION_UPDATES).key();
    of_kind(kind, choice, (shape, param.master().dtype(), key), step)
}

/// Whether Muon makes a parameter's steps orthogonal. The extents do not decide it: a matrix that loses all channels but one
/// keeps its momentum.
fn is_orthogonal<B: Backend>(choice: &experiment::Optimizer, param: &Param<B>) -> bool {
    choice.kind == OptimizerKind::Muon && param.used_as() == ParamUse::HiddenMatrix
}

/// Whether a parameter is the matrix of a hidden layer. One of a single row or column is a vector.
fn is_hidden_matrix<B: Backend>(param: &Param<B>) -> bool {
    param.used_as() == ParamUse::HiddenMatrix && matrix(param.weight().shape()).rows > 1
}

/// The rule of one kind for parameters that are updated in `dtype`, with the constants of `choice`; for Muon, the rule of its
/// momentum. Its random numbers come from `key`.
pub(crate) fn of_kind(
    kind: OptimizerKind,
    choice: &experiment::Optimizer,
    (shape, dtype, key): (Shape, DType, u64),
    step: u64,
) -> UpdateRule {
    let (momentum, beta1, beta2) = (choice.momentum, choice.beta1, choice.beta2);
    let moments = Moments { beta1, beta2, epsilon: choice.epsilon, step };
    match kind {
        OptimizerKind::Sgd => UpdateRule::Sgd,
        OptimizerKind::Momentum => UpdateRule::Momentum { momentum },
        OptimizerKind::Nesterov | OptimizerKind::Muon => UpdateRule::Nesterov { momentum },
        OptimizerKind::Lion => UpdateRule::Lion { beta1, beta2 },
        OptimizerKind::Rmsprop => UpdateRule::RmsProp { alpha: beta2, epsilon: choice.epsilon },
        OptimizerKind::Adam => UpdateRule::Adam(moments),
        OptimizerKind::Adamw => UpdateRule::AdamW(moments),
        OptimizerKind::Adamw8bit => UpdateRule::AdamW8(moments),
        OptimizerKind::Adamw4bit => UpdateRule::AdamW4 { moments, extents: matrix(shape) },
        OptimizerKind::FlashAdamw => UpdateRule::FlashAdamW { moments, narrow: NarrowWeight::of(dtype) },
        OptimizerKind::ApolloMini => UpdateRule::ApolloMini { moments, extents: matrix(shape), key },
        OptimizerKind::Adafactor => UpdateRule::Adafactor { extents: matrix(shape), step },
    }
}

/// A weight as a matrix: a convolution's as `[filters, taps]`, any other's as rows of its last extent. A matrix with a
/// single row or column is a vector: one row.
fn matrix(shape: Shape) -> Rows {
    let columns = match shape.dims() {
        [filters, _, _, _] => shape.elements() / filters.max(&1),
        _ => shape.last(),
    };
    let rows = shape.elements() / columns.max(1);
    if rows == 1 || columns == 1 { Rows { rows: 1, columns: shape.elements() } } else { Rows { rows, columns } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::Cpu,
        experiment::Precision,
        memory::{Category, Ledger},
    };

    /// With a constant gradient `g`, `v` after `t` updates is `(1 - alpha^t) g²`, so that every step has a closed form
    /// in which `g` is its sign alone.
    #[test]
    fn rmsprop_follows_its_closed_form() {
        let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
        let tensor = |value: f64, category| executor.filled(value, [3], DType::F64, category, "x").expect("no budget");
        let choice = experiment::Optimizer { beta2: 0.9, epsilon: 1e-8, ..experiment::Optimizer::default() };
        let (weight, squares) = (tensor(0.5, Category::Parameters), tensor(0.0, Category::OptimizerState));
        let mut wanted = 0.5;
        for step in 1..=20 {
            let rule = of_kind(OptimizerKind::Rmsprop, &choice, (weight.shape(), DType::F64, 0), step);
            assert_eq!(rule.state_layout(weight.shape(), DType::F64).len(), 1);
            let update = ops::Update { rule, rate: 0.01, weight_decay: 0.0, grad_scale: 0.5 };
            let gradient = tensor(-4.0, Category::Gradients);
            executor.launch(ops::Optimizer::Update(update), &[&gradient], &[&weight, &squares]).expect("a rule");
            let root = 2.0 * (1.0 - 0.9_f64.powi(step as i32)).sqrt();
            wanted += 0.01 * 2.0 / (root + 1e-8);
            for found in executor.backend().read(&weight).expect("here").expect("numbers") {
                assert!((found - wanted).abs() < 1e-12, "{step}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn a_weight_is_a_matrix_of_filters_or_of_rows_and_a_vector_else() {
        let extents = |shape: Shape| (matrix(shape).rows, matrix(shape).columns);
        assert_eq!(extents([64, 3, 3, 16].into()), (64, 144));
        assert_eq!(extents([3, 3, 16].into()), (9, 16));
        assert_eq!(extents([10, 64].into()), (10, 64));
        assert_eq!(extents([64].into()), (1, 64));
        assert_eq!(extents([64, 1].into()), (1, 64));
    }

    #[test]
    fn the_page_of_choices_tells_the_bytes_of_state_of_every_rule() {
        let shape = Shape::from([4096, 4096]);
        let page = include_str!("../../CHOICES.md");
        let bytes = |kind: OptimizerKind| -> usize {
            let layout = of_kind(kind, &experiment::Optimizer::default(), (shape, DType::F32, 0), 1)
                .state_layout(shape, DType::F32);
            layout.iter().map(|spec| spec.shape.elements() * spec.dtype.size()).sum()
        };
        for kind in OptimizerKind::ALL {
            let told = format!("| {:.3} |", bytes(kind) as f64 / shape.elements() as f64);
            let rule = format!("`{}`", kind.key());
            let is_told = page
                .lines()
                .any(|line| line.strip_prefix("| ").is_some_and(|line| line.contains(&rule) && line.ends_with(&told)));
            assert!(is_told, "the page lacks {rule} {told}");
        }
    }

    #[test]
    fn the_page_of_choices_tells_all_bytes_of_a_parameter_with_corrections_and_without() {
        let (shape, page) = (Shape::from([4096, 4096]), include_str!("../../CHOICES.md"));
        let choice = experiment::Optimizer::default();
        for kind in [OptimizerKind::Adamw, OptimizerKind::FlashAdamw] {
            let held = |precision: Precision| {
                let has_copy = precision.has_master_weights() && !kind.corrects_weights();
                let updated = if kind.corrects_weights() { precision.compute() } else { precision.master() };
                let layout = of_kind(kind, &choice, (shape, updated, 0), 1).state_layout(shape, updated);
                let state: usize = layout.iter().map(|spec| spec.shape.elements() * spec.dtype.size()).sum();
                let weights = precision.compute().size() + if has_copy { precision.master().size() } else { 0 };
                weights as f64 + state as f64 / shape.elements() as f64
            };
            let of = |precision: Precision| held(precision) + precision.master().size() as f64;
            let [all, mixed, narrow] = [Precision::F32, Precision::Bf16Mixed, Precision::Bf16].map(of);
            let last = held(Precision::Bf16);
            let told = format!("| all of `{}` | {all:.3} | {mixed:.3} | {narrow:.3} | {last:.3} |", kind.key());
            assert!(page.contains(&told), "the page lacks {told}");
        }
    }
}

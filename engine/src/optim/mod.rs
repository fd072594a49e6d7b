//! Optimizers: in place, one kernel a parameter, no temporaries.

use crate::{
    backend::{Backend, Executor, Kernel, Tensor},
    error::Result,
    experiment::{self, OptimizerKind},
    nn::Param,
};

/// What one update needs beside the experiment's choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Learning rate of this step.
    pub rate: f64,
    /// Multiplies every gradient: undoes loss scaling and applies clipping.
    pub grad_scale: f64,
    /// Updates done, this one included.
    pub step: u64,
}

/// Names of the tensors an optimizer keeps beside each parameter.
fn state_names(kind: OptimizerKind) -> &'static [&'static str] {
    match kind {
        OptimizerKind::Sgd => &[],
        OptimizerKind::Momentum => &["velocity"],
        OptimizerKind::Adamw => &["first moment", "second moment"],
    }
}

/// Updates one parameter from its gradient, which is freed. The optimizer's state is born at the first update.
pub fn update<B: Backend>(
    executor: &Executor<B>,
    choice: &experiment::Optimizer,
    param: &Param<B>,
    update: Update,
) -> Result<()> {
    let Some(gradient) = param.take_gradient() else { return Ok(()) };
    let _layer = executor.enter(param.layer());
    let state = param.state(executor, state_names(choice.kind))?;
    let Update { rate, grad_scale, step } = update;
    let weight_decay = choice.weight_decay;
    let kernel = match choice.kind {
        OptimizerKind::Sgd => Kernel::Sgd { rate, weight_decay, grad_scale },
        OptimizerKind::Momentum => Kernel::Momentum { rate, momentum: choice.momentum, weight_decay, grad_scale },
        OptimizerKind::Adamw => {
            let (beta1, beta2, epsilon) = (choice.beta1, choice.beta2, choice.epsilon);
            Kernel::AdamW { rate, beta1, beta2, epsilon, weight_decay, grad_scale, step }
        }
    };
    let outputs: Vec<&Tensor<B>> = [param.master()].into_iter().chain(&state).chain(param.copy()).collect();
    executor.launch(kernel, &[&gradient], &outputs)
}

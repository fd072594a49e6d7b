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
        OptimizerKind::Momentum | OptimizerKind::Nesterov => &["velocity"],
        OptimizerKind::Lion => &["momentum"],
        OptimizerKind::Adam | OptimizerKind::Adamw => &["first moment", "second moment"],
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
    let (weight_decay, momentum) = (choice.weight_decay, choice.momentum);
    let (beta1, beta2, epsilon) = (choice.beta1, choice.beta2, choice.epsilon);
    let kernel = match choice.kind {
        OptimizerKind::Sgd => Kernel::Sgd { rate, weight_decay, grad_scale },
        OptimizerKind::Momentum => Kernel::Momentum { rate, momentum, weight_decay, grad_scale },
        OptimizerKind::Nesterov => Kernel::Nesterov { rate, momentum, weight_decay, grad_scale },
        OptimizerKind::Lion => Kernel::Lion { rate, beta1, beta2, weight_decay, grad_scale },
        OptimizerKind::Adam => Kernel::Adam { rate, beta1, beta2, epsilon, weight_decay, grad_scale, step },
        OptimizerKind::Adamw => Kernel::AdamW { rate, beta1, beta2, epsilon, weight_decay, grad_scale, step },
    };
    let outputs: Vec<&Tensor<B>> = [param.master()].into_iter().chain(&state).chain(param.copy()).collect();
    executor.launch(kernel, &[&gradient], &outputs)
}

//! The update of the parameters, at once or layer by layer, and the pruning after it.

use super::Session;
use crate::{
    backend::{Backend, DType, Tensor, ops::Elementwise},
    error::Result,
    experiment::UpdateTime,
    memory::{Category, Phase, timeline::LayerId},
    models::FactoredSize,
    nn::Param,
    optim::{self, Stripped},
};

impl<B: Backend> Session<B> {
    /// Adds the square of a parameter's gradient to the sum: infinite or NaN when any element is.
    pub(super) fn add_square(&self, param: &Param<B>, squares: &Tensor<B>) -> Result<()> {
        let Some(gradient) = param.gradient() else { return Ok(()) };
        let _layer = self.executor.enter(param.layer());
        self.executor.add_sum_of_squares(&gradient, squares)
    }

    /// The sum of the squares of all gradients: zero, unless all are added up at once.
    pub(super) fn squares(&self, update: UpdateTime) -> Result<Tensor<B>> {
        let (executor, category, label) = (&self.executor, Category::Scratch, "gradient norm");
        if update == UpdateTime::AfterBackward && executor.backend().target().is_gpu() {
            return executor.allocate([1], DType::F64, category, label);
        }
        executor.filled(0.0, [1], DType::F64, category, label)
    }

    /// Adds up the squares of all gradients, on a GPU by few launches.
    pub(super) fn add_squares(&self, squares: &Tensor<B>) -> Result<()> {
        let params = self.model.params();
        if !self.executor.backend().target().is_gpu() {
            return params.into_iter().try_for_each(|param| self.add_square(param, squares));
        }
        let gradients: Vec<Tensor<B>> = params.into_iter().filter_map(Param::gradient).collect();
        if gradients.is_empty() {
            return self.executor.launch(Elementwise::Fill(0.0), &[], &[squares]);
        }
        self.executor.sums_of_squares(&gradients.iter().collect::<Vec<_>>(), squares)
    }

    /// Updates a layer whose gradients are complete, and frees them. `params` are all, in the order of their layers' numbers.
    pub(super) fn update_layer(
        &self,
        params: &[&Param<B>],
        layer: LayerId,
        squares: &Tensor<B>,
        update: optim::Update,
    ) -> Result<()> {
        let ledger = self.executor.ledger();
        let phase = ledger.set_phase(Phase::Optimizer);
        let first = params.partition_point(|param| param.layer() < layer);
        for param in params[first..].iter().take_while(|param| param.layer() == layer) {
            self.add_square(param, squares)?;
            optim::update(&self.executor, &self.experiment.optimizer, param, update, None)?;
        }
        ledger.set_phase(phase);
        Ok(())
    }

    /// Updates every parameter, its gradient clipped by the norm of all of them, which never leaves the device for that.
    /// Gradients are `grad_scale` times too large.
    pub(super) fn update(&mut self, rate: f64, squares: &Tensor<B>, grad_scale: f64) -> Result<()> {
        let (choice, executor) = (&self.experiment.optimizer, &self.executor);
        let mut clip = None;
        if choice.clip_norm > 0.0 {
            clip = Some(executor.clip_scale(squares, choice.clip_norm * grad_scale)?);
        }
        self.updates += 1;
        let update = optim::Update { rate, grad_scale: 1.0 / grad_scale, step: self.updates };
        optim::update_all(executor, choice, &self.model.params(), update, clip.as_ref())?;
        self.prune()
    }

    /// Sets the weights that the masks select to zero, after an update.
    pub(super) fn prune(&self) -> Result<()> {
        let Some(pruning) = &self.pruning else { return Ok(()) };
        let phase = self.executor.ledger().set_phase(Phase::Optimizer);
        pruning.after_update(&self.executor, &self.model.prunable(), self.updates)?;
        self.executor.ledger().set_phase(phase);
        Ok(())
    }

    /// The size of the model, and its size with every layer whole; `None` if no layer is factored.
    pub fn factored(&self) -> Option<FactoredSize> {
        self.model.factored_size(self.experiment.precision.compute())
    }

    /// The size of the weights if their zeros were not stored, or their size since channels were taken out; `None` if
    /// nothing was pruned.
    ///
    /// # Errors
    /// Fails when the device does.
    pub fn stripped(&self) -> Result<Option<Stripped>> {
        let Some(pruning) = &self.pruning else { return Ok(self.taken_out()) };
        let zeros = pruning.zeros_of(&self.executor, &self.model.prunable())?;
        Ok(Some(Stripped::of(&zeros, &self.model.params())).filter(|stripped| stripped.gone > 0))
    }
}

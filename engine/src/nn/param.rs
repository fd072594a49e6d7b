//! Parameters: the weight the forward pass reads, and what training keeps beside it.

use std::cell::RefCell;

use crate::{
    backend::{Backend, DType, Executor, Kernel, Shape, Tensor, ops::GradInto},
    error::Result,
    experiment::Precision,
    memory::{Category, timeline::LayerId},
    rng::{Rng, Stream},
};

/// One parameter.
pub struct Param<B: Backend> {
    name: &'static str,
    layer: LayerId,
    precision: Precision,
    weight: Tensor<B>,
    master: Option<Tensor<B>>,
    gradient: RefCell<Option<Tensor<B>>>,
    state: RefCell<Vec<Tensor<B>>>,
}

impl<B: Backend> Param<B> {
    /// What it is in its layer: `weight` or `bias`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The layer it belongs to.
    pub fn layer(&self) -> LayerId {
        self.layer
    }

    /// As the forward pass reads it.
    pub fn weight(&self) -> &Tensor<B> {
        &self.weight
    }

    /// As the optimizer updates it: the f32 copy where there is one, else the weight itself.
    pub fn master(&self) -> &Tensor<B> {
        self.master.as_ref().unwrap_or(&self.weight)
    }

    /// The narrower copy that follows the master, if there is one.
    pub fn copy(&self) -> Option<&Tensor<B>> {
        self.master.as_ref().map(|_| &self.weight)
    }

    /// Lets `write` put this pass's gradient into the parameter's buffer, which is made at the first use in a step.
    pub fn accumulate(&self, executor: &Executor<B>, write: impl FnOnce(GradInto<'_, B>) -> Result<()>) -> Result<()> {
        let mut gradient = self.gradient.borrow_mut();
        if let Some(sum) = &*gradient {
            return write(GradInto::Accumulate(sum));
        }
        let label = if self.name == "bias" { "bias gradient" } else { "weight gradient" };
        // A tied weight's first contribution comes from another layer's rule.
        let layer = executor.enter(self.layer);
        let fresh = executor.allocate(self.weight.shape(), self.precision.master(), Category::Gradients, label)?;
        drop(layer);
        write(GradInto::Fresh(&fresh))?;
        *gradient = Some(fresh);
        Ok(())
    }

    /// The gradient of this step so far.
    pub fn gradient(&self) -> Option<Tensor<B>> {
        self.gradient.borrow().clone()
    }

    /// Takes the gradient away: the parameter has none until the next backward pass.
    pub fn take_gradient(&self) -> Option<Tensor<B>> {
        self.gradient.borrow_mut().take()
    }

    /// The optimizer's tensors beside this parameter, made as zeros at the first call.
    pub fn state(&self, executor: &Executor<B>, wanted: &[Kept]) -> Result<Vec<Tensor<B>>> {
        let mut state = self.state.borrow_mut();
        for kept in &wanted[state.len().min(wanted.len())..] {
            state.push(executor.filled(0.0, kept.shape, kept.dtype, Category::OptimizerState, kept.name)?);
        }
        Ok(state.clone())
    }

    /// A tensor of the optimizer's that has an element for each of this parameter's, in the type it is updated in.
    pub fn alike(&self, name: &'static str) -> Kept {
        Kept { name, shape: self.weight.shape(), dtype: self.precision.master() }
    }

    /// The type of the sums and means that an optimizer keeps of it.
    pub fn sums(&self) -> DType {
        self.precision.sums()
    }
}

/// A tensor that an optimizer keeps beside a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub name: &'static str,
    /// Its extents.
    pub shape: Shape,
    /// Type of its elements.
    pub dtype: DType,
}

/// What a parameter is before training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start {
    /// Uniform in ±1/sqrt(fan_in): PyTorch's default for dense and convolution layers (He et al. 2015 with a gain for
    /// slope sqrt(5)).
    Uniform {
        /// Inputs that one output reads.
        fan_in: usize,
    },
    /// Normal around zero.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Zero everywhere.
    Zero,
}

/// Makes parameters: in order, each from its own random stream, so that a seed gives the same model on every device.
pub struct Init<'a, B: Backend> {
    executor: &'a Executor<B>,
    precision: Precision,
    seed: u64,
    made: u64,
}

impl<'a, B: Backend> Init<'a, B> {
    /// A maker for one model.
    pub fn new(executor: &'a Executor<B>, precision: Precision, seed: u64) -> Self {
        Self { executor, precision, seed, made: 0 }
    }

    /// The device.
    pub fn executor(&self) -> &'a Executor<B> {
        self.executor
    }

    /// What is computed in, and what is kept in.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// A random stream of its own for a layer that draws numbers while it runs: a seed for [`Rng::new`].
    pub fn stream(&mut self, stream: Stream) -> u64 {
        self.made += 1;
        Rng::new(self.seed, stream, self.made).key()
    }

    /// A parameter of `layer` that starts as `value` everywhere. It has the optimizer's precision and no narrower copy:
    /// for the few numbers of a normalisation.
    pub fn constant(
        &mut self,
        layer: LayerId,
        name: &'static str,
        shape: impl Into<Shape>,
        value: f64,
    ) -> Result<Param<B>> {
        let _layer = self.executor.enter(layer);
        self.made += 1;
        let (precision, category) = (self.precision, Category::Parameters);
        let weight = self.executor.filled(value, shape, precision.master(), category, name)?;
        let (gradient, state) = (RefCell::default(), RefCell::default());
        Ok(Param { name, layer, precision, weight, master: None, gradient, state })
    }

    /// A parameter of `layer`, uniform in ±1/sqrt(fan_in): see [`Start::Uniform`].
    pub fn uniform(
        &mut self,
        layer: LayerId,
        name: &'static str,
        shape: impl Into<Shape>,
        fan_in: usize,
    ) -> Result<Param<B>> {
        self.param(layer, name, shape, Start::Uniform { fan_in })
    }

    /// A parameter of `layer` that starts as `start` says: in the type that is computed in, with a master copy in the
    /// optimizer's where the two differ.
    pub fn param(
        &mut self,
        layer: LayerId,
        name: &'static str,
        shape: impl Into<Shape>,
        start: Start,
    ) -> Result<Param<B>> {
        let (shape, executor) = (shape.into(), self.executor);
        let _layer = executor.enter(layer);
        let key = Rng::new(self.seed, Stream::Weights, self.made).key();
        self.made += 1;
        let fill = match start {
            Start::Uniform { fan_in } => Kernel::Uniform { bound: 1.0 / (fan_in as f64).sqrt(), key },
            Start::Normal { std } => Kernel::Normal { std, key },
            Start::Zero => Kernel::Fill(0.0),
        };
        let weight = executor.allocate(shape, self.precision.compute(), Category::Parameters, name)?;
        let master = if self.precision.has_master_weights() {
            let master = executor.allocate(shape, self.precision.master(), Category::MasterWeights, name)?;
            executor.launch(fill, &[], &[&master])?;
            executor.cast_into(&master, &weight)?;
            Some(master)
        } else {
            executor.launch(fill, &[], &[&weight])?;
            None
        };
        let (gradient, state) = (RefCell::default(), RefCell::default());
        Ok(Param { name, layer, precision: self.precision, weight, master, gradient, state })
    }
}

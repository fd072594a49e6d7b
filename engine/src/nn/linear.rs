//! The dense layer.

use std::rc::Rc;

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Shape, Tensor},
    error::Result,
    memory::timeline::LayerId,
    nn::{Init, Layer, Param, ParamRole, Start},
};

/// `y = x w^T + b` over the last extent. Saves its input.
pub struct Linear<B: Backend> {
    layer: LayerId,
    weight: Rc<Param<B>>,   // [out, in]
    bias: Option<Param<B>>, // [out]
    /// Trained instead of the weight. Boxed, because most layers have none.
    adapter: Option<Box<Adapter<B>>>,
    /// The weight belongs to another layer, which lists it among its parameters.
    is_tied: bool,
}

/// A low-rank adapter of a frozen weight (Hu et al. 2021): `scale * up * down` is added to the weight.
struct Adapter<B: Backend> {
    down: Param<B>, // [rank, in]
    up: Param<B>,   // [out, rank]
    scale: f64,
}

impl<B: Backend> Adapter<B> {
    /// The adapter of the dense layer `layer`. The first matrix is random and the second is zero, so the output does not
    /// change at first.
    fn new(init: &mut Init<'_, B>, layer: LayerId, [inner, out]: [usize; 2]) -> Result<Option<Self>> {
        let Some((rank, scale)) = init.adapter(layer) else { return Ok(None) };
        let start = Start::Uniform { fan_in: inner };
        let down = init.param_that(layer, ParamRole::AdapterDown, [rank, inner], start, true)?;
        let up = init.param_that(layer, ParamRole::AdapterUp, [out, rank], Start::Zero, true)?;
        Ok(Some(Self { down, up, scale }))
    }

    /// `scale * x down^T`: `[rows, rank]`.
    fn narrow(&self, executor: &Executor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        executor.scale(executor.linear(x, self.down.weight())?, self.scale)
    }

    /// `scale * dy up`: the gradient by `x down^T`, `[rows, rank]`.
    fn narrow_gradient(&self, executor: &Executor<B>, dy: &Tensor<B>) -> Result<Tensor<B>> {
        executor.scale(executor.linear_input_grad(dy, self.up.weight())?, self.scale)
    }
}

impl<B: Backend> Linear<B> {
    /// A layer at `path` from `inner` features to `out`, with bias, both uniform in ±1/sqrt(inner).
    ///
    /// # Errors
    /// Those of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, inner: usize, out: usize) -> Result<Self> {
        let start = Start::Uniform { fan_in: inner };
        Self::starting(init, path, [inner, out], start, Some(start))
    }

    /// A layer at `path` whose weight `[out, in]` starts as `start`; with `has_bias`, a bias that starts as zero.
    ///
    /// # Errors
    /// Those of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn with(init: &mut Init<'_, B>, path: &str, sizes: [usize; 2], start: Start, has_bias: bool) -> Result<Self> {
        Self::starting(init, path, sizes, start, has_bias.then_some(Start::Zero))
    }

    fn starting(
        init: &mut Init<'_, B>,
        path: &str,
        [inner, out]: [usize; 2],
        weight: Start,
        bias: Option<Start>,
    ) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let is_adapted = init.adapter(layer).is_some();
        let mut make = |name, shape: Shape, start| match is_adapted {
            true => init.param_that(layer, name, shape, start, false),
            false => init.param(layer, name, shape, start),
        };
        let weight = Rc::new(make(ParamRole::Weight, [out, inner].into(), weight)?);
        let bias = bias.map(|start| make(ParamRole::Bias, [out].into(), start)).transpose()?;
        let adapter = Adapter::new(init, layer, [inner, out])?.map(Box::new);
        Ok(Self { layer, weight, bias, adapter, is_tied: false })
    }

    /// A layer at `path` without bias that reads another layer's parameter `[out, in]` and adds to its gradient.
    pub fn tied(executor: &Executor<B>, path: &str, weight: &Rc<Param<B>>) -> Self {
        let layer = executor.ledger().layer_id(path);
        Self { layer, weight: Rc::clone(weight), bias: None, adapter: None, is_tied: true }
    }

    /// The output for `x [rows, in]`: `[rows, out]`.
    ///
    /// # Errors
    /// Those of [`Executor::linear`]: `x` has not `in` columns, the output crosses the budget, or the device fails.
    pub fn output(&self, executor: &Executor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        let y = executor.linear(x, self.weight.weight())?; // [rows, out]
        if let Some(bias) = &self.bias {
            executor.add_bias(&y, bias.weight())?;
        }
        if let Some(adapter) = &self.adapter {
            executor.add_linear(&adapter.narrow(executor, x)?, adapter.up.weight(), &y)?;
        }
        Ok(y)
    }

    /// Adds the gradients of the parameters, for inputs `x [rows, in]` and output gradients `dy [rows, out]`.
    ///
    /// # Errors
    /// Those of [`Param::accumulate`] and [`Executor::linear_weight_grad`]: the shapes do not fit, a gradient's buffer
    /// crosses the budget, or the device fails.
    pub fn accumulate(&self, executor: &Executor<B>, x: &Tensor<B>, dy: &Tensor<B>) -> Result<()> {
        if let Some(bias) = &self.bias {
            bias.accumulate(executor, |into| executor.bias_grad(dy, into))?;
        }
        self.weight.accumulate(executor, |into| executor.linear_weight_grad(x, dy, into))?;
        let Some(adapter) = &self.adapter else { return Ok(()) };
        let narrow = adapter.narrow(executor, x)?;
        adapter.up.accumulate(executor, |into| executor.linear_weight_grad(&narrow, dy, into))?;
        drop(narrow);
        let gradient = adapter.narrow_gradient(executor, dy)?;
        adapter.down.accumulate(executor, |into| executor.linear_weight_grad(x, &gradient, into))
    }

    /// Writes the input gradient, for output gradients `dy [rows, out]`, to `dx [rows, in]`.
    ///
    /// # Errors
    /// Those of [`Executor::linear_input_grad_into`]: the shapes do not fit, an adapter's temporary tensor crosses the
    /// budget, or the device fails.
    pub fn input_gradient_into(&self, executor: &Executor<B>, dy: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        executor.linear_input_grad_into(dy, self.weight(), dx)?;
        let Some(adapter) = &self.adapter else { return Ok(()) };
        executor.add_linear_input_grad(&adapter.narrow_gradient(executor, dy)?, adapter.down.weight(), dx)
    }

    fn input_gradient(&self, executor: &Executor<B>, dy: &Tensor<B>) -> Result<Tensor<B>> {
        let dx = executor.linear_input_grad(dy, self.weight())?;
        if let Some(adapter) = &self.adapter {
            executor.add_linear_input_grad(&adapter.narrow_gradient(executor, dy)?, adapter.down.weight(), &dx)?;
        }
        Ok(dx)
    }

    /// Whether a trained parameter needs the input for its gradient.
    fn needs_input(&self) -> bool {
        self.weight.is_trained() || self.adapter.is_some()
    }

    /// The weight as the forward pass reads it.
    pub fn weight(&self) -> &Tensor<B> {
        self.weight.weight()
    }
}

impl<B: Backend> Layer<B> for Linear<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let y = self.output(tape.executor(), &x.tensor)?; // [rows, out]
        let x_id = x.id();
        let saved = self.needs_input().then(|| x.save());
        drop(x);
        let requires_grad = x_id.is_some() || saved.is_some() || self.bias.as_ref().is_some_and(Param::is_trained);
        Ok(tape.record(self.layer, requires_grad, y, move |back, dy| {
            let executor = back.executor().clone();
            let by_weight = |x: &Tensor<B>| self.accumulate(&executor, x, &dy);
            back.linear_gradients(saved, by_weight, x_id, || self.input_gradient(&executor, &dy))
        }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn params(&self) -> Vec<&Param<B>> {
        let own = (!self.is_tied).then_some(&*self.weight);
        let adapters = self.adapter.iter().flat_map(|adapter| [&adapter.down, &adapter.up]);
        own.into_iter().chain(&self.bias).chain(adapters).collect()
    }
}

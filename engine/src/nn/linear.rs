//! The dense layer.

use std::{cell::Cell, rc::Rc};

use crate::{
    autograd::{Slope, Tape, Value},
    backend::{
        Backend, Executor, Shape, Tensor,
        ops::{ActivationFunction, Function},
    },
    error::Result,
    experiment::Projection,
    memory::timeline::LayerId,
    nn::{
        ChannelGroup, ChannelMap, CodedParam, Init, IntegerLayer, Layer, Param, ParamRole, ParamUse, Start,
        TensorChannels,
        adapter::{Adapter, Key},
        fused::{Tail, bias_then, gelu_of},
        int8::rounded_gradients,
        param::accumulate_all,
    },
};

/// `y = x w^T + b` over the last extent. Saves its input.
pub struct Linear<B: Backend> {
    layer: LayerId,
    weight: Weight<B>,      // [out, in]
    bias: Option<Param<B>>, // [out]
    /// The adapter, which is trained instead of the weight. Boxed, because most layers have none.
    adapter: Option<Box<Adapter<B>>>,
    /// The state of a layer of 8-bit integers. Boxed, for the same reason.
    integers: Option<Box<IntegerLayer<B>>>,
    /// The weight belongs to another layer, which lists it among its parameters.
    is_tied: bool,
}

/// The weight that a dense layer multiplies by.
enum Weight<B: Backend> {
    /// A tensor, which may be another layer's.
    Plain(Rc<Param<B>>),
    /// The weight as codes, which do not learn. Boxed, because most layers have none.
    Coded(Box<CodedParam<B>>),
}

impl<B: Backend> Weight<B> {
    fn is_trained(&self) -> bool {
        matches!(self, Self::Plain(weight) if weight.is_trained())
    }

    /// The product of the values that the codes of both stand for, if the inputs have the range `rounded`.
    fn output(&self, executor: &Executor<B>, x: &Tensor<B>, rounded: Option<&Tensor<B>>) -> Result<Tensor<B>> {
        match self {
            Self::Plain(weight) => match rounded {
                Some(range) => {
                    let x = executor.fake_input(x, range)?;
                    executor.linear(&x, &executor.fake_weight(weight.weight())?)
                }
                None => executor.linear(x, weight.whole()),
            },
            Self::Coded(weight) => executor.coded_linear(x, &weight.weight()),
        }
    }

    fn input_gradient(&self, executor: &Executor<B>, dy: &Tensor<B>, is_rounded: bool) -> Result<Tensor<B>> {
        match self {
            Self::Plain(weight) if is_rounded => {
                executor.linear_input_grad(dy, &executor.fake_weight(weight.weight())?)
            }
            Self::Plain(weight) => executor.linear_input_grad(dy, weight.whole()),
            Self::Coded(weight) => executor.coded_input_grad(dy, &weight.weight()),
        }
    }

    fn input_gradient_into(&self, executor: &Executor<B>, dy: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        match self {
            Self::Plain(weight) => executor.linear_input_grad_into(dy, weight.whole(), dx),
            Self::Coded(weight) => executor.coded_input_grad_into(dy, &weight.weight(), dx),
        }
    }
}

impl<B: Backend> Linear<B> {
    /// A layer at `path` from `inner` features to `out`, with bias, both uniform in ±1/sqrt(inner).
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn new(init: &mut Init<'_, B>, path: &str, inner: usize, out: usize) -> Result<Self> {
        let start = Start::Uniform { fan_in: inner };
        Self::starting(init, path, [inner, out], start, Some(start), &[])
    }

    /// A layer at `path` whose weight `[out, in]` starts as `start`; with `has_bias`, a bias that starts as zero.
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn with(init: &mut Init<'_, B>, path: &str, sizes: [usize; 2], start: Start, has_bias: bool) -> Result<Self> {
        Self::of_projections(init, path, sizes, start, has_bias, &[])
    }

    /// [`Linear::with`] of a layer whose rows are the projections `parts`, one after another.
    ///
    /// # Errors
    /// The errors of [`Init::param`]: a parameter crosses the budget, or the device fails.
    pub fn of_projections(
        init: &mut Init<'_, B>,
        path: &str,
        sizes: [usize; 2],
        start: Start,
        has_bias: bool,
        parts: &[(Projection, usize)],
    ) -> Result<Self> {
        Self::starting(init, path, sizes, start, has_bias.then_some(Start::Zero), parts)
    }

    pub(super) fn starting(
        init: &mut Init<'_, B>,
        path: &str,
        [inner, out]: [usize; 2],
        weight: Start,
        bias: Option<Start>,
        parts: &[(Projection, usize)],
    ) -> Result<Self> {
        let layer = init.executor().ledger().layer_id(path);
        let plan = init.adapter(layer, parts, out);
        let is_adapted = plan.is_some();
        let coded = init.coded(layer, [out, inner], weight, is_adapted)?;
        let mut make = |name, shape: Shape, start| match is_adapted {
            true => init.param_that(layer, name, shape, start, false),
            false => init.param(layer, name, shape, start),
        };
        let weight = match coded {
            Some(coded) => Weight::Coded(Box::new(coded)),
            None => {
                let weight = make(ParamRole::Weight, [out, inner].into(), weight)?;
                Weight::Plain(Rc::new(weight.used(ParamUse::HiddenMatrix)))
            }
        };
        let bias = bias.map(|start| make(ParamRole::Bias, [out].into(), start)).transpose()?;
        let adapter = plan.map(|plan| Adapter::new(init, layer, [inner, out], plan).map(Box::new)).transpose()?;
        let integers = init.integers(layer, inner)?;
        Ok(Self { layer, weight, bias, adapter, integers, is_tied: false })
    }

    /// The same layer, marked as the one that gives the classes, which is not a hidden layer.
    #[must_use]
    pub fn giving_classes(self) -> Self {
        let weight = match self.weight {
            Weight::Plain(weight) => Weight::Plain(match Rc::try_unwrap(weight) {
                Ok(own) => Rc::new(own.used(ParamUse::Other)),
                // The weight belongs to another layer, which knows its role.
                Err(shared) => shared,
            }),
            coded @ Weight::Coded(_) => coded,
        };
        Self { weight, ..self }
    }

    /// A layer at `path` without bias that reads another layer's parameter `[out, in]` and adds to its gradient.
    pub fn tied(executor: &Executor<B>, path: &str, weight: &Rc<Param<B>>) -> Self {
        let layer = executor.ledger().layer_id(path);
        Self {
            layer,
            weight: Weight::Plain(Rc::clone(weight)),
            bias: None,
            adapter: None,
            integers: None,
            is_tied: true,
        }
    }

    /// The output for `x [rows, in]`: `[rows, out]`, with columns of zeros for the rows behind its weight. No adapter drops
    /// inputs.
    ///
    /// # Errors
    /// The errors of [`Executor::linear`]: `x` does not have `in` columns, the output crosses the budget, or the device fails.
    pub fn output(&self, executor: &Executor<B>, x: &Tensor<B>) -> Result<Tensor<B>> {
        self.output_dropping(executor, x, None)
    }

    fn output_dropping(&self, executor: &Executor<B>, x: &Tensor<B>, key: Key) -> Result<Tensor<B>> {
        if let Some(integers) = &self.integers {
            let bias = self.bias.as_ref().map(Param::weight);
            if let Some(y) = integers.output(executor, x, bias, None)? {
                return Ok(y);
            }
        }
        let y = match self.joined(executor) {
            Some((weight, bias)) => executor.linear_biased(x, weight.weight(), bias.weight())?, // [rows, out]
            None => {
                let y = self.weight.output(executor, x, self.rounded())?; // [rows, out]
                if let Some(bias) = &self.bias {
                    executor.add_bias(&y, bias.weight())?;
                }
                y
            }
        };
        if let Some(adapter) = &self.adapter {
            adapter.add(executor, x, &y, key)?;
        }
        Ok(y)
    }

    /// The weight and the bias, if one kernel multiplies by the one and adds the other.
    fn joined(&self, executor: &Executor<B>) -> Option<(&Param<B>, &Param<B>)> {
        let Weight::Plain(weight) = &self.weight else { return None };
        let bias = self.bias.as_ref().filter(|_| executor.joins_ops() && self.rounded().is_none())?;
        Some((weight, bias))
    }

    /// The weight, if the layer is a product by it and a bias, and nothing more.
    fn plain(&self) -> Option<&Param<B>> {
        match &self.weight {
            Weight::Plain(weight) if self.adapter.is_none() && self.integers.is_none() => Some(weight),
            Weight::Plain(_) | Weight::Coded(_) => None,
        }
    }

    /// Adds the gradients of the parameters, for inputs `x [rows, in]` and output gradients `dy [rows, out]`.
    ///
    /// # Errors
    /// The errors of [`Param::accumulate`] and [`Executor::linear_weight_grad`]: the shapes do not fit, a gradient's buffer
    /// crosses the budget, or the device fails.
    pub fn accumulate(&self, executor: &Executor<B>, x: &Tensor<B>, dy: &Tensor<B>) -> Result<()> {
        self.accumulate_dropping(executor, x, dy, None, self.bias.as_ref())
    }

    fn accumulate_dropping(
        &self,
        executor: &Executor<B>,
        x: &Tensor<B>,
        dy: &Tensor<B>,
        key: Key,
        bias: Option<&Param<B>>,
    ) -> Result<()> {
        match (&self.weight, bias) {
            (Weight::Plain(weight), Some(bias)) if executor.joins_ops() && weight.is_trained() && bias.is_trained() => {
                accumulate_all(&[bias, weight], executor, |into| match into {
                    [bias, weight] => executor.linear_grads(x, dy, *weight, *bias),
                    _ => Ok(()),
                })?;
            }
            (weight, bias) => {
                if let Some(bias) = bias {
                    bias.accumulate(executor, |into| executor.bias_grad(dy, into))?;
                }
                if let Weight::Plain(weight) = weight {
                    weight.accumulate_whole(executor, |into| executor.linear_weight_grad(x, dy, into))?;
                }
            }
        }
        self.adapter.as_ref().map_or(Ok(()), |adapter| adapter.accumulate(executor, x, dy, key))
    }

    /// Writes the input gradient, for output gradients `dy [rows, out]`, to `dx [rows, in]`.
    ///
    /// # Errors
    /// The errors of [`Executor::linear_input_grad_into`]: the shapes do not fit, an adapter's temporary tensor crosses the
    /// budget, or the device fails.
    pub fn input_gradient_into(&self, executor: &Executor<B>, dy: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        self.weight.input_gradient_into(executor, dy, dx)?;
        self.adapter.as_ref().map_or(Ok(()), |adapter| adapter.add_input_gradient(executor, dy, dx, None))
    }

    fn input_gradient(&self, executor: &Executor<B>, dy: &Tensor<B>, key: Key) -> Result<Tensor<B>> {
        let dx = self.weight.input_gradient(executor, dy, self.rounded().is_some())?;
        if let Some(adapter) = &self.adapter {
            adapter.add_input_gradient(executor, dy, &dx, key)?;
        }
        Ok(dx)
    }

    /// Records the output `y` for `x`, to which `bias` was added, with the gradient rule.
    fn record<'m>(
        &'m self,
        tape: &mut Tape<'m, B>,
        mut x: Value<B>,
        y: Tensor<B>,
        key: Key,
        bias: Option<&'m Param<B>>,
    ) -> Value<B> {
        let x_id = x.id();
        let slope = x.take_slope().zip(self.plain());
        let needs_input = self.needs_input() || (self.rounded().is_some() && x_id.is_some());
        let saved = needs_input.then(|| x.save());
        drop(x);
        let requires_grad = x_id.is_some() || saved.is_some() || self.bias.as_ref().is_some_and(Param::is_trained);
        tape.record(self.layer, requires_grad, y, move |back, dy| {
            let executor = back.executor().clone();
            let by_weight = |x: &Tensor<B>| self.accumulate_dropping(&executor, x, &dy, key, bias);
            if let Some(range) = self.rounded() {
                let of = (saved, x_id, self.needs_input());
                return rounded_gradients(back, range, of, by_weight, || self.input_gradient(&executor, &dy, key));
            }
            let Some((Slope { sum, id }, weight)) = slope else {
                return back.linear_gradients(saved, by_weight, x_id, || self.input_gradient(&executor, &dy, key));
            };
            back.linear_gradients(saved, by_weight, id, || executor.linear_gelu_grad(&dy, weight.weight(), &sum))?;
            back.release([sum]);
            Ok(())
        })
    }

    /// The range of the inputs, where it learns with rounded numbers.
    fn rounded(&self) -> Option<&Tensor<B>> {
        self.integers.as_ref().and_then(|integers| integers.learned())
    }

    /// Whether a trained parameter needs the input for its gradient.
    fn needs_input(&self) -> bool {
        self.weight.is_trained() || self.adapter.is_some()
    }
}

impl<B: Backend> Layer<B> for Linear<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let key = self.adapter.as_ref().and_then(|adapter| adapter.key(tape.pass()));
        if let Some(integers) = &self.integers {
            integers.learn(tape.executor(), &x.tensor, tape.pass())?;
        }
        let y = self.output_dropping(tape.executor(), &x.tensor, key)?; // [rows, out]
        Ok(self.record(tape, x, y, key, self.bias.as_ref()))
    }

    fn forward_through<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>, tail: Tail<'m, B>) -> Result<Value<B>> {
        // An adapter adds to the output with its bias, and integers have a kernel of their own.
        if self.adapter.is_none() && self.integers.is_none() {
            if let (Some(bias), Some(function)) = (&self.bias, tail.function_alone()) {
                // Recomputed by a kernel of ours, an output of the library's would have other bits.
                if let (layer, Function::Smooth(ActivationFunction::GeluTanh)) = function
                    && let Some((weight, _)) = self.joined(tape.executor()).filter(|_| !tape.recomputes())
                {
                    let [sum, y] = tape.executor().linear_gelu(&x.tensor, weight.weight(), bias.weight())?; // [rows, out]
                    let sum = self.record(tape, x, sum, None, Some(bias));
                    return Ok(gelu_of(tape, layer, sum, y));
                }
                let y = self.weight.output(tape.executor(), &x.tensor, None)?; // [rows, out]
                let product = self.record(tape, x, y, None, None);
                return bias_then(tape, function, product, bias);
            }
            if tail.sums_alone() {
                let y = self.weight.output(tape.executor(), &x.tensor, None)?; // [rows, out]
                let bias = self.bias.as_ref();
                return tail.summed(tape, y, bias, |tape, y| self.record(tape, x, y, None, bias));
            }
        }
        let y = self.forward(tape, x)?;
        tail.apart(tape, y)
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn buffers(&self) -> Vec<(&'static str, &Tensor<B>)> {
        self.integers.as_ref().and_then(|integers| integers.buffer()).into_iter().collect()
    }

    fn integers(&self) -> Option<&IntegerLayer<B>> {
        self.integers.as_deref()
    }

    fn prunable(&self) -> Option<&Param<B>> {
        match &self.weight {
            Weight::Plain(weight) if !self.is_tied => Some(weight),
            Weight::Plain(_) | Weight::Coded(_) => None,
        }
    }

    /// The channels of a dense layer with a weight of its own and without adapters.
    fn channels(&self, map: &mut ChannelMap, input: ChannelGroup) -> ChannelGroup {
        let Weight::Plain(weight) = &self.weight else { return input };
        let (layer, output) = (self.layer, map.group(weight.weight().shape().dims()[0]));
        map.note(TensorChannels { layer, name: weight.name(), rows: Some(output), columns: Some(input) });
        if let Some(bias) = &self.bias {
            map.note(TensorChannels { layer, name: bias.name(), rows: None, columns: Some(output) });
        }
        output
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        match &self.weight {
            Weight::Plain(_) if self.is_tied => {}
            Weight::Plain(weight) => see(weight),
            Weight::Coded(coded) => coded.params().for_each(&mut *see),
        }
        let adapters = self.adapter.iter().flat_map(|adapter| adapter.params());
        self.bias.iter().chain(adapters).for_each(see);
    }

    fn coded(&self) -> Option<&CodedParam<B>> {
        match &self.weight {
            Weight::Plain(_) => None,
            Weight::Coded(coded) => Some(coded),
        }
    }

    fn passes(&self) -> Option<&Cell<u64>> {
        self.adapter.as_ref().and_then(|adapter| adapter.passes())
    }
}

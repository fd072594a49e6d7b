//! Activation functions: the rectifiers, the smooth ones, and the gated unit.

use crate::{
    autograd::{Saved, Source, Tape, Value, ValueId},
    backend::{
        Backend, Executor, Tensor,
        ops::{ActivationFunction, Function, Rectifier as Which},
    },
    error::Result,
    memory::timeline::LayerId,
    nn::Layer,
};

/// A rectifier. Writes over its input when nothing else holds it. Saves its output, which the next layer usually saves too,
/// or nothing if the output can be recomputed.
pub struct Rectifier<const STOPS: bool> {
    layer: LayerId,
}

/// `max(x, 0)`.
pub type Relu = Rectifier<false>;

/// `min(max(x, 0), 6)` (Howard et al. 2017).
pub type Relu6 = Rectifier<true>;

impl<const STOPS: bool> Rectifier<STOPS> {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }

    /// Records the output `y` with the gradient rule. The id is the input's, the source is the output's.
    fn recorded<'m, B: Backend + 'm>(
        layer: LayerId,
        tape: &mut Tape<'m, B>,
        (x_id, source): (Option<ValueId>, Source<B>),
        y: Tensor<B>,
        before: Option<Tensor<B>>,
    ) -> Value<B> {
        let saved = Saved::new(&y, &source);
        let y = tape.record_keeping(layer, x_id.is_some(), y, before, move |back, dy| {
            let executor = back.executor();
            let y = saved.tensor(executor)?;
            back.release(saved.into_kept());
            let dx = if STOPS { executor.relu6_grad(&y, dy)? } else { executor.relu_grad(&y, dy)? };
            drop(y);
            back.accumulate_grad(x_id, dx)
        });
        y.with_source(source)
    }

    fn rectify<B: Backend>(executor: &Executor<B>, x: Tensor<B>) -> Result<Tensor<B>> {
        if STOPS { executor.relu6(x) } else { executor.relu(x) }
    }
}

impl<B: Backend, const STOPS: bool> Layer<B> for Rectifier<STOPS> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let x_id = x.id();
        let source = saved_output(x.source().then(self.layer, Self::rectify), tape, x_id);
        // An eager framework finds both ends from the input.
        let is_kept = STOPS && tape.executor().is_eager() && !matches!(source, Source::Recipe(_));
        let before = is_kept.then(|| x.tensor.clone());
        let y = Self::rectify(tape.executor(), x.tensor)?;
        Ok(Self::recorded(self.layer, tape, (x_id, source), y, before))
    }

    fn function(&self) -> Option<Function> {
        Some(Function::Rectifier(if STOPS { Which::Relu6 } else { Which::Relu }))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

/// The source of the output of a rectifier on a value with this name, whose rule saves the output if there is no recipe.
pub(super) fn saved_output<B: Backend>(source: Source<B>, tape: &Tape<'_, B>, x_id: Option<ValueId>) -> Source<B> {
    match source {
        Source::Itself if x_id.is_some() && tape.is_recording() => Source::Maker,
        source => source,
    }
}

/// Records `y`, which the layer rectifies, with its gradient rule. The id is the input's, the source is the output's.
pub(super) fn rectified<'m, B: Backend + 'm>(
    layer: LayerId,
    rectifier: Which,
    tape: &mut Tape<'m, B>,
    (x_id, source): (Option<ValueId>, Source<B>),
    y: Tensor<B>,
) -> Value<B> {
    let of = (x_id, saved_output(source, tape, x_id));
    match rectifier {
        Which::Relu => Relu::recorded(layer, tape, of, y, None),
        Which::Relu6 => Relu6::recorded(layer, tape, of, y, None),
    }
}

/// A smooth activation function of each element. Saves its input, from which its output can be recomputed.
#[derive(Debug)]
pub struct Smooth {
    layer: LayerId,
    function: ActivationFunction,
}

impl Smooth {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str, function: ActivationFunction) -> Self {
        Self { layer: executor.ledger().layer_id(path), function }
    }
}

impl<B: Backend> Layer<B> for Smooth {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let (layer, function) = (self.layer, self.function);
        let y = tape.executor().activation(function, &x.tensor)?;
        let Some(id) = x.id() else { return Ok(Value::constant(y)) };
        let source = tape.recomputable(layer, &x, move |executor, x| executor.activation(function, &x));
        let saved = x.save();
        drop(x);
        let y = tape.record(layer, true, y, move |back, dy| {
            let executor = back.executor();
            let dx = executor.activation_grad(function, &saved.tensor(executor)?, dy)?;
            back.release(saved.into_kept());
            back.accumulate_grad(id, dx)
        });
        Ok(y.with_source(source))
    }

    fn function(&self) -> Option<Function> {
        Some(Function::Smooth(self.function))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

/// The gated unit of Llama (Shazeer 2020, "GLU variants improve transformer"), `silu(gate) * value`: from gates and values,
/// `[rows, 2 hidden]`, to `[rows, hidden]`. Saves its input, from which its output can be recomputed.
#[derive(Debug)]
pub struct SwiGlu {
    layer: LayerId,
}

impl SwiGlu {
    /// A layer at `path`.
    pub fn new<B: Backend>(executor: &Executor<B>, path: &str) -> Self {
        Self { layer: executor.ledger().layer_id(path) }
    }

    /// The activated half, which an eager framework makes apart and keeps.
    fn activated<B: Backend>(executor: &Executor<B>, gates: &Tensor<B>) -> Result<Tensor<B>> {
        let half = executor.take_columns(gates, 0..gates.shape().last() / 2)?;
        executor.activation(ActivationFunction::Silu, &half)
    }
}

impl<B: Backend> Layer<B> for SwiGlu {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let executor = tape.executor();
        let activated = if executor.is_eager() { Some(Self::activated(executor, &x.tensor)?) } else { None };
        let y = executor.swiglu(&x.tensor)?; // [rows, hidden]
        let source = tape.recomputable(self.layer, &x, |executor, gu| executor.swiglu(&gu));
        let (x_id, saved) = (x.id(), x.save());
        drop(x);
        let y = tape.record_keeping(self.layer, x_id.is_some(), y, activated, move |back, dy| {
            let gu = saved.tensor(back.executor())?;
            let dgu = back.executor().swiglu_grad(&gu, &dy)?;
            drop((gu, dy));
            back.release(saved.into_kept());
            back.accumulate_grad(x_id, dgu)
        });
        Ok(y.with_source(source))
    }

    fn layer(&self) -> LayerId {
        self.layer
    }
}

//! The tape records the tensors that the backward pass needs, and frees them as it walks back.
//!
//! A layer's forward pass hands the tape its output and a closure that owns the tensors of its gradient rule. The backward
//! pass consumes the closures from the last to the first, so each saved tensor is freed as soon as its rule has run. A
//! tensor that is cheap to recompute from one that is saved anyway is not saved: see [`Saved`]. Always holds: gradients of
//! one value are added in place, and gradients of parameters go straight into the parameter's buffer. Refuses nothing
//! itself; an error of a rule ends the backward pass.

mod cache;
mod checkpoint;
mod saved;
mod value;

pub use cache::{Cache, Cached};
pub use saved::{RetainedTensors, Saved, Source};
pub(crate) use value::Slope;
pub use value::Value;

use crate::{
    backend::{Backend, Executor, Tensor},
    error::Result,
    experiment::Recompute,
    memory::timeline::LayerId,
};

/// Names a value on one tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueId(usize);

/// The purpose of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Training: layers use the batch's statistics and update their running ones.
    Training,
    /// A second forward pass over the same numbers: the same result, without an update of running statistics.
    Recompute,
    /// Evaluation: layers use their running statistics.
    Evaluation,
}

type Rule<'m, B> = Box<dyn FnOnce(&mut Backward<'_, B>, Tensor<B>) -> Result<()> + 'm>;

struct Node<'m, B: Backend> {
    layer: LayerId,
    output: ValueId,
    rule: Rule<'m, B>,
}

/// The record of one forward pass through a model that lives for `'m`.
pub struct Tape<'m, B: Backend> {
    executor: Executor<B>,
    nodes: Vec<Node<'m, B>>,
    values: usize,
    is_recording: bool,
    pass: Pass,
    recompute: Recompute,
    retained: Option<RetainedTensors<B>>,
    /// Whether any layer of an unrecorded pass required a gradient.
    any_requires_grad: bool,
    cache: Option<&'m Cache<B>>,
}

/// Called for every layer whose gradient rule has run: its parameters' gradients of this pass are complete.
pub type Listener<'a> = dyn FnMut(LayerId) -> Result<()> + 'a;

/// Where a gradient rule leaves the gradients of its inputs.
pub struct Backward<'a, B: Backend> {
    executor: &'a Executor<B>,
    gradients: &'a mut [Option<Tensor<B>>],
    listener: &'a mut Listener<'a>,
    retained: Option<&'a RetainedTensors<B>>,
}

impl<B: Backend> Backward<'_, B> {
    /// The device.
    pub fn executor(&self) -> &Executor<B> {
        self.executor
    }

    /// Takes saved tensors that a rule has used. They are freed, unless the graph is retained.
    pub fn release(&self, saved: impl IntoIterator<Item = Tensor<B>>) {
        match self.retained {
            Some(retained) => saved.into_iter().for_each(|tensor| retained.keep(tensor)),
            None => saved.into_iter().for_each(drop),
        }
    }

    /// Both gradients of a linear operation: `by_weight`, which needs the layer's input, and `by_input`.
    ///
    /// The order keeps memory low. An input that was saved is used and freed before the input gradient is allocated. An
    /// input that has to be recomputed is recomputed only after the input gradient was passed on.
    ///
    /// # Errors
    /// The error of a closure, or of recomputing the input.
    pub fn linear_gradients(
        &mut self,
        saved: Option<Saved<B>>,
        by_weight: impl FnOnce(&Tensor<B>) -> Result<()>,
        id: Option<ValueId>,
        by_input: impl FnOnce() -> Result<Tensor<B>>,
    ) -> Result<()> {
        let Some(saved) = saved else { return id.map_or(Ok(()), |id| self.accumulate_grad(id, by_input()?)) };
        if saved.is_kept() {
            by_weight(&saved.tensor(self.executor)?)?;
            let mut kept = saved.into_kept();
            // An eager framework frees the saved tensors of a node once all of its gradients are there.
            if !self.executor.is_eager() {
                self.release(kept.take());
            }
            let Some(id) = id else {
                self.release(kept);
                return Ok(());
            };
            let gradient = by_input()?;
            self.release(kept);
            return self.accumulate_grad(id, gradient);
        }
        if let Some(id) = id {
            self.accumulate_grad(id, by_input()?)?;
        }
        let x = saved.tensor(self.executor)?;
        drop(saved);
        by_weight(&x)
    }

    /// Adds a gradient to the gradient of `id`, in place. A value that requires no gradient has no `id`, and nothing is done.
    ///
    /// # Errors
    /// Fails if the addition does.
    pub fn accumulate_grad(&mut self, id: impl Into<Option<ValueId>>, gradient: Tensor<B>) -> Result<()> {
        let Some(id) = id.into() else { return Ok(()) };
        let slot = &mut self.gradients[id.0];
        *slot = Some(match slot.take() {
            None => gradient,
            // Several values may share one gradient: only a buffer without another owner is written to.
            Some(sum) if !sum.is_unique() && gradient.is_unique() => self.executor.add(gradient, &sum)?,
            Some(sum) => self.executor.add(sum, &gradient)?,
        });
        Ok(())
    }

    /// The gradient that has reached a value so far: of a second output of the node whose rule runs, or of its input.
    pub(crate) fn take(&mut self, id: ValueId) -> Option<Tensor<B>> {
        self.gradients[id.0].take()
    }
}

impl<'m, B: Backend> Tape<'m, B> {
    /// A tape that records.
    pub fn recording(executor: &Executor<B>) -> Self {
        Self {
            executor: executor.clone(),
            nodes: Vec::new(),
            values: 0,
            is_recording: true,
            pass: Pass::Training,
            recompute: Recompute::None,
            retained: None,
            any_requires_grad: false,
            cache: None,
        }
    }

    /// A tape that records nothing, for evaluation.
    pub fn no_grad(executor: &Executor<B>) -> Self {
        Self { is_recording: false, pass: Pass::Evaluation, ..Self::recording(executor) }
    }

    /// A tape that records nothing, for a pass over the positions of one sequence that follow those that `cache` has. Layers
    /// read and extend it; the caller that runs the pass advances it.
    pub fn continuing(executor: &Executor<B>, cache: &'m Cache<B>) -> Self {
        Self { cache: Some(cache), ..Self::no_grad(executor) }
    }

    /// The keys and values of the positions before those of this pass, where it continues a sequence.
    pub fn cache(&self) -> Option<&'m Cache<B>> {
        self.cache
    }

    /// The same tape, whose rules save outputs or recompute them.
    #[must_use]
    pub fn with_recompute(self, recompute: Recompute) -> Self {
        Self { recompute, ..self }
    }

    /// The same tape, which moves tensors that its rules have used to `retained` instead of freeing them.
    #[must_use]
    pub fn retaining(self, retained: Option<RetainedTensors<B>>) -> Self {
        Self { retained, ..self }
    }

    /// The source of a tensor that one kernel computes from `from`, for a layer whose rule saves the tensor of `from`.
    pub(crate) fn recomputable(
        &self,
        layer: LayerId,
        from: &Value<B>,
        kernel: impl Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static,
    ) -> Source<B> {
        match &from.source {
            _ if !self.is_recording || self.recompute == Recompute::None => Source::Itself,
            source @ Source::Recipe(_) => source.then(layer, kernel),
            _ => {
                let tensor = from.tensor.clone();
                Source::recipe(layer, 1, move |executor| kernel(executor, tensor.clone()))
            }
        }
    }

    /// The source of a tensor that one kernel computes from two in place of `steps` others, for a layer whose rule saves the
    /// first.
    pub(crate) fn recomputable_sum(
        &self,
        layer: LayerId,
        steps: usize,
        of: [&Value<B>; 2],
        kernel: impl Fn(&Executor<B>, Tensor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static,
    ) -> Source<B> {
        match self.is_recording && self.recompute != Recompute::None {
            true => Source::of_two(layer, steps, of.map(|value| (&value.source, &value.tensor)), kernel),
            false => Source::Itself,
        }
    }

    /// The device.
    pub fn executor(&self) -> &Executor<B> {
        &self.executor
    }

    /// Whether a backward pass will follow.
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// The purpose of the pass. A checkpointed segment is not recorded at first, and trains nevertheless.
    pub fn pass(&self) -> Pass {
        self.pass
    }

    fn name(&mut self) -> ValueId {
        self.values += 1;
        ValueId(self.values - 1)
    }

    /// A value that requires a gradient and was computed outside this tape.
    pub fn leaf(&mut self, tensor: Tensor<B>) -> Value<B> {
        Value { id: Some(self.name()), ..Value::constant(tensor) }
    }

    /// Records the output of a layer and its gradient rule. When nothing is recorded, or when neither the input nor a
    /// parameter requires a gradient (`requires_grad` is false), the rule and its tensors are dropped at once.
    pub fn record(
        &mut self,
        layer: LayerId,
        requires_grad: bool,
        output: Tensor<B>,
        rule: impl FnOnce(&mut Backward<'_, B>, Tensor<B>) -> Result<()> + 'm,
    ) -> Value<B> {
        self.any_requires_grad |= requires_grad;
        if !(self.is_recording && requires_grad) {
            return Value::constant(output);
        }
        let id = self.name();
        self.nodes.push(Node { layer, output: id, rule: Box::new(rule) });
        Value { id: Some(id), ..Value::constant(output) }
    }

    /// [`Tape::record`] of a layer that keeps `kept` until its rule has run, as eager execution does. A node without it takes
    /// no byte more.
    pub fn record_keeping(
        &mut self,
        layer: LayerId,
        requires_grad: bool,
        output: Tensor<B>,
        kept: Option<Tensor<B>>,
        rule: impl FnOnce(&mut Backward<'_, B>, Tensor<B>) -> Result<()> + 'm,
    ) -> Value<B>
    where
        B: 'm,
    {
        let Some(kept) = kept else { return self.record(layer, requires_grad, output, rule) };
        self.record(layer, requires_grad, output, move |back, gradient| {
            rule(back, gradient)?;
            back.release([kept]);
            Ok(())
        })
    }

    /// Walks back from `output`, whose gradient is `gradient`, and frees saved tensors on the way. Returns the gradient of
    /// `wanted`, if any reached it. `listener` is called for every layer after its rule.
    ///
    /// # Errors
    /// The first error of a rule or of `listener`.
    pub fn backward(
        self,
        output: ValueId,
        gradient: Tensor<B>,
        wanted: Option<ValueId>,
        listener: &mut Listener<'_>,
    ) -> Result<Option<Tensor<B>>> {
        let mut found = self.backward_from(vec![(output, gradient)], &[wanted], listener)?;
        Ok(found.pop().flatten())
    }

    /// [`Tape::backward`] from several outputs to several values, in the order of `wanted`.
    ///
    /// # Errors
    /// Fails if [`Tape::backward`] does.
    pub fn backward_from(
        mut self,
        outputs: Vec<(ValueId, Tensor<B>)>,
        wanted: &[Option<ValueId>],
        listener: &mut Listener<'_>,
    ) -> Result<Vec<Option<Tensor<B>>>> {
        let mut gradients: Vec<Option<Tensor<B>>> = (0..self.values).map(|_| None).collect();
        let mut back = Backward {
            executor: &self.executor,
            gradients: &mut gradients,
            listener,
            retained: self.retained.as_ref(),
        };
        outputs.into_iter().try_for_each(|(output, gradient)| back.accumulate_grad(output, gradient))?;
        while let Some(node) = self.nodes.pop() {
            let Some(gradient) = gradients[node.output.0].take() else { continue };
            let _layer = self.executor.enter(node.layer);
            let mut back = Backward {
                executor: &self.executor,
                gradients: &mut gradients,
                listener,
                retained: self.retained.as_ref(),
            };
            (node.rule)(&mut back, gradient)?;
            listener(node.layer)?;
        }
        Ok(wanted.iter().map(|id| id.and_then(|id| gradients[id.0].take())).collect())
    }
}

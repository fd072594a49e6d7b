//! The tape: it remembers what the backward pass needs, and forgets it as it walks back.
//!
//! A layer's forward pass hands the tape its output and a closure that owns what its gradient rule needs. Walking back
//! consumes the closures from the last to the first, so each saved tensor is freed the moment its rule has run. What follows
//! cheaply from a tensor that is kept anyway is not kept beside it: see [`Saved`]. Gradients
//! that meet are added in place; parameter gradients go straight into the parameter's buffer.

mod checkpoint;
mod saved;

pub use saved::{Held, Saved, Source};

use std::fmt;

use crate::{
    backend::{Backend, Executor, Tensor},
    error::Result,
    experiment::Recompute,
    memory::timeline::LayerId,
};

/// Names a value on one tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueId(usize);

/// A tensor on its way through the forward pass.
pub struct Value<B: Backend> {
    /// The tensor.
    pub tensor: Tensor<B>,
    /// Its name on the tape; `None` when no gradient is wanted.
    id: Option<ValueId>,
    /// How the tensor can be had again.
    source: Source<B>,
}

impl<B: Backend> Value<B> {
    /// A value without a gradient: the batch, or anything in a pass that is not recorded.
    pub fn constant(tensor: Tensor<B>) -> Self {
        Self { tensor, id: None, source: Source::Itself }
    }

    /// What a rule keeps to have the tensor later.
    pub fn save(&self) -> Saved<B> {
        Saved::new(&self.tensor, &self.source)
    }

    /// How the tensor can be had again.
    pub(crate) fn source(&self) -> &Source<B> {
        &self.source
    }

    /// The same value, to be had again by `source`.
    #[must_use]
    pub(crate) fn made_by(self, source: Source<B>) -> Self {
        Self { source, ..self }
    }

    /// Its name on the tape.
    pub fn id(&self) -> Option<ValueId> {
        self.id
    }
}

impl<B: Backend> fmt::Debug for Value<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.id, self.tensor)
    }
}

impl<B: Backend> Clone for Value<B> {
    /// A second handle of the same value: its gradient is the sum of what both uses give.
    fn clone(&self) -> Self {
        Self { tensor: self.tensor.clone(), id: self.id, source: self.source.clone() }
    }
}

/// What a forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Training: layers use the batch's statistics and move what they keep of them.
    Training,
    /// Training, a second time over the same numbers: the same result, and what layers keep stays as it is.
    Recompute,
    /// Evaluation: layers use what they kept.
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
    outputs: Recompute,
    held: Option<Held<B>>,
    /// Whether anything of an unrecorded pass wanted a gradient.
    has_wanted: bool,
}

/// Told of every layer whose gradient rule has run: its parameters' gradients of this pass are complete.
pub type Listener<'a> = dyn FnMut(LayerId) -> Result<()> + 'a;

/// Where a gradient rule leaves the gradients of its inputs.
pub struct Backward<'a, B: Backend> {
    executor: &'a Executor<B>,
    gradients: &'a mut [Option<Tensor<B>>],
    listener: &'a mut Listener<'a>,
    held: Option<&'a Held<B>>,
}

impl<B: Backend> Backward<'_, B> {
    /// The device.
    pub fn executor(&self) -> &Executor<B> {
        self.executor
    }

    /// Takes what a rule saved and has used: it is freed, unless the tape is held.
    pub fn release(&self, saved: impl IntoIterator<Item = Tensor<B>>) {
        match self.held {
            Some(held) => saved.into_iter().for_each(|tensor| held.keep(tensor)),
            None => saved.into_iter().for_each(drop),
        }
    }

    /// The gradient by a weight, given the layer's input, and the one by that input: of an input that is there the first
    /// comes first, and the input goes before the second comes; one that is made again comes after it.
    pub fn both_gradients(
        &mut self,
        saved: Option<Saved<B>>,
        by_weight: impl FnOnce(&Tensor<B>) -> Result<()>,
        id: Option<ValueId>,
        by_input: impl FnOnce() -> Result<Tensor<B>>,
    ) -> Result<()> {
        let Some(saved) = saved else { return id.map_or(Ok(()), |id| self.give(id, by_input()?)) };
        if saved.is_kept() {
            by_weight(&saved.tensor(self.executor)?)?;
            self.release(saved.into_kept());
            return id.map_or(Ok(()), |id| self.give(id, by_input()?));
        }
        if let Some(id) = id {
            self.give(id, by_input()?)?;
        }
        let x = saved.tensor(self.executor)?;
        drop(saved);
        by_weight(&x)
    }

    /// Leaves a gradient for `id`, if there is one; see [`Backward::give`].
    pub fn give_to(&mut self, id: Option<ValueId>, gradient: Tensor<B>) -> Result<()> {
        id.map_or(Ok(()), |id| self.give(id, gradient))
    }

    /// Leaves a gradient for `id`; what is there already is added to, in place.
    pub fn give(&mut self, id: ValueId, gradient: Tensor<B>) -> Result<()> {
        let slot = &mut self.gradients[id.0];
        *slot = Some(match slot.take() {
            None => gradient,
            // A gradient may have been given to several values at once: only one that is nobody else's is written to.
            Some(sum) if !sum.is_unique() && gradient.is_unique() => self.executor.add(gradient, &sum)?,
            Some(sum) => self.executor.add(sum, &gradient)?,
        });
        Ok(())
    }

    /// The gradient that has reached a second output of the node whose rule runs.
    fn take(&mut self, id: ValueId) -> Option<Tensor<B>> {
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
            outputs: Recompute::None,
            held: None,
            has_wanted: false,
        }
    }

    /// A tape that keeps nothing, for evaluation.
    pub fn blank(executor: &Executor<B>) -> Self {
        Self { is_recording: false, pass: Pass::Evaluation, ..Self::recording(executor) }
    }

    /// The same tape, with rules that keep outputs or make them again.
    #[must_use]
    pub fn with_outputs(self, outputs: Recompute) -> Self {
        Self { outputs, ..self }
    }

    /// The same tape, which leaves what its rules have used to `held` in place of freeing it.
    #[must_use]
    pub fn holding(self, held: Option<Held<B>>) -> Self {
        Self { held, ..self }
    }

    /// How a tensor can be had again that one kernel makes of `from`, for a layer whose rule keeps the tensor of `from`.
    pub(crate) fn again(
        &self,
        layer: LayerId,
        from: &Value<B>,
        kernel: impl Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static,
    ) -> Source<B> {
        match &from.source {
            _ if !self.is_recording || self.outputs == Recompute::None => Source::Itself,
            source @ Source::Recipe(_) => source.then(layer, kernel),
            _ => {
                let tensor = from.tensor.clone();
                Source::recipe(layer, 1, move |executor| kernel(executor, tensor.clone()))
            }
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

    /// What the pass is for. A checkpointed segment is not recorded at first and trains nevertheless.
    pub fn pass(&self) -> Pass {
        self.pass
    }

    fn name(&mut self) -> ValueId {
        self.values += 1;
        ValueId(self.values - 1)
    }

    /// A value whose gradient is wanted, made outside this tape.
    pub fn leaf(&mut self, tensor: Tensor<B>) -> Value<B> {
        Value { id: Some(self.name()), ..Value::constant(tensor) }
    }

    /// Books the output of a layer and its gradient rule. When nothing is recorded, or when neither the input nor a
    /// parameter wants a gradient (`is_wanted`), the rule and what it owns are dropped at once.
    pub fn record(
        &mut self,
        layer: LayerId,
        is_wanted: bool,
        output: Tensor<B>,
        rule: impl FnOnce(&mut Backward<'_, B>, Tensor<B>) -> Result<()> + 'm,
    ) -> Value<B> {
        self.has_wanted |= is_wanted;
        if !(self.is_recording && is_wanted) {
            return Value::constant(output);
        }
        let id = self.name();
        self.nodes.push(Node { layer, output: id, rule: Box::new(rule) });
        Value { id: Some(id), ..Value::constant(output) }
    }

    /// Walks back from `output`, whose gradient is `gradient`, freeing as it goes. Returns the gradient of `wanted`, if
    /// any reached it. `listener` is told of every layer after its rule.
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

    /// [`Tape::backward`] from several outputs to several wanted values, in the order of `wanted`.
    pub fn backward_from(
        mut self,
        outputs: Vec<(ValueId, Tensor<B>)>,
        wanted: &[Option<ValueId>],
        listener: &mut Listener<'_>,
    ) -> Result<Vec<Option<Tensor<B>>>> {
        let mut gradients: Vec<Option<Tensor<B>>> = (0..self.values).map(|_| None).collect();
        let mut back =
            Backward { executor: &self.executor, gradients: &mut gradients, listener, held: self.held.as_ref() };
        outputs.into_iter().try_for_each(|(output, gradient)| back.give(output, gradient))?;
        while let Some(node) = self.nodes.pop() {
            let Some(gradient) = gradients[node.output.0].take() else { continue };
            let _layer = self.executor.enter(node.layer);
            let mut back =
                Backward { executor: &self.executor, gradients: &mut gradients, listener, held: self.held.as_ref() };
            (node.rule)(&mut back, gradient)?;
            listener(node.layer)?;
        }
        Ok(wanted.iter().map(|id| id.and_then(|id| gradients[id.0].take())).collect())
    }
}

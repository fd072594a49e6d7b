//! The residual connection (He et al. 2015).

use crate::{
    autograd::{Tape, Value, ValueId},
    backend::{Backend, Executor, Tensor},
    error::Result,
    memory::timeline::LayerId,
    nn::{ChannelGroup, ChannelMap, Layer, Param, Tail},
};

/// `main(x) + shortcut(x)`: two chains of layers over one input. An empty shortcut is the identity. Saves nothing itself.
pub struct Residual<B: Backend> {
    layer: LayerId,
    main: Vec<Box<dyn Layer<B>>>,
    shortcut: Vec<Box<dyn Layer<B>>>,
}

impl<B: Backend> Residual<B> {
    /// A layer at `path`; the shapes of both chains' outputs agree.
    pub fn new(
        executor: &Executor<B>,
        path: &str,
        main: Vec<Box<dyn Layer<B>>>,
        shortcut: Vec<Box<dyn Layer<B>>>,
    ) -> Self {
        Self { layer: executor.ledger().layer_id(path), main, shortcut }
    }

    /// The sum of both.
    pub(super) fn add<'m>(&self, tape: &mut Tape<'m, B>, main: Value<B>, shortcut: Value<B>) -> Result<Value<B>>
    where
        B: 'm,
    {
        let source = main.source().plus(self.layer, shortcut.source(), &shortcut.tensor);
        let ids = [main.id(), shortcut.id()];
        let y = tape.executor().add(main.tensor, &shortcut.tensor)?;
        drop(shortcut);
        Ok(self.record(tape, ids, y).with_source(source))
    }

    /// The sum of both that the tensor of `main` is already.
    pub(super) fn recorded<'m>(&self, tape: &mut Tape<'m, B>, main: Value<B>, shortcut: Value<B>) -> Value<B>
    where
        B: 'm,
    {
        let source = main.source().plus(self.layer, shortcut.source(), &shortcut.tensor);
        let ids = [main.id(), shortcut.id()];
        self.record(tape, ids, main.tensor).with_source(source)
    }

    /// Records `y`, the sum of the values with these ids, with its gradient rule.
    pub(super) fn record<'m>(
        &self,
        tape: &mut Tape<'m, B>,
        [main_id, shortcut_id]: [Option<ValueId>; 2],
        y: Tensor<B>,
    ) -> Value<B>
    where
        B: 'm,
    {
        tape.record(self.layer, main_id.is_some() || shortcut_id.is_some(), y, move |back, dy| {
            // Both chains share one gradient. A rule that would write over it while the other still needs it makes a copy.
            if let Some(id) = shortcut_id {
                back.accumulate_grad(id, dy.clone())?;
            }
            back.accumulate_grad(main_id, dy)
        })
    }
}

/// Runs one layer after another. The memory of each is booked on itself.
///
/// # Errors
/// The first error of a layer.
pub fn chain<'m, B: Backend>(layers: &'m [Box<dyn Layer<B>>], tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
    visited_chain(layers, tape, x, None)
}

/// A callback for each layer and its output.
pub type Visit<'a, B> = dyn FnMut(&dyn Layer<B>, &Tensor<B>) -> Result<()> + 'a;

/// [`chain`], with a call of `visit` after each layer, where one is given. Layers are not fused then: each has its output.
///
/// # Errors
/// The first error of a layer or of `visit`.
pub fn visited_chain<'m, B: Backend>(
    layers: &'m [Box<dyn Layer<B>>],
    tape: &mut Tape<'m, B>,
    x: Value<B>,
    visit: Option<&mut Visit<'_, B>>,
) -> Result<Value<B>> {
    let Some(visit) = visit else { return chain_before(layers, tape, x, None) };
    layers.iter().try_fold(x, |x, layer| {
        let _layer = tape.executor().enter(layer.layer());
        let y = layer.forward(tape, x)?;
        visit(layer.as_ref(), &y.tensor)?;
        Ok(y)
    })
}

/// [`chain`] of layers that `after` follows, which may begin with a norm.
///
/// # Errors
/// The first error of a layer.
pub fn chain_before<'m, B: Backend>(
    layers: &'m [Box<dyn Layer<B>>],
    tape: &mut Tape<'m, B>,
    mut x: Value<B>,
    after: Option<&'m dyn Layer<B>>,
) -> Result<Value<B>> {
    let is_fused = tape.executor().is_fused();
    let mut left = layers;
    while let [layer, rest @ ..] = left {
        let _layer = tape.executor().enter(layer.layer());
        let next = rest.first().map(AsRef::as_ref);
        let function = next.filter(|next| is_fused && next.function().is_some());
        let norm = next.or(after).filter(|_| is_fused).and_then(Layer::opening);
        x = match (function, norm) {
            (None, None) => layer.forward(tape, x)?,
            _ => layer.forward_through(tape, x, Tail { function, norm, ..Tail::default() })?,
        };
        left = &rest[usize::from(function.is_some())..];
    }
    Ok(x)
}

impl<B: Backend> Layer<B> for Residual<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        if tape.executor().is_fused() {
            return self.forward_through(tape, x, Tail::default());
        }
        let main = chain(&self.main, tape, x.clone())?;
        let shortcut = chain(&self.shortcut, tape, x)?;
        self.add(tape, main, shortcut)
    }

    fn forward_through<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>, tail: Tail<'m, B>) -> Result<Value<B>> {
        // The layer that can add the shortcut to its output, and a dropout after it.
        let (front, dropout) = match self.main.split_last() {
            Some((last, front)) if last.dropout().is_some() => (front, last.dropout()),
            _ => (&self.main[..], None),
        };
        let Some((last, front)) = front.split_last() else {
            let shortcut = chain(&self.shortcut, tape, x.clone())?;
            return Tail { dropout, sum: Some((self, shortcut)), ..tail }.apart(tape, x);
        };
        // The first handle has the output of a norm at the front.
        let again = x.clone();
        let main = chain(front, tape, x)?;
        let shortcut = chain(&self.shortcut, tape, again)?;
        let _layer = tape.executor().enter(last.layer());
        last.forward_through(tape, main, Tail { dropout, sum: Some((self, shortcut)), ..tail })
    }

    fn opening(&self) -> Option<&dyn Layer<B>> {
        self.main.first().map(AsRef::as_ref).filter(|first| first.row_norm().is_some() && self.shortcut.is_empty())
    }

    fn layer(&self) -> LayerId {
        self.layer
    }

    fn inner(&self) -> Vec<&dyn Layer<B>> {
        self.main.iter().chain(&self.shortcut).map(AsRef::as_ref).collect()
    }

    fn channels(&self, map: &mut ChannelMap, input: ChannelGroup) -> ChannelGroup {
        let [main, shortcut] = [&self.main, &self.shortcut]
            .map(|chain| chain.iter().fold(input, |group, layer| layer.channels(map, group)));
        map.join(main, shortcut)
    }

    fn each_param<'a>(&'a self, see: &mut dyn FnMut(&'a Param<B>)) {
        self.main.iter().chain(&self.shortcut).for_each(|layer| layer.each_param(see));
    }
}

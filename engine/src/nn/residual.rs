//! The residual connection (He et al. 2015).

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, Executor, Tensor},
    error::Result,
    memory::timeline::LayerId,
    nn::{ChannelGroup, ChannelMap, Layer, Param},
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
}

/// Runs one layer after another. The memory of each is booked on itself.
///
/// # Errors
/// The first error of a layer.
pub fn chain<'m, B: Backend>(layers: &'m [Box<dyn Layer<B>>], tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
    visited_chain(layers, tape, x, &mut |_, _| Ok(()))
}

/// What is called with each layer and its output.
pub type Visit<'a, B> = dyn FnMut(&dyn Layer<B>, &Tensor<B>) -> Result<()> + 'a;

/// [`chain`], with a call of `visit` after each layer.
///
/// # Errors
/// The first error of a layer or of `visit`.
pub fn visited_chain<'m, B: Backend>(
    layers: &'m [Box<dyn Layer<B>>],
    tape: &mut Tape<'m, B>,
    x: Value<B>,
    visit: &mut Visit<'_, B>,
) -> Result<Value<B>> {
    layers.iter().try_fold(x, |x, layer| {
        let _layer = tape.executor().enter(layer.layer());
        let y = layer.forward(tape, x)?;
        visit(layer.as_ref(), &y.tensor)?;
        Ok(y)
    })
}

impl<B: Backend> Layer<B> for Residual<B> {
    fn forward<'m>(&'m self, tape: &mut Tape<'m, B>, x: Value<B>) -> Result<Value<B>> {
        let main = chain(&self.main, tape, x.clone())?;
        let shortcut = chain(&self.shortcut, tape, x)?;
        let (main_id, shortcut_id) = (main.id(), shortcut.id());
        let source = main.source().plus(self.layer, shortcut.source(), &shortcut.tensor);
        let y = tape.executor().add(main.tensor, &shortcut.tensor)?;
        drop(shortcut);
        let y = tape.record(self.layer, main_id.is_some() || shortcut_id.is_some(), y, move |back, dy| {
            // Both chains share one gradient. A rule that would write over it while the other still needs it makes a copy.
            if let Some(id) = shortcut_id {
                back.accumulate_grad(id, dy.clone())?;
            }
            back.accumulate_grad(main_id, dy)
        });
        Ok(y.with_source(source))
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

    fn params(&self) -> Vec<&Param<B>> {
        self.main.iter().chain(&self.shortcut).flat_map(|layer| layer.params()).collect()
    }
}

//! Continuing a text: a whole sequence first, then token after token with the keys and values of the tokens before.
//!
//! Always holds: while the model has places for the whole text, each token is seen once, and its keys and values stay in a
//! [`Cache`]. Once the text is longer, its last tokens are at other places than before, so their kept keys and values are
//! wrong. The cache is dropped, and each token takes a whole pass over as many tokens as there are places.

use crate::{
    autograd::{Cache, Cached, Tape},
    backend::{Backend, HostSlice},
    error::Result,
    memory::{Part, Phase},
    nn::Layer,
    step::{See, Session, loss::shown},
};

/// A text that a session writes on.
pub struct Writing<'s, B: Backend> {
    session: &'s Session<B>,
    /// Positions of the model.
    length: usize,
    /// Positions that the cache is for.
    places: usize,
    cache: Option<Cache<B>>,
    cached: Cached,
}

impl<B: Backend> Session<B> {
    /// Begins to write up to `count` tokens after `prompt` of them. Allocates nothing yet.
    ///
    /// # Errors
    /// Fails for a model of images.
    pub fn writing(&self, prompt: usize, count: usize) -> Result<Writing<'_, B>> {
        let [length, _] = self.info.tokens()?;
        // The last token that is written is seen by none.
        let places = (prompt + count.saturating_sub(1)).min(length);
        Ok(Writing { session: self, length, places, cache: None, cached: Cached::default() })
    }
}

impl<B: Backend> Writing<'_, B> {
    /// Shows the logits of the token after `tokens`, which are the tokens of the call before and those that follow them. At
    /// least one token is needed.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] when an allocation would cross the budget, the failures of the device, and the errors of
    /// `see`.
    pub fn next(&mut self, tokens: &[u32], see: &mut See<'_>) -> Result<()> {
        // A first pass over all places leaves none for a second.
        let is_whole = tokens.len() > self.length || (self.cache.is_none() && tokens.len() == self.length);
        if is_whole {
            self.cache = None;
            return self.pass(&tokens[tokens.len() - self.length..], see);
        }
        let cache = self.cache.get_or_insert_with(|| Cache::new(self.places));
        let new = &tokens[cache.seen()..];
        self.pass(new, see)?;
        if let Some(cache) = &self.cache {
            cache.advance(new.len());
            self.cached = cache.size();
        }
        Ok(())
    }

    /// The content of the cache, or its last content once it is gone.
    pub fn cached(&self) -> Cached {
        self.cached
    }

    /// The lengths of text at which passes begin to differ in their memory, of up to `count` tokens after `prompt`: the
    /// first pass, and two of each kind that follow.
    pub fn lengths(&self, prompt: usize, count: usize) -> impl Iterator<Item = usize> + use<B> {
        let end = prompt + count;
        let past = (self.length + 1).max(prompt + 3);
        (prompt..end.min(prompt + 3)).chain(past..end.min(past + 2))
    }

    /// Runs one pass over `tokens`, and gives the logits of the last.
    fn pass(&self, tokens: &[u32], see: &mut See<'_>) -> Result<()> {
        let Session { executor, model, experiment, info, .. } = self.session;
        let ledger = executor.ledger();
        ledger.set_phase(Phase::Evaluate);
        ledger.enter(Part::Writing {
            tokens: tokens.len(),
            is_continued: self.cache.as_ref().is_some_and(|cache| cache.seen() > 0),
        });
        let inputs = {
            let _layer = executor.enter(ledger.layer_id("batch"));
            let dtype = info.input.dtype(experiment.precision);
            executor.upload(HostSlice::U32(tokens), [1, tokens.len()], dtype, info.input.label())?
        };
        let mut tape = match &self.cache {
            Some(cache) => Tape::continuing(executor, cache),
            None => Tape::no_grad(executor),
        };
        let features = model.features(&mut tape, inputs)?.tensor;
        let [rows, width] = [features.shape().rows(), features.shape().last()];
        let last = features.reshape([rows, width]).rows_view(rows - 1..rows);
        let logits = {
            let _layer = executor.enter(model.classes().layer());
            model.classes().output(executor, &last)? // [1, classes]
        };
        let _layer = executor.enter(ledger.layer_id("loss"));
        shown(executor, &logits, info.classes, see)?;
        executor.step_ended()
    }
}

//! The weights of a checkpoint for a model that answers and does not learn: no optimizer state is read.

use super::{Checkpoint, Reader, decides};
use crate::{
    backend::{Backend, DType, Shape},
    error::Result,
    experiment::{Experiment, preset},
    step::{Session, load, restore::Source as _},
};

impl Checkpoint {
    /// Refuses an experiment whose model computes something else than the one that was saved.
    pub(in crate::train) fn answers_as(&self, experiment: &Experiment) -> Result<()> {
        let differing = preset::differing(&[&self.experiment()?, experiment]);
        let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "not used".to_owned());
        let differs: Vec<String> = differing
            .into_iter()
            .filter(|(key, _)| decides::answers(key))
            .map(|(key, values)| format!("{key} (here {}, chosen {})", told(&values[0]), told(&values[1])))
            .collect();
        if differs.is_empty() {
            return Ok(());
        }
        let message = format!("differs in {}", differs.join(", "));
        Err(self.of_another("experiment".to_owned(), message))
    }

    /// Whether channels had been taken out of the model.
    pub(in crate::train) fn is_thinned(&self) -> bool {
        self.counters.is_thinned
    }

    /// Gives a session the weights and the running statistics that were saved.
    pub(in crate::train) fn load<B: Backend>(&self, session: &mut Session<B>) -> Result<()> {
        if self.is_thinned() {
            session.thin()?;
        }
        session.load(&mut Weights(Reader::new(self)))
    }
}

/// All tensors that are not part of an optimizer's state.
struct Weights<'a>(Reader<'a>);

impl load::Source for Weights<'_> {
    fn find(&mut self, name: &str, shape: Shape, dtype: DType) -> Result<bool> {
        self.0.find(name, shape, dtype).map(|()| true)
    }

    fn has_codes(&self) -> bool {
        true
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        self.0.read(to)
    }
}

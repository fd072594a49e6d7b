//! Questions to a model without its data: a picture, or a prompt.
//!
//! Always holds: if the chosen data are the checkpoint's own, its kept facts are used, so the data need not be there. A
//! picture goes to the model as its samples went. Published weights over the generated data that an experiment begins with
//! answer with their own classes.

use std::sync::Arc;

use super::{Tester, Tried, Trying};
use crate::{
    data::Dataset, error::Result, experiment::weights::known::Known, interop, plan::Resolved,
    train::checkpoint::Checkpoint,
};

/// The known facts of the data, if they are enough for the input that is tried.
pub(super) fn of(tried: &Tried, checkpoint: Option<&Checkpoint>, trying: Trying) -> Option<Known> {
    let is_enough = |known: &Known| match trying {
        Trying::TestSet | Trying::Sample => false,
        Trying::Picture => tried.experiment.data.kind.traits().has_pictures && known.scales_pictures(),
        Trying::Prompt { .. } => known.info.tokens().is_ok(),
    };
    let known = match checkpoint {
        Some(checkpoint) => checkpoint.known(&tried.experiment),
        None => interop::known(&tried.experiment),
    };
    known.filter(is_enough)
}

impl Tester {
    /// The data set that scales pictures by the known facts, kept for the next call.
    pub(super) fn known_dataset(&mut self, known: &Known, resolved: &Resolved) -> Result<Arc<Dataset>> {
        let data = resolved.experiment().whole_data().into_owned();
        if let Some((of, by, dataset)) = &self.known
            && (of, by) == (&data, known)
        {
            return Ok(Arc::clone(dataset));
        }
        let dataset = Arc::new(Dataset::known(&data, known)?);
        self.known = Some((data, known.clone(), Arc::clone(&dataset)));
        Ok(dataset)
    }
}

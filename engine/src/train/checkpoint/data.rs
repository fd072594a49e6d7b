//! Whether the data of a run that goes on are those that it learned from.

use super::{Checkpoint, Progress};
use crate::{
    data::Dataset,
    error::{Error, Problem, Result},
    experiment::{Data, DataKind},
};

impl Checkpoint {
    /// Refuses data that are not as they were.
    pub(in crate::train) fn goes_on_with(&self, dataset: &Dataset, effective: usize) -> Result<()> {
        let Progress { samples, position, .. } = &self.progress;
        let found = dataset.facts().train;
        let changed = |what: &str| {
            Problem::new(
                "data.path",
                format!("{what}: the data have changed"),
                "bring back the data, or start a run of its own",
            )
        };
        if found as u64 != *samples {
            let what = format!("the checkpoint's run had {samples} training samples, and there are {found} now");
            return Err(changed(&what).into());
        }
        if self.is_of_other(dataset) {
            return Err(changed("what is at its path is not what the checkpoint's run learned from").into());
        }
        if position.place > found || !position.place.is_multiple_of(effective) {
            let message =
                format!("{} is no place in {found} samples; take another checkpoint of the run", position.place);
            return Err(Error::file_at(&self.path, "header, place", message));
        }
        Ok(())
    }

    /// Refuses a table that is another than the model learned from: what a number, a category or a class means to the model
    /// follows from the rows of that one.
    pub(in crate::train) fn answers_for(&self, dataset: &Dataset, data: &Data) -> Result<()> {
        if data.kind != DataKind::Table || !self.is_of_other(dataset) {
            return Ok(());
        }
        let message = "the table is not the one that the model learned from, and columns, categories and values would mean \
                       other numbers";
        Err(Problem::new("data.path", message, "bring back that table, or train on this one").into())
    }

    /// Whether the model learned from files that hold something else, as far as that is known.
    fn is_of_other(&self, dataset: &Dataset) -> bool {
        self.progress.data_checksum.zip(dataset.checksum()).is_some_and(|(was, now)| was != now)
    }
}

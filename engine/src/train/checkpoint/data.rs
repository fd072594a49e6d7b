//! The check that the data of a run that goes on are those that it learned from.

use super::{Checkpoint, Progress, decides};
use crate::{
    bytes::counted,
    data::Dataset,
    error::{Error, Problem, Result},
    experiment::{
        Data, DataKind, DatasetInfo, Distil, Experiment, Normalise, preset,
        settings::Bears,
        weights::{
            known::Known,
            own::{self, PIXELS},
        },
    },
    hardware::Machine,
    plan::Resolved,
};

/// The fault if text becomes other tokens.
const OTHER_TOKENS: &str = "the tokenizer or its template is not the one that the run learned with";

/// The facts in a checkpoint about its model's data: what a sample is, how pixels were scaled, and the names of the classes.
/// A run that begins with its weights needs them, and so do questions to the model when the data are gone.
pub(in crate::train) fn about(experiment: &Experiment, dataset: &Dataset) -> Vec<(&'static str, String)> {
    let data = experiment.whole_data();
    let scaled = if data.normalise == Normalise::Auto { Normalise::Dataset } else { data.normalise };
    let pixels = data.kind.has_colours().then(|| (PIXELS, scaled.key().to_owned()));
    pixels.into_iter().chain(dataset.to_be_known().to_facts()).collect()
}

impl Checkpoint {
    /// The kept facts of the data that its model learned from; `None` in the checkpoints of earlier versions.
    pub fn info(&self) -> Option<DatasetInfo> {
        Known::of_facts(&self.header.facts).map(|known| known.info)
    }

    /// The experiment of its run over the data as it knows them, which need not be there; `None` if it does not, and if the
    /// run has no place on this machine.
    pub fn resolved(&self, experiment: &Experiment, machine: &Machine) -> Option<Resolved> {
        let own = self.experiment().ok()?;
        Resolved::knowing(&self.info()?, &experiment.decided_as(&own).untaught(), machine).ok()
    }

    /// The kept facts of the data that it learned from, if `experiment` chooses the same data.
    pub(in crate::train) fn known(&self, experiment: &Experiment) -> Option<Known> {
        let own = self.experiment().ok()?;
        let differing = preset::differing(&[&own, &experiment.decided_as(&own)]);
        // The facts are those of the data, whichever of their samples and tokens are learned.
        let is_same = !differing.iter().any(|(key, _)| decides::samples(key, |bears| bears == Bears::Reading));
        Known::of_facts(&self.header.facts).filter(|_| is_same)
    }

    /// The names of its model's classes, if it has them.
    pub(in crate::train) fn class_names(&self) -> Option<Vec<String>> {
        own::class_names(&self.header.facts)
    }

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
            let samples = counted(*samples, "training sample");
            let what = format!("the checkpoint's run had {samples}, and there are {found} now");
            return Err(changed(&what).into());
        }
        if self.is_of_other(dataset) {
            return Err(changed("the data at its path are not those that the checkpoint's run learned from").into());
        }
        if self.is_of_other_tokens(dataset.tokenizer_checksum()) {
            let mend = "bring back tokenizer.json and the files next to it, or start a run of its own";
            return Err(Problem::new(
                "data.tokenizer",
                format!("{OTHER_TOKENS}: the same text would be other tokens"),
                mend,
            )
            .into());
        }
        if position.place > found || !position.place.is_multiple_of(effective) {
            let message =
                format!("{} is not a place in {found} samples; take another checkpoint of the run", position.place);
            return Err(Error::file_at(&self.path, "header, place", message));
        }
        Ok(())
    }

    /// Refuses a teacher that lies where it did and whose weights are not those that taught the run so far.
    pub(in crate::train) fn goes_on_under(&self, chosen: &Distil, teacher_checksum: Option<u32>) -> Result<()> {
        let is_same_place = || self.experiment().is_ok_and(|own| own.distil.teacher == chosen.teacher);
        match self.progress.teacher_checksum.zip(teacher_checksum) {
            Some((was, now)) if was != now && is_same_place() => {
                let message =
                    "the teacher at its path is not the one that taught the checkpoint's run: the teacher has changed";
                let mend = "bring back the teacher, or start a run of its own";
                Err(Problem::new("distil.teacher", message, mend).into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses a table other than the one that the model learned from, because its rows decide what a number, a category or
    /// a class means to the model.
    pub(in crate::train) fn answers_for(&self, dataset: &Dataset, data: &Data) -> Result<()> {
        if data.kind != DataKind::Table || !self.is_of_other(dataset) {
            return Ok(());
        }
        let message = "the table is not the one that the model learned from, and columns, categories and values would mean \
                       other numbers";
        Err(Problem::new("data.path", message, "bring back that table, or train on this one").into())
    }

    /// The warning if the data are not those that the model learned from, with which a run would not go on. For data that were
    /// chosen otherwise, their number means nothing.
    pub(in crate::train) fn caution(&self, dataset: &Dataset, experiment: &Experiment) -> Option<String> {
        let Progress { samples, .. } = &self.progress;
        let found = dataset.facts().train;
        let is_same_choice = || self.experiment().is_ok_and(|own| is_same_choice(&own, experiment));
        if let Some(caution) = self.caution_of_tokens(dataset.tokenizer_checksum()) {
            return Some(caution);
        }
        let what = if found as u64 != *samples && is_same_choice() {
            format!("the run learned from {}, and there are {found} now", counted(*samples, "training sample"))
        } else if self.is_of_other(dataset) {
            "the data at data.path are not those that the run learned from".to_owned()
        } else {
            return None;
        };
        Some(format!(
            "{what}: the data have changed, and the test set may hold samples that the model learned from; bring back the \
             data for the figures that the run reported"
        ))
    }

    /// A warning if text becomes other tokens now than those that the model learned.
    pub(in crate::train) fn caution_of_tokens(&self, tokenizer_checksum: Option<u32>) -> Option<String> {
        let is_other = self.is_of_other_tokens(tokenizer_checksum);
        is_other.then(|| {
            format!(
                "{OTHER_TOKENS}, and its tokens mean something else to the model; bring back tokenizer.json and the files \
                 next to it, or choose that tokenizer in data.tokenizer"
            )
        })
    }

    /// Whether the model learned text through a tokenizer.
    pub(in crate::train) fn has_tokenizer(&self) -> bool {
        self.progress.tokenizer_checksum.is_some_and(|checksum| checksum != 0)
    }

    /// Whether text became other tokens when the model learned, as far as that is known.
    fn is_of_other_tokens(&self, now: Option<u32>) -> bool {
        self.progress.tokenizer_checksum.is_some_and(|was| was != now.unwrap_or(0))
    }

    /// Whether the model learned from files that hold something else, as far as that is known.
    fn is_of_other(&self, dataset: &Dataset) -> bool {
        self.progress.data_checksum.zip(dataset.checksum()).is_some_and(|(was, now)| was != now)
    }
}

/// Whether two experiments chose the same samples, by the settings that their data use: how their pixels are scaled decides
/// nothing.
fn is_same_choice(own: &Experiment, other: &Experiment) -> bool {
    let differing = preset::differing(&[own, other]);
    !differing.iter().any(|(key, _)| decides::samples(key, |bears| bears == Bears::Scale))
}

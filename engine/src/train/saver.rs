//! The moments at which the checkpoints of a run are written, and their names.
//!
//! Always holds: a run's folder has its last checkpoint, which each later one replaces, and, if that is chosen, the best one
//! next to it. The steps before a checkpoint are in the record of the run before the checkpoint exists, if a second is enough
//! to write them: a run that goes on from it after a kill then has no gap. A folder that was removed or moved while the run
//! trains is made again.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    backend::Backend,
    bytes::Bytes,
    data::Dataset,
    error::{Error, Result},
    experiment::{Experiment, preset},
    interop::write_ranges,
    memory::probe::uncounted,
    step::Session,
    train::{
        checkpoint::{self, BEST, Checkpoint, LAST, Progress, checksum_text},
        claim::Claim,
        keep::{Awaited, Keep, RecordFirst, SaveReason},
    },
    whole_file::reason,
};

/// Writes the checkpoints of a run. Its memory does not count as the run's: make and drop it inside [`uncounted`].
pub(super) struct Saver<'a> {
    experiment: &'a Experiment,
    /// The experiment as text.
    text: String,
    /// Other facts about the data that the files contain.
    about: Vec<(&'static str, String)>,
    last: PathBuf,
    best: PathBuf,
    /// The claim on a folder that was made again.
    claim: Option<Claim>,
    /// The record of the run.
    record: Option<&'a RecordFirst>,
    /// The step that the last checkpoint is of.
    saved: u64,
    /// Its checksum, if it was written here.
    checksum: Option<u32>,
    /// The step that the run began or went on after.
    began: u64,
    /// When that was tried.
    tried: Instant,
    tried_at_step: u64,
}

impl<'a> Saver<'a> {
    /// A saver for a run over `dataset` after `step` steps; `None` if it writes no checkpoints.
    pub(super) fn new(keep: &'a Keep, experiment: &'a Experiment, dataset: &Dataset, step: u64) -> Option<Self> {
        let folder = keep.folder.as_ref()?.path();
        Some(Self {
            experiment,
            text: preset::to_text(experiment),
            about: checkpoint::about(experiment, dataset),
            last: folder.join(LAST),
            best: folder.join(BEST),
            claim: None,
            record: keep.record.as_ref(),
            saved: step,
            checksum: None,
            began: step,
            tried: Instant::now(),
            tried_at_step: step,
        })
    }

    /// Whether enough steps or minutes have passed that a checkpoint after `step` is due.
    pub(super) fn is_due(&self, step: u64) -> bool {
        let run = &self.experiment.run;
        let by_steps = run.save_every > 0 && step.is_multiple_of(run.save_every);
        let by_clock =
            run.save_minutes > 0.0 && self.tried.elapsed() >= Duration::from_secs_f64(run.save_minutes * 60.0);
        step > self.tried_at_step && (by_steps || by_clock)
    }

    /// Whether a checkpoint after `step` has more than the one before.
    pub(super) fn has_news(&self, why: SaveReason, step: u64) -> bool {
        match why {
            SaveReason::Interval | SaveReason::Stop => step > self.saved,
            // The model was tested since.
            SaveReason::Best | SaveReason::End => true,
        }
    }

    /// Writes a checkpoint, and returns its path and its size. The run has made this many evaluations here, which are recorded
    /// before it.
    ///
    /// # Errors
    /// Fails when the system takes no more, where the write buffer crosses the budget, when the device fails, and where the
    /// folder is gone and cannot be made.
    pub(super) fn save<B: Backend>(
        &mut self,
        session: &Session<B>,
        progress: &Progress,
        evaluations: u64,
        why: SaveReason,
    ) -> Result<(&Path, Bytes)> {
        if let Some(folder) = self.last.parent().filter(|folder| !folder.exists()) {
            self.claim = Some(uncounted(|| checkpoint::prepare(folder))?);
        }
        let path = match why {
            SaveReason::Best => &self.best,
            SaveReason::Interval | SaveReason::Stop | SaveReason::End => {
                (self.tried, self.tried_at_step) = (Instant::now(), progress.step);
                &self.last
            }
        };
        // The record is written while the checkpoint is.
        let awaited = uncounted(|| {
            let is_new = progress.step > self.began || evaluations > 0;
            self.record.filter(|_| is_new).map(|record| record.ask(progress.step, evaluations))
        });
        let before = || uncounted(|| awaited.into_iter().for_each(Awaited::wait));
        let facts = uncounted(|| checkpoint::facts(progress, &session.counters(), &self.text, &self.about));
        let written = checkpoint::write(session, &facts, path, before);
        uncounted(|| drop(facts));
        let (bytes, checksum) = written?;
        if why != SaveReason::Best {
            (self.saved, self.checksum) = (progress.step, Some(checksum));
        }
        Ok((path, bytes))
    }

    /// Writes the ranges by which inputs became integers, next to the checkpoint of this step.
    ///
    /// # Errors
    /// Fails when the system takes no more.
    pub(super) fn save_ranges(&self, step: u64, ranges: &[(String, [f32; 2])]) -> Result<()> {
        let path = self.last.with_file_name(Checkpoint::RANGES);
        let failed = |error: std::io::Error| Error::file(&path, format!("cannot be written: {}", reason(&error)));
        write_ranges(&path, (step, self.checksum.map(checksum_text)), ranges).map_err(failed)
    }
}

//! A kept run with a checkpoint, whose weights leave the program in another form: for the command line and the window.
//!
//! Always holds: if the checkpoint has the facts of its data, nothing is planned and no data are looked for, so a run can be
//! exported after its data are gone.

use std::path::Path;

use anyhow::Context;
use plimsoll_engine::{
    Bytes,
    error::Problem,
    experiment::DatasetInfo,
    interop::{self, Compressed},
    plan::{self, Resolved},
    report::Kept,
    store::{Became, SmallerModel},
    train::Checkpoint,
};

use crate::unfinished;

/// A run and its checkpoint.
pub(crate) struct OfRun {
    pub(crate) kept: Kept,
    pub(crate) checkpoint: Checkpoint,
    /// The facts of its data that its model must know, or why nothing is known of them.
    info: Result<DatasetInfo, String>,
}

impl OfRun {
    /// The last checkpoint of a run, or its best one.
    ///
    /// # Errors
    /// Fails for a run without it, and for a checkpoint that is damaged or of another run.
    pub(crate) fn new(kept: Kept, is_best: bool) -> anyhow::Result<Self> {
        let no_weights = || format!("{}: no weights", kept.run.label());
        let at = if is_best { kept.files.join(Checkpoint::BEST) } else { Checkpoint::at(&kept.files)? };
        anyhow::ensure!(
            !is_best || at.exists(),
            "{}: {} is missing: the run kept no best checkpoint, which run.save_best = true does while it trains; leave \
             --best out for the last one",
            kept.run.label(),
            at.display()
        );
        let checkpoint = Checkpoint::open(&at).with_context(no_weights)?;
        let machine = plan::this_machine();
        let told = |problems: Vec<Problem>| problems.first().map(Problem::to_string).unwrap_or_default();
        let anew = || Resolved::new(&kept.experiment, &machine).map_err(told);
        let resolved = checkpoint.resolved(&kept.experiment, &machine).map_or_else(anew, Ok);
        // A run that cannot be planned any more has settings, but its tensors are not known.
        checkpoint.holds_the_run(&kept.experiment, resolved.as_ref().ok()).with_context(no_weights)?;
        let found = resolved.map(|resolved| *resolved.info());
        let info = checkpoint.info().map_or(found, Ok);
        Ok(Self { kept, checkpoint, info })
    }

    /// The facts of its data.
    ///
    /// # Errors
    /// Says why nothing is known of them.
    pub(crate) fn info(&self) -> anyhow::Result<&DatasetInfo> {
        let why = |why| anyhow::anyhow!("{}: cannot be planned here any more: {why}", self.kept.run.label());
        self.info.as_ref().map_err(why)
    }

    /// Writes its compressed model to `path`. Returns the facts of the file, and notes on its size.
    ///
    /// # Errors
    /// Fails for a run that ended before its model was made smaller, for a model that stayed as it was, for a run of an earlier
    /// version, and where the system takes no more.
    pub(crate) fn write_compressed(&self, path: &Path) -> anyhow::Result<(Compressed, Vec<String>)> {
        let (kept, step) = (&self.kept, self.checkpoint.step());
        let name = kept.run.label();
        if let Some(why) = unfinished::lacks_smaller(&kept.run) {
            anyhow::bail!("{name}: {why}");
        }
        let Some(smaller) = kept.run.smaller else {
            let mend = match kept.experiment.lora.rank {
                0 => "leave --compressed out, or train it with quantise.kind = after, prune.kind or low_rank.rank",
                _ => "export its adapters within their model with --format huggingface --merge",
            };
            anyhow::bail!("{name}: its model stayed as it was, so there is nothing compressed to write; {mend}");
        };
        let ranges = kept.files.join(Checkpoint::RANGES);
        if smaller.became == Became::Integers && !ranges.is_file() {
            let is = if ranges.is_dir() { "is a folder" } else { "is missing" };
            anyhow::bail!(
                "{name}: {} {is}, which has the ranges of its inputs: an earlier version trained the run, the disk was full, or \
                 it was removed; bring it back, or train the run again",
                ranges.display()
            );
        }
        let (from, info) = ((self.checkpoint.path(), step), self.info()?);
        let written = interop::compressed(from, &ranges, path, &kept.experiment, info)?;
        Ok((written, notes(&smaller, &written)))
    }
}

/// Notes on what a file has beyond the figure of its run.
fn notes(smaller: &SmallerModel, written: &Compressed) -> Vec<String> {
    let Compressed { tensors, statistics, has_zeros, .. } = *written;
    let own = tensors.saturating_sub(statistics);
    let mut parts = Vec::new();
    if statistics > Bytes::ZERO {
        parts.push(format!("running statistics take {statistics}"));
    }
    let layout = own.saturating_sub(smaller.bytes);
    if layout > Bytes::ZERO {
        parts.push(format!(
            "the published layout adds {layout} (extents, where rows begin, and masks and groups that end with their row)"
        ));
    }
    let counted = format!("the tensors take {tensors}, of which the run counts {}", smaller.bytes);
    let mut notes = Vec::new();
    if !parts.is_empty() {
        notes.push(format!("{counted}: {}", parts.join(", and ")));
    }
    if has_zeros {
        notes.push("pruned weights are written as codes of zero: the layout of packed weights has no mask".to_owned());
    }
    notes
}

//! The weights of a run, as a file or as a folder that other programs load.
//!
//! Always holds: if the checkpoint has the facts of its data, nothing is planned and no data are looked for, so a run can be
//! exported after its data are gone.

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context;
use plimsoll_engine::{
    error::Problem,
    experiment::DatasetInfo,
    interop,
    plan::{self, Resolved},
    report::Kept,
    train::Checkpoint,
    whole_file,
};

use super::{Export, Folder};
use crate::cli::{Misuse, in_store, out, save, subject};

/// A run and its checkpoint.
struct OfRun {
    kept: Kept,
    checkpoint: Checkpoint,
    /// The facts of its data that its model must know, or why nothing is known of them.
    info: Result<DatasetInfo, String>,
}

impl Export {
    /// Writes a run's model as a folder that other programs load.
    pub(super) fn huggingface(&self, folder: &Path) -> anyhow::Result<ExitCode> {
        anyhow::ensure!(!save::is_stdout(folder), Misuse("a folder is written: name one with -o".to_owned()));
        save::can_be_folder(folder)?;
        // The leftovers of a killed export do not belong to the user.
        let is_own = |entry: fs::DirEntry| !entry.file_name().to_str().is_some_and(whole_file::is_begun);
        let there = folder.read_dir().is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_own)));
        anyhow::ensure!(
            self.force || !there,
            "{}: has files already; write --force to write over those of the same names, or name another folder",
            folder.display()
        );
        let OfRun { kept, checkpoint, info } = self.of_run()?;
        let info =
            info.map_err(|why| anyhow::anyhow!("{}: cannot be planned here any more: {why}", kept.run.label()))?;
        let exported = interop::export(checkpoint.path(), folder, &kept.experiment, &info, self.merge)?;
        exported.notes.iter().for_each(|note| out::say("note", note));
        match self.json {
            true => out::json(&Folder {
                path: folder,
                format: "huggingface",
                bytes: exported.bytes.0,
                files: &exported.files,
            }),
            false => exported.files.iter().try_for_each(|file| out::line(file.display().to_string())),
        }?;
        Ok(ExitCode::SUCCESS)
    }

    /// Copies the weights of a run's checkpoint, tensor by tensor.
    pub(super) fn weights(&self, path: &Path) -> anyhow::Result<ExitCode> {
        let OfRun { kept, checkpoint, .. } = self.of_run()?;
        interop::left_out(&kept.experiment).iter().for_each(|note| out::say("note", note));
        self.tell(path, checkpoint.write_weights(save::file(path)?)?.0)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The one run that is named, and its checkpoint, which is of its model.
    fn of_run(&self) -> anyhow::Result<OfRun> {
        let run = match &self.subjects[..] {
            [one] => subject::run_of(one, &self.store)?,
            _ => None,
        };
        let Some((store, key)) = run else {
            anyhow::bail!("weights are those of one run; `plimsoll train` keeps runs, and `last` names the newest");
        };
        let kept = Kept::read(&store, &key)?;
        kept.damage.iter().for_each(|damage| out::say("warning", &format!("run {key}: {damage}")));
        let name = kept.run.label();
        // Without the folder there is no checkpoint.
        if !kept.files.is_dir() {
            let why = in_store::without_checkpoint(&kept.details, "`plimsoll resume FILE` goes on from");
            anyhow::bail!("{name}: no weights: {why}");
        }
        let at = if self.best { kept.files.join(Checkpoint::BEST) } else { Checkpoint::at(&kept.files)? };
        let no_weights = || format!("{name}: no weights");
        let checkpoint = Checkpoint::open(&at).with_context(no_weights)?;
        let machine = plan::this_machine();
        let told = |problems: Vec<Problem>| problems.first().map(Problem::to_string).unwrap_or_default();
        let anew = || Resolved::new(&kept.experiment, &machine).map_err(told);
        let resolved = checkpoint.resolved(&kept.experiment, &machine).map_or_else(anew, Ok);
        // A run that cannot be planned any more has settings, but its tensors are not known.
        checkpoint.holds_the_run(&kept.experiment, resolved.as_ref().ok()).with_context(no_weights)?;
        let found = resolved.map(|resolved| *resolved.info());
        let info = checkpoint.info().map_or(found, Ok);
        Ok(OfRun { kept, checkpoint, info })
    }
}

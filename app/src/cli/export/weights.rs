//! The weights of a run, as a file or as a folder that other programs load.

use std::{fs, path::Path, process::ExitCode};

use plimsoll_engine::{interop, report::Kept, store::Became, train::Checkpoint, whole_file};

use super::{Export, Folder};
use crate::{
    cli::{Misuse, in_store, out, save, subject},
    taken::OfRun,
};

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
        let run = self.of_run()?;
        let (checkpoint, experiment) = (run.checkpoint.path(), &run.kept.experiment);
        let exported = interop::export(checkpoint, folder, experiment, run.info()?, self.merge)?;
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
        self.tell(path, checkpoint.write_weights(save::file(path)?)?.0, None)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes a run's compressed model.
    pub(super) fn compressed(&self, path: &Path) -> anyhow::Result<ExitCode> {
        let run = self.of_run()?;
        let are_of_the_end = |became| matches!(became, Became::Integers | Became::Weights8 | Became::Weights4);
        if self.best && run.kept.run.smaller.is_some_and(|smaller| are_of_the_end(smaller.became)) {
            let message = "--best: the last weights became integers, and not those of the best test; leave --best out";
            return Err(Misuse(message.to_owned()).into());
        }
        let (written, notes) = run.write_compressed(&save::file(path)?)?;
        notes.iter().for_each(|note| out::say("note", note));
        self.tell(path, written.bytes.0, Some(written.tensors.0))?;
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
        // Without the folder there is no checkpoint either.
        if !kept.files.is_dir() || Checkpoint::at(&kept.files).is_err() {
            let why = in_store::without_checkpoint(&kept.details, "`plimsoll resume FILE` goes on from");
            anyhow::bail!("{name}: no weights: {why}");
        }
        OfRun::new(kept, self.best)
    }
}

//! Checkpoints: files that a run goes on from.
//!
//! Owns their format: safetensors with the weights under their layers' paths, so that other programs read them, the
//! optimizer's state under `optimizer.`, and texts with the run's progress and its experiment. Always holds: a checkpoint is
//! complete, because it is written aside, flushed to the disk and renamed; a run that goes on from one has the losses of a
//! run that was never stopped. Refuses a file that is damaged, of another program, newer, or of another architecture, before
//! it is used.

mod answers;
mod data;
mod decides;
mod progress;
mod reader;
mod weights;
mod write;

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

pub(super) use self::{
    data::about,
    progress::{Progress, facts},
    write::{checksum_text, write},
};
use self::{progress::HeaderTexts, reader::Reader};
use crate::{
    backend::{Backend, DryRun, Executor, Rates},
    bytes::{Bytes, counted},
    error::{Error, Problem, Result},
    experiment::{Experiment, Setting, preset, settings::Bears},
    header::{self, Header, Words, unreadable},
    memory::Ledger,
    plan::{Resolved, Resumed, SoFar},
    step::{
        Counters, Session,
        save::{CHECKSUM_AT, NO_CHECKSUM},
    },
    train::claim::{Claim, Refused},
    whole_file,
};

/// The version of the format that this program writes.
const VERSION: u32 = 2;
/// The first version, which is read as well. Its checksum leaves out the header.
const FIRST: u32 = 1;
/// The name of the last checkpoint of a run in its folder.
pub(super) const LAST: &str = "last.safetensors";
/// The name of the best one.
pub(super) const BEST: &str = "best.safetensors";
/// The words for a file in messages.
const WORDS: Words = Words {
    what: "a checkpoint",
    choose: "choose a checkpoint (.safetensors) of a run",
    mend: "take another checkpoint of the run, or train it again",
    // A file that was exported, which is refused for what it is.
    takes_others: true,
};
/// Bytes that a file is read by to add it up.
const READ: usize = 64 << 10;

/// A checkpoint, open and found to be whole.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    file: File,
    header: Header,
    progress: Progress,
    counters: Counters,
}

impl Checkpoint {
    /// The name of the checkpoint of the best test in a run's folder.
    pub const BEST: &str = BEST;
    /// The names of the checkpoints in a run's folder.
    pub const NAMES: [&str; 2] = [LAST, BEST];
    /// The name in a run's folder of the ranges by which the inputs of its model became integers.
    pub const RANGES: &str = "ranges.safetensors";

    /// The checkpoint at `path`: the file itself, or of a run's folder the last one.
    ///
    /// # Errors
    /// Fails for a folder without a checkpoint.
    pub fn at(path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Ok(path.to_owned());
        }
        let found = Self::NAMES.into_iter().map(|name| path.join(name)).find(|file| file.exists() && !file.is_dir());
        found.ok_or_else(|| {
            let message = format!("has no checkpoint ({LAST}); choose the folder of a run that was saved");
            Error::file(path, message)
        })
    }

    /// Opens the checkpoint at `path` and reads it through once.
    ///
    /// # Errors
    /// Fails for a file that cannot be read, was cut short or damaged, was not written by this program, or was written by a
    /// newer version of it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        if path.is_dir() {
            return Err(Error::file(path, "is a folder; choose a checkpoint (.safetensors) in it"));
        }
        // Opening a pipe would wait for a writer.
        if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
            return Err(Error::file(
                path,
                "is a pipe or a device; choose a checkpoint that lies on a disk (.safetensors)",
            ));
        }
        let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
        let header = header::read(&path, &file, WORDS)?;
        let version = header.facts.get("plimsoll").and_then(|version| version.parse::<u32>().ok());
        match version {
            Some(FIRST | VERSION) => {}
            Some(newer) if newer > VERSION => {
                let message = format!(
                    "was written by a newer version of this program (format {newer}, and this one reads {VERSION}); update it"
                );
                return Err(Error::file_at(path, "header, plimsoll", message));
            }
            _ => {
                let message = "has weights, and not where a run stood: it was exported, or is of another program; choose a \
                               checkpoint of a run, or begin an experiment with these weights (--set weights.path=FILE)";
                return Err(Error::file_at(path, "header, plimsoll", message));
            }
        }
        let missing = |name: &'static str| {
            let message = format!("is missing or not a number; the file is damaged: {}", WORDS.mend);
            Error::file_at(&path, format!("header, {name}"), message)
        };
        let progress = HeaderTexts(&header.facts).progress().map_err(missing)?;
        let counters = HeaderTexts(&header.facts).counters().map_err(missing)?;
        let checkpoint = Self { path, file, header, progress, counters };
        checkpoint.adds_up(version == Some(FIRST))?;
        Ok(checkpoint)
    }

    /// Refuses a file that is not as it was written. In the first version the checksum covers only the elements.
    fn adds_up(&self, is_of_elements: bool) -> Result<()> {
        let failed = |error: std::io::Error| unreadable(&self.path, &error);
        let (mut file, mut hasher, mut bytes) = (&self.file, crc32fast::Hasher::new(), vec![0; READ]);
        let from = if is_of_elements {
            self.header.elements_at
        } else {
            // The checksum itself counts as the placeholder that stood there before it.
            let mut before = [0; CHECKSUM_AT as usize];
            file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut before)).map_err(failed)?;
            hasher.update(&before);
            hasher.update(NO_CHECKSUM.as_bytes());
            CHECKSUM_AT + NO_CHECKSUM.len() as u64
        };
        file.seek(SeekFrom::Start(from)).map_err(failed)?;
        loop {
            let read = file.read(&mut bytes).map_err(failed)?;
            if read == 0 {
                break;
            }
            hasher.update(&bytes[..read]);
        }
        let found = checksum_text(hasher.finalize());
        match self.header.facts.get("checksum") {
            Some(written) if *written == found => Ok(()),
            _ => {
                let message = format!(
                    "does not agree with the file: it was damaged after it was written, or changed by another program; {}",
                    WORDS.mend
                );
                Err(Error::file_at(&self.path, "header, checksum", message))
            }
        }
    }

    /// The checkpoint's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Steps that were done when it was written.
    pub fn step(&self) -> u64 {
        self.progress.step
    }

    /// The experiment of its run.
    ///
    /// # Errors
    /// Fails when its text cannot be read, with the place in it.
    pub fn experiment(&self) -> Result<Experiment> {
        let text = self.header.facts.get("experiment").map_or("", String::as_str);
        preset::parse(text, self.path.join("experiment"))
    }

    /// The facts that the prediction and the record of a run that goes on from it must know.
    pub(super) fn resumed(&self, is_same_run: bool) -> Resumed {
        let Progress { step, so_far, .. } = self.progress;
        // The record of another run is not this one's.
        let so_far = if is_same_run { so_far } else { SoFar::default() };
        Resumed { step, counters: self.counters.clone(), so_far }
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Refuses an experiment that its run cannot go on as: one of another model, other data, another order of them or
    /// another optimizer. Settings that change neither tensors nor samples may differ: with another evaluation batch the
    /// losses of the steps are the same to the last bit.
    pub(super) fn goes_on_as(&self, experiment: &Experiment) -> Result<()> {
        let own = self.experiment()?;
        let changes = preset::changes(&own, &experiment.decided_as(&own));
        // Samples that are kept as they are teach the same as those that are read again, and variants that are kept do not.
        let is_kept_alike = own.data.cache.copies() == experiment.data.cache.copies();
        let is_fed =
            |setting: &Setting| setting.bears() == Bears::Feeding || is_kept_alike && setting.key == "data.cache";
        let samples = [&own, experiment].map(|experiment| experiment.batch.effective() as u64);
        let is_of_batch = |key: &str| samples[0] != samples[1] && ["batch.micro", "batch.accumulation"].contains(&key);
        let decides = |change: &&String| {
            let setting = change.split('=').next().and_then(Setting::of);
            setting.is_some_and(|setting| {
                let key = setting.key;
                is_of_batch(key) || decides::training(key) && !is_fed(setting)
            })
        };
        let mut differs: Vec<&str> = changes.iter().filter(decides).map(String::as_str).collect();
        let batch = format!("so {} in a step and not {}", counted(samples[1], "sample"), samples[0]);
        if samples[0] != samples[1] {
            differs.push(&batch);
        }
        if differs.is_empty() {
            return Ok(());
        }
        let message = format!(
            "is a checkpoint of another experiment: this one has {}; give it the settings of the checkpoint, or start a run of \
             its own",
            differs.join(", ")
        );
        Err(Error::file_at(&self.path, "experiment", message))
    }

    /// Refuses a run with other settings than that which saved it. Its length and its titles may differ.
    pub(super) fn is_of_run(&self, experiment: &Experiment) -> Result<()> {
        const LENGTH: [&str; 2] = ["run.steps", "run.epochs"];
        let own = self.experiment()?;
        let differing = preset::differing(&[&own, &experiment.decided_as(&own)])
            .into_iter()
            .filter(|(key, _)| !LENGTH.contains(key));
        let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "not used".to_owned());
        let differing: Vec<String> = differing
            .map(|(key, values)| format!("{key} (here {}, of the run {})", told(&values[0]), told(&values[1])))
            .collect();
        if differing.is_empty() {
            return Ok(());
        }
        let message = format!(
            "is not a checkpoint of this run: the settings differ in {}; bring back the run's own, or copy this one to a \
             folder of its own and go on with it there (`plimsoll resume FILE`)",
            differing.join(", ")
        );
        Err(Error::file_at(&self.path, "experiment", message))
    }

    /// Refuses a checkpoint that does not belong to the run of `experiment`: with other settings, or, if `resolved` is known,
    /// with tensors that are not those of its model and optimizer. A dry run makes those for comparison, so nothing is held.
    ///
    /// # Errors
    /// Fails, and names the differences.
    pub fn holds_the_run(&self, experiment: &Experiment, resolved: Option<&Resolved>) -> Result<()> {
        self.is_of_run(experiment)?;
        let Some(resolved) = resolved else { return Ok(()) };
        let (target, gpu) = (resolved.target().clone(), &experiment.gpu);
        let ledger = Ledger::for_target(&target, gpu.pool, Bytes(u64::MAX), false, false);
        let executor = Executor::new(DryRun::new(target, Rates::NOMINAL), ledger);
        self.restore(&mut Session::new(executor, resolved.experiment(), resolved.info())?)
    }

    /// Refuses a run of `total_steps` that has none left, unless its last test or its end is missing.
    pub(super) fn has_work_left(&self, total_steps: u64, lacks_end: bool) -> Result<()> {
        let Progress { step, so_far: SoFar { tested, .. }, .. } = self.progress;
        if step < total_steps || (step == total_steps && (lacks_end || tested < step)) {
            return Ok(());
        }
        let steps = counted(total_steps, "step");
        let message = format!("the run has {steps}, and the checkpoint was written after {step}");
        Err(Problem::new("run.steps", message, format!("write more than {step} (--steps)")).into())
    }

    /// Gives a session the state that was saved.
    pub(super) fn restore<B: Backend>(&self, session: &mut Session<B>) -> Result<()> {
        session.restore(&self.counters, &mut Reader::new(self))
    }

    fn of_another(&self, place: String, message: String) -> Error {
        let message = format!(
            "{message}: it is a checkpoint of another architecture; give the experiment the settings of the checkpoint, or \
             choose another one"
        );
        Error::file_at(&self.path, place, message)
    }
}

/// Makes `folder` ready for the checkpoints of a run that begins, and claims it until the run has ended.
///
/// # Errors
/// Fails when it cannot be made, takes no file, or another run is saved there at this moment.
pub(super) fn prepare(folder: &Path) -> Result<Claim> {
    let made = || fs::create_dir_all(folder).and_then(|()| whole_file::can_be_written_in(folder));
    let closed = |error: std::io::Error| {
        Error::file(folder, format!("takes no checkpoint: {}; choose another folder", whole_file::reason(&error)))
    };
    made().map_err(closed)?;
    let claim = match Claim::take(folder) {
        // A folder with nothing in it may be cleared away at any moment.
        Err(Refused::System(_)) => made().map_err(Refused::System).and_then(|()| Claim::take(folder)),
        claim => claim,
    };
    let claim = claim.map_err(|refused| match refused {
        Refused::System(error) => closed(error),
        Refused::NoFile(lock) => {
            let message = "is a link or a folder in place of the file that says which process trains the run; remove it";
            Error::file(lock, message)
        }
        Refused::Held(pid) => {
            let process = Refused::process(pid);
            let message = format!(
                "the run whose checkpoints go here is being trained by {process}; stop it there first (Ctrl-C saves it), or \
                 wait until it has ended"
            );
            Error::file(folder, message)
        }
    })?;
    whole_file::remove_begun(folder);
    Ok(claim)
}

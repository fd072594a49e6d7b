//! The teacher: its model by its file, and its use with the model that learns.
//!
//! Always holds: only headers and configurations are read here, no weights. Refuses a file that does not say which model it
//! belongs to, adapters, and a teacher whose answers are not those that the data ask for.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use crate::{
    bytes::counted,
    error::{Error, Problem, Result},
    experiment::{
        Checkpointing, DatasetInfo, Distil, Experiment, Frozen, LabelKind, Lora, Prune, PruneKind, Quantise, Recompute,
        Weights,
        check::check,
        hugging_face::{self, Published},
        preset, shipped,
        weights::{
            files::{self, Files},
            own,
        },
    },
    header::{self, Header, THINNED, WEIGHTS, unreadable},
};

const KEY: &str = "distil.teacher";
/// The longest configuration that is read.
const MOST: u64 = 1 << 20;

/// A model that teaches, by the file at its path.
#[derive(Debug, Clone, PartialEq)]
pub struct Teacher {
    path: PathBuf,
    /// The experiment that it was trained as; of a published model only the model is known.
    own: Experiment,
    is_run: bool,
    /// Whether it is a preset, whose run is yet to come.
    is_preset: bool,
    /// Whether channels were taken out of it.
    is_thinned: bool,
    /// How many classes or tokens it answers with, where the file says.
    classes: Option<usize>,
}

impl Teacher {
    /// Reads the file or folder at `path`.
    ///
    /// # Errors
    /// Fails for a path without weights, for files that cannot be read, and if nothing says which model they belong to.
    pub fn read(path: &Path) -> Result<Self> {
        if let Some(own) = described(path)? {
            let path = path.to_owned();
            return Ok(Self { path, own, is_run: true, is_preset: true, is_thinned: false, classes: None });
        }
        let Files { paths, config, .. } = files::found(path)?;
        let Some(first) = paths.first() else { return Err(Error::file(path, "has no weights; choose a kept run")) };
        let file = File::open(first).map_err(|error| unreadable(first, &error))?;
        let header = header::read(first, &file, WEIGHTS)?;
        let text = own::fact(&header.facts, "experiment");
        if let Some(text) = text {
            let own = preset::parse(text, first.join("experiment"))?;
            let classes = classes(&header, &own);
            let is_thinned = header.facts.get(THINNED).is_some_and(|word| word == "true");
            return Ok(Self { path: path.to_owned(), own, is_run: true, is_preset: false, is_thinned, classes });
        }
        let Some(config) = config else {
            let message =
                "says nothing about the model whose weights it has; choose a kept run, or a folder with a config.json";
            return Err(Error::file(path, message));
        };
        let mut text = String::new();
        let failed = |error: std::io::Error| unreadable(&config, &error);
        File::open(&config).map_err(failed)?.take(MOST).read_to_string(&mut text).map_err(failed)?;
        let Published { model, unlike } = hugging_face::published(&text, &config)?;
        if !unlike.is_empty() {
            let message = format!(
                "is of a model with {}, which has no place here: it would answer something else; choose another teacher",
                unlike.join(", ")
            );
            return Err(Error::file(config, message));
        }
        let own = Experiment { model, ..Experiment::default() };
        Ok(Self { path: path.to_owned(), own, is_run: false, is_preset: false, is_thinned: false, classes: None })
    }

    /// Whether a preset lies at `path`, so that the teacher has yet to be trained.
    pub fn is_described(path: &Path) -> bool {
        described(path).is_ok_and(|own| own.is_some())
    }

    /// What to do about a teacher that cannot be one.
    pub(crate) const OTHER: &str = "choose another teacher, or none";

    /// The problem of a path without a teacher.
    pub fn problem_of(error: &Error) -> Problem {
        Problem::new(KEY, error.to_string(), Self::OTHER)
    }

    /// The experiment of the run that trained it; `None` of a published model, and of a preset, whose run is yet to come.
    pub fn trained_as(&self) -> Option<&Experiment> {
        (self.is_run && !self.is_preset).then_some(&self.own)
    }

    /// Whether it lies at this path.
    pub fn is_at(&self, path: &Path) -> bool {
        self.path == path
    }

    /// The reason why it cannot teach `student` on data of these facts; `None` if it can.
    pub fn problem(&self, student: &Experiment, info: &DatasetInfo) -> Option<Problem> {
        if info.label == LabelKind::Value {
            let message = "a teacher is asked how likely it finds each class, and the labels are values";
            return Some(Problem::new(KEY, message, "leave it out, or learn classes"));
        }
        if self.own.lora.rank > 0 {
            let message = "the run trained adapters with a model that lies elsewhere";
            let mend = "export it whole (`plimsoll export RUN --format huggingface --merge`) and choose that folder";
            return Some(Problem::new(KEY, message, mend));
        }
        if self.is_preset
            && let Some(message) = unfinished(&self.own)
        {
            let mend = "train it as a run of its own and choose that run, or choose another teacher";
            return Some(Problem::new(KEY, message, mend));
        }
        if let Some(classes) = self.classes.filter(|classes| *classes != info.classes) {
            let classes = counted(classes as u64, "class");
            let message = format!("the teacher answers with {classes}, and the data have {}", info.classes);
            return Some(Problem::new(KEY, message, "choose a teacher that learned the same classes"));
        }
        let beside = self.beside(student);
        let wrong = check(&beside, Some(info)).into_iter().find(|problem| problem.key.starts_with("model."))?;
        Some(Problem::new(KEY, format!("the teacher's model cannot answer here: {}", wrong.message), Self::OTHER))
    }

    /// A note for the user, if the teacher learned from other data, or from samples that test this run.
    pub fn note(&self, student: &Experiment) -> Option<String> {
        if !self.is_run {
            return None;
        }
        let (own, own_run, other) = (&self.own.data, &self.own.run, &student.data);
        if own.kind != other.kind || own.path != other.path {
            return Some(format!("the teacher learned from other data ({}): it may answer worse here", own.kind.key()));
        }
        let is_divided_alike = self.own.run.seed == student.run.seed
            && own.test_fraction == other.test_fraction
            && own.samples == other.samples;
        (own.kind.is_split() && !is_divided_alike).then(|| {
            let settings = [
                ("run.seed", own_run.seed.to_string(), student.run.seed.to_string()),
                ("data.test_fraction", own.test_fraction.to_string(), other.test_fraction.to_string()),
                ("data.samples", own.samples.to_string(), other.samples.to_string()),
            ];
            let differ = settings.into_iter().filter(|(_, own, other)| own != other);
            let alike: Vec<String> = differ.map(|(key, own, _)| format!("{key} = {own}")).collect();
            format!(
                "the teacher's run held out other samples: it learned from some that test this one, and the accuracy of the \
                 test would look better than it is; write {}, as the teacher has it",
                alike.join(", ")
            )
        })
    }

    /// The experiment that trains it first, where it is a preset: on the device and under the budget of `student`.
    pub fn to_train(&self, student: &Experiment) -> Option<Experiment> {
        self.is_preset.then(|| Experiment {
            budget: student.budget,
            device: student.device.clone(),
            gpu: student.gpu.clone(),
            ..self.own.clone()
        })
    }

    /// The experiment that builds the teacher next to `student`: frozen, in the types that the student computes in.
    pub fn beside(&self, student: &Experiment) -> Experiment {
        let mut beside = Experiment {
            model: self.own.model.clone(),
            frozen: Frozen::All,
            lora: Lora::default(),
            quantise: Quantise::default(),
            low_rank: self.own.low_rank.clone(),
            prune: if self.is_thinned { self.own.prune } else { Prune::default() },
            weights: Weights::default(),
            distil: Distil::default(),
            checkpointing: Checkpointing::None,
            recompute: Recompute::None,
            retain_graph: false,
            loss_chunk: 0,
            ..student.clone()
        };
        // It answers, and drops nothing.
        beside.model.dropout = 0.0;
        beside
    }
}

/// The experiment of the preset at `path`: a file, or the name of a shipped preset if nothing else has that name.
fn described(path: &Path) -> Result<Option<Experiment>> {
    if path.extension().is_some_and(|end| end == "toml") {
        return Ok(Some(preset::open(path)?.experiment));
    }
    let name = path.to_str().filter(|_| !path.exists());
    name.and_then(shipped::find).transpose()
}

/// Why the model that a preset would train cannot be known before it is trained.
fn unfinished(own: &Experiment) -> Option<&'static str> {
    if own.distil.chosen().is_some() {
        return Some("the preset has a teacher of its own");
    }
    if own.prune.kind == PruneKind::Channels {
        return Some("the preset takes channels out of its model while it is trained");
    }
    own.low_rank.is_sought().then_some("the preset finds the ranks of its model's layers when it begins")
}

/// How many classes or tokens a run's model answers with.
fn classes(header: &Header, own: &Experiment) -> Option<usize> {
    let name = if own.model.kind.is_decoder() && own.model.tied { "embedding.weight" } else { "head.classes.weight" };
    header.tensors.get(name)?.shape.first().and_then(|rows| usize::try_from(*rows).ok())
}

//! A model that is tried, the source of its weights, and the memory of the try.

use std::path::PathBuf;

use crate::{
    autograd::Cached,
    backend::Backend,
    bytes::Bytes,
    data::Dataset,
    error::Result,
    experiment::{Experiment, Task},
    interop::{self, Fitted},
    memory::probe::uncounted,
    plan::{Begun, Resolved},
    step::Session,
    train::Checkpoint,
};

/// A model that is tried: an experiment, with the weights of one of its checkpoints or those that it begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The model, its data, the device and the budget.
    pub experiment: Experiment,
    /// The checkpoint whose weights it has; without one it has the weights of `weights.path`, or is as it is initialised.
    pub checkpoint: Option<PathBuf>,
}

impl Tried {
    /// The model of `experiment` as a run of it would begin.
    pub fn begun(experiment: Experiment) -> Self {
        Self { experiment, checkpoint: None }
    }

    /// The task that its model learned.
    pub fn task(&self) -> Task {
        self.experiment.data.task()
    }
}

/// The memory of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    /// The budget.
    pub budget: Bytes,
    /// Predicted: most bytes alive, by the dry run of the same passes.
    pub predicted: Bytes,
    /// Measured: most bytes alive.
    pub measured: Bytes,
    /// Predicted: the key-value cache of a text that was written on, a part of the whole; none otherwise, and none if the
    /// prompt fills all places.
    pub cached: Option<Cached>,
}

/// Where the weights of a model that was tried came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WeightsFrom {
    /// A checkpoint, after this many steps.
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Steps that were done.
        step: u64,
    },
    /// Files of weights.
    Files(PathBuf),
    /// The weights are as they are initialised: nothing was learned.
    Initialised,
}

/// Weights, open and found to be of the model.
pub(super) enum Weights {
    Checkpoint(Box<Checkpoint>),
    Files(Box<Fitted>),
    Initialised,
}

impl Weights {
    /// Opens the checkpoint of `tried`, if it has one, and refuses one of another model.
    pub(super) fn checkpoint(tried: &Tried) -> Result<Option<Checkpoint>> {
        let checkpoint = tried.checkpoint.as_ref().map(|path| Checkpoint::open(Checkpoint::at(path)?)).transpose()?;
        if let Some(checkpoint) = &checkpoint {
            checkpoint.answers_as(&tried.experiment)?;
        }
        Ok(checkpoint)
    }

    pub(super) fn of(checkpoint: Option<Checkpoint>, resolved: &Resolved) -> Result<Self> {
        if let Some(checkpoint) = checkpoint {
            return Ok(Self::Checkpoint(Box::new(checkpoint)));
        }
        let chosen = interop::chosen(resolved.experiment(), resolved.info())?;
        Ok(chosen.map_or(Self::Initialised, |fitted| Self::Files(Box::new(fitted))))
    }

    /// Refuses data for which they answer something else than they learned.
    pub(super) fn answer_for(&self, dataset: &Dataset, resolved: &Resolved) -> Result<()> {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.answers_for(dataset, &resolved.experiment().data),
            Self::Files(_) | Self::Initialised => Ok(()),
        }
    }

    /// The warning if they did not learn from these data, or lack a part of the model.
    pub(super) fn caution(&self, dataset: &Dataset, resolved: &Resolved) -> Option<String> {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.caution(dataset, resolved.experiment()),
            Self::Files(fitted) => fitted.caution().or_else(|| resolved.caution()),
            Self::Initialised => None,
        }
    }

    /// A warning about a prompt whose tokens are not those of the tokenizer that the model learned with.
    pub(super) fn caution_of_tokens(&self, tokenizer_checksum: Option<u32>) -> Option<String> {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.caution_of_tokens(tokenizer_checksum),
            Self::Files(fitted) => fitted.caution(),
            Self::Initialised => None,
        }
    }

    /// The names of the classes. A checkpoint has the names of the data that it learned from. Loaded weights have the names in
    /// their own files, unless the user's data name their classes. Names of data that the model never saw do not count.
    pub(super) fn class_names(&self, dataset: &Dataset) -> Vec<String> {
        let classes = dataset.facts().classes;
        let numbered = || (0..classes).map(|class| format!("class {class}")).collect();
        let loaded = match self {
            Self::Files(fitted) if !dataset.has_own_class_names() && fitted.has_head() => {
                let is_named = |names: &Vec<String>| names.len() == classes;
                fitted.class_names().filter(is_named).or_else(|| fitted.is_published().then(numbered))
            }
            Self::Checkpoint(checkpoint) => checkpoint.class_names(),
            Self::Files(_) | Self::Initialised => None,
        };
        let of_data = || (0..classes).map(|class| dataset.class_name(class)).collect();
        loaded.filter(|names| names.len() == classes).unwrap_or_else(of_data)
    }

    /// Where the weights come from, for a report.
    pub(super) fn source(&self, tried: &Tried) -> WeightsFrom {
        match self {
            Self::Checkpoint(checkpoint) => {
                WeightsFrom::Checkpoint { path: checkpoint.path().to_owned(), step: checkpoint.step() }
            }
            Self::Files(_) => WeightsFrom::Files(tried.experiment.weights.chosen().map(Into::into).unwrap_or_default()),
            Self::Initialised => WeightsFrom::Initialised,
        }
    }

    /// How a model with these weights begins.
    pub(super) fn begun(&self) -> Begun {
        match self {
            Self::Checkpoint(checkpoint) if checkpoint.is_thinned() => Begun::Thinned,
            Self::Checkpoint(_) | Self::Files(_) => Begun::Loaded,
            Self::Initialised => Begun::Drawn,
        }
    }

    /// Whether they have the tensor `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Checkpoint(_) => true,
            Self::Files(fitted) => fitted.has(name),
            Self::Initialised => false,
        }
    }

    /// Gives them to a session of the model.
    pub(super) fn load<B: Backend>(self, session: &mut Session<B>) -> Result<()> {
        match self {
            Self::Checkpoint(checkpoint) => {
                let loaded = checkpoint.load(session);
                uncounted(|| drop(checkpoint));
                loaded
            }
            Self::Files(mut fitted) => {
                let loaded = session.load(&mut *fitted);
                uncounted(|| drop(fitted));
                loaded
            }
            Self::Initialised => Ok(()),
        }
    }
}

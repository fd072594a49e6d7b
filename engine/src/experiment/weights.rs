//! What a model begins with: nothing, or weights that lie in files.

pub(crate) mod files;
pub(crate) mod known;
pub(crate) mod own;

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use crate::{
    error::Problem,
    experiment::{
        Data, DataKind, DataSetting, Experiment, Normalise, TableTask,
        settings::{NOTHING, settings},
    },
};

settings! {
    /// What the model begins with.
    pub struct Weights in weights {
        /// A file of weights (.safetensors), or a folder with a `config.json` and `model.safetensors`, whole or in parts;
        /// without one the weights are drawn at random. A run that goes on from a checkpoint does not need it any more.
        pub path: Option<PathBuf> = None, NOTHING.quiet();
    }
}

/// The one file of weights of a folder in the layout of Hugging Face.
pub const WHOLE: &str = "model.safetensors";
/// What a folder with weights in several files has in its place.
pub const INDEX: &str = "model.safetensors.index.json";
/// The configuration next to weights.
pub const CONFIG: &str = "config.json";
/// The configuration next to adapters.
pub const ADAPTERS: &str = "adapter_config.json";
/// The tokenizer next to weights.
pub const TOKENIZER: &str = "tokenizer.json";

/// Endings of pickled files, which are not read: reading one runs the program in it.
const PICKLED: [&str; 6] = ["bin", "pt", "pth", "ckpt", "pkl", "pickle"];

/// Why a pickled file is not read, and what to do instead.
pub(crate) const PICKLED_IS_REFUSED: &str = "is pickled, and reading a pickled file runs the program in it; save the weights \
     as safetensors where the file comes from (save_pretrained, or safetensors.torch.save_model)";

/// Whether `folder` has weights in the layout of Hugging Face, or something by their name.
pub fn are_in(folder: &Path) -> bool {
    [WHOLE, INDEX].iter().any(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Whether `folder` has a tokenizer, or something else with its name: opening that is refused.
pub fn has_tokenizer(folder: &Path) -> bool {
    folder.join(TOKENIZER).symlink_metadata().is_ok()
}

/// Whether a file is a pickled one, by its name.
pub fn is_pickled(path: &Path) -> bool {
    path.extension().is_some_and(|ending| PICKLED.iter().any(|pickled| ending.eq_ignore_ascii_case(pickled)))
}

/// A pickled file in `folder`.
pub fn pickled_in(folder: &Path) -> Option<PathBuf> {
    folder.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(|path| is_pickled(path))
}

impl Weights {
    /// The problem of a pipe or a device in the place of the file: a run could not begin with it, so there is no plan either.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let file = files::not_a_file(self.chosen()?)?;
        Some(Problem::new("weights.path", format!("{} {}", file.display(), files::NO_FILE), files::CHOOSE))
    }

    /// The file or folder, where one is chosen.
    pub fn chosen(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| !path.as_os_str().is_empty())
    }
}

impl Experiment {
    /// The same experiment with what was found out for `other` where this one leaves it open: the label and the task of a
    /// table, and the ranks of factored layers. A run has them decided.
    pub fn decided_as(&self, other: &Self) -> Cow<'_, Self> {
        let by_data = self.decided_by_data(other);
        let (own, known) = (&self.low_rank, &other.low_rank);
        let is_alike = (own.energy, own.size) == (known.energy, known.size);
        if !own.is_sought() || !is_alike || known.ranks.is_empty() || own.ranks == known.ranks {
            return by_data;
        }
        Cow::Owned(by_data.into_owned().ranked(&known.table()))
    }

    fn decided_by_data(&self, other: &Self) -> Cow<'_, Self> {
        let (own, known) = (&self.data, &other.data);
        let is_open = own.label.is_empty() || own.task == TableTask::Auto;
        if own.kind != DataKind::Table || known.kind != DataKind::Table || !is_open {
            return Cow::Borrowed(self);
        }
        let mut decided = self.clone();
        if own.label.is_empty() {
            decided.data.label.clone_from(&known.label);
        }
        if own.task == TableTask::Auto {
            decided.data.task = known.task;
        }
        Cow::Owned(decided)
    }

    /// The data by which a prompt is written: a published language model that learns generated tokens takes text if its
    /// tokenizer is known, either the data's or the one next to its weights.
    pub fn prompt_data(&self) -> Cow<'_, Data> {
        match self.data.kind {
            DataKind::Tokens => {}
            kind if kind.uses(DataSetting::Tokenizer) => return self.whole_data(),
            _ => return Cow::Borrowed(&self.data),
        }
        let is_there = |path: &&Path| has_tokenizer(path) || path.is_file();
        let beside = || self.weights.chosen().and_then(|path| if path.is_dir() { Some(path) } else { path.parent() });
        let found = self.data.chosen_tokenizer().filter(is_there);
        match found.or_else(|| beside().filter(|folder| has_tokenizer(folder))) {
            None if self.data.tokenizer.is_none() => Cow::Borrowed(&self.data),
            found => Cow::Owned(Data { tokenizer: found.map(Path::to_owned), ..self.data.clone() }),
        }
    }

    /// The data with what the experiment says of them elsewhere: texts without a tokenizer of their own have the tokenizer in
    /// the folder of the weights, and images are scaled as the weights were trained.
    pub fn whole_data(&self) -> Cow<'_, Data> {
        if self.data.kind.has_colours() && self.data.normalise == Normalise::Auto {
            let expected = self.weights.chosen().and_then(|path| Normalise::of_weights(path, self.model.kind));
            return match expected {
                Some(normalise) => Cow::Owned(Data { normalise, ..self.data.clone() }),
                None => Cow::Borrowed(&self.data),
            };
        }
        let is_open = self.data.kind.uses(DataSetting::Tokenizer) && self.data.chosen_tokenizer().is_none();
        let weights = self.weights.chosen().filter(|_| is_open);
        if let Some(gone) = weights.filter(|path| self.data.kind == DataKind::Jsonl && !path.exists()) {
            // The code that looks for the tokenizer there says so: without it the same text would be other tokens.
            return Cow::Owned(Data { tokenizer: Some(gone.to_owned()), ..self.data.clone() });
        }
        let folder = weights.and_then(|path| if path.is_dir() { Some(path) } else { path.parent() });
        match folder.filter(|folder| has_tokenizer(folder)) {
            Some(folder) => Cow::Owned(Data { tokenizer: Some(folder.to_owned()), ..self.data.clone() }),
            None => Cow::Borrowed(&self.data),
        }
    }
}

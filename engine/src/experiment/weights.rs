//! What a model begins with: nothing, or weights that lie in files.

use std::path::{Path, PathBuf};

use crate::experiment::settings::{NOTHING, settings};

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
/// The configuration beside weights.
pub const CONFIG: &str = "config.json";

/// Whether `folder` has weights in the layout of Hugging Face.
pub fn are_in(folder: &Path) -> bool {
    [WHOLE, INDEX].iter().any(|name| folder.join(name).is_file())
}

impl Weights {
    /// The file or folder, where one is chosen.
    pub fn chosen(&self) -> Option<&Path> {
        self.path.as_deref().filter(|path| !path.as_os_str().is_empty())
    }
}

//! What is saved between the passes, and how long.

use serde::{Deserialize, Serialize};

/// Which outputs of layers are kept for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outputs {
    /// All that a gradient needs.
    Kept,
    /// Those that follow by a few fast kernels from what is kept anyway are made again when they are needed: the outputs
    /// of normalisations, of activations and sums after them, and of convolutions of few taps.
    MadeAgain,
}

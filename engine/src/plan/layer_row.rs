//! The memory of one layer.

use serde::{Deserialize, Serialize};

use crate::layer_path;

/// The memory of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRow {
    /// Path of the layer, such as `block1/conv`.
    pub path: String,
    /// The number of parameters.
    pub parameters: u64,
    /// How many of them are trained.
    pub trained: u64,
    /// Bytes of its weights, master weights included.
    pub weight_bytes: u64,
    /// Bytes of its activations that are alive when the backward pass begins.
    pub saved_bytes: u64,
    /// Bytes of its parameter gradients.
    pub gradient_bytes: u64,
    /// Bytes of its optimizer state.
    pub optimizer_bytes: u64,
    /// Bytes it holds when the run is at its peak.
    pub peak_bytes: u64,
}

impl LayerRow {
    /// Whether it is a teacher, whose layers are one row.
    pub fn is_teacher(&self) -> bool {
        self.path == layer_path::TEACHER.trim_end_matches('/')
    }
}

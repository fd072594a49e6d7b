//! How the window looks: what is remembered between sessions, besides the experiment.

use eframe::egui;
use plimsoll_engine::plan::Pass;
use serde::{Deserialize, Serialize};

/// The horizontal axis of the live curves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Axis {
    /// Optimizer steps.
    #[default]
    Step,
    /// Seconds.
    Time,
}

/// A column of the table of layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LayerColumn {
    /// Forward order.
    #[default]
    Layer,
    /// Parameters.
    Parameters,
    /// Bytes of weights.
    Weights,
    /// Bytes of saved activations.
    Saved,
    /// Bytes of gradients.
    Gradient,
    /// Bytes of optimizer state.
    Optimizer,
    /// Bytes at the peak.
    Peak,
}

/// A column of the table of what is alive at the peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AliveColumn {
    /// What it is.
    Name,
    /// Whose.
    Layer,
    /// What for.
    Category,
    /// How large.
    #[default]
    Bytes,
}

/// How a table is sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sort<C> {
    /// By what.
    pub(crate) column: C,
    /// The largest first.
    pub(crate) falling: bool,
}

/// How the window looks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct View {
    /// Dark or light.
    pub(crate) theme: egui::ThemePreference,
    /// Share of the past in the smoothed curves, 0 to below 1.
    pub(crate) smoothing: f32,
    /// The loss on a logarithmic axis.
    pub(crate) log_loss: bool,
    /// The gradient norm on a logarithmic axis.
    pub(crate) log_norm: bool,
    /// The horizontal axis of the live curves.
    pub(crate) axis: Axis,
    /// Which curves of memory are shown: live, reserved, process, predicted, budget.
    pub(crate) memory: [bool; 5],
    /// The same of a run on a GPU, where the budget counts the process.
    pub(crate) memory_on_gpu: [bool; 5],
    /// The pass whose timeline is shown: first, steady or evaluate; `None` follows the peak.
    #[serde(skip)]
    pub(crate) pass: Option<Pass>,
    /// The pinned timeline fills the picture, and the present one is the outline.
    #[serde(skip)]
    pub(crate) show_before: bool,
    /// The table of layers.
    pub(crate) layers: Sort<LayerColumn>,
    /// The table of what is alive.
    pub(crate) alive: Sort<AliveColumn>,
    /// Show frame times.
    pub(crate) frame_times: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            theme: egui::ThemePreference::Dark,
            smoothing: 0.8,
            log_loss: false,
            log_norm: true,
            axis: Axis::Step,
            // The process is so much larger than a small run that its curve would flatten the others.
            memory: [true, true, false, true, true],
            memory_on_gpu: [true; 5],
            pass: None,
            show_before: false,
            layers: Sort::default(),
            alive: Sort { column: AliveColumn::Bytes, falling: true },
            frame_times: false,
        }
    }
}

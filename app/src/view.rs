//! The look of the window, as it is remembered between sessions: everything except the experiment.

use eframe::egui;
use plimsoll_engine::{plan::Pass, train::Sampling};
use serde::{Deserialize, Serialize};

use crate::trials::strokes::Stroke;

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

/// A column of the table of blocks alive at the peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AliveColumn {
    /// The kind of the device.
    Name,
    /// The owner.
    Layer,
    /// The category.
    Category,
    /// The size.
    #[default]
    Bytes,
}

/// A column of the table of kept runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunColumn {
    /// Its name.
    #[default]
    Name,
    /// Whether it is starred.
    Star,
    /// The details that its name leaves out.
    #[serde(alias = "Differs")]
    Details,
    /// When it began.
    Started,
    /// How far it came.
    State,
    /// The device that it ran on.
    Device,
    /// The measured peak.
    Measured,
    /// The predicted peak.
    Predicted,
    /// Best accuracy on test data.
    Accuracy,
    /// Mean time of a step.
    Step,
}

/// A part of the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ComparePart {
    /// Settings that differ, and their results.
    #[default]
    Settings,
    /// Loss and accuracy.
    Curves,
    /// Memory of one step.
    Step,
    /// Blocks that are alive at one peak and not at another.
    Alive,
}

impl ComparePart {
    /// Whether it is a chart, and not a table.
    pub(crate) fn is_chart(self) -> bool {
        matches!(self, Self::Curves | Self::Step)
    }
}

/// A part of the pane that tries a model of images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum TryPart {
    /// Which class was taken for which.
    #[default]
    Classes,
    /// The test set, leafed through.
    Samples,
    /// A picture that is drawn, or dropped on the window.
    Picture,
}

/// All samples, in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Leaf {
    /// All of them, in their order.
    All,
    /// Samples that were answered right, the surest first.
    Right,
    /// Samples that were not, the surest first; for masks the worst.
    #[default]
    Wrong,
    /// Samples that the model was least sure of, the least sure first.
    Unsure,
}

/// The view of the model that is tried.
#[derive(Debug, Clone)]
pub(crate) struct TryOut {
    /// The part.
    pub(crate) part: TryPart,
    /// Which samples.
    pub(crate) leaf: Leaf,
    /// Only samples of the first class that were answered as the second.
    pub(crate) taken_for: Option<[usize; 2]>,
    /// The page of them.
    pub(crate) page: usize,
    /// The drawn strokes.
    pub(crate) strokes: Vec<Stroke>,
    /// The path of an image, as it is typed.
    pub(crate) path: String,
    /// The prompt, as it is typed.
    pub(crate) prompt: String,
    /// How its tokens are drawn.
    pub(crate) sampling: Sampling,
}

impl Default for TryOut {
    fn default() -> Self {
        let sampling = Sampling { temperature: 0.8, top_p: 0.95, ..Sampling::default() };
        Self {
            part: TryPart::default(),
            leaf: Leaf::default(),
            taken_for: None,
            page: 0,
            strokes: Vec::new(),
            path: String::new(),
            prompt: String::new(),
            sampling,
        }
    }
}

/// How a table is sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sort<C> {
    /// The column to sort by.
    pub(crate) column: C,
    /// The largest first.
    pub(crate) falling: bool,
}

impl<C: Copy + PartialEq> Sort<C> {
    /// The order after a click on the heading of `column`. The first click sorts by the column, from A to Z if it holds
    /// words, else the largest first; the second reverses the order; the third restores the order of the start.
    pub(crate) fn clicked(self, column: C, has_words: bool, at_first: Self) -> Self {
        let first = Self { column, falling: !has_words };
        let second = Self { column, falling: has_words };
        match self {
            now if now == first => second,
            now if now == second && at_first.column == column => first,
            now if now == second => at_first,
            _ => first,
        }
    }
}

/// The largest share of the past in the smoothed curves.
pub(crate) const MOST_SMOOTHING: f32 = 0.99;

/// How the window looks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct View {
    /// Dark or light.
    pub(crate) theme: egui::ThemePreference,
    /// Share of the past in the smoothed curves, 0 to below 1.
    #[serde(deserialize_with = "possible_smoothing")]
    pub(crate) smoothing: f32,
    /// The loss on a logarithmic axis.
    pub(crate) log_loss: bool,
    /// The gradient norm on a logarithmic axis.
    pub(crate) log_norm: bool,
    /// The horizontal axis of the live curves.
    pub(crate) axis: Axis,
    /// Which curves of memory are shown: live, reserved, process, predicted, budget.
    pub(crate) memory: [bool; 5],
    /// The same for a run on a GPU, where the budget counts the process.
    pub(crate) memory_on_gpu: [bool; 5],
    /// The pass whose timeline is shown: first, steady or evaluate; `None` follows the peak.
    #[serde(skip)]
    pub(crate) pass: Option<Pass>,
    /// The pinned timeline fills the picture, and the present one is the outline.
    #[serde(skip)]
    pub(crate) show_before: bool,
    /// The table of layers.
    pub(crate) layers: Sort<LayerColumn>,
    /// The table of live blocks.
    pub(crate) alive: Sort<AliveColumn>,
    /// The table of kept runs.
    pub(crate) runs: Sort<RunColumn>,
    /// The search among kept runs.
    #[serde(skip)]
    pub(crate) run_search: String,
    /// The rows of kept runs that are shown.
    #[serde(skip)]
    pub(crate) shown_runs: crate::panels::ShownRuns,
    /// The part of the comparison that is shown.
    pub(crate) compare: ComparePart,
    /// The view of the model that is tried.
    #[serde(skip)]
    pub(crate) try_out: TryOut,
    /// Show frame times.
    pub(crate) frame_times: bool,
}

/// A share that curves can be smoothed by, whatever was kept.
fn possible_smoothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    f32::deserialize(deserializer).map(|share| share.clamp(0.0, MOST_SMOOTHING))
}

/// How the table of layers is sorted at first.
pub(crate) const LAYERS: Sort<LayerColumn> = Sort { column: LayerColumn::Layer, falling: false };
/// How the table of live blocks is sorted at first.
pub(crate) const ALIVE: Sort<AliveColumn> = Sort { column: AliveColumn::Bytes, falling: true };
/// How the table of kept runs is sorted at first: the newest first.
pub(crate) const RUNS: Sort<RunColumn> = Sort { column: RunColumn::Started, falling: true };

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
            layers: LAYERS,
            alive: ALIVE,
            runs: RUNS,
            run_search: String::new(),
            shown_runs: crate::panels::ShownRuns::default(),
            compare: ComparePart::default(),
            try_out: TryOut::default(),
            frame_times: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_click_on_a_heading_sorts_as_at_first() {
        let clicks = |column, has_words, count| (0..count).fold(RUNS, |sort, _| sort.clicked(column, has_words, RUNS));
        let by = |column, falling| Sort { column, falling };
        assert_eq!(clicks(RunColumn::Name, true, 1), by(RunColumn::Name, false), "words begin at A");
        assert_eq!(clicks(RunColumn::Name, true, 2), by(RunColumn::Name, true));
        assert_eq!(clicks(RunColumn::Name, true, 3), RUNS);
        assert_eq!(clicks(RunColumn::Measured, false, 1), by(RunColumn::Measured, true), "the largest first");
        assert_eq!(clicks(RunColumn::Measured, false, 3), RUNS);
        assert_eq!(clicks(RunColumn::Started, false, 1), by(RunColumn::Started, false));
        assert_eq!(clicks(RunColumn::Started, false, 2), RUNS);
    }
}

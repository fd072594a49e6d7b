//! The list of panes, and the data that each of them works with.

use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::{command::Sender, state::State, view::View};

/// A pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, Serialize, Deserialize)]
pub(crate) enum Pane {
    /// The settings of the experiment.
    Experiment,
    /// One step, op by op.
    Step,
    /// Curves of the run.
    Live,
    /// Gradient norm and learning rate of the run.
    Gradients,
    /// Memory against accuracy.
    Tradeoff,
    /// Runs and plans side by side.
    Compare,
    /// The model of a run, tried.
    TryOut,
    /// The table of layers.
    Layers,
    /// The kept runs.
    Runs,
    /// The blocks alive at the peak.
    Alive,
    /// The figures of the devices.
    Devices,
    /// The log of events.
    Log,
}

impl Pane {
    /// Every pane.
    pub(crate) const ALL: &'static [Self] = Self::VARIANTS;

    /// The pane whose tabs this one joins, where a layout does not say where it is.
    pub(crate) fn next_to(self) -> Self {
        match self {
            Self::Experiment | Self::Step | Self::Live | Self::Tradeoff | Self::Layers => self,
            Self::Gradients => Self::Live,
            Self::Compare => Self::Step,
            Self::TryOut => Self::Live,
            Self::Devices => Self::Tradeoff,
            Self::Runs | Self::Alive | Self::Log => Self::Layers,
        }
    }

    /// The name on its tab.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Experiment => "Experiment",
            Self::Step => "One step",
            Self::Live => "Live",
            Self::Gradients => "Gradient norm and learning rate",
            Self::Tradeoff => "Memory against accuracy",
            Self::Compare => "Compare runs",
            Self::TryOut => "Try it",
            Self::Layers => "Layers",
            Self::Runs => "Runs",
            Self::Alive => "Alive at the peak",
            Self::Devices => "Devices",
            Self::Log => "Log",
        }
    }
}

/// The data that a pane works with.
pub(crate) struct PanelContext<'a> {
    /// The state of the window.
    pub(crate) state: &'a State,
    /// How it looks.
    pub(crate) view: &'a mut View,
    /// Where wishes go.
    pub(crate) send: &'a Sender,
}

//! Which settings are not at their default.

use std::sync::Arc;

use eframe::egui::{self, Ui};
use plimsoll_engine::{Experiment, experiment::preset};

/// An experiment, and its settings that are not at their default.
pub(super) struct Set {
    experiment: Experiment,
    /// A change for each, as on the command line: `key=value`.
    pub(super) changes: Vec<String>,
}

impl Set {
    /// Those of `experiment`: to compare all takes a while, so the last ones are kept from frame to frame.
    pub(super) fn of(experiment: &Experiment, ui: &Ui) -> Arc<Self> {
        let id = egui::Id::unique("settings that are not at their default");
        let kept: Option<Arc<Self>> = ui.data(|data| data.get_temp(id));
        kept.filter(|kept| kept.experiment == *experiment).unwrap_or_else(|| {
            let changes = preset::changes(&Experiment::default(), experiment);
            let set = Arc::new(Self { experiment: experiment.clone(), changes });
            ui.data_mut(|data| data.insert_temp(id, Arc::clone(&set)));
            set
        })
    }
}

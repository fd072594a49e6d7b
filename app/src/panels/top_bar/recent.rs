//! The menu of what was opened before.

use eframe::egui::Ui;

use crate::{command::Action, panels::PanelContext, widgets::tip::Tip as _};

/// Presets opened before: files by their names, then shipped ones by their titles.
pub(super) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let (recent, shipped) = (&context.state.recent, &context.state.shipped);
    if recent.is_empty() {
        ui.weak("Nothing yet");
    }
    let mut entry = |title: &str, hover: &str, action: Action| {
        if ui.button(title).tip(hover).clicked() {
            context.send.send(action);
            ui.close();
        }
    };
    for path in &recent.files {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        entry(&name, &path.display().to_string(), Action::OpenFile(path.clone()));
    }
    for name in &recent.shipped {
        if let Some(at) = shipped.iter().position(|shipped| shipped.name == *name) {
            entry(&shipped[at].experiment.title, name, Action::OpenShipped(at));
        }
    }
}

//! Which model is tried, if there are several: weights that the experiment begins with, and the runs.

use eframe::egui::{ComboBox, Ui};

use super::PanelContext;
use crate::{command::Action, session::RunRecord, theme, trials::Subject, widgets::tip::Tip as _};

/// Whether there is a model to choose other than the one that is tried.
pub(super) fn is_choice(context: &PanelContext<'_>, tried: Subject<'_>) -> bool {
    let weights = Subject::weights(context.state).is_some();
    match tried {
        Subject::Run(_) => weights,
        Subject::Weights { .. } => runs(context).next().is_some(),
    }
}

/// The runs whose models may be there, the newest first.
fn runs<'a>(context: &PanelContext<'a>) -> impl Iterator<Item = &'a RunRecord> {
    context.state.session.all().rev().filter(|run| run.kept.is_some())
}

/// The models, if there are several: a list of them.
pub(super) fn list(ui: &mut Ui, context: &PanelContext<'_>, tried: Subject<'_>) {
    if !is_choice(context, tried) {
        return;
    }
    let name = tried.name(&context.state.runs);
    // A list is as long as it needs to be; the window bounds it.
    let room = ui.ctx().content_rect().height() * theme::LIST_SHARE;
    let list = ComboBox::from_id_salt("model").width(ui.available_width()).height(room).truncate();
    let list = list.selected_text(&name).show_ui(ui, |ui| {
        let weights = Subject::weights(context.state);
        if let Some(weights) = weights
            && ui.selectable_label(tried.is_weights(), weights.name(&context.state.runs)).clicked()
        {
            context.send.send(Action::TryWeights(true));
        }
        for run in runs(context) {
            let is_it = matches!(tried, Subject::Run(tried) if tried.key == run.key);
            if ui.selectable_label(is_it, run.name()).clicked() {
                context.send.send(Action::ShowRun(run.key));
                context.send.send(Action::TryWeights(false));
            }
        }
    });
    let about = "Whose model is tried: the weights that the experiment begins with, as they are, or a run's.";
    list.response.accessible_name("Model to try").tip(format!("{about}\n\n{name}"));
}

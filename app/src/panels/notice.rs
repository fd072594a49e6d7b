//! Lies over the panes, just above the bottom bar: what needs the eye until it is read: a file that could not be used;
//! how the last run ended where it was refused or failed, and the changes that would mend it.

use eframe::egui::{self, RichText, Ui};
use plimsoll_engine::train::Outcome;

use super::{PanelContext, offers::advice_button};
use crate::{command::Action, state::Notice, theme};

/// Draws the notice, over the panes: they keep their places.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let width = ui.ctx().content_rect().width() - 2.0 * theme::NOTICE_MARGIN;
    let palette = theme::palette(ui);
    egui::Area::new(egui::Id::unique("notice"))
        .anchor(egui::Align2::CENTER_BOTTOM, [0.0, -theme::NOTICE_MARGIN])
        .order(egui::Order::Middle)
        .show(ui.ctx(), |ui| {
            let frame = egui::Frame::popup(ui.style()).stroke(egui::Stroke::new(1.0, palette.bad));
            frame.inner_margin(theme::PANE_MARGIN).show(ui, |ui| {
                ui.set_width(width);
                contents(ui, context);
            });
        });
}

fn contents(ui: &mut Ui, context: &PanelContext<'_>) {
    let palette = theme::palette(ui);
    let Some(notice) = &context.state.notice else { return };
    ui.horizontal_wrapped(|ui| {
        let (title, text) = match notice {
            Notice::Run(Outcome::OverBudget(refusal)) => {
                ("Stopped at the budget.", format!("{}. Its memory is released.", refusal.error))
            }
            Notice::Run(Outcome::Failed(error)) => ("The run failed.", error.to_string()),
            Notice::Run(Outcome::Finished | Outcome::Stopped) => return,
            Notice::File(text) => ("Nothing was lost.", text.clone()),
            Notice::Unopened(text) => ("It cannot be opened.", text.clone()),
        };
        ui.label(RichText::new(title).strong().color(palette.bad));
        ui.add(egui::Label::new(RichText::new(&text)).wrap().selectable(true));
        if ui.small_button("Copy").on_hover_text("Put the message on the clipboard.").clicked() {
            context.send.send(Action::Copy(format!("{title} {text}")));
        }
        if ui.small_button("Dismiss").on_hover_text("Close this notice.").clicked() {
            context.send.send(Action::DismissNotice);
        }
    });
    if let Notice::Run(Outcome::OverBudget(refusal)) = notice
        && !refusal.advice.is_empty()
    {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new("What would fit:").weak());
            for advice in &refusal.advice {
                // What the line compares with, too: the peak of the whole run, not of the op that was refused.
                let peak = context
                    .state
                    .session
                    .latest()
                    .and_then(|run| run.plan.as_ref())
                    .map_or(refusal.error.live, |plan| plan.load());
                advice_button(ui, context, advice, peak);
            }
        });
    }
}

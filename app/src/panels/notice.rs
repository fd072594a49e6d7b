//! The notice, which lies over the panes just above the bottom bar: a file that could not be used; or how the last run ended,
//! if it was refused or failed, with the changes that would fix it.
//!
//! Always holds: the panes keep their places, and know which part of them is covered. Escape closes the notice, where it closes
//! nothing else, and leaves the keyboard's focus where it is.

use eframe::egui::{self, Id, Key, Popup, Rect, RichText, Ui};

use plimsoll_engine::train::Outcome;

use super::{
    PanelContext,
    offers::{Needed, advice_button},
};
use crate::{
    command::Action,
    format,
    state::Notice,
    theme,
    widgets::{
        covered,
        ends::{Room, ends},
        tip::Tip as _,
    },
};

/// Draws the notice, if there is one.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let is_there = context
        .state
        .notice
        .as_ref()
        .is_some_and(|notice| !matches!(notice, Notice::Run(Outcome::Finished | Outcome::Stopped)));
    let rect = is_there.then(|| over_the_panes(ui, context));
    covered::by(ui.ctx(), rect);
    escape(ui, context, is_there);
}

/// The state before Escape: what it would close, and which control has the focus.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    is_notice: bool,
    focused: Option<Id>,
}

/// Closes the notice by Escape, if nothing lay over the window when it was pressed.
fn escape(ui: &Ui, context: &PanelContext<'_>, is_there: bool) {
    let id = Id::unique("notice before the key");
    let before: Before = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let is_over = Popup::is_any_open(ui.ctx()) || context.state.dialog.is_some();
    let focused = ui.memory(|memory| memory.focused());
    ui.data_mut(|data| data.insert_temp(id, Before { is_notice: is_there && !is_over, focused }));
    if before.is_notice && is_there && ui.input(|input| input.key_pressed(Key::Escape)) {
        context.send.send(Action::DismissNotice);
        // egui takes the focus away at this key.
        before.focused.into_iter().for_each(|id| ui.memory_mut(|memory| memory.request_focus(id)));
    }
}

/// Draws it over the panes; answers where.
fn over_the_panes(ui: &Ui, context: &PanelContext<'_>) -> Rect {
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
        })
        .response
        .rect
}

fn contents(ui: &mut Ui, context: &PanelContext<'_>) {
    let palette = theme::palette(ui);
    let Some(notice) = &context.state.notice else { return };
    let (title, text) = match notice {
        Notice::Run(Outcome::OverBudget(refusal)) => {
            ("Stopped at the budget.", format!("{}. Its memory is released.", refusal.error))
        }
        Notice::Run(Outcome::Failed(error)) => ("The run failed.", error.to_string()),
        Notice::Run(Outcome::Finished | Outcome::Stopped) => return,
        Notice::Unsaved(text) => ("It was not saved.", text.clone()),
        Notice::Unopened(text) => ("It cannot be opened.", text.clone()),
    };
    let text = format::in_groups(&text);
    let left = |ui: &mut Ui| {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new(title).strong().color(palette.bad));
            ui.add(egui::Label::new(RichText::new(&text)).wrap().selectable(true));
        });
    };
    // At the end of the first line, whatever the lines are.
    let right = |ui: &mut Ui| {
        if ui.small_button("Copy").tip("Put the message on the clipboard.").clicked() {
            context.send.send(Action::Copy(format!("{title} {text}")));
        }
        if ui.small_button("Dismiss").tip("Close this notice (Escape).").clicked() {
            context.send.send(Action::DismissNotice);
        }
    };
    ui.horizontal_top(|ui| ends(ui, "notice", Room::Now, left, right));
    if let Notice::Run(Outcome::OverBudget(refusal)) = notice
        && !refusal.advice.is_empty()
    {
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new("What would fit:").weak());
            for advice in &refusal.advice {
                // The line is compared with the same: the peak of the whole run, not of the op that was refused.
                let peak = context
                    .state
                    .session
                    .latest()
                    .and_then(|run| run.plan.as_ref())
                    .map_or(refusal.error.live, |plan| plan.load());
                advice_button(ui, context, advice, Needed::Peak(peak));
            }
        });
    }
}

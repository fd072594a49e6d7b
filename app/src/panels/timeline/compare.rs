//! Before and after: what a timeline is compared with, and which of the two fills the picture.

use eframe::egui::{Button, RichText, Ui};
use plimsoll_engine::{experiment::check, memory::Category, plan::Plan};

use crate::{
    command::{Action, UiCommand},
    format, naming,
    panels::PanelContext,
    state::State,
    theme,
    widgets::{chip, text, tip::Tip as _},
};

/// Steps of undo that the menu lists.
const STEPS: usize = 12;
/// Differences that an entry of the menu lists.
const NAMED: usize = 3;

/// What stands on its buttons.
pub(super) const WORDS: [&str; 3] = ["Compare ⏷", BEFORE, AFTER];
const BEFORE: &str = "Before";
const AFTER: &str = "After";

/// The menu of what to compare with, and *before | after*, which can be pressed once there is something.
pub(super) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, plan: &Plan) {
    let menu = ui.menu_button(WORDS[0], |ui| menu(ui, context));
    let hover = "Keep this picture, or that of any step of undo, as an outline behind the present one.";
    menu.response.accessible_name("Compare").tip(hover);
    let pin = context.state.pin.as_deref();
    for (before, name) in [(true, BEFORE), (false, AFTER)] {
        let button = Button::selectable(pin.is_some() && context.view.show_before == before, name);
        let mut response = ui.add_enabled(pin.is_some(), button);
        if let Some(pin) = pin {
            response = response.tip_ui(|ui| differences(ui, context, pin, plan));
        }
        if response.tip_disabled("Pin a plan first: the two are compared then.").clicked() {
            context.view.show_before = before;
        }
    }
}

fn menu(ui: &mut Ui, context: &PanelContext<'_>) {
    ui.set_max_width(theme::TOOLTIP_WIDTH);
    let pinned = context.state.pin.is_some();
    let text = if pinned { "Unpin" } else { "Pin the present plan" };
    if ui.button(text).tip(UiCommand::Pin.tooltip()).clicked() {
        context.send.ui(UiCommand::Pin);
        ui.close();
    }
    ui.separator();
    let State { document, runs, .. } = context.state;
    let mut after = &document.experiment;
    let mut listed = 0;
    for before in document.history.past() {
        let changes = naming::changes(before, after, |key| runs.called(key));
        after = before;
        // What cannot be planned cannot be compared with.
        if changes.is_empty() || !check::check(before, None).is_empty() {
            continue;
        }
        let text = format!("Before {}", naming::listed(&changes, NAMED));
        let since = naming::changes(before, &document.experiment, |key| runs.called_with_key(key)).join(", ");
        let hover = format!("Since then: {}.", if since.is_empty() { "nothing differs" } else { &since });
        if ui.add(Button::new(text).truncate()).tip(hover).clicked() {
            context.send.send(Action::PinExperiment(Box::new(before.clone())));
            ui.close();
        }
        listed += 1;
        if listed == STEPS {
            break;
        }
    }
    if listed == 0 {
        ui.label(RichText::new("Each change of a setting is listed here.").weak());
    }
}

/// What the two take, by category, and by which settings they differ.
fn differences(ui: &mut Ui, context: &PanelContext<'_>, before: &Plan, after: &Plan) {
    let palette = theme::palette(ui);
    ui.set_max_width(theme::TOOLTIP_WIDTH);
    let called = |key: &str| context.state.runs.called_with_key(key);
    let changes = naming::changes(&before.experiment, &after.experiment, called);
    ui.strong(if changes.is_empty() { "Nothing differs.".to_owned() } else { changes.join(", ") });
    ui.spacing_mut().interact_size.y = theme::CHIP;
    for category in Category::ALL {
        let [old, new] = [before, after].map(|plan| plan.categories_at_peak.get(category));
        if old != new {
            let text = format!("{} {old} → {new} ({})", category.name(), new.difference(old));
            chip::chip(ui, palette.category(category), text);
        }
    }
    let peak = format!("peak {} → {} ({})", before.load(), after.load(), after.load().difference(before.load()));
    ui.label(peak);
    let [old, new] = [before, after].map(|plan| plan.step_secs / plan.experiment.batch.effective().max(1) as f64);
    ui.label(text::estimate(format!("{} a sample", format::time_ratio(new / old))));
    ui.label(RichText::new("One of the two fills the picture, the other is the dashed outline.").weak().small());
}

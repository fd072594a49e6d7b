//! One file per pane. A pane reads the [`State`](crate::state::State), may change how things look in the
//! [`View`](crate::view::View), and sends the user's requests; it never changes the state.

mod alive;
mod bottom_bar;
mod budget_bar;
mod compare;
mod devices;
mod dialogs;
mod experiment;
mod gallery;
mod gradients;
mod host_bar;
mod layers;
mod legend;
mod live;
mod log;
mod notice;
mod offers;
pub(crate) mod pane;
mod runs;
pub(crate) mod timeline;
mod top_bar;
pub(crate) mod tradeoff;
pub(crate) mod try_out;

use eframe::egui::{self, Panel, Rect, Ui, UiBuilder};
use plimsoll_engine::{
    device::target,
    plan::{Plan, Verdict},
};

use crate::{focus, layout::Layout, passes, regions, theme, widgets::chip};

#[cfg(test)]
pub(crate) use bottom_bar::length;
pub(crate) use experiment::{
    family, family_of, names_for_family, names_of_settings, optimizer_of, optimizer_words, settings_in_order,
};
use pane::Pane;
pub(crate) use pane::PanelContext;
pub(crate) use runs::Shown as ShownRuns;

/// The hint of a pane that shows a plan while there is none.
fn without_plan(ui: &mut Ui, context: &PanelContext<'_>, what: &str) {
    let text = match context.state.prediction.obstacle {
        Some(_) => format!("Fix the settings that the Experiment pane shows in red, and {what} appears here."),
        None => "Planning…".to_owned(),
    };
    chip::empty(ui, &text);
}

/// The hint of a pane that shows a run while there is none.
fn without_run(ui: &mut Ui, context: &PanelContext<'_>, what: &str) {
    let state = context.state;
    let is_planned_only = target::not_trained_on(&state.document.experiment.device).is_some();
    let first = if is_planned_only {
        "Choose the CPU, or a graphics card that is here, under Device, and press Train"
    } else if state.plan().is_some_and(|plan| is_refused_for_its_data(plan)) {
        "Change the setting that the line next to Train names, and press Train"
    } else if state.plan().is_some_and(|plan| !plan.verdict().fits()) {
        match state.prediction.newest_options() {
            Some(options) if options.has_no_change() => "Raise the budget, or choose a smaller model, and press Train",
            _ => "Choose one of the changes that fit, above, and press Train",
        }
    } else {
        "Press Train"
    };
    chip::empty(ui, &format!("{first} to see {what}."));
}

/// Whether a run's data have no room, which no budget of the device mends.
fn is_refused_for_its_data(plan: &Plan) -> bool {
    matches!(
        plan.verdict(),
        Verdict::OverHostBudget { .. } | Verdict::NoRoomForData { .. } | Verdict::NoRoomOnDisk { .. }
    )
}

/// Draws a pane.
pub(crate) fn draw(ui: &mut Ui, pane: Pane, context: &mut PanelContext<'_>) {
    let is_of_a_plan = matches!(pane, Pane::Step | Pane::Layers | Pane::Alive);
    if is_of_a_plan && context.state.prediction.obstacle.is_some() {
        // The experiment is impossible: the pane shows the one before.
        ui.multiply_opacity(theme::STALE);
    }
    match pane {
        Pane::Experiment => experiment::ui(ui, context),
        Pane::Step => timeline::ui(ui, context),
        Pane::Live => live::ui(ui, context),
        Pane::Gradients => gradients::ui(ui, context),
        Pane::Tradeoff => tradeoff::ui(ui, context),
        Pane::Compare => compare::ui(ui, context),
        Pane::TryOut => try_out::ui(ui, context),
        Pane::Layers => layers::ui(ui, context),
        Pane::Runs => runs::ui(ui, context),
        Pane::Alive => alive::ui(ui, context),
        Pane::Devices => devices::ui(ui, context),
        Pane::Log => log::ui(ui, context),
    }
}

/// Draws the bars above the panes, the top bar and the budget bar, and keeps the room of the bottom bar, which it answers.
pub(crate) fn above(ui: &mut Ui, context: &mut PanelContext<'_>, layout: &mut Layout) -> Rect {
    let palette = theme::palette(ui);
    let frame = |y| egui::Frame::new().inner_margin(egui::Margin::symmetric(12, y));
    Panel::top("top bar").frame(frame(5).fill(palette.tabs)).show_separator_line(false).show(ui, |ui| {
        regions::region(ui, "top bar", |ui| top_bar::ui(ui, context, layout));
    });
    Panel::top("line")
        .frame(frame(8))
        .show_separator_line(false)
        .show(ui, |ui| regions::region(ui, "line", |ui| budget_bar::ui(ui, context)));
    let height = ui.data(|data| data.get_temp(bottom_height())).unwrap_or(theme::BOTTOM_HEIGHT);
    let bottom =
        Panel::bottom("bottom bar").frame(frame(6).fill(palette.tabs)).show_separator_line(false).resizable(false);
    bottom.exact_size(height + 12.0).show(ui, |ui| ui.max_rect()).inner
}

/// Draws the bottom bar in the room that was kept for it. It comes after the panes, as it does for the eye, so that the Tab
/// key and a screen reader come to it last.
pub(crate) fn below(ui: &mut Ui, context: &PanelContext<'_>, room: Rect) {
    let bar = ui.scope_builder(UiBuilder::new().max_rect(room), |ui| {
        regions::region(ui, "bottom bar", |ui| bottom_bar::ui(ui, context));
        ui.min_rect().height()
    });
    if (bar.inner - room.height()).abs() > 0.5 {
        ui.data_mut(|data| data.insert_temp(bottom_height(), bar.inner));
        passes::again(ui.ctx(), "the bottom bar has another height");
    }
}

fn bottom_height() -> egui::Id {
    egui::Id::unique("height of the bottom bar")
}

/// Draws the ring around the control that has the keyboard's focus.
pub(crate) fn focus_ring(ui: &Ui) {
    let focused = ui.memory(|memory| memory.focused());
    let Some(response) = focused.and_then(|id| ui.ctx().read_response(id)) else { return };
    if response.interact_rect.is_positive() {
        let painter = ui.ctx().layer_painter(response.layer_id);
        let stroke = egui::Stroke::new(theme::FOCUS_RING, theme::palette(ui).focus);
        let ring = focus::ring_of(&response).unwrap_or(response.interact_rect).expand(1.0);
        painter.rect_stroke(ring, egui::CornerRadius::same(5), stroke, egui::StrokeKind::Outside);
    }
}

/// Draws the areas over the panes: dialogs, and the hint while a file is dragged over the window.
pub(crate) fn over(ui: &mut Ui, context: &mut PanelContext<'_>) {
    notice::ui(ui, context);
    dialogs::ui(ui, context);
}

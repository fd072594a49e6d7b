//! The bottom bar: train, pause, step, stop, evaluate; how far the run is and how long it will take.

use eframe::egui::{self, Align, Button, Layout, RichText, Ui, vec2};

use super::PanelContext;
use crate::{
    command::UiCommand,
    format,
    session::{RunRecord, Status},
    theme,
};

/// Draws the bar.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    ui.horizontal(|ui| {
        ui.spacing_mut().button_padding = vec2(12.0, 5.0);
        buttons(ui, context);
        ui.add_space(theme::WIDE_GAP);
        match context.state.session.latest() {
            Some(run) => progress(ui, run),
            None => ready(ui, context),
        }
    });
}

fn buttons(ui: &mut Ui, context: &PanelContext<'_>) {
    let palette = theme::palette(ui);
    let active = context.state.session.active();
    let reason = context.state.why_no_training();
    let idle = active.is_none() && !context.state.is_starting;
    let accent = Button::new(RichText::new("▶ Train").color(palette.on_accent).strong()).fill(palette.accent);
    let plain = Button::new("▶ Train");
    let ready = idle && reason.is_none();
    let hover = UiCommand::Train.tooltip_with_key(ui.ctx());
    let train = ui.add_enabled(ready, if ready { accent } else { plain }).accessible_name("Train");
    let why = reason.unwrap_or_else(|| "A run is in progress.".to_owned());
    if train.on_hover_text(hover).on_disabled_hover_text(why).clicked() {
        context.send.ui(UiCommand::Train);
    }
    if idle && context.state.may_train_anyway() {
        let anyway = Button::new(RichText::new("Train anyway").color(palette.bad));
        if ui.add(anyway).on_hover_text(UiCommand::TrainAnyway.tooltip()).clicked() {
            context.send.ui(UiCommand::TrainAnyway);
        }
    }
    let paused = active.is_some_and(|run| matches!(run.status, Status::Paused));
    let (pause, name) = if paused { ("▶ Resume", "Resume") } else { ("⏸ Pause", "Pause") };
    let may_step = active.is_some() || ready;
    for (command, text, name, enabled) in [
        (UiCommand::Pause, pause, name, active.is_some()),
        (UiCommand::Step, "⏭ Step", "Step", may_step),
        (UiCommand::Stop, "⏹ Stop", "Stop", active.is_some()),
        (UiCommand::Evaluate, "✔ Evaluate", "Evaluate", active.is_some()),
    ] {
        let hover = command.tooltip_with_key(ui.ctx());
        let button = ui.add_enabled(enabled, Button::new(text)).accessible_name(name);
        if button.on_hover_text(&hover).on_disabled_hover_text(&hover).clicked() {
            context.send.ui(command);
        }
    }
}

/// What a run would take, before the first one.
fn ready(ui: &mut Ui, context: &PanelContext<'_>) {
    if context.state.is_starting {
        ui.label(RichText::new("Preparing data…").weak());
    } else if let Some(reason) = context.state.why_no_training() {
        let card = context.state.plan().filter(|plan| plan.fits() && plan.target.is_gpu());
        let pace = card.map(|plan| format!("{} a step at the card's peak rates. ", format::secs(plan.step_secs)));
        ui.add(egui::Label::new(RichText::new(pace.unwrap_or_default() + &reason).weak()).truncate());
    } else if let Some(plan) = context.state.plan() {
        let text = format!(
            "{} steps, about {} ({} a step)",
            format::count(plan.total_steps),
            format::secs(plan.step_secs * plan.total_steps as f64),
            format::secs(plan.step_secs)
        );
        ui.label(RichText::new(text).weak());
    }
}

fn progress(ui: &mut Ui, run: &RunRecord) {
    let palette = theme::palette(ui);
    let done = run.last.map_or(0, |step| step.step);
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        if let Some(best) = run.best_accuracy {
            ui.label(RichText::new(format::share(best)).strong().color(palette.test));
            ui.label(RichText::new("best test").weak());
        }
        if let Some(last) = run.last {
            ui.label(RichText::new(format!("{} a step", format::secs(last.secs))).weak());
        }
        let left = match &run.status {
            _ if run.is_evaluating => Some("testing…".to_owned()),
            Status::Running => run.secs_left().map(|s| format!("{} left", format::secs(s.max(1.0).round()))),
            other => Some(other.name().to_owned()),
        };
        let color = match &run.status {
            Status::Ended(plimsoll_engine::train::Outcome::Finished) => palette.good,
            Status::Ended(plimsoll_engine::train::Outcome::Stopped) | Status::Running => palette.strong(),
            Status::Paused => palette.warn,
            Status::Ended(_) => palette.bad,
        };
        ui.label(RichText::new(left.unwrap_or_default()).color(color));
        ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
            let text = |step| format!("step {} of {}", format::count(step), format::count(run.plan.total_steps));
            let font = egui::TextStyle::Body.resolve(ui.style());
            let widest = ui.painter().layout_no_wrap(text(run.plan.total_steps), font, palette.strong()).size().x;
            // The bar begins at the same place in every step.
            let start = ui.cursor().left();
            ui.label(text(done));
            ui.add_space((start + widest + theme::GAP - ui.cursor().left()).max(0.0));
            ui.visuals_mut().extreme_bg_color = palette.trough;
            let bar = egui::ProgressBar::new(run.progress() as f32)
                .desired_width(ui.available_width().max(40.0))
                .desired_height(12.0)
                .corner_radius(3.0)
                .fill(if done > 0 { palette.accent } else { palette.trough });
            ui.add(bar).on_hover_text(format!("Run {}: {}", run.key, run.experiment().title));
        });
    });
}

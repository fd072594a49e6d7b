//! What is wrong with the experiment, each by the name of its setting: at the bottom of the pane.
//!
//! Always holds: no row moves when it comes or goes, because the rows end above it.

use eframe::egui::{Context, Frame, Id, Label, RichText, ScrollArea, Stroke, Ui, UiBuilder};

use super::PanelContext;
use crate::{format, naming, passes, planner::Obstacle, theme, widgets::control};

/// Problems that are told at once; the others come when these are mended.
const MOST: usize = 3;
/// Share of the pane that they may take; past it they are scrolled through.
const SHARE: f32 = 0.4;

/// Draws the rows of the pane, and below them what is wrong.
pub(super) fn below(ui: &mut Ui, context: &PanelContext<'_>, rows: impl FnOnce(&mut Ui)) {
    let (whole, told) = (ui.available_rect_before_wrap(), told(ui.ctx(), context));
    let id = Id::unique("height of what is wrong");
    let known = if told.is_empty() { 0.0 } else { ui.data(|data| data.get_temp(id)).unwrap_or_default() };
    ui.data_mut(|data| data.insert_temp(taken_id(), known));
    let split = whole.bottom() - known;
    ui.scope_builder(UiBuilder::new().max_rect(whole.with_max_y(split)), rows);
    if told.is_empty() {
        return;
    }
    let most = whole.height() * SHARE;
    let below = UiBuilder::new().max_rect(whole.with_min_y(split));
    let height = ui.scope_builder(below, |ui| {
        ui.add_space(theme::GAP);
        framed(ui, &told, most);
        ui.min_rect().height()
    });
    if (height.inner - known).abs() > 0.5 {
        ui.data_mut(|data| data.insert_temp(id, height.inner));
        passes::again(ui.ctx(), "what is wrong has another height");
    }
}

/// How much of the pane they take now, of which what fills a share of the pane knows nothing.
pub(super) fn taken(ui: &Ui) -> f32 {
    ui.data(|data| data.get_temp(taken_id())).unwrap_or_default()
}

fn taken_id() -> Id {
    Id::unique("room of what is wrong")
}

/// What is wrong, each with the name of its setting, and what was typed last and is no number.
fn told(ctx: &Context, context: &PanelContext<'_>) -> Vec<String> {
    let refused = control::refused_setting(ctx, context.state.document.generation);
    let wrong = match &context.state.prediction.obstacle {
        Some(Obstacle::Failure(text)) => vec![format::in_groups(text)],
        Some(Obstacle::Problems(problems)) => {
            let left = problems.len().saturating_sub(MOST);
            let more = (left > 0).then(|| format!("And {}.", format::counted(left as u64, "more problem")));
            let family = context.state.document.experiment.model.kind;
            problems.iter().take(MOST).map(|problem| naming::problem(problem, family)).chain(more).collect()
        }
        None => Vec::new(),
    };
    refused.into_iter().chain(wrong).collect()
}

fn framed(ui: &mut Ui, told: &[String], most: f32) {
    let bad = theme::palette(ui).bad;
    Frame::new().stroke(Stroke::new(1.0, bad)).corner_radius(4.0).inner_margin(theme::GAP).show(ui, |ui| {
        ui.set_min_width(ui.available_width());
        ScrollArea::vertical().id_salt("what is wrong").max_height(most).auto_shrink([false, true]).show(ui, |ui| {
            for words in told {
                ui.add(Label::new(RichText::new(words).color(bad).small()).wrap().selectable(true));
            }
        });
    });
}

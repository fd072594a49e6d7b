//! One op of a timeline: the words about it, next to a line at its place. It is the one under the pointer, or the one that the
//! keys lead to.

use eframe::egui::{self, RichText, Stroke, Ui};
use egui_plot::PlotTransform;
use plimsoll_engine::{Bytes, memory::Timeline};

use super::{super::budget_bar::category_lines, Picture};
use crate::{
    format, theme,
    widgets::tip::{self, Speaks},
};

/// Draws the words about the op under the pointer, or else about `by_keys`.
pub(super) fn draw(
    ui: &Ui,
    response: &egui::Response,
    picture: Picture<'_>,
    transform: &PlotTransform,
    by_keys: Option<usize>,
) {
    let timeline = picture.plan.timeline(picture.pass);
    let middle = |index: usize| transform.position_from_point_x(index as f64 + 0.5);
    let pointed = response.hover_pos().and_then(|at| {
        let x = transform.value_from_position(at).x;
        (x >= 0.0).then_some((x as usize, Speaks::At(at)))
    });
    let at_focus = tip::is_at_focus(response).then(|| by_keys.map(|index| (index, Speaks::Beside)));
    let Some((index, speaks)) = at_focus.unwrap_or(pointed) else { return };
    if index >= timeline.points.len() {
        return;
    }
    let stroke = Stroke::new(1.0, theme::palette(ui).measured.gamma_multiply(0.5));
    ui.painter_at(*transform.frame()).vline(middle(index), transform.frame().y_range(), stroke);
    tip::show(tip::speaking(response, speaks), |ui| words(ui, picture, index));
}

/// The op, its bytes and how it ran.
fn words(ui: &mut Ui, picture: Picture<'_>, index: usize) {
    let Picture { plan, pass, measured, ways, .. } = picture;
    let timeline = plan.timeline(pass);
    let point = &timeline.points[index];
    ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
    ui.strong(title(timeline, index));
    ui.label(RichText::new(place(timeline, index)).weak());
    ui.label(format!("predicted {}", point.live));
    if let Some(measured) = measured.get(index) {
        ui.label(format!("measured {}", Bytes::from_mib(*measured)));
    }
    if let Some(way) = ways.of(index) {
        ui.label(format!("ran by {way}"));
    }
    category_lines(ui, &point.categories);
}

/// The op in a line, for a screen reader: `op 3 of 98, forward: linear · block1/mlp, 1.23 MiB`.
pub(super) fn line(timeline: &Timeline, index: usize) -> Option<String> {
    let point = timeline.points.get(index)?;
    Some(format!("{}: {}, {}", place(timeline, index), title(timeline, index), point.live))
}

fn title(timeline: &Timeline, index: usize) -> String {
    let point = &timeline.points[index];
    format!("{} · {}", point.op, timeline.layer(point.layer))
}

fn place(timeline: &Timeline, index: usize) -> String {
    let [at, ops] = [index + 1, timeline.points.len()].map(|op| format::count(op as u64));
    format!("op {at} of {ops}, {}", timeline.points[index].phase.name())
}

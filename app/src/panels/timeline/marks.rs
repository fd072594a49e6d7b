//! What is written into a timeline: the names of its phases, its peak, the budget and the break of the axis.

use std::sync::Arc;

use eframe::egui::{self, Align2, Color32, FontId, Galley, Rect, Stroke, Ui, pos2, vec2};
use egui_plot::{PlotPoint, PlotTransform};
use plimsoll_engine::{
    Bytes,
    memory::{Category, Timeline},
    plan::{Pass, Plan},
};

use super::{LOW, scale::Scale, shape::bands};
use crate::{
    format,
    theme::{self, Palette},
};

/// The names of the phases lie this far below the top: above them is the budget that is past a break.
const NAMES: f32 = 20.0;
/// Half the height of the sign of a break.
const SLASH: f32 = 3.5;

/// The names of the phases, along the top, where they have room.
pub(super) fn phase_names(ui: &Ui, timeline: &Timeline, transform: &PlotTransform, palette: &Palette) {
    let frame = *transform.frame();
    if frame.height() < LOW {
        return;
    }
    let painter = ui.painter_at(frame);
    for band in bands(&timeline.points) {
        let left = transform.position_from_point_x(band.from as f64).max(frame.left());
        let right = transform.position_from_point_x(band.to as f64).min(frame.right());
        let font = FontId::proportional(theme::SMALL_TEXT);
        let galley = painter.layout_no_wrap(band.phase.name().to_owned(), font, palette.weak());
        if galley.size().x + 8.0 < right - left {
            let at = pos2(f32::midpoint(left, right) - galley.size().x / 2.0, frame.top() + NAMES);
            painter.galley(at, galley, palette.weak());
        }
    }
}

/// The peak's place, its bytes, layer and op; and what the headline counts besides, where it counts more. Where the words
/// stand comes back.
pub(super) fn peak(ui: &Ui, plan: &Plan, pass: Pass, transform: &PlotTransform, palette: &Palette) -> Option<Rect> {
    let timeline = plan.timeline(pass);
    let index = timeline.peak_index()?;
    let point = &timeline.points[index];
    let at = transform.position_from_point(&PlotPoint::new(index as f64 + 0.5, point.live.as_mib()));
    let tip = at - vec2(0.0, 2.0);
    let arrow = vec![tip, tip + vec2(-4.5, -8.0), tip + vec2(4.5, -8.0)];
    let painter = ui.painter_at(*transform.frame());
    painter.add(egui::Shape::convex_polygon(arrow, palette.strong(), Stroke::NONE));
    let right_half = at.x > transform.frame().center().x;
    let (align, dx) = if right_half { (Align2::RIGHT_BOTTOM, -8.0) } else { (Align2::LEFT_BOTTOM, 8.0) };
    let own = format!("{} · {} · {}", point.live, timeline.layer(point.layer), point.op);
    let room = if right_half { at.x - transform.frame().left() } else { transform.frame().right() - at.x } - 14.0;
    let text = match counted_besides(plan, pass) {
        Some(_) if transform.frame().height() < LOW => format!("{own} · {} with context and slack", plan.load()),
        Some(besides) => format!("{own}\n{besides}"),
        None => own,
    };
    let (galley, color) = (words(ui, &text, room, palette.strong()), palette.strong());
    let place = align.anchor_size(tip + vec2(dx, 0.0), galley.size());
    // Below the top, however high the peak is.
    let place = place.translate(vec2(0.0, (transform.frame().top() + 1.0 - place.top()).max(0.0)));
    plate(ui, transform.frame(), place, galley, color);
    Some(place)
}

/// What the budget counts beyond the tensors at the peak: `+ 480 MiB context + 412 MiB slack = 23.5 GiB of the budget`.
fn counted_besides(plan: &Plan, pass: Pass) -> Option<String> {
    let live = plan.timeline(pass).peak();
    if pass != plan.peak_pass || live == plan.load() {
        return None;
    }
    let parts = [Category::Context, Category::Slack].map(|category| (category, plan.categories_at_peak.get(category)));
    let parts = parts.iter().filter(|(_, bytes)| *bytes > Bytes::ZERO);
    let parts: String = parts.map(|(category, bytes)| format!("+ {bytes} {} ", category.name())).collect();
    Some(format!("{parts}= {} of the budget", plan.load()))
}

/// The words at the budget's line, not over those `taken`, and the break of the axis below it.
pub(super) fn budget(
    ui: &Ui,
    plan: &Plan,
    taken: Option<Rect>,
    scale: Scale,
    transform: &PlotTransform,
    palette: &Palette,
) {
    let frame = transform.frame();
    let y = transform.position_from_point(&PlotPoint::new(0.0, scale.budget)).y;
    if !frame.y_range().contains(y) {
        return;
    }
    let galley = words(ui, &budget_words(plan), frame.width() - theme::GAP * 2.0, palette.budget);
    let (left, right) = (pos2(frame.left() + theme::GAP, y), pos2(frame.right() - theme::GAP, y));
    let places = [
        Align2::LEFT_CENTER.anchor_size(left, galley.size()),
        Align2::RIGHT_CENTER.anchor_size(right, galley.size()),
        Align2::LEFT_TOP.anchor_size(left + vec2(0.0, 3.0), galley.size()),
        Align2::RIGHT_TOP.anchor_size(right + vec2(0.0, 3.0), galley.size()),
        Align2::LEFT_BOTTOM.anchor_size(left - vec2(0.0, 3.0), galley.size()),
        Align2::RIGHT_BOTTOM.anchor_size(right - vec2(0.0, 3.0), galley.size()),
    ];
    let is_free = |place: &&Rect| {
        frame.contains_rect(**place) && taken.is_none_or(|taken| !taken.expand(2.0).intersects(**place))
    };
    // Where there is no room, the line alone tells it: the bar above has the figure.
    if let Some(place) = places.iter().find(is_free) {
        plate(ui, frame, *place, galley, palette.budget);
    }
    if let Some(broken) = scale.broken_at {
        let y = transform.position_from_point(&PlotPoint::new(0.0, broken)).y;
        if frame.y_range().contains(y) {
            broken_axis(ui, frame, y, palette);
        }
    }
}

/// The budget in words; on a GPU what it leaves to tensors.
fn budget_words(plan: &Plan) -> String {
    match plan.target.profile() {
        None => format!("budget {}", format::size(plan.budget)),
        Some(card) => {
            let room = plan.budget.saturating_sub(card.context);
            format!("budget {} less {} context: {room}", format::size(plan.budget), card.context)
        }
    }
}

/// Two slashes on either end of the axis: what lies above is not to scale.
fn broken_axis(ui: &Ui, frame: &Rect, y: f32, palette: &Palette) {
    let painter = ui.painter_at(frame.expand(SLASH * 2.0));
    let rule = Stroke::new(1.0, palette.weak());
    for x in [frame.left(), frame.right()] {
        for dy in [-2.0, 2.0] {
            let slash = [pos2(x - SLASH, y + dy + SLASH / 2.0), pos2(x + SLASH, y + dy - SLASH / 2.0)];
            painter.line_segment(slash, rule);
        }
    }
    painter.extend(egui::Shape::dotted_line(
        &[pos2(frame.left() + SLASH * 2.0, y), pos2(frame.right() - SLASH * 2.0, y)],
        palette.rule,
        6.0,
        0.6,
    ));
}

/// Small words in as many lines as they need.
fn words(ui: &Ui, text: &str, room: f32, color: Color32) -> Arc<Galley> {
    let font = FontId::proportional(theme::SMALL_TEXT);
    ui.painter().layout(text.to_owned(), font, color, room.max(1.0))
}

/// Draws words on a plate of their own, so that they can be read on any ground.
fn plate(ui: &Ui, frame: &Rect, place: Rect, words: Arc<Galley>, color: Color32) {
    let painter = ui.painter_at(*frame);
    painter.rect_filled(place.expand2(vec2(3.0, 1.0)), 3.0, theme::palette(ui).pane.gamma_multiply(0.88));
    painter.galley(place.min, words, color);
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

    fn plan(device: &str) -> Plan {
        let experiment = Experiment { device: device.to_owned(), budget: Bytes::gib(4), ..Experiment::default() };
        Plan::of(&experiment, &Machine::nominal()).expect("a plan")
    }

    #[test]
    fn the_peak_of_the_timeline_and_the_headline_agree_or_the_difference_is_said() {
        let cpu = plan("cpu");
        assert_eq!(cpu.timeline(cpu.peak_pass).peak(), cpu.load());
        assert_eq!(counted_besides(&cpu, cpu.peak_pass), None);
        let gpu = plan("rtx4060-8g");
        let said = counted_besides(&gpu, gpu.peak_pass).expect("the context counts");
        let [context, slack] = [Category::Context, Category::Slack].map(|part| gpu.categories_at_peak.get(part));
        assert_eq!(gpu.timeline(gpu.peak_pass).peak() + context + slack, gpu.load());
        assert_eq!(said, format!("+ {context} context + {slack} slack = {} of the budget", gpu.load()));
        assert!(budget_words(&gpu).contains("less"));
    }
}

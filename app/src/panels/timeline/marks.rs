//! What is written into a timeline: the names of its phases, its peak, the budget and the break of the axis.

use std::sync::Arc;

use eframe::egui::{self, Color32, FontId, Galley, Rangef, Rect, Stroke, Ui, Vec2, pos2, vec2};
use egui_plot::{PlotPoint, PlotTransform};
use plimsoll_engine::{
    Bytes,
    memory::{Category, Timeline},
    plan::{Pass, Plan},
};

use super::{
    LOW, Picture,
    places::{self, ARROW, Places, Words},
    scale::Scale,
    shape::bands,
};
use crate::{
    format,
    limit::Limit,
    theme::{self, Palette},
    widgets::text,
};

/// Around words on a plate.
const PLATE: Vec2 = vec2(3.0, 1.0);
/// Width of the columns in which words look for what they would hide.
const COLUMN: f32 = 6.0;
/// Half the height of the sign of a break.
const SLASH: f32 = 3.5;

/// Draws the words of a picture and its signs.
///
/// Answers where there is room for what the signs mean, where that takes a `signs` of this size in the picture.
pub(super) fn draw(
    ui: &Ui,
    picture: Picture<'_>,
    scale: Scale,
    transform: &PlotTransform,
    signs: Option<Vec2>,
) -> Option<Rect> {
    let palette = theme::palette(ui);
    let Picture { plan, outline, pass, .. } = picture;
    let (frame, timeline) = (*transform.frame(), plan.timeline(pass));
    let level = |value: f64| transform.position_from_point(&PlotPoint::new(0.0, value)).y;
    let in_picture = |value: f64| Some(level(value)).filter(|y| frame.y_range().contains(*y));
    let (budget, broken) = (in_picture(scale.budget), scale.broken_at.and_then(in_picture));
    let tip = timeline.peak_index().map(|index| {
        let at = PlotPoint::new(index as f64 + 0.5, timeline.points[index].live.as_mib());
        transform.position_from_point(&at) - vec2(0.0, 2.0)
    });
    let tip = tip.filter(|tip| frame.expand(ARROW.y).contains(*tip));
    let of_peak = tip.map(|tip| peak_words(ui, &at_peak(plan, pass, frame), frame, places::room_beside(frame, tip)));
    let of_budget = |text: &String| words(ui, text, frame.width() - theme::GAP * 2.0, palette.budget);
    let of_budget = budget.map(|_| budget_words(plan).each_ref().map(of_budget));
    let other = super::budget_of_outline(outline, scale).and_then(in_picture).zip(outline);
    let of_other = other.map(|(_, plan)| {
        let [whole, _] = budget_words(plan);
        words(ui, &whole, frame.width() - theme::GAP * 2.0, palette.outline)
    });
    let names = phase_names(ui, timeline, transform, palette);
    let mut wanted = Words {
        frame,
        lines: budget.into_iter().chain(broken).chain(other.map(|(line, _)| line)).collect(),
        peak: tip.zip(of_peak.as_ref().map(|galley| galley.size())),
        budget: None,
        other: other.zip(of_other.as_ref()).map(|((line, _), galley)| (line, galley.size())),
        signs,
        phases: names.iter().map(|(phase, galley)| (*phase, galley.size())).collect(),
        hills: hills(timeline, outline.map(|plan| plan.timeline(pass)), transform),
    };
    let (found, of_budget) = with_budget(&mut wanted, of_budget);
    let names = names.into_iter().map(|(_, galley)| galley);
    draw_names(ui, timeline, transform, names.zip(found.phases.iter().copied()));
    if let Some(tip) = tip {
        let arrow = vec![tip, tip - ARROW, tip + vec2(ARROW.x, -ARROW.y)];
        ui.painter_at(frame).add(egui::Shape::convex_polygon(arrow, palette.strong(), Stroke::NONE));
    }
    for (place, galley, color) in [
        (found.peak, of_peak, palette.strong()),
        (found.budget, of_budget, palette.budget),
        (found.other, of_other, palette.outline),
    ] {
        // Where there is no room at the budget, the line alone tells it: the bar above has the figure.
        if let Some((place, galley)) = place.zip(galley) {
            plate(ui, &frame, place, galley, color);
        }
    }
    if let Some(y) = broken {
        broken_axis(ui, &frame, y, palette);
    }
    #[cfg(test)]
    ui.data_mut(|data| {
        let budgets = found.budget.into_iter().chain(found.other);
        let rects = found.phases.iter().flatten().copied().chain(found.peak).chain(budgets).chain(found.signs);
        data.insert_temp::<super::Seen>(super::seen_id(), (wanted.lines, rects.collect()));
    });
    if let Some(place) = found.signs {
        ground(ui, &frame, place);
    }
    found.signs
}

/// Where the words are, and those at the budget: all of them, or the few where all would hide a part of a hill.
fn with_budget(wanted: &mut Words, of_budget: Option<[Arc<Galley>; 2]>) -> (Places, Option<Arc<Galley>>) {
    let mut found = Vec::new();
    for galley in of_budget.into_iter().flatten() {
        wanted.budget = Some(galley.size());
        let places = wanted.places();
        let hidden = places.budget.map_or(f32::INFINITY, |place| wanted.hidden(place));
        found.push((hidden, places, galley));
    }
    let least = found.into_iter().min_by(|(a, ..), (b, ..)| a.total_cmp(b));
    least.map_or_else(|| (wanted.places(), None), |(_, places, galley)| (places, Some(galley)))
}

/// The words at the peak, in a low picture on one line: a second one would hide a part of it.
fn peak_words(ui: &Ui, whole: &str, frame: Rect, room: f32) -> Arc<Galley> {
    // Where all of them have no room, the op goes, then the layer.
    let shorter = [whole, before(whole, 2), before(whole, 1)];
    let font = FontId::proportional(theme::SMALL_TEXT);
    let in_one = shorter.into_iter().find(|words| text::width(ui, words, &font) <= room);
    let shown = if frame.height() < LOW { in_one.unwrap_or(shorter[2]) } else { shorter[0] };
    words(ui, shown, room, theme::palette(ui).strong())
}

/// Draws the name of each phase that has a place.
fn draw_names(
    ui: &Ui,
    timeline: &Timeline,
    transform: &PlotTransform,
    names: impl Iterator<Item = (Arc<Galley>, Option<Rect>)>,
) {
    let frame = *transform.frame();
    for (galley, place) in names {
        let Some(place) = place else { continue };
        if highest_below(timeline, transform, place) < place.bottom() {
            ground(ui, &frame, place);
        }
        ui.painter_at(frame).galley(place.min, galley, theme::palette(ui).weak());
    }
}

/// How high the filled shape and the outline reach on screen, in a few columns.
fn hills(own: &Timeline, outline: Option<&Timeline>, transform: &PlotTransform) -> Vec<(f32, f32)> {
    let frame = *transform.frame();
    let count = (frame.width() / COLUMN) as usize;
    let edge = |i: usize| frame.left() + frame.width() * i as f32 / count as f32;
    let op = |x: f32| transform.value_from_position(pos2(x, frame.top())).x.max(0.0) as usize;
    let highest = |timeline: &Timeline, from: usize, to: usize| {
        let (from, to) = (from.min(timeline.points.len()), (to + 1).min(timeline.points.len()));
        timeline.points[from..to].iter().map(|point| point.live).max().unwrap_or_default()
    };
    let column = |i: usize| {
        let (from, to) = (op(edge(i)), op(edge(i + 1)));
        let other = outline.map(|outline| highest(outline, from, to)).unwrap_or_default();
        let live = highest(own, from, to).max(other);
        (edge(i + 1), transform.position_from_point(&PlotPoint::new(0.0, live.as_mib())).y)
    };
    (0..count).map(column).collect()
}

/// How high on screen the memory of the ops below some words reaches.
fn highest_below(timeline: &Timeline, transform: &PlotTransform, words: Rect) -> f32 {
    let op = |x: f32| transform.value_from_position(pos2(x, words.center().y)).x.max(0.0) as usize;
    let (from, to) = (op(words.left() - PLATE.x), op(words.right() + PLATE.x) + 1);
    let points = timeline.points.get(from..to.min(timeline.points.len())).unwrap_or_default();
    let live = points.iter().map(|point| point.live).max().unwrap_or_default();
    transform.position_from_point(&PlotPoint::new(0.0, live.as_mib())).y
}

/// The names of the phases that have room between their ends: where each begins and ends.
fn phase_names(
    ui: &Ui,
    timeline: &Timeline,
    transform: &PlotTransform,
    palette: &Palette,
) -> Vec<(Rangef, Arc<Galley>)> {
    let frame = *transform.frame();
    let named = bands(&timeline.points).into_iter().map(|band| {
        let left = transform.position_from_point_x(band.from as f64).max(frame.left());
        let right = transform.position_from_point_x(band.to as f64).min(frame.right());
        let galley = words(ui, band.phase.name(), f32::INFINITY, palette.weak());
        (Rangef::new(left, right), galley)
    });
    named.filter(|(phase, galley)| galley.size().x + 8.0 < phase.span()).collect()
}

/// The peak's bytes, layer and op; and what else the headline counts, if it counts more.
fn at_peak(plan: &Plan, pass: Pass, frame: Rect) -> String {
    let timeline = plan.timeline(pass);
    let Some(point) = timeline.peak_index().map(|index| &timeline.points[index]) else { return String::new() };
    let own = format!("{} · {} · {}", point.live, timeline.layer(point.layer), point.op);
    match counted_besides(plan, pass) {
        Some(_) if frame.height() < LOW => format!("{own} · {} with context and slack", plan.load()),
        Some(besides) => format!("{own}\n{besides}"),
        None => own,
    }
}

/// The first parts of words that are told apart by points.
fn before(words: &str, parts: usize) -> &str {
    words.match_indices(" · ").nth(parts - 1).map_or(words, |(end, _)| &words[..end])
}

/// What the budget counts beyond the tensors at the peak: `+ 480 MiB context + 412 MiB slack = 23.5 GiB against the budget`.
fn counted_besides(plan: &Plan, pass: Pass) -> Option<String> {
    let live = plan.timeline(pass).peak();
    if pass != plan.peak_pass || live == plan.load() {
        return None;
    }
    let parts = [Category::Context, Category::Slack].map(|category| (category, plan.categories_at_peak.get(category)));
    let parts = parts.iter().filter(|(_, bytes)| *bytes > Bytes::ZERO);
    let parts: String = parts.map(|(category, bytes)| format!("+ {bytes} {} ", category.name())).collect();
    Some(format!("{parts}= {} against the budget", plan.load()))
}

/// The budget in words, on a GPU with what it leaves to tensors; and in few words.
fn budget_words(plan: &Plan) -> [String; 2] {
    let limit = Limit::of(plan);
    let words = format!("{} {}", limit.whose, format::size(limit.bytes));
    match plan.target.profile() {
        None => [words.clone(), words],
        Some(card) => {
            let room = limit.room(plan);
            [format!("{words} less {} context: {room}", card.context), format!("{room} for tensors")]
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
    ground(ui, frame, place);
    ui.painter_at(*frame).galley(place.min, words, color);
}

/// The ground of a plate.
fn ground(ui: &Ui, frame: &Rect, place: Rect) {
    ui.painter_at(*frame).rect_filled(place.expand2(PLATE), 3.0, theme::palette(ui).pane.gamma_multiply(0.88));
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
        assert_eq!(said, format!("+ {context} context + {slack} slack = {} against the budget", gpu.load()));
        assert!(budget_words(&gpu)[0].contains("less"));
    }
}

//! The memory of one step, op by op: categories stacked, the budget's line, the measured memory over the predicted.

use eframe::egui::Color32;
use plimsoll_engine::{
    memory::{Category, Phase, Timeline},
    plan::{Pass, Plan},
};

use super::{
    Figure,
    panel::{Axis, Panel},
    svg::{Anchor, Mark, Pen, Words, fitted, legend, palette, width_of},
};
use crate::{
    format,
    limit::Limit,
    panels::timeline::{
        scale::{Scale, scale},
        shape::{Column, bands, columns},
    },
    theme::print,
    widgets::axes::Round,
};

/// Columns of a picture in print: finer ones are not seen.
const COLUMNS: usize = 900;
/// From a line to the foot of the words above it.
const ABOVE_LINE: f32 = 4.0;
/// Above the legend.
const HEAD: f32 = print::TITLE + print::EDGE + 4.0;

/// One step that is drawn.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    /// The plan that it is a step of.
    pub(crate) plan: &'a Plan,
    pub(crate) pass: Pass,
    /// The same pass of a plan that it is compared with, and that plan's name.
    pub(crate) outline: Option<(&'a str, &'a Plan)>,
    /// MiB that were measured during each op; none if none were.
    pub(crate) measured: &'a [f64],
}

/// Draws a step.
pub(crate) fn figure(step: Step<'_>) -> Figure {
    let Step { plan, pass, outline, measured } = step;
    let (timeline, palette) = (plan.timeline(pass), palette());
    let title = format!("{}: memory of one step, {}", plan.experiment.title, pass.name());
    let mut entries: Vec<(Color32, Mark, String)> = Category::ALL
        .into_iter()
        .filter(|category| timeline.points.iter().any(|point| point.categories.get(*category).0 > 0))
        .map(|category| (palette.category(category), Mark::Area, category.name().to_owned()))
        .collect();
    if !measured.is_empty() {
        entries.push((palette.measured, Mark::Line, "measured".to_owned()));
    }
    entries.extend(outline.map(|(name, _)| (palette.outline, Mark::Dashed, name.to_owned())));
    let mut figure = Figure::new(&title, print::PAGE, HEAD + print::LINE * 2.0 + print::CHART + print::BELOW);
    let heading = Words::new(print::TITLE, palette.strong()).heavy();
    let right = print::PAGE - print::EDGE;
    figure.words([print::EDGE, HEAD - 6.0], &fitted(&title, right - print::EDGE, heading), heading);
    let top = legend(&mut figure, &entries, [print::EDGE, HEAD + print::WORDS], right) - print::WORDS + 4.0;
    let bottom = figure.size()[1] - print::BELOW;
    let both = || std::iter::once(timeline).chain(outline.map(|(_, plan)| plan.timeline(pass)));
    let highest = both().map(|timeline| timeline.peak().as_mib()).fold(0.0, f64::max);
    let ops = both().map(|timeline| timeline.points.len()).max().unwrap_or_default();
    let scale = scale(highest, room(plan), bottom - top);
    let left = print::EDGE + print::LABELS;
    let panel = Panel::new([left, top], [right - left, bottom - top], (0.0, ops as f64), (0.0, scale.top));
    draw(&mut figure, step, &panel, scale);
    figure
}

/// MiB that the line leaves to tensors.
fn room(plan: &Plan) -> f64 {
    Limit::of(plan).room(plan).as_mib()
}

fn draw(figure: &mut Figure, step: Step<'_>, panel: &Panel, scale: Scale) {
    let Step { plan, pass, outline, measured } = step;
    let (timeline, palette) = (plan.timeline(pass), palette());
    for band in bands(&timeline.points) {
        let (from, to) = (panel.x(band.from as f64), panel.x(band.to as f64));
        figure.rect([from, panel.top], [to - from, panel.bottom - panel.top], palette.phase(band.phase));
    }
    let y = Axis { broken_at: scale.broken_at, ..Axis::new(Round::Binary, &format::mib, "") };
    let count = |x: f64| format::count(x.max(0.0) as u64);
    panel.axes(figure, &Axis::new(Round::Whole, &count, "op"), &y);
    let shown = columns(&timeline.points, 0, timeline.points.len(), COLUMNS);
    areas(figure, timeline, &shown, panel);
    if let Some((_, other)) = outline {
        let other = other.timeline(pass);
        let columns = columns(&other.points, 0, other.points.len(), COLUMNS);
        let line = stairs(&columns, panel, |column| other.points[column.highest].live.as_mib());
        figure.lines(&line, Pen::dashed(palette.outline, print::CURVE));
    }
    if !measured.is_empty() {
        let highest = |column: &Column| {
            let of_column = measured.get(column.from..column.to.min(measured.len())).unwrap_or_default();
            of_column.iter().copied().fold(0.0, f64::max)
        };
        figure.lines(&stairs(&shown, panel, highest), Pen::solid(palette.measured, print::CURVE));
    }
    panel.frame(figure);
    phase_names(figure, timeline, panel);
    let is_right = peak(figure, timeline, panel, panel.y(scale.budget));
    budget(figure, plan, panel, scale, is_right);
}

fn areas(figure: &mut Figure, timeline: &Timeline, columns: &[Column], panel: &Panel) {
    let mut below = vec![0.0; columns.len()];
    for category in Category::ALL {
        let height = |column: &Column| timeline.points[column.highest].categories.get(category).as_mib();
        let above: Vec<f64> = columns.iter().zip(&below).map(|(column, below)| below + height(column)).collect();
        if above != below {
            let edge = |ys: &[f64]| -> Vec<[f32; 2]> {
                let ends = columns.iter().zip(ys).flat_map(|(column, y)| [(column.from, *y), (column.to, *y)]);
                ends.map(|(x, y)| panel.at([x as f64, y])).collect()
            };
            let mut points = edge(&above);
            points.extend(edge(&below).into_iter().rev());
            figure.shape(&points, palette().category(category));
        }
        below = above;
    }
}

fn stairs(columns: &[Column], panel: &Panel, y: impl Fn(&Column) -> f64) -> Vec<[f32; 2]> {
    let ends = columns.iter().flat_map(|column| [(column.from, y(column)), (column.to, y(column))]);
    ends.map(|(x, y)| panel.at([x as f64, y])).collect()
}

fn phase_names(figure: &mut Figure, timeline: &Timeline, panel: &Panel) {
    let words = Words::new(print::SMALL, palette().weak()).at(Anchor::Middle);
    for band in bands(&timeline.points) {
        let (from, to) = (panel.x(band.from as f64), panel.x(band.to as f64));
        let name = match band.phase {
            Phase::Recompute => "recompute",
            phase => phase.name(),
        };
        if width_of(name, words) + 4.0 < to - from {
            figure.words([f32::midpoint(from, to), panel.top + print::LINE * 2.8], name, words);
        }
    }
}

/// The line, with its words above it at the end where the peak is not.
fn budget(figure: &mut Figure, plan: &Plan, panel: &Panel, scale: Scale, peak_is_right: bool) {
    let (at, color) = (panel.y(scale.budget), palette().budget);
    figure.line([panel.left, at], [panel.right, at], Pen::dashed(color, print::BUDGET));
    if let Some(broken) = scale.broken_at {
        let at = panel.y(broken);
        for (x, dy) in [panel.left, panel.right].into_iter().flat_map(|x| [(x, -1.5), (x, 1.5)]) {
            figure.line([x - 3.0, at + dy + 1.5], [x + 3.0, at + dy - 1.5], Pen::solid(palette().weak(), print::HAIR));
        }
    }
    let limit = Limit::of(plan);
    let line = format!("{} {}", limit.whose, format::size(limit.bytes));
    let text = match plan.target.profile() {
        None => line,
        Some(card) => format!("{line} less {} context", card.context),
    };
    let words = Words::new(print::SMALL, color);
    let (x, words) = if peak_is_right { (panel.left + 4.0, words) } else { (panel.right - 4.0, words.at(Anchor::End)) };
    figure.words_on_plate([x, at - ABOVE_LINE], &text, words);
}

/// The arrow, and its words next to it: clear of the budget's line, whose height is `line`. Whether it is in the right half.
fn peak(figure: &mut Figure, timeline: &Timeline, panel: &Panel, line: f32) -> bool {
    let Some(index) = timeline.peak_index() else { return false };
    let point = &timeline.points[index];
    let [x, y] = panel.at([index as f64 + 0.5, point.live.as_mib()]);
    figure.shape(&[[x, y - 1.0], [x + 3.0, y - 6.0], [x - 3.0, y - 6.0]], palette().strong());
    let text = format!("{} · {} · {}", point.live, timeline.layer(point.layer), point.op);
    let is_right = x > f32::midpoint(panel.left, panel.right);
    let words = Words::new(print::SMALL, palette().strong());
    let (at, words) = if is_right { (x - 6.0, words.at(Anchor::End)) } else { (x + 6.0, words) };
    let own = y - ABOVE_LINE;
    let is_struck = (own - print::SMALL - ABOVE_LINE..own + ABOVE_LINE).contains(&line);
    figure.words_on_plate([at, if is_struck { line - ABOVE_LINE } else { own }], &text, words);
    is_right
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};
    use resvg::usvg::roxmltree;

    use super::*;

    fn plan(device: &str) -> Plan {
        let experiment = Experiment { device: device.to_owned(), ..Experiment::default() };
        Plan::of(&experiment, &Machine::nominal()).expect("a plan")
    }

    /// Corners of each filled shape.
    fn shapes(svg: &str) -> Vec<usize> {
        let read = roxmltree::Document::parse(svg).expect("well formed");
        let shapes =
            read.descendants().filter_map(|node| node.attribute("points").filter(|_| node.has_tag_name("polygon")));
        shapes.map(|points| points.split(' ').count()).collect()
    }

    #[test]
    fn every_category_that_holds_something_is_drawn_with_its_peak_and_budget() {
        let plan = plan("cpu");
        let step = Step { plan: &plan, pass: plan.peak_pass, outline: None, measured: &[] };
        let svg = figure(step).svg();
        let timeline = plan.timeline(plan.peak_pass);
        let held = Category::ALL.iter().filter(|c| timeline.points.iter().any(|p| p.categories.get(**c).0 > 0));
        // The arrow at the peak is one more.
        assert_eq!(shapes(&svg).len(), held.count() + 1);
        let point = &timeline.points[timeline.peak_index().expect("ops")];
        for said in [point.op, timeline.layer(point.layer), "budget 64 MiB", &plan.peak.live.to_string()] {
            assert!(svg.contains(said), "{said} is missing");
        }
        assert!(!svg.contains("measured") && !svg.contains("NaN"));
    }

    #[test]
    fn what_was_measured_is_a_line_over_it() {
        let plan = plan("rtx4060-8g");
        let measured = vec![0.5; plan.steady.points.len()];
        let other = Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan");
        let step = Step { plan: &plan, pass: Pass::Steady, outline: Some(("before", &other)), measured: &measured };
        let svg = figure(step).svg();
        assert!(svg.contains(">measured<") && svg.contains(">before<") && svg.contains("context"), "{svg}");
    }
}

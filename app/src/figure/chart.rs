//! Curves over steps or seconds in a frame of their own.

use eframe::egui::Color32;

use super::{
    Figure,
    panel::{Axis, Panel},
    svg::{Mark, Pen, Words, legend, palette},
};
use crate::{format, theme::print, widgets::axes::Round};

/// A curve.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) color: Color32,
    /// The curve's points, from left to right; not more than are visible.
    pub(crate) points: Vec<[f64; 2]>,
    /// Whether it is the measured curve behind the smoothed one; it then has no entry in the legend.
    pub(crate) is_faint: bool,
    /// Each point is marked: for curves with few of them.
    pub(crate) is_marked: bool,
}

/// The ground that a chart is drawn over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// Optimizer steps.
    Steps,
    /// Seconds.
    Seconds,
    /// The ops of one step.
    Ops,
}

/// A chart.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) curves: Vec<Curve>,
    /// Horizontal lines: the name, colour and place of each.
    pub(crate) rules: Vec<(String, Color32, f64)>,
    /// Its horizontal axis.
    pub(crate) over: Over,
    /// A logarithmic vertical axis.
    pub(crate) is_log: bool,
    /// Which of its values are round.
    pub(crate) round: Round,
    /// The words for one.
    pub(crate) words: fn(f64) -> String,
    /// The vertical axis begins at zero.
    pub(crate) from_zero: bool,
}

/// The height above the legend of a chart.
const HEAD: f32 = print::TITLE + 4.0;
/// Points that are marked, at most.
const MARKED: usize = 60;

impl Chart {
    fn up(&self, y: f64) -> f64 {
        if self.is_log { y.log10() } else { y }
    }

    /// The points of a curve as they are drawn: finite ones.
    fn drawn(&self, curve: &Curve) -> Vec<[f64; 2]> {
        let points = curve.points.iter().map(|[x, y]| [*x, self.up(*y)]);
        points.filter(|[x, y]| x.is_finite() && y.is_finite()).collect()
    }

    /// The least and the greatest that is in the picture.
    fn spans(&self) -> ((f64, f64), (f64, f64)) {
        let points: Vec<[f64; 2]> = self.curves.iter().flat_map(|curve| self.drawn(curve)).collect();
        let rules = self.rules.iter().map(|(.., y)| self.up(*y)).filter(|y| y.is_finite());
        let of = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
        };
        let x = of(&mut points.iter().map(|point| point[0]));
        let y = of(&mut points.iter().map(|point| point[1]).chain(rules));
        let finite = |(low, high): (f64, f64)| if low <= high { (low, high) } else { (0.0, 1.0) };
        let ((left, right), (low, high)) = (finite(x), finite(y));
        let low = if self.from_zero && !self.is_log { low.min(0.0) } else { low };
        let room = (high - low).max(high.abs() * 1e-6) * 0.06;
        ((left, right), (if low == 0.0 { 0.0 } else { low - room }, high + room))
    }

    /// Draws the chart into a place.
    fn draw(&self, figure: &mut Figure, [left, top]: [f32; 2], [width, height]: [f32; 2]) {
        let heading = Words::new(print::TITLE, palette().strong()).heavy();
        figure.words([left, top + print::TITLE], &self.title, heading);
        let named = self.curves.iter().filter(|curve| !curve.is_faint);
        let entries = named.map(|curve| (curve.color, Mark::Line, curve.name.clone()));
        let rules = self.rules.iter().map(|(name, color, _)| (*color, Mark::Dashed, name.clone()));
        let entries: Vec<_> = entries.chain(rules).collect();
        let place = [left, top + HEAD + print::WORDS];
        let below = legend(figure, &entries, place, left + width) - print::WORDS + 2.0;
        let (x, y) = self.spans();
        let bottom = top + height - print::BELOW;
        let corner = [left + print::LABELS, below];
        let panel = Panel::new(corner, [width - print::LABELS, bottom - below], x, y);
        let (round_x, name) = match self.over {
            Over::Steps => (Round::Whole, "step"),
            Over::Seconds => (Round::Decimal, "time"),
            Over::Ops => (Round::Whole, "op"),
        };
        let across = |x: f64| match self.over {
            Over::Steps | Over::Ops => format::count(x.max(0.0) as u64),
            Over::Seconds => format::tick_secs(x),
        };
        let up = |y: f64| (self.words)(if self.is_log { 10f64.powf(y) } else { y });
        let round_y = if self.is_log { Round::Log } else { self.round };
        panel.axes(figure, &Axis::new(round_x, &across, name), &Axis::new(round_y, &up, ""));
        for curve in &self.curves {
            let points: Vec<[f32; 2]> = self.drawn(curve).into_iter().map(|point| panel.at(point)).collect();
            let (color, width) = if curve.is_faint {
                (curve.color.gamma_multiply(0.3), print::HAIR)
            } else {
                (curve.color, print::CURVE)
            };
            figure.lines(&points, Pen::solid(color, width));
            if curve.is_marked && points.len() < MARKED {
                points.iter().for_each(|point| figure.circle(*point, print::DOT * 0.6, curve.color));
            }
        }
        for (_, color, y) in self.rules.iter().filter(|(.., y)| self.up(*y).is_finite()) {
            let at = panel.y(self.up(*y));
            figure.line([panel.left, at], [panel.right, at], Pen::dashed(*color, print::CURVE));
        }
        panel.frame(figure);
    }
}

/// Charts side by side and below each other under a title, in this many columns.
pub(crate) fn figure(title: &str, charts: &[Chart], columns: usize) -> Figure {
    let columns = columns.clamp(1, charts.len().max(1));
    let rows = charts.len().div_ceil(columns);
    let cell = if columns > 1 || rows > 1 { print::SMALL_CHART } else { print::CHART } + print::BELOW;
    let head = print::EDGE + print::TITLE + print::BESIDE;
    let height = head + (cell + print::BESIDE) * rows as f32 + print::EDGE;
    let mut figure = Figure::new(title, print::PAGE, height);
    let heading = Words::new(print::TITLE, palette().strong()).heavy();
    figure.words([print::EDGE, print::EDGE + print::TITLE], title, heading);
    let gap = print::BESIDE * 2.0;
    let width = (print::PAGE - print::EDGE * 2.0 - gap * (columns - 1) as f32) / columns as f32;
    for (i, chart) in charts.iter().enumerate() {
        let left = print::EDGE + (width + gap) * (i % columns) as f32;
        let top = head + (cell + print::BESIDE) * (i / columns) as f32;
        chart.draw(&mut figure, [left, top], [width, cell]);
    }
    figure
}

#[cfg(test)]
mod tests {
    use resvg::usvg::roxmltree;

    use super::*;

    fn chart(points: Vec<[f64; 2]>, is_log: bool) -> Chart {
        let curve =
            Curve { name: "train".to_owned(), color: palette().train, points, is_faint: false, is_marked: true };
        Chart {
            title: "Loss".to_owned(),
            curves: vec![curve],
            rules: vec![("limit".to_owned(), palette().budget, 1.0)],
            over: Over::Steps,
            is_log,
            round: Round::Decimal,
            words: format::plain,
            from_zero: true,
        }
    }

    #[test]
    fn what_is_not_finite_is_left_out_and_the_rest_lies_inside_the_frame() {
        for is_log in [false, true] {
            let points = vec![[1.0, 2.0], [2.0, f64::NAN], [3.0, f64::INFINITY], [4.0, 0.5], [5.0, 0.0]];
            let svg = figure("A run", &[chart(points, is_log), chart(Vec::new(), is_log)], 2).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            let read = roxmltree::Document::parse(&svg).expect("well formed");
            let circles = read.descendants().filter(|node| node.has_tag_name("circle"));
            // Zero has no place on a logarithmic axis.
            assert_eq!(circles.count(), if is_log { 2 } else { 3 });
            for at in read.descendants().filter_map(|node| node.attribute("cx")?.parse::<f32>().ok()) {
                assert!((0.0..=print::PAGE).contains(&at), "{at}");
            }
        }
    }
}

//! A plot of growing curves over steps or seconds. Draws at the cost of its pixels; see [`series`](super::series).

use eframe::egui::{self, Align2, Color32, FontId, Id, Stroke, TextWrapMode, Ui, Vec2b};
use egui_plot::{HLine, HoverPosition, Line, LineStyle, PlotPoints, PlotUi, Points};

use crate::{
    format, theme,
    widgets::{
        axes::{self, Round},
        dense_line::DenseLine,
        plot_keys::{self, Places},
        series::Series,
        tip::{self, Speaks},
    },
};

/// The radius of the mark of a value, and of a value that is alone.
const MARK: f32 = 2.5;
const SINGLE: f32 = 4.0;

/// One curve.
pub(crate) struct Curve<'a> {
    /// Its name, on hover.
    pub(crate) name: &'a str,
    /// Its colour.
    pub(crate) color: Color32,
    /// Where its values lie, never falling.
    pub(crate) xs: &'a [f64],
    /// Its values.
    pub(crate) series: &'a Series,
    /// A faint curve behind a smoothed one.
    pub(crate) faint: bool,
    /// Mark each value: for curves with few of them.
    pub(crate) marks: bool,
}

/// A horizontal line.
pub(crate) struct Rule<'a> {
    /// Its name, on hover.
    pub(crate) name: &'a str,
    /// Its colour.
    pub(crate) color: Color32,
    /// Its height.
    pub(crate) y: f64,
    /// Whether it lies so far above everything else that its height is written at the top of the picture and not drawn.
    pub(crate) is_far: bool,
}

/// How a plot is labelled.
pub(crate) struct Axes {
    /// A logarithmic vertical axis.
    pub(crate) log: bool,
    /// Steps, or seconds.
    pub(crate) in_steps: bool,
    /// Which values of the vertical axis are round.
    pub(crate) round: Round,
    /// The words for a value on the axis.
    pub(crate) tick: fn(f64) -> String,
    /// The words for a value.
    pub(crate) value: fn(f64) -> String,
    /// Values that are always in view.
    pub(crate) include: Vec<f64>,
}

impl Axes {
    fn up(&self, y: f64) -> Option<f64> {
        if self.log { (y > 0.0).then(|| y.log10()) } else { Some(y) }
    }

    fn down(&self, y: f64) -> f64 {
        if self.log { 10f64.powf(y) } else { y }
    }

    fn x(&self, x: f64) -> String {
        if self.in_steps { format!("step {}", format::count(x.max(0.0).round() as u64)) } else { format::secs(x) }
    }
}

/// Whether a plot shows another group than in the frame before: a view that was chosen for one run may show nothing of the next.
fn is_of_another(ui: &Ui, name: &str, group: Id) -> bool {
    let id = ui.scope_id().with((name, "group"));
    let known: Option<Id> = ui.data(|data| data.get_temp(id));
    ui.data_mut(|data| data.insert_temp(id, group));
    known.is_some_and(|known| known != group)
}

/// Draws curves and rules in the available space. Plots with the same `group` move together; another group is seen whole.
pub(crate) fn plot(ui: &mut Ui, name: &str, group: Id, axes: &Axes, curves: &[Curve<'_>], rules: &[Rule<'_>]) {
    let in_steps = axes.in_steps;
    let x = move |x: f64| if in_steps { format::tick_count(x) } else { format::tick_secs(x) };
    let rounds = (if in_steps { Round::Whole } else { Round::Decimal }, if axes.log { Round::Log } else { axes.round });
    let plot = axes::plot(ui, name, rounds.0, rounds.1)
        .link_axis(group, Vec2b::new(true, false))
        .link_cursor(group, Vec2b::new(true, false))
        .set_margin_fraction(egui::vec2(0.01, 0.06))
        .custom_x_axes(vec![axes::x_axis(ui, x)])
        .custom_y_axes(vec![axes::y_axis(ui, |y| (axes.tick)(axes.down(y)))])
        .label_formatter(|at| match at {
            HoverPosition::NearDataPoint { plot_name, position, .. } => {
                // A curve holds values of 32 bits.
                let value = format::exact(axes.down(position.y) as f32);
                Some(format!("{plot_name}\n{}\n{}", axes.x(position.x), (axes.value)(value)))
            }
            HoverPosition::Elsewhere { .. } => None,
        });
    let plot = if is_of_another(ui, name, group) { plot.reset() } else { plot };
    let plot = axes.include.iter().filter_map(|y| axes.up(*y)).fold(plot, |plot, y| plot.include_y(y));
    let longest = curves.iter().filter(|curve| !curve.faint).max_by_key(|curve| curve.xs.len());
    let last = curves.iter().filter_map(|curve| curve.xs.last().copied()).fold(f64::NEG_INFINITY, f64::max);
    let mut by_keys = None;
    let response = axes::show(ui, plot, |plot| {
        by_keys = longest.and_then(|along| place(plot, along.xs, last));
        for curve in curves {
            draw(plot, curve, axes);
        }
        for rule in rules.iter().filter(|rule| !rule.is_far) {
            if let Some(y) = axes.up(rule.y) {
                let style = LineStyle::Dashed { length: 6.0 };
                plot.hline(HLine::new(rule.name, y).color(rule.color).width(1.2).style(style));
            }
        }
    });
    let frame = response.transform.frame();
    let mut corner = frame.right_top() + egui::vec2(-theme::GAP, 1.0);
    for rule in rules.iter().filter(|rule| rule.is_far) {
        let words = format!("{} {} ⬆", rule.name, (axes.value)(rule.y));
        let font = FontId::proportional(theme::SMALL_TEXT);
        let painter = ui.painter_at(*frame);
        let words = painter.layout_no_wrap(words, font, rule.color);
        let place = Align2::RIGHT_TOP.anchor_size(corner, words.size());
        // A curve or another line may run below them.
        painter.rect_filled(place.expand(1.0), 2.0, theme::palette(ui).pane);
        painter.galley(place.min, words, rule.color);
        corner.y = place.bottom();
    }
    let at = by_keys.map(|x| words_at(curves, axes, x));
    let about = format!("{name} plot{}", at.as_deref().map(|at| format!(", at {}", at.join(", "))).unwrap_or_default());
    if let Some((x, words)) = by_keys.zip(at).filter(|_| tip::is_at_focus(&response.response)) {
        let middle = response.transform.position_from_point_x(x);
        let stroke = Stroke::new(1.0, theme::palette(ui).measured.gamma_multiply(0.5));
        ui.painter_at(*frame).vline(middle, frame.y_range(), stroke);
        tip::show(tip::speaking(&response.response, Speaks::Beside), |ui| {
            // Each in its line, however wide the words before were.
            ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
            words.iter().for_each(|line| drop(ui.label(line)));
        });
    }
    response.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Figure, true, &about));
}

/// Where the keys are along the values at `xs`. They begin at the end, which is the `last` value of any curve: a test may come
/// after the last step.
fn place(plot: &mut PlotUi<'_>, xs: &[f64], last: f64) -> Option<f64> {
    let end = xs.len().checked_sub(1)?;
    let x = |index| if index == end { last } else { xs[index] };
    let places = Places { count: xs.len(), first: end, x: &x, whole: x(0)..=last };
    plot_keys::at(plot, &places).map(x)
}

/// The step or the second, and the value of each curve there: the last one up to it.
fn words_at(curves: &[Curve<'_>], axes: &Axes, x: f64) -> Vec<String> {
    let value = |curve: &Curve<'_>| {
        let index = curve.xs.partition_point(|at| *at <= x).checked_sub(1)?;
        let value = curve.series.values().get(index).filter(|value| value.is_finite())?;
        Some(format!("{} {}", curve.name, (axes.value)(format::exact(*value))))
    };
    let values = curves.iter().filter(|curve| !curve.faint).filter_map(value);
    std::iter::once(axes.x(x)).chain(values).collect()
}

fn draw(plot: &mut PlotUi<'_>, curve: &Curve<'_>, axes: &Axes) {
    let width = plot.response().rect.width().max(1.0);
    // While the view follows the data, new points lie outside the last view: take everything.
    let (left, right) = if plot.auto_bounds().x {
        (f64::NEG_INFINITY, f64::INFINITY)
    } else {
        let bounds = plot.plot_bounds();
        (bounds.min()[0], bounds.max()[0])
    };
    let points = curve.series.curve(curve.xs, left, right, width as usize);
    let points: Vec<[f64; 2]> = points.into_iter().filter_map(|[x, y]| Some([x, axes.up(y)?])).collect();
    // A single value makes a mark, not a line.
    let is_single = points.len() == 1;
    if is_single || (curve.marks && points.len() < 60) {
        let radius = if is_single { SINGLE } else { MARK };
        let marks = Points::new(curve.name, PlotPoints::from(points.clone())).color(curve.color).radius(radius);
        plot.points(marks);
    }
    let (color, wide) = if curve.faint { (curve.color.gamma_multiply(0.28), 1.0) } else { (curve.color, theme::CURVE) };
    if !points.is_empty() {
        let line = Line::new(curve.name, PlotPoints::from(points)).allow_hover(!curve.faint);
        plot.add(DenseLine::new(line, color, wide));
    }
}

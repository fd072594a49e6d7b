//! One step: predicted memory op by op, stacked by category, with its phases and its peak; the budget, always; the
//! measured curve of the running step over it; and the outline of the step that it is compared with, on the same axes.

mod compare;
mod marks;
mod moment;
mod places;
pub(crate) mod scale;
pub(crate) mod shape;
mod signs;

use eframe::egui::{
    self, Align, Button, ComboBox, Layout, RichText, Role, ScrollArea, TextStyle, Ui, UiBuilder, WidgetInfo, vec2,
};
use egui_plot::{FilledArea, HLine, Line, LineStyle, PlotPoints, PlotUi, Span};
use plimsoll_engine::{
    memory::{Category, Timeline},
    plan::{Pass, Plan},
};

use self::{
    scale::Scale,
    shape::{Column, bands, columns, corners},
    signs::Signs,
};
use super::{PanelContext, without_plan};
use crate::{
    format,
    limit::Limit,
    session::{RunRecord, Ways},
    state::State,
    theme::{self, Palette},
    view::View,
    widgets::{
        axes::{self, Round},
        plot_keys::{self, Places},
        text,
        tip::Tip as _,
    },
};

/// Height of the horizontal axis with its labels.
const AXIS: f32 = 18.0;
/// Between the buttons above the picture.
const BETWEEN: f32 = 5.0;
/// In a lower pane the picture needs the line of the signs: the tooltip of an op tells what they mean.
const WITH_SIGNS: f32 = 136.0;
/// The picture is not drawn lower.
const LOWEST: f32 = 72.0;
/// In a lower picture the words at the peak stand in one line.
const LOW: f32 = 110.0;
const PASSES: [(Pass, &str, &str); 8] = [
    (Pass::Teach, "Teaching", "A teacher is asked about a micro-batch of training samples, before the model is made."),
    (Pass::First, "First step", "The first optimizer step, in which optimizer state is allocated."),
    (Pass::Steady, "Every step", "Any later step."),
    (Pass::Prune, "Pruning", "Channels are taken out: the whole model and the smaller one are alive together."),
    (Pass::Pruned, "Pruned step", "Any step after channels were taken out."),
    (Pass::Evaluate, "Evaluation", "One batch of the test data."),
    (Pass::Save, "Saving", "Writing a checkpoint, tensor by tensor: weights, optimizer state and running statistics."),
    (
        Pass::Compress,
        "As integers",
        "The trained model in integers: the ranges of its inputs, its codes in addition to the weights, and a test with them.",
    ),
];

/// What is in the picture.
#[derive(Clone, Copy)]
struct Picture<'a> {
    /// The plan that fills it.
    plan: &'a Plan,
    /// The plan that is its outline.
    outline: Option<&'a Plan>,
    pass: Pass,
    /// MiB that were measured during each op; none where none were.
    measured: &'a [f64],
    /// How each op of the measured step ran, where there are several ways.
    ways: &'a Ways,
}

/// What the pane shows.
pub(crate) struct Shown<'a> {
    /// The plan that fills the picture.
    pub(crate) filled: &'a Plan,
    /// The plan that is its outline.
    pub(crate) outline: Option<&'a Plan>,
    /// The pass of both.
    pub(crate) pass: Pass,
    /// MiB that were measured during each op; none where none were.
    pub(crate) measured: Vec<f64>,
    /// How each op of the measured step ran, where that is known.
    ways: Ways,
}

impl<'a> Shown<'a> {
    /// What is shown now; `None` without a plan.
    pub(crate) fn of(state: &'a State, view: &View) -> Option<Self> {
        let (plan, pin) = (&**state.newest_plan()?, state.pin.as_deref());
        let (filled, outline) = match pin {
            Some(pin) if view.show_before => (pin, Some(plan)),
            pin => (plan, pin),
        };
        let is_planned = |pass: &Pass| !filled.timeline(*pass).points.is_empty();
        let pass = view.pass.filter(is_planned).unwrap_or(filled.peak_pass);
        let (measured, ways) = measured(state, filled, pass);
        Some(Self { filled, outline, pass, measured, ways })
    }

    /// The passes to choose from, each with its name and what it is.
    fn passes(&self) -> impl Iterator<Item = (Pass, &'static str, &'static str)> {
        PASSES.into_iter().filter(|(pass, ..)| !self.filled.timeline(*pass).points.is_empty())
    }
}

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some((plan, shown)) = context.state.newest_plan().zip(Shown::of(context.state, context.view)) else {
        without_plan(ui, context, "the memory of one training step");
        return;
    };
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        let has_signs = ui.available_height() >= WITH_SIGNS;
        head(ui, context, plan, &shown);
        if has_signs {
            line_of_signs(ui, context, &shown);
        }
        let Shown { filled, outline, pass, measured, ways } = &shown;
        let picture = Picture { plan: filled, outline: *outline, pass: *pass, measured, ways };
        // Where there is no line for them, the signs stand in the picture.
        let within = Signs::of(&shown, context.view.show_before).any().filter(|_| !has_signs);
        draw(ui, picture, within);
    });
}

/// Which pass, and what it is compared with: the same buttons with a pin and without one.
fn head(ui: &mut Ui, context: &mut PanelContext<'_>, plan: &Plan, shown: &Shown<'_>) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = BETWEEN;
        let names = shown.passes().map(|(_, name, _)| name).chain(compare::WORDS);
        let font = TextStyle::Button.resolve(ui.style());
        let around = 2.0 * ui.spacing().button_padding.x + BETWEEN;
        let whole: f32 = names.map(|name| text::width(ui, name, &font).ceil() + around).sum();
        if whole - BETWEEN > ui.available_width() {
            listed(ui, context.view, shown)
        } else {
            beside(ui, context.view, shown)
        }
        compare::ui(ui, context, plan);
    });
}

/// What the signs mean, in a line that is there in any case: the picture keeps its place, whatever comes into it.
fn line_of_signs(ui: &mut Ui, context: &PanelContext<'_>, shown: &Shown<'_>) {
    let size = vec2(ui.available_width(), theme::SMALL_ROW);
    let (_, rect) = ui.allocate_space(size);
    let layout = Layout::left_to_right(Align::Center);
    let ui = &mut ui.new_child(UiBuilder::new().max_rect(rect).layout(layout));
    ui.set_clip_rect(ui.clip_rect().intersect(rect));
    ui.spacing_mut().item_spacing.x = theme::WIDE_GAP;
    signs::line(ui, shown, context.view.show_before);
    if let Some(anew) = anew(context.state, shown.filled) {
        text::cut(ui, RichText::new(&anew).small(), &anew);
    }
}

/// The passes side by side.
fn beside(ui: &mut Ui, view: &mut View, shown: &Shown<'_>) {
    for (choice, name, about) in shown.passes() {
        if ui.add(Button::selectable(choice == shown.pass, name)).tip(about).clicked() {
            view.pass = Some(choice);
        }
    }
}

/// The passes in a list.
fn listed(ui: &mut Ui, view: &mut View, shown: &Shown<'_>) {
    let list = ComboBox::from_id_salt("pass").selected_text(pass_name(shown.pass));
    let list = list.show_ui(ui, |ui| {
        for (choice, name, about) in shown.passes() {
            if ui.selectable_label(choice == shown.pass, name).tip(about).clicked() {
                view.pass = Some(choice);
            }
        }
    });
    list.response.accessible_name("Pass shown");
}

/// Says of a run of another session, whose step is shown, that it is planned otherwise now.
fn anew(state: &State, plan: &Plan) -> Option<String> {
    let is_of_plan = |run: &&RunRecord| run.plan.is_none() && *run.experiment() == *plan.experiment;
    let run = state.shown_run().filter(is_of_plan)?;
    format::planned_otherwise(plan, run.predicted)
}

/// What was measured during each op of a step of the run that is shown, or of the one that trained last, if that step is the
/// one that is drawn; and how each op of it ran, where that is known.
fn measured(state: &State, plan: &Plan, pass: Pass) -> (Vec<f64>, Ways) {
    let mut runs = state.shown_run().into_iter().chain(state.session.get(state.latest.run));
    let Some(measured) = runs.find_map(|run| run.measured_step_of(plan, pass)) else {
        return (Vec::new(), Ways::default());
    };
    (measured.bytes.iter().map(|bytes| bytes.as_mib()).collect(), measured.ways.clone())
}

fn draw(ui: &mut Ui, picture: Picture<'_>, signs: Option<Signs>) {
    let Picture { plan, outline, pass, .. } = picture;
    let palette = theme::palette(ui);
    let timeline = plan.timeline(pass);
    let both = || std::iter::once(timeline).chain(outline.map(|plan| plan.timeline(pass)));
    let highest = both().map(Timeline::peak).max().unwrap_or_default();
    let ops = both().map(|timeline| timeline.points.len()).max().unwrap_or_default();
    let height = ui.available_height().max(LOWEST);
    let scale = scale::scale(highest.as_mib(), Limit::of(plan).room(plan).as_mib(), height - AXIS);
    let whole = scale.broken_at.unwrap_or(f64::INFINITY);
    let plot = axes::plot(ui, pass_name(pass), Round::Whole, Round::Binary)
        .height(height)
        .y_grid_spacer(axes::at_least_two_up_to(Round::Binary, whole))
        .set_margin_fraction(egui::vec2(0.0, 0.0))
        .include_y(0.0)
        .include_y(scale.top)
        .include_x(0.0)
        .include_x(ops as f64)
        .custom_x_axes(vec![axes::x_axis(ui, format::tick_count)])
        .custom_y_axes(vec![axes::y_axis(ui, format::mib)])
        .show_crosshair(false)
        .label_formatter(|_| None);
    let mut by_keys = None;
    let response = axes::show(ui, plot, |plot| {
        let (count, peak) = (timeline.points.len(), timeline.peak_index().unwrap_or_default());
        let places = Places { count, first: peak, x: &|index| index as f64 + 0.5, whole: 0.0..=ops as f64 };
        by_keys = plot_keys::at(plot, &places);
        drawing(plot, picture, scale, palette);
    });
    let about = format!(
        "Predicted memory of one step: {}, peak {}, budget {}",
        format::counted(timeline.points.len() as u64, "op"),
        timeline.peak(),
        format::size(Limit::of(plan).bytes)
    );
    let at = by_keys.and_then(|index| moment::line(timeline, index));
    let about = at.map_or_else(|| about.clone(), |at| format!("{about}, at {at}"));
    response.response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, &about));
    let size = signs.map(|signs| signs.size(ui));
    let place = marks::draw(ui, picture, scale, &response.transform, size);
    if let Some((place, signs)) = place.zip(signs) {
        signs.within(ui, place);
    }
    moment::draw(ui, &response.response, picture, &response.transform, by_keys);
}

/// Heights of the level lines of a picture, and where its words stand.
#[cfg(test)]
pub(crate) type Seen = (Vec<f32>, Vec<egui::Rect>);

/// Where a test finds what was drawn last.
#[cfg(test)]
pub(crate) fn seen_id() -> egui::Id {
    egui::Id::unique("words of the timeline")
}

fn drawing(plot: &mut PlotUi<'_>, picture: Picture<'_>, scale: Scale, palette: &Palette) {
    let Picture { plan, outline, pass, measured, .. } = picture;
    let timeline = plan.timeline(pass);
    phases(plot, timeline, palette);
    let shown = visible(plot, timeline);
    areas(plot, timeline, &shown, palette);
    if let Some(other) = outline.map(|plan| plan.timeline(pass)) {
        let columns = visible(plot, other);
        let line = step_line("outline", &columns, |column| other.points[column.highest].live.as_mib());
        plot.line(line.color(palette.outline).width(1.6).style(LineStyle::Dashed { length: 4.0 }));
    }
    if let Some(budget) = budget_of_outline(outline, scale) {
        let style = LineStyle::Dashed { length: 4.0 };
        let line = HLine::new("budget of the outline", budget).color(palette.outline).width(1.2).style(style);
        plot.hline(line.allow_hover(false));
    }
    if !measured.is_empty() {
        let line = step_line("measured", &shown, |column| measured[column.highest]);
        plot.line(line.color(palette.measured).width(1.4));
    }
    // A ground of its own, so that the line is seen on any category.
    let ground = HLine::new("budget", scale.budget).color(palette.pane.gamma_multiply(0.7)).width(4.0);
    plot.hline(ground.allow_hover(false));
    let style = LineStyle::Dashed { length: 6.0 };
    plot.hline(HLine::new("budget", scale.budget).color(palette.budget).width(2.0).style(style).allow_hover(false));
}

/// Where the budget of the outline has a line of its own, in MiB.
fn budget_of_outline(outline: Option<&Plan>, scale: Scale) -> Option<f64> {
    let budget = Limit::of(outline?).room(outline?).as_mib();
    // Past a break of the axis no other height is true.
    (budget != scale.budget && budget < scale.broken_at.unwrap_or(scale.top)).then_some(budget)
}

fn pass_name(pass: Pass) -> &'static str {
    PASSES.iter().find(|(p, ..)| *p == pass).map_or("", |(_, name, _)| name)
}

/// The ops in view, at most about one a pixel column.
fn visible(plot: &PlotUi<'_>, timeline: &Timeline) -> Vec<Column> {
    let (from, to) = if plot.auto_bounds().x {
        (0, timeline.points.len())
    } else {
        let bounds = plot.plot_bounds();
        (bounds.min()[0].max(0.0) as usize, (bounds.max()[0].max(0.0).ceil() as usize).min(timeline.points.len()))
    };
    columns(&timeline.points, from, to, plot.response().rect.width().max(1.0) as usize)
}

fn phases(plot: &mut PlotUi<'_>, timeline: &Timeline, palette: &Palette) {
    for band in bands(&timeline.points) {
        plot.span(Span::new("", band.from as f64..=band.to as f64).fill(palette.phase(band.phase)).border_width(0.0));
    }
}

fn areas(plot: &mut PlotUi<'_>, timeline: &Timeline, columns: &[Column], palette: &Palette) {
    let xs: Vec<f64> = columns.iter().flat_map(|c| [c.from as f64, c.to as f64]).collect();
    let mut below = vec![0.0; xs.len()];
    let at = |values: &[f64], places: &[usize]| places.iter().map(|i| values[*i]).collect::<Vec<_>>();
    for category in Category::ALL {
        let heights = columns.iter().flat_map(|c| {
            let bytes = timeline.points[c.highest].categories.get(category).as_mib();
            [bytes, bytes]
        });
        let above: Vec<f64> = below.iter().zip(heights).map(|(below, height)| below + height).collect();
        if above != below {
            let places = corners(xs.len(), |a, b| below[a] == below[b] && above[a] == above[b]);
            let (xs, below, above) = (at(&xs, &places), at(&below, &places), at(&above, &places));
            let area = FilledArea::new(category.name(), &xs, &below, &above);
            plot.add(area.fill_color(palette.category(category)).allow_hover(false));
        }
        below = above;
    }
}

fn step_line<'a>(name: &str, columns: &[Column], y: impl Fn(&Column) -> f64) -> Line<'a> {
    let points: Vec<[f64; 2]> = columns.iter().flat_map(|c| [[c.from as f64, y(c)], [c.to as f64, y(c)]]).collect();
    let places = corners(points.len(), |a, b| points[a][1] == points[b][1]);
    let points: Vec<[f64; 2]> = places.into_iter().map(|i| points[i]).collect();
    Line::new(name, PlotPoints::from(points)).allow_hover(false).allow_band(false)
}

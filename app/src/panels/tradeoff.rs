//! Memory against accuracy: every run of this session and every kept run as a point, and for each task the frontier of the runs
//! that nothing beats. One task is in focus, the others are dimmed. A click on a point looks at its run; a button loads its
//! settings, and the right button has a menu. Keys do the same.

mod about;
mod at_point;
mod chosen;
mod extent;
mod key;
mod keys;
pub(crate) mod labels;
mod pointed;
mod seeds;
mod smaller;
mod task;
mod together;
mod trail;
mod view;

use eframe::egui::{Color32, ComboBox, Pos2, Rect, RichText, ScrollArea, Stroke, Ui, Vec2, vec2};
use egui_plot::{Line, LineStyle, MarkerShape, Plot, PlotPoint, PlotPoints, PlotTransform, PlotUi, Points, VLine};
use plimsoll_engine::experiment::ModelKind;

use self::{
    extent::{above_axis, accuracies, across, measure, measures, plot_height, whole, widest},
    task::Task,
};
use super::PanelContext;
use crate::{
    command::Action,
    format,
    session::{RunKey, RunRecord},
    state::State,
    theme::{self, Palette},
    widgets::{
        axes::{self, Round},
        chip,
        tip::Tip as _,
    },
};

/// The share of the list in its line with the legend.
const LIST_SHARE: f32 = 0.38;
/// A click this near to a point means it.
const REACH: f32 = 14.0;
/// How much is left of the colours of a task that is not in focus.
const DIMMED: f32 = 0.35;
/// Whose budget the line is: the runs may have had others.
pub(crate) const BUDGET_OF: &str = "budget of these settings";
/// A budget is drawn up to this many times the most memory in view.
const NEAR: f64 = 1.75;
/// The point of a run that trains is so much larger.
const ACTIVE: f32 = 2.0;
/// The ring around the point of the run that is looked at.
const RING: f32 = 4.0;

/// A run with its point: measured peak in MiB, best accuracy.
#[derive(Clone, Copy)]
struct Dot<'a> {
    run: &'a RunRecord,
    at: [f64; 2],
    /// Whether nothing beats it in its task.
    is_best: bool,
    /// Whether it was ended at its budget: its steps are fewer than those of the others.
    is_cut_off: bool,
    /// Whether its task is the one in focus.
    in_focus: bool,
}

impl Dot<'_> {
    fn color(&self, palette: &Palette) -> Color32 {
        let color = match (self.run.status.is_active(), self.is_best) {
            _ if !self.in_focus => palette.process,
            _ if self.is_cut_off => palette.warn,
            (true, _) => palette.test,
            (false, true) => palette.frontier,
            (false, false) => palette.process,
        };
        if self.in_focus { color } else { color.gamma_multiply(DIMMED) }
    }
}

/// A run with its point: measured peak in MiB, best accuracy.
pub(crate) type Placed<'a> = (&'a RunRecord, [f64; 2]);

/// The task in focus by its name, and its runs; `None` before its first point.
pub(crate) fn in_focus(state: &State) -> Option<(String, Vec<Placed<'_>>)> {
    let tasks = task::tasks(&state.session);
    let task = &tasks[task::in_focus(&tasks, state)?];
    let dots = task.dots(true).into_iter().map(|dot| (dot.run, dot.at));
    Some((task.name.clone(), dots.collect()))
}

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let tasks = task::tasks(&context.state.session);
    if tasks.is_empty() {
        chip::empty(
            ui,
            "Train a run, change a setting and train again: each becomes a point, memory against accuracy.",
        );
        return;
    }
    let Some(focus) = task::in_focus(&tasks, context.state) else {
        tasks_list(ui, context, &tasks, None);
        chip::empty(ui, "No run on these data was tested yet. Train one, or choose the runs on other data above.");
        return;
    };
    let shown = context.state.shown_run();
    let dots = tasks.iter().enumerate().flat_map(|(i, task)| task.dots(i == focus));
    let dots = in_axes(dots.collect());
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        key::left_out(ui, &context.state.runs);
        let budget = near_budget(context, &dots);
        let row = ui.spacing().interact_size.y;
        let below = ui.available_height() - row - ui.spacing().item_spacing.y;
        let height = plot_height(below, chosen::height(ui));
        let is_of_values = tasks[focus].is_of_values();
        let axis = measure(ui, height, is_of_values).is_empty().then(|| measures(is_of_values)[1]);
        let are_numbers = labels::are_numbers(ui);
        // The legend stands next to the list: a line of its own would take the picture's room, and move the picture when the
        // list comes.
        ui.horizontal(|ui| {
            ui.set_min_height(row);
            if tasks.len() > 1 {
                ui.scope(|ui| {
                    ui.set_max_width(ui.available_width() * LIST_SHARE);
                    tasks_list(ui, context, &tasks, Some(focus));
                });
            }
            key::ui(ui, &dots, budget, (axis, are_numbers));
        });
        plot(ui, context, (&tasks, focus), &dots, shown.map(|run| run.key), height);
        chosen::ui(ui, context, shown);
    });
}

/// The runs in focus, and the runs of other tasks that lie inside the axes, which the ones in focus decide.
fn in_axes(mut dots: Vec<Dot<'_>>) -> Vec<Dot<'_>> {
    let points: Vec<[f64; 2]> = dots.iter().filter(|dot| dot.in_focus).map(|dot| dot.at).collect();
    let (widest, (low, high)) = (widest(&points), accuracies(&points));
    dots.retain(|dot| dot.in_focus || (dot.at[0] <= widest && (low..=high).contains(&dot.at[1])));
    dots
}

/// A list of the tasks, with the one in focus chosen.
fn tasks_list(ui: &mut Ui, context: &PanelContext<'_>, tasks: &[Task<'_>], focus: Option<usize>) {
    let list = ComboBox::from_id_salt("task").width(ui.available_width()).truncate();
    let chosen = focus.map_or("runs on other data", |focus| &*tasks[focus].name);
    let list = list.selected_text(chosen).show_ui(ui, |ui| {
        for (i, task) in tasks.iter().enumerate() {
            if ui.selectable_label(Some(i) == focus, &task.name).clicked()
                && let Some(newest) = task.runs.last()
            {
                context.send.send(Action::ShowRun(newest.key));
            }
        }
    });
    let hover = "Runs are compared with those on the same data, by the same measure.";
    let now = focus.map_or(String::new(), |focus| format!(" These are compared now: {}.", tasks[focus].name));
    list.response.accessible_name("Runs compared").tip(format!("{hover}{now}"));
}

fn plot(
    ui: &mut Ui,
    context: &PanelContext<'_>,
    (tasks, focus): (&[Task<'_>], usize),
    dots: &[Dot<'_>],
    shown: Option<RunKey>,
    height: f32,
) {
    let palette = theme::palette(ui);
    let budget = near_budget(context, dots);
    let smaller = smaller::of(dots);
    let mut points: Vec<[f64; 2]> = dots.iter().filter(|dot| dot.in_focus).map(|dot| dot.at).collect();
    points.extend(smaller.iter().map(|smaller| smaller.at));
    // Where a run that trains has been is drawn as well, and is mostly lower.
    let trains = dots.iter().filter(|dot| dot.in_focus && dot.run.status.is_active());
    points.extend(trains.flat_map(|dot| trail::drawn(&dot.run.trail)));
    let plane = plane(ui, &points, tasks[focus].is_of_values(), height);
    let plane = if view::has_new_out_of_view(ui, dots) { plane.reset() } else { plane };
    let followed = view::followed(ui, dots);
    let response = axes::show(ui, plane, |plot| {
        followed.into_iter().for_each(|at| view::follow(plot, at));
        let stairs = steps(&stairs_of(dots, |dot| dot.in_focus));
        let line = Line::new("frontier", PlotPoints::from(stairs)).color(palette.frontier.gamma_multiply(0.7));
        plot.line(line.width(1.4).allow_band(false));
        if let Some(budget) = budget {
            let style = LineStyle::Dashed { length: 6.0 };
            plot.vline(VLine::new(BUDGET_OF, budget).color(palette.budget).style(style));
        }
        smaller.iter().for_each(|smaller| smaller.draw(plot, palette));
        dots.iter().filter(|dot| dot.in_focus).for_each(|dot| point(plot, dot, shown, palette));
        seeds::groups(dots).iter().for_each(|seeds| seeds.draw(plot, palette));
        plot.auto_bounds().all()
    });
    let is_zoomed_back = response.response.double_clicked() && view::has_changed(ui, response.transform.bounds());
    view::keep(ui, response.transform.bounds());
    dimmed(ui, tasks, dots, &response.transform);
    let lines = drawn_lines(dots, &smaller, budget, &response.transform);
    let named = labels::draw(ui, (dots, &smaller), shown, (&response.transform, response.inner), lines);
    keys::ui(ui, context, &response.response, dots, shown, &response.transform);
    at_point::ui(ui, context);
    // The second click of the two that show everything again means no point that only then lies under the pointer.
    let takes_clicks = !is_zoomed_back;
    let picture = (&response.response, takes_clicks);
    pointed::ui(ui, context, picture, (dots, &named), (&smaller, shown), &response.transform);
}

/// The axes, wide and high enough for all `points`.
fn plane<'a>(ui: &Ui, points: &[[f64; 2]], is_of_values: bool, height: f32) -> Plot<'a> {
    let widest = widest(points);
    let (low, high) = accuracies(points);
    // The highest point is whole in a low picture, too, with the ring around it.
    let ring = theme::POINT_RADIUS + RING + 2.0;
    let high =
        high.max(low + (points.iter().fold(low, |most, [_, y]| most.max(*y)) - low) * whole(above_axis(height), ring));
    let ticks = format::tick_score(is_of_values);
    let axis = RichText::new(measure(ui, height, is_of_values)).small().weak();
    axes::plot(ui, "tradeoff", Round::Binary, Round::Decimal)
        .height(height)
        .y_grid_spacer(axes::at_least_two_up_to(Round::Decimal, 1.0))
        .set_margin_fraction(vec2(0.06, 0.06))
        .include_x(0.0)
        .include_x(widest)
        .include_y(low)
        .include_y(high)
        .custom_x_axes(vec![axes::x_axis(ui, format::mib).label(RichText::new(across(height)).small().weak())])
        .custom_y_axes(vec![axes::y_axis(ui, ticks).label(axis)])
        .show_crosshair(false)
        .label_formatter(|_| None)
}

/// Where the frontier, the budget's line and those to smaller models lie on the screen.
fn drawn_lines(
    dots: &[Dot<'_>],
    smaller: &[smaller::Smaller<'_>],
    budget: Option<f64>,
    transform: &PlotTransform,
) -> Vec<[Pos2; 2]> {
    let place = |[x, y]: [f64; 2]| transform.position_from_point(&PlotPoint::new(x, y));
    let stairs = steps(&stairs_of(dots, |dot| dot.in_focus));
    let frontier = stairs.windows(2).map(|pair| [place(pair[0]), place(pair[1])]);
    let frame = *transform.frame();
    let upright = |at: f64| {
        let x = place([at, 0.0]).x;
        [Pos2::new(x, frame.top()), Pos2::new(x, frame.bottom())]
    };
    let joined = smaller.iter().map(|smaller| smaller.joined().map(place));
    frontier.chain(joined).chain(budget.map(upright)).collect()
}

/// The points that nothing beats, of those that `are_meant`, by rising memory.
fn stairs_of(dots: &[Dot<'_>], are_meant: impl Fn(&Dot<'_>) -> bool) -> Vec<[f64; 2]> {
    let mut best: Vec<[f64; 2]> = dots.iter().filter(|dot| dot.is_best && are_meant(dot)).map(|dot| dot.at).collect();
    best.sort_by(|a, b| a[0].total_cmp(&b[0]));
    best
}

/// The tasks that are not in focus, as far as they lie in view: they do not move it.
fn dimmed(ui: &Ui, tasks: &[Task<'_>], dots: &[Dot<'_>], transform: &PlotTransform) {
    let palette = theme::palette(ui);
    let painter = ui.painter_at(*transform.frame());
    let place = |at: [f64; 2]| transform.position_from_point(&PlotPoint::new(at[0], at[1]));
    let stroke = Stroke::new(1.0, palette.process.gamma_multiply(DIMMED));
    for task in tasks {
        let stairs = steps(&stairs_of(dots, |dot| !dot.in_focus && task.has(dot.run)));
        painter.line(stairs.into_iter().map(place).collect(), stroke);
    }
    for dot in dots.iter().filter(|dot| !dot.in_focus) {
        let square = Rect::from_center_size(place(dot.at), Vec2::splat(theme::POINT_RADIUS * 1.4));
        painter.rect_filled(square, 0.0, dot.color(palette));
    }
}

fn point(plot: &mut PlotUi<'_>, dot: &Dot<'_>, shown: Option<RunKey>, palette: &Palette) {
    let (run, color) = (dot.run, dot.color(palette));
    let active = run.status.is_active();
    if active {
        let trail = Line::new("trail", PlotPoints::from(trail::drawn(&run.trail)));
        plot.line(trail.color(color.gamma_multiply(0.5)).width(1.2).allow_band(false));
    }
    let radius = theme::POINT_RADIUS + if active { ACTIVE } else { 0.0 };
    let marker = |radius| Points::new(run.key.to_string(), PlotPoints::from(vec![dot.at])).radius(radius);
    if Some(run.key) == shown {
        plot.points(marker(radius + RING).shape(MarkerShape::Circle).filled(false).color(palette.strong()));
    }
    let (shape, _) = MARKERS[place(run.experiment().model.kind) % MARKERS.len()];
    plot.points(marker(radius).shape(shape).color(color));
}

/// The budget of the settings in hand in MiB, where it lies near the points.
fn near_budget(context: &PanelContext<'_>, dots: &[Dot<'_>]) -> Option<f64> {
    let points: Vec<[f64; 2]> = dots.iter().filter(|dot| dot.in_focus).map(|dot| dot.at).collect();
    let budget = context.state.document.experiment.budget.as_mib();
    (budget <= widest(&points) * NEAR).then_some(budget)
}

/// The markers of the families, in their order, each with its sign in the legend. There are no more shapes: the families
/// after the last share the first.
const MARKERS: [(MarkerShape, &str); 10] = [
    (MarkerShape::Square, "■"),
    (MarkerShape::Circle, "●"),
    (MarkerShape::Diamond, "◆"),
    (MarkerShape::Up, "▲"),
    (MarkerShape::Down, "▼"),
    (MarkerShape::Right, "▶"),
    (MarkerShape::Left, "◀"),
    (MarkerShape::Cross, "✖"),
    (MarkerShape::Plus, "✚"),
    (MarkerShape::Asterisk, "✱"),
];

fn place(kind: ModelKind) -> usize {
    ModelKind::ALL.iter().position(|known| *known == kind).unwrap_or_default()
}

/// The frontier as stairs: more accuracy costs memory all at once.
fn steps(frontier: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let mut stairs: Vec<[f64; 2]> = Vec::with_capacity(frontier.len() * 2);
    for point in frontier {
        if let Some([_, y]) = stairs.last().copied() {
            stairs.push([point[0], y]);
        }
        stairs.push(*point);
    }
    stairs
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{Experiment, hardware::Machine, plan::Plan, train::Event};

    use super::*;
    use crate::session::Session;

    #[test]
    fn runs_of_other_tasks_stay_inside_the_axes() {
        let mut session = Session::default();
        let plan = Arc::new(Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan"));
        (1..=4).for_each(|run| session.receive(&Event::Started { run, plan: Arc::clone(&plan) }));
        let runs = session.runs();
        let places = [([10.0, 0.5], true), ([5.0, 0.5], false), ([40.0, 0.5], false), ([5.0, 0.9], false)];
        let dot = |(run, (at, in_focus))| Dot { run, at, is_best: false, is_cut_off: false, in_focus };
        let seen = in_axes(runs.iter().zip(places).map(dot).collect());
        assert_eq!(seen.iter().map(|dot| dot.at).collect::<Vec<_>>(), [[10.0, 0.5], [5.0, 0.5]]);
    }

    #[test]
    fn the_frontier_rises_in_stairs() {
        assert_eq!(steps(&[[1.0, 0.5], [3.0, 0.9]]), [[1.0, 0.5], [3.0, 0.5], [3.0, 0.9]]);
        assert!(steps(&[]).is_empty());
    }
}

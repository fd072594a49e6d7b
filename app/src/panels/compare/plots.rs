//! Curves over each other, and the memory of one step over the budgets.

use eframe::egui::{Align, Layout, Rect, RichText, Role, ScrollArea, Ui, UiBuilder, WidgetInfo, vec2};
use egui_plot::{HLine, Line, LineStyle, PlotPoints};
use plimsoll_engine::{Bytes, experiment::Labelled};

use super::color;
use crate::{
    format,
    librarian::Compared,
    panels::live,
    session::RunRecord,
    theme,
    view::View,
    widgets::{
        axes::{self, Round},
        chip,
        dense_line::DenseLine,
        line_plot::{self, Curve},
    },
};

/// Draws a plot of runs, each with its place among those that are compared.
type Draw = fn(&mut Ui, &View, &[One<'_>]);

/// A run that is compared: its place among the others, its name, and its record.
type One<'a> = (usize, &'a str, &'a RunRecord);

/// Narrower panes stack their plots in one column.
const TWO_COLUMNS_FROM: f32 = 430.0;

/// Loss and accuracy of those that ran.
pub(super) fn curves(ui: &mut Ui, view: &View, compared: &Compared) {
    let named = compared.runs.iter().zip(&compared.comparison.subjects).enumerate();
    let runs: Vec<One<'_>> =
        named.filter_map(|(i, (run, subject))| Some((i, subject.name.as_str(), run.as_ref()?))).collect();
    if runs.is_empty() {
        chip::empty(ui, "None of these ran: plans have no curves.");
        return;
    }
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        let space = ui.available_size();
        let columns = if space.x >= TWO_COLUMNS_FROM { 2.0 } else { 1.0 };
        let width = (space.x - theme::GAP * (columns - 1.0)) / columns;
        let height = ((space.y - theme::GAP) / (2.0 / columns) - theme::GAP).max(theme::LOWEST_PLOT);
        let plots: [Draw; 2] = [loss, accuracy];
        let start = ui.cursor().min;
        for (i, draw) in plots.into_iter().enumerate() {
            let (column, row) = if columns > 1.0 { (i as f32, 0.0) } else { (0.0, i as f32) };
            let corner = start + vec2(column * (width + theme::GAP), row * (height + theme::GAP));
            let builder = UiBuilder::new().id_salt(i).max_rect(Rect::from_min_size(corner, vec2(width, height)));
            ui.scope_builder(builder.layout(Layout::top_down(Align::Min)), |ui| draw(ui, view, &runs));
        }
    });
}

/// What is compared, by its names.
fn compared<'a>(runs: &'a [One<'_>]) -> Vec<&'a str> {
    runs.iter().map(|(_, name, _)| *name).collect()
}

fn loss(ui: &mut Ui, view: &View, runs: &[One<'_>]) {
    ui.label(RichText::new("Training loss").strong());
    let include = (!view.log_loss).then_some(0.0);
    let axes = live::axes(view, Round::Decimal, format::plain, format::three, include);
    let axes = line_plot::Axes { log: view.log_loss, ..axes };
    let curve =
        |ui: &Ui, (i, _, run): &One<'_>| (color(ui, *i), live::xs(view, &run.train.steps, &run.train.secs).to_vec());
    let colors: Vec<_> = runs.iter().map(|run| curve(ui, run)).collect();
    let curves: Vec<Curve<'_>> = runs
        .iter()
        .zip(&colors)
        .map(|((_, name, run), (color, xs))| Curve {
            name,
            color: *color,
            xs,
            series: run.train.loss.smooth(),
            faint: false,
            marks: false,
        })
        .collect();
    line_plot::plot(ui, "Compared loss", live::group(view, compared(runs)), &axes, &curves, &[]);
}

fn accuracy(ui: &mut Ui, view: &View, runs: &[One<'_>]) {
    let is_of_values = runs.iter().all(|(_, _, run)| run.experiment().data.labelled() == Labelled::Value);
    ui.label(RichText::new(if is_of_values { "Test R²" } else { "Test accuracy" }).strong());
    let exact = if is_of_values { format::plain_score } else { format::share };
    let axes = live::axes(view, Round::Decimal, format::tick_score(is_of_values), exact, Some(1.0));
    let curves: Vec<Curve<'_>> = runs
        .iter()
        .map(|(i, name, run)| Curve {
            name,
            color: color(ui, *i),
            xs: live::xs(view, &run.test.steps, &run.test.secs),
            series: &run.test.accuracy,
            faint: false,
            marks: true,
        })
        .collect();
    line_plot::plot(ui, "Compared accuracy", live::group(view, compared(runs)), &axes, &curves, &[]);
}

/// The key of the budgets, each once; those in sight of the steps, in MiB. One that is far away would leave no room for the
/// steps, so only the key has it.
fn budgets_in_sight(ui: &mut Ui, compared: &Compared, highest: f64) -> Vec<f64> {
    let mut budgets: Vec<f64> = compared.comparison.subjects.iter().map(|s| s.experiment.budget.as_mib()).collect();
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    let is_in_sight = |budget: &f64| *budget < 2.5 * highest;
    ui.horizontal_wrapped(|ui| {
        for budget in &budgets {
            let place = if is_in_sight(budget) { "" } else { ", above the picture" };
            let words = format!("budget {}{place}", format::size(Bytes::from_mib(*budget)));
            chip::stroke(ui, theme::palette(ui).budget, true, RichText::new(words).small());
        }
    });
    budgets.retain(is_in_sight);
    budgets
}

/// The predicted memory of the step with the peak, of all on one axis, and each one's budget.
pub(super) fn step(ui: &mut Ui, compared: &Compared) {
    let known = compared.steps.iter().flatten();
    let ops = known.clone().map(|(xs, _)| xs.len()).max().unwrap_or_default();
    if ops == 0 {
        chip::empty(ui, "None of these can be planned here.");
        return;
    }
    let palette = theme::palette(ui);
    let peak =
        |i: usize| compared.comparison.subjects[i].plan.as_ref().map(|plan| plan.timeline(plan.peak_pass).peak());
    let highest = (0..compared.steps.len()).filter_map(peak).max().unwrap_or_default().as_mib();
    let budgets = budgets_in_sight(ui, compared, highest);
    let top = budgets.iter().copied().fold(highest, f64::max) * 1.06;
    let plot = axes::plot(ui, "compared steps", Round::Whole, Round::Binary)
        .height(ui.available_height().max(theme::LOWEST_PLOT))
        .set_margin_fraction(vec2(0.0, 0.0))
        .include_x(0.0)
        .include_x(ops as f64)
        .include_y(0.0)
        .include_y(top)
        .custom_x_axes(vec![axes::x_axis(ui, format::tick_count)])
        .custom_y_axes(vec![axes::y_axis(ui, format::mib)])
        .show_crosshair(false)
        .label_formatter(|at| match at {
            egui_plot::HoverPosition::NearDataPoint { plot_name, position, .. } => {
                let bytes = Bytes::from_mib(position.y.max(0.0));
                Some(format!("{plot_name}\nop {}\n{bytes}", format::count(position.x.max(0.0) as u64)))
            }
            egui_plot::HoverPosition::Elsewhere { .. } => None,
        });
    let colors: Vec<_> = (0..compared.steps.len()).map(|i| color(ui, i)).collect();
    let response = axes::show(ui, plot, |plot| {
        let width = plot.response().rect.width().max(1.0) as usize;
        for (i, step) in compared.steps.iter().enumerate() {
            let Some((xs, series)) = step else { continue };
            let points = series.curve(xs, f64::NEG_INFINITY, f64::INFINITY, width);
            let line = Line::new(compared.comparison.subjects[i].name.as_str(), PlotPoints::from(points));
            plot.add(DenseLine::new(line, colors[i], theme::CURVE));
        }
        for budget in &budgets {
            let style = LineStyle::Dashed { length: 6.0 };
            let line = HLine::new("budget", *budget).color(palette.budget).width(2.0).style(style);
            plot.hline(line.allow_hover(false));
        }
    });
    let peaks = (0..compared.steps.len())
        .filter_map(|i| Some(format!("{} {}", compared.comparison.subjects[i].name, peak(i)?)));
    let about = format!("Memory of one step, peaks: {}", peaks.collect::<Vec<_>>().join(", "));
    response.response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, &about));
}

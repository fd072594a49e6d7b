//! One step: predicted memory op by op, stacked by category, with its phases and its peak; the measured curve of the
//! running step over it.

mod shape;

use eframe::egui::{
    self, Align, Align2, Button, FontId, Layout, RichText, Role, Stroke, Tooltip, Ui, WidgetInfo, pos2,
};
use egui_plot::{FilledArea, HLine, Line, LineStyle, PlotPoint, PlotPoints, PlotTransform, PlotUi, Span};
use plimsoll_engine::{
    Bytes,
    memory::{Category, Phase, Timeline},
    plan::{Pass, Plan},
};

use self::shape::{Column, bands, columns};
use super::{PanelContext, budget_bar::category_lines};
use crate::{
    format,
    theme::{self, Palette},
    widgets::{
        axes::{self, Round},
        chip,
    },
};

/// A budget up to this many peaks high is drawn; a higher one would flatten the picture.
const BUDGET_IN_VIEW: f64 = 1.6;
/// The picture is this many times as high as what is in it: room for the names of phases and of the peak.
const HEADROOM: f64 = 1.24;
const PASSES: [(Pass, &str, &str); 3] = [
    (Pass::First, "First step", "The first optimizer step, in which optimizer state is born."),
    (Pass::Steady, "Every step", "Any later step."),
    (Pass::Evaluate, "Evaluation", "One batch of the test data."),
];

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(plan) = context.state.newest_plan().cloned() else {
        chip::empty(ui, "The memory of one training step, op by op, is drawn here once there is a prediction.");
        return;
    };
    let pass = context.view.pass.unwrap_or(plan.peak_pass);
    let measured = measured(context, &plan, pass);
    ui.horizontal(|ui| {
        for (choice, name, about) in PASSES {
            if ui.add(Button::selectable(choice == pass, name)).on_hover_text(about).clicked() {
                context.view.pass = Some(choice);
            }
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| heading(ui, &plan, pass, &measured));
    });
    draw(ui, &plan, pass, &measured);
}

/// What was measured during each op of a recent step, if that step is the one that is drawn.
fn measured(context: &PanelContext<'_>, plan: &Plan, pass: Pass) -> Vec<f64> {
    let latest = &context.state.latest;
    let run = context.state.session.get(latest.run);
    let same_run = run.is_some_and(|run| run.experiment().takes_the_steps_of(&plan.experiment));
    let same_pass = match pass {
        Pass::First => latest.measured_in_step == 1,
        Pass::Steady => latest.measured_in_step > 1,
        Pass::Evaluate => false,
    };
    let same_length = latest.measured_step.len() == plan.timeline(pass).points.len();
    if same_run && same_pass && same_length {
        latest.measured_step.iter().map(|b| b.as_mib()).collect()
    } else {
        Vec::new()
    }
}

fn heading(ui: &mut Ui, plan: &Plan, pass: Pass, measured: &[f64]) {
    let palette = theme::palette(ui);
    if !measured.is_empty() {
        let hover = "Measured by the allocator during each op of a recent step, independent of the prediction.";
        chip::stroke(ui, palette.measured, false, "measured").on_hover_text(hover);
    }
    let timeline = plan.timeline(pass);
    if timeline.points.iter().any(|point| point.phase == Phase::Recompute) {
        let hover = "The forward pass of a checkpointed segment, recomputed during the backward pass.";
        chip::chip(ui, palette.phase(Phase::Recompute).to_opaque(), "recompute").on_hover_text(hover);
    }
}

fn draw(ui: &mut Ui, plan: &Plan, pass: Pass, measured: &[f64]) {
    let palette = theme::palette(ui);
    let timeline = plan.timeline(pass);
    // On a GPU the context takes its part of the budget before the first tensor.
    let (peak, budget) = (timeline.peak(), room(plan));
    let budget_shown = budget.0 as f64 <= peak.0 as f64 * BUDGET_IN_VIEW;
    let ops = timeline.points.len() as f64;
    let plot = axes::plot(ui, pass_name(pass), Round::Whole, Round::Binary)
        .set_margin_fraction(egui::vec2(0.0, 0.0))
        .include_y(0.0)
        .include_y(peak.as_mib().max(if budget_shown { budget.as_mib() } else { 0.0 }) * HEADROOM)
        .include_x(0.0)
        .include_x(ops)
        .custom_x_axes(vec![axes::x_axis(ui, |x| format::count(x.max(0.0) as u64))])
        .custom_y_axes(vec![axes::y_axis(ui, format::mib)])
        .show_crosshair(false)
        .label_formatter(|_| None);
    let response = plot.show(ui, |plot| {
        phases(plot, timeline, palette);
        let columns = visible(plot, timeline);
        areas(plot, timeline, &columns, palette);
        if !measured.is_empty() {
            plot.line(
                step_line("measured", &columns, |column| measured[column.highest]).color(palette.measured).width(1.4),
            );
        }
        if budget_shown {
            let style = LineStyle::Dashed { length: 6.0 };
            plot.hline(
                HLine::new(if plan.target.is_gpu() { "budget less context" } else { "budget" }, budget.as_mib())
                    .color(palette.budget)
                    .width(1.5)
                    .style(style),
            );
        }
    });
    let about = format!("Predicted memory of one step: {} ops, peak {peak}", timeline.points.len());
    response.response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, &about));
    phase_names(ui, timeline, &response.transform, palette);
    mark_peak(ui, timeline, &response.transform, palette);
    if let Some(at) = response.response.hover_pos() {
        hover(ui, &response.response, timeline, &response.transform, at, measured);
    }
}

/// What the budget leaves to tensors.
fn room(plan: &Plan) -> Bytes {
    plan.budget.saturating_sub(plan.target.profile().map_or(Bytes::ZERO, |card| card.context))
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
    for category in Category::ALL {
        let heights = columns.iter().flat_map(|c| {
            let bytes = timeline.points[c.highest].categories.get(category).as_mib();
            [bytes, bytes]
        });
        let above: Vec<f64> = below.iter().zip(heights).map(|(below, height)| below + height).collect();
        if above != below {
            let area = FilledArea::new(category.name(), &xs, &below, &above);
            plot.add(area.fill_color(palette.category(category)).allow_hover(false));
        }
        below = above;
    }
}

fn step_line<'a>(name: &str, columns: &[Column], y: impl Fn(&Column) -> f64) -> Line<'a> {
    let points: Vec<[f64; 2]> = columns.iter().flat_map(|c| [[c.from as f64, y(c)], [c.to as f64, y(c)]]).collect();
    Line::new(name, PlotPoints::from(points)).allow_hover(false).allow_band(false)
}

/// The names of the phases, along the top, where they have room.
fn phase_names(ui: &Ui, timeline: &Timeline, transform: &PlotTransform, palette: &Palette) {
    let frame = *transform.frame();
    let painter = ui.painter_at(frame);
    for band in bands(&timeline.points) {
        let left = transform.position_from_point_x(band.from as f64).max(frame.left());
        let right = transform.position_from_point_x(band.to as f64).min(frame.right());
        let font = FontId::proportional(theme::SMALL_TEXT);
        let galley = painter.layout_no_wrap(band.phase.name().to_owned(), font, palette.weak());
        if galley.size().x + 8.0 < right - left {
            let at = pos2(f32::midpoint(left, right) - galley.size().x / 2.0, frame.top() + 3.0);
            painter.galley(at, galley, palette.weak());
        }
    }
}

fn mark_peak(ui: &Ui, timeline: &Timeline, transform: &PlotTransform, palette: &Palette) {
    let Some(index) = timeline.peak_index() else { return };
    let point = &timeline.points[index];
    let at = transform.position_from_point(&PlotPoint::new(index as f64 + 0.5, point.live.as_mib()));
    let painter = ui.painter_at(*transform.frame());
    let tip = at - egui::vec2(0.0, 2.0);
    let arrow = vec![tip, tip + egui::vec2(-4.5, -8.0), tip + egui::vec2(4.5, -8.0)];
    painter.add(egui::Shape::convex_polygon(arrow, palette.strong(), Stroke::NONE));
    let right_half = at.x > transform.frame().center().x;
    let (align, dx) = if right_half { (Align2::RIGHT_CENTER, -8.0) } else { (Align2::LEFT_CENTER, 8.0) };
    let text = format!("{} · {} · {}", point.live, timeline.layer(point.layer), point.op);
    let galley = painter.layout_no_wrap(text, FontId::proportional(theme::SMALL_TEXT), palette.strong());
    let plate = align.anchor_size(tip + egui::vec2(dx, -6.0), galley.size());
    painter.rect_filled(plate.expand2(egui::vec2(3.0, 1.0)), 3.0, palette.pane.gamma_multiply(0.75));
    painter.galley(plate.min, galley, palette.strong());
}

fn hover(
    ui: &Ui,
    response: &egui::Response,
    timeline: &Timeline,
    transform: &PlotTransform,
    at: egui::Pos2,
    measured: &[f64],
) {
    let x = transform.value_from_position(at).x;
    let Some(point) = (x >= 0.0).then(|| timeline.points.get(x as usize)).flatten() else { return };
    let palette = theme::palette(ui);
    let middle = transform.position_from_point_x(x.floor() + 0.5);
    let frame = transform.frame();
    ui.painter_at(*frame).vline(middle, frame.y_range(), Stroke::new(1.0, palette.measured.gamma_multiply(0.5)));
    Tooltip::for_widget(response).at_pointer().gap(12.0).show(|ui| {
        ui.strong(format!("{} · {}", point.op, timeline.layer(point.layer)));
        ui.label(
            RichText::new(format!("op {} of {}, {}", x as usize + 1, timeline.points.len(), point.phase.name())).weak(),
        );
        ui.label(format!("predicted {}", point.live));
        if let Some(measured) = measured.get(x as usize) {
            ui.label(format!("measured {}", Bytes::from_mib(*measured)));
        }
        category_lines(ui, &point.categories);
    });
}

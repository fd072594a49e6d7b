//! Memory against accuracy: every run of this session as a point, and the frontier of those that nothing beats.

use eframe::egui::{self, Pos2, RichText, Role, Tooltip, Ui, WidgetInfo};
use egui_plot::{Line, LineStyle, MarkerShape, PlotPoint, PlotPoints, PlotTransform, Points, VLine};
use plimsoll_engine::experiment::{ActivationKind, Model, ModelKind, ModelSetting};

use super::PanelContext;
use crate::{
    command::Action,
    format,
    session::{self, RunRecord},
    theme,
    widgets::{
        axes::{self, Round},
        chip,
    },
};

/// A click this near to a point means it.
const REACH: f32 = 14.0;

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let runs: Vec<(&RunRecord, [f64; 2])> =
        context.state.session.runs().iter().filter_map(|run| Some((run, run.point()?))).collect();
    if runs.is_empty() {
        let text = "Each run of this session becomes a point: its measured peak against its best test accuracy. \
                    Train one, change something, and train again.";
        chip::empty(ui, text);
        return;
    }
    let palette = theme::palette(ui);
    let points: Vec<[f64; 2]> = runs.iter().map(|(_, point)| *point).collect();
    let best = session::frontier(&points);
    let budget = context.state.document.experiment.budget;
    let widest = points.iter().fold(0.0f64, |widest, [x, _]| widest.max(*x));
    let (low, high) = accuracies(&points);
    let percent =
        |y: f64| if (0.0..=1.0).contains(&y) { format!("{}%", format::plain(y * 100.0)) } else { String::new() };
    let plot = axes::plot(ui, "tradeoff", Round::Binary, Round::Decimal)
        .set_margin_fraction(egui::vec2(0.06, 0.06))
        .include_x(0.0)
        .include_x(widest * 1.1)
        .include_y(low)
        .include_y(high)
        .custom_x_axes(vec![axes::x_axis(ui, format::mib).label(RichText::new("measured peak").small().weak())])
        .custom_y_axes(vec![axes::y_axis(ui, percent).label(RichText::new("best test accuracy").small().weak())])
        .show_crosshair(false)
        .label_formatter(|_| None);
    let response = plot.show(ui, |plot| {
        let steps = steps(&best.iter().map(|i| points[*i]).collect::<Vec<_>>());
        plot.line(
            Line::new("frontier", PlotPoints::from(steps))
                .color(palette.frontier.gamma_multiply(0.7))
                .width(1.4)
                .allow_band(false),
        );
        if budget.as_mib() <= widest * 2.0 {
            let style = LineStyle::Dashed { length: 6.0 };
            plot.vline(VLine::new("budget", budget.as_mib()).color(palette.budget).style(style));
        }
        for (i, (run, point)) in runs.iter().enumerate() {
            let active = run.status.is_active();
            let color = if active {
                palette.test
            } else if best.contains(&i) {
                palette.frontier
            } else {
                palette.process
            };
            if active {
                let trail = Line::new("trail", PlotPoints::from(run.trail.clone()));
                plot.line(trail.color(color.gamma_multiply(0.5)).width(1.2).allow_band(false));
            }
            let marker = Points::new(run.key.to_string(), PlotPoints::from(vec![*point])).color(color);
            let radius = theme::POINT_RADIUS + if active { 2.0 } else { 0.0 };
            plot.points(marker.shape(shape(run.experiment().model.kind)).radius(radius));
        }
    });
    let about = format!("Memory against accuracy: {} runs", runs.len());
    response.response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, &about));
    let near = response.response.hover_pos().and_then(|at| nearest(&points, &response.transform, at));
    if let Some(run) = near.map(|i| runs[i].0) {
        Tooltip::for_widget(&response.response).at_pointer().gap(12.0).show(|ui| about_run(ui, run));
        if response.response.clicked() {
            context.send.send(Action::Adopt(Box::new(run.experiment().clone())));
            context.send.send(Action::ShowRun(run.key));
        }
    }
}

/// The accuracies in view: a single run is not drawn as if a thousandth were the world.
fn accuracies(points: &[[f64; 2]]) -> (f64, f64) {
    let low = points.iter().fold(1.0f64, |low, [_, y]| low.min(*y));
    let high = points.iter().fold(0.0f64, |high, [_, y]| high.max(*y));
    let around = ((high - low) * 0.15).max(0.02);
    ((low - around).max(0.0), (high + around).min(1.005))
}

/// The markers of the families, in their order. There are no more shapes: the families after the last share the first.
const MARKERS: [MarkerShape; 10] = [
    MarkerShape::Square,
    MarkerShape::Circle,
    MarkerShape::Diamond,
    MarkerShape::Up,
    MarkerShape::Down,
    MarkerShape::Right,
    MarkerShape::Left,
    MarkerShape::Cross,
    MarkerShape::Plus,
    MarkerShape::Asterisk,
];

fn shape(kind: ModelKind) -> MarkerShape {
    let place = ModelKind::ALL.iter().position(|known| *known == kind).unwrap_or_default();
    MARKERS[place % MARKERS.len()]
}

/// The sizes that tell two models of a family apart, such as `vit, patch 4, width 64, depth 2, 4 heads`.
fn about_model(model: &Model) -> String {
    let size = |setting: &ModelSetting| match setting {
        ModelSetting::Width(_) => Some(format!("width {}", model.width)),
        ModelSetting::Depth(_) => Some(format!("depth {}", model.depth)),
        ModelSetting::Layers => Some(format!("{} layers", model.layers)),
        ModelSetting::Multiplier => Some(format!("multiplier {}", model.multiplier)),
        ModelSetting::Patch => Some(format!("patch {}", model.patch)),
        ModelSetting::Heads => Some(format!("{} heads", model.heads)),
        ModelSetting::Activation => {
            (model.activation != ActivationKind::Relu).then(|| model.activation.key().to_owned())
        }
        ModelSetting::Kernel
        | ModelSetting::Dense
        | ModelSetting::Stem
        | ModelSetting::KvHeads
        | ModelSetting::HeadDim
        | ModelSetting::QkNorm
        | ModelSetting::Hidden
        | ModelSetting::Tied
        | ModelSetting::QkvBias
        | ModelSetting::Dropout
        | ModelSetting::Attention
        | ModelSetting::Window
        | ModelSetting::RotaryBase => None,
    };
    let sizes = model.kind.traits().settings.iter().filter_map(size);
    std::iter::once(model.kind.key().to_owned()).chain(sizes).collect::<Vec<_>>().join(", ")
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

/// The point that the pointer means, if it is near one.
fn nearest(points: &[[f64; 2]], transform: &PlotTransform, at: Pos2) -> Option<usize> {
    let distance = |[x, y]: [f64; 2]| transform.position_from_point(&PlotPoint::new(x, y)).distance(at);
    let near = (0..points.len()).min_by(|a, b| distance(points[*a]).total_cmp(&distance(points[*b])))?;
    (distance(points[near]) <= REACH).then_some(near)
}

/// What a run was.
fn about_run(ui: &mut Ui, run: &RunRecord) {
    let experiment = run.experiment();
    ui.strong(format!("Run {}: {}", run.key, experiment.title));
    ui.label(RichText::new(run.status.name()).weak());
    let accuracy = run.best_accuracy.map_or_else(|| "–".to_owned(), format::share);
    ui.label(format!("best {} {accuracy}, on test data", format::accuracy(experiment.data.kind).to_lowercase()));
    ui.label(format!("measured peak {}, predicted {}", run.peak_load, run.plan.load()));
    let batch = &experiment.batch;
    let accumulated = if batch.accumulation > 1 { format!(" x {}", batch.accumulation) } else { String::new() };
    ui.label(format!(
        "micro-batch {}{accumulated}, {}, checkpointing {}",
        batch.micro,
        experiment.precision.key(),
        experiment.checkpointing
    ));
    ui.label(about_model(&experiment.model));
    ui.label(RichText::new("Click to load its configuration.").weak().small());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_rises_in_stairs() {
        assert_eq!(steps(&[[1.0, 0.5], [3.0, 0.9]]), [[1.0, 0.5], [3.0, 0.5], [3.0, 0.9]]);
        assert!(steps(&[]).is_empty());
    }
}

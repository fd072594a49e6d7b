//! The run as it goes: loss, accuracy, memory and throughput.

mod smoothing;

use eframe::egui::{self, ComboBox, Rect, RichText, Slider, TextStyle, Ui, UiBuilder, vec2};

use plimsoll_engine::{Bytes, experiment::Labelled};

pub(super) use self::smoothing::{over, smoothed};
use super::{PanelContext, without_run};
use crate::{
    command::{Action, Sender},
    format,
    panels::timeline::scale::is_in_view,
    session::RunRecord,
    state::State,
    theme,
    view::{Axis, MOST_SMOOTHING, View},
    widgets::{
        axes::Round,
        chip,
        ends::{Room, ends},
        line_plot::{self, Axes, Curve, Rule},
        series::{Series, Smoothed},
        text,
        tip::Tip as _,
    },
};

/// Narrower panes stack their plots in one column.
const TWO_COLUMNS_FROM: f32 = 430.0;
/// The list of runs is not narrower than this next to the other options: where there is less room, it stands above them.
const LEAST_LIST: f32 = 112.0;

/// How long the slider of the smoothing is.
const SLIDER: f32 = 70.0;
const LOG: &str = "Log";
const AXES: [(Axis, &str); 2] = [(Axis::Step, "Steps"), (Axis::Time, "Time")];

/// Room for the words of a budget that is far above the curves, in points from the top of the picture.
const FAR_HEAD: f32 = 18.0;
/// The height of a plot that its horizontal axis takes.
const BELOW_PLOT: f32 = 20.0;
/// Of the span of the values in a plot, what it shows beyond either end.
const MARGIN: f64 = 0.06;

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(run) = context.state.shown_run() else {
        without_run(ui, context, "loss, accuracy, measured memory and throughput while the run goes on");
        return;
    };
    let is_left = options(ui, context, run);
    ui.add_space(2.0);
    if run.last.is_none() {
        let text = match (run.status.is_active(), run.point()) {
            (true, _) => "The first step is running.",
            // A kept run whose point was clicked a moment ago.
            (false, Some(_)) => "Reading its curves…",
            (false, None) => "This run ended before its first step.",
        };
        chip::empty(ui, text);
        return;
    }
    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        let space = ui.available_size();
        let columns = if space.x >= TWO_COLUMNS_FROM { 2 } else { 1 };
        let rows = 4 / columns;
        let gap = theme::GAP;
        let cell = vec2(
            (space.x - gap * (columns - 1) as f32) / columns as f32,
            ((space.y - gap * (rows - 1) as f32) / rows as f32).max(theme::LOWEST_TITLED_PLOT),
        );
        let start = ui.cursor().min;
        ui.allocate_space(vec2(space.x, (cell.y + gap) * rows as f32 - gap));
        let plots: [fn(&mut Ui, &mut View, &RunRecord); 4] = [loss, accuracy, memory, throughput];
        for (i, draw) in plots.into_iter().enumerate() {
            let corner = start + vec2((i % columns) as f32 * (cell.x + gap), (i / columns) as f32 * (cell.y + gap));
            let builder = UiBuilder::new().id_salt(i).max_rect(Rect::from_min_size(corner, cell));
            ui.scope_builder(builder, |ui| draw(ui, context.view, run));
        }
        if is_left {
            ui.horizontal_wrapped(|ui| choices(ui, context.view, true));
        }
    });
}

/// The list of runs, and how the curves are drawn; whether that is left to the end of the pane, which has no room for it above
/// a whole plot.
fn options(ui: &mut Ui, context: &mut PanelContext<'_>, run: &RunRecord) -> bool {
    let room = ui.available_width() - LEAST_LIST - theme::WIDE_GAP;
    // The slider tells on hover what it is: its word is the first to go.
    let Some(in_words) = [true, false].into_iter().find(|in_words| choices_width(ui, *in_words) <= room) else {
        let is_low = ui.available_height() < theme::LOW_PANE;
        which(ui, context.state, context.send, run);
        if !is_low {
            ui.horizontal_wrapped(|ui| choices(ui, context.view, true));
        }
        return is_low;
    };
    let PanelContext { state, view, send } = context;
    let list = |ui: &mut Ui| which(ui, state, send, run);
    let (name, width) = (("options", in_words), Room::From(choices_width(ui, in_words)));
    ui.horizontal(|ui| ends(ui, name, width, list, |ui| choices(ui, view, in_words)));
    false
}

/// How wide [`choices`] are.
fn choices_width(ui: &Ui, in_words: bool) -> f32 {
    let font = |style: TextStyle| style.resolve(ui.style());
    let button = |word| text::width(ui, word, &font(TextStyle::Button)) + 2.0 * ui.spacing().button_padding.x;
    let word = in_words.then(|| smoothing::label_width(ui));
    let parts = word.into_iter().chain([SLIDER]).chain([LOG].into_iter().chain(AXES.map(|(_, name)| name)).map(button));
    parts.map(|width| width + ui.spacing().item_spacing.x).sum::<f32>() - ui.spacing().item_spacing.x
}

/// How the curves are drawn.
fn choices(ui: &mut Ui, view: &mut View, in_words: bool) {
    if in_words {
        smoothing::label(ui, view);
    }
    ui.spacing_mut().slider_width = SLIDER;
    let slider = Slider::new(&mut view.smoothing, 0.0..=MOST_SMOOTHING).show_value(false);
    let hover = "How slowly the curves follow the values; at the left end they are as measured.";
    let slider = ui.add(slider).accessible_name(smoothing::NAME);
    slider.tip(format!("{hover} Now {}.", smoothing::slowly(view)));
    let log = ui.toggle_value(&mut view.log_loss, LOG);
    log.tip("The loss on a logarithmic axis.");
    for (axis, name) in AXES {
        ui.selectable_value(&mut view.axis, axis, name).tip("The horizontal axis.");
    }
}

/// The list of runs, in what room there is.
pub(super) fn which(ui: &mut Ui, state: &State, send: &Sender, run: &RunRecord) {
    let name = |run: &RunRecord| run.name();
    let width = (ui.available_width() - theme::GAP).clamp(60.0, 280.0);
    let spacing = ui.spacing();
    // As the list takes it for its sign.
    let room = width - spacing.icon_width - spacing.icon_spacing - 2.0 * spacing.button_padding.x;
    let font = TextStyle::Button.resolve(ui.style());
    let shown = run.fitting_name(state.session.all(), |words| text::width(ui, words, &font) <= room);
    let list = ComboBox::from_id_salt("run").width(width).truncate().selected_text(shown);
    let list = list.show_ui(ui, |ui| {
        for other in state.session.all().rev() {
            if ui.selectable_label(other.key == run.key, name(other)).clicked() {
                send.send(Action::ShowRun(other.key));
            }
        }
    });
    let hover = format!("The run whose curves are shown. {}", name(run));
    list.response.accessible_name("Run shown").tip_above(hover);
}

/// The axes of a plot over the shown horizontal axis.
pub(super) fn axes(
    view: &View,
    round: Round,
    tick: fn(f64) -> String,
    value: fn(f64) -> String,
    include: Option<f64>,
) -> Axes {
    Axes { log: false, in_steps: view.axis == Axis::Step, round, tick, value, include: include.into_iter().collect() }
}

/// Where the values lie on the shown horizontal axis.
pub(super) fn xs<'a>(view: &View, steps: &'a [f64], secs: &'a [f64]) -> &'a [f64] {
    if view.axis == Axis::Step { steps } else { secs }
}

/// The plots that move together: those of the same runs, over the same axis.
pub(super) fn group(view: &View, runs: impl std::hash::Hash + std::fmt::Debug) -> egui::Id {
    egui::Id::unique(("live plots", view.axis == Axis::Step, runs))
}

/// A plot's name and its present figures.
pub(super) fn title(ui: &mut Ui, name: &str, figures: impl FnOnce(&mut Ui)) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(8.0, 1.0);
        ui.label(RichText::new(name).strong());
        figures(ui);
    });
}

/// The present value of a curve.
pub(super) fn figure(value: Option<f32>, words: fn(f64) -> String) -> String {
    value.filter(|v| v.is_finite()).map_or_else(|| "–".to_owned(), |v| words(format::exact(v)))
}

/// Train and test as curves of one plot; `aside` is said after their present values.
fn pair(
    ui: &mut Ui,
    view: &View,
    run: &RunRecord,
    name: &str,
    (train, test): (&Smoothed, &Series),
    axes: &Axes,
    aside: Option<String>,
) {
    let palette = theme::palette(ui);
    title(ui, name, |ui| {
        let small = |value: Option<f32>| figure(value, axes.value);
        // Where the line has no room for it, the words before the slider tell it: another line is taken from the picture.
        let over = Some(over(view)).filter(|over| {
            let chips =
                [format!("train 0.0000{over}"), "test 100.0%".to_owned()].map(|text| chip::stroke_width(ui, &text));
            ui.available_size_before_wrap().x >= chips[0] + chips[1] + ui.spacing().item_spacing.x && aside.is_none()
        });
        let text = format!("train {}{}", small(train.smooth().last()), over.unwrap_or_default());
        let chip = chip::stroke(ui, palette.train, false, RichText::new(text).small());
        smoothed(chip, view, train.raw(), axes.value);
        chip::stroke(ui, palette.test, false, RichText::new(format!("test {}", small(test.last()))).small());
        if let Some(aside) = aside {
            ui.label(RichText::new(aside).small().weak());
        }
    });
    let train_xs = xs(view, &run.train.steps, &run.train.secs);
    let test_xs = xs(view, &run.test.steps, &run.test.secs);
    let curve = |name, color, xs, series, faint, marks| Curve { name, color, xs, series, faint, marks };
    let mut drawn = Vec::new();
    if view.smoothing > 0.0 {
        drawn.push(curve("train", palette.train, train_xs, train.raw(), true, false));
    }
    drawn.push(curve("train", palette.train, train_xs, train.smooth(), false, false));
    drawn.push(curve("test", palette.test, test_xs, test, false, true));
    line_plot::plot(ui, name, group(view, run.key), axes, &drawn, &[]);
}

fn loss(ui: &mut Ui, view: &mut View, run: &RunRecord) {
    let axes = Axes {
        log: view.log_loss,
        ..axes(view, Round::Decimal, format::plain, format::three, (!view.log_loss).then_some(0.0))
    };
    let is_text = run.experiment().data.labelled() == Labelled::Byte;
    let aside = run.test.loss.last().filter(|_| is_text).map(|loss| format::bits_per_byte(format::exact(loss)));
    pair(ui, view, run, "Loss", (&run.train.loss, &run.test.loss), &axes, aside);
}

fn accuracy(ui: &mut Ui, view: &mut View, run: &RunRecord) {
    let name = format::accuracy(&run.experiment().data);
    let is_of_values = run.experiment().data.labelled() == Labelled::Value;
    let exact = if is_of_values { format::plain_score } else { format::share };
    let axes = axes(view, Round::Decimal, format::tick_score(is_of_values), exact, Some(1.0));
    pair(ui, view, run, name, (&run.train.accuracy, &run.test.accuracy), &axes, None);
}

fn mib(value: f64) -> String {
    format::size(Bytes::from_mib(value))
}

/// What live, reserved, process and predicted are, each in a sentence.
fn memory_figures(is_gpu: bool) -> [&'static str; 4] {
    if is_gpu {
        [
            "Measured by the driver: used of the pool, at most, in each step.",
            "Measured by the driver: what the pool held.",
            "Measured by the driver: what this process holds of the card, context and pool.",
            "The predicted peak of the process, which is what the budget counts.",
        ]
    } else {
        [
            "Measured: tensors alive, at most, in each step.",
            "Measured: what the allocator held.",
            "Measured: memory of the whole process.",
            "The predicted peak of live memory.",
        ]
    }
}

fn memory(ui: &mut Ui, view: &mut View, run: &RunRecord) {
    let palette = theme::palette(ui);
    let (predicted, budget) = (run.predicted, run.budget);
    let is_gpu = run.is_gpu;
    let about = memory_figures(is_gpu);
    let last = |series: &Series| figure(series.last(), mib);
    let entries = [
        ("live", palette.measured, false, last(&run.train.live), about[0]),
        ("reserved", palette.reserved, false, last(&run.train.reserved), about[1]),
        ("process", palette.process, false, last(&run.train.process), about[2]),
        ("predicted", palette.predicted, true, predicted.to_string(), about[3]),
        ("budget", palette.budget, true, format::size(budget), "The most memory that the run may take."),
    ];
    title(ui, "Memory", |ui| {
        let shown = if is_gpu { &mut view.memory_on_gpu } else { &mut view.memory };
        for (shown, (name, color, dashed, value, about)) in shown.iter_mut().zip(&entries) {
            let text = RichText::new(*name).small();
            let text = if *shown { text } else { text.weak().strikethrough() };
            let chip = chip::switch(ui, *color, *dashed, text);
            chip.widget_info(|| egui::WidgetInfo::selected(egui::Role::CheckBox, true, *shown, *name));
            if chip.tip_above(format!("{value}. {about} Click to show or hide it.")).clicked() {
                *shown = !*shown;
            }
        }
    });
    let shown = if is_gpu { view.memory_on_gpu } else { view.memory };
    let train_xs = xs(view, &run.train.steps, &run.train.secs);
    let series = [&run.train.live, &run.train.reserved, &run.train.process];
    let drawn: Vec<Curve<'_>> = (0..3)
        .rev()
        .filter(|i| shown[*i])
        .map(|i| Curve {
            name: entries[i].0,
            color: entries[i].1,
            xs: train_xs,
            series: series[i],
            faint: false,
            marks: false,
        })
        .collect();
    let highest = (0..3).filter(|i| shown[*i]).filter_map(|i| series[i].highest()).fold(0.0f32, f32::max);
    let highest = if shown[3] { predicted.as_mib().max(highest.into()) } else { highest.into() };
    let rules: Vec<Rule<'_>> = [(3, predicted), (4, budget)]
        .into_iter()
        .filter(|(i, _)| shown[*i])
        .map(|(i, bytes)| {
            // A line far above the curves would press them flat.
            let is_far = i == 4 && highest > 0.0 && !is_in_view(highest, bytes.as_mib());
            Rule { name: entries[i].0, color: entries[i].1, y: bytes.as_mib(), is_far }
        })
        .collect();
    let mut axes = axes(view, Round::Binary, format::mib, mib, Some(0.0));
    if rules.iter().any(|rule| rule.is_far) {
        axes.include.push(highest * head(ui.available_height() - BELOW_PLOT));
    }
    line_plot::plot(ui, "Memory", group(view, run.key), &axes, &drawn, &rules);
}

/// How many times as high as its curves a picture of this height is, so that the words at its top lie over none of them.
fn head(height: f32) -> f64 {
    let span = 1.0 + 2.0 * MARGIN;
    let words = f64::from(FAR_HEAD / height.max(2.0 * FAR_HEAD));
    1.0 / (1.0 + MARGIN - span * words)
}

fn throughput(ui: &mut Ui, view: &mut View, run: &RunRecord) {
    let palette = theme::palette(ui);
    let samples = |value: f64| format::count(value.max(0.0).round() as u64);
    let series = &run.train.throughput;
    let (unit, _) = format::throughput(&run.experiment().data);
    title(ui, "Throughput", |ui| {
        let text = format!("{} {unit}{}", figure(series.smooth().last(), samples), over(view));
        let chip = chip::stroke(ui, palette.throughput, false, RichText::new(text).small());
        smoothed(chip, view, series.raw(), samples);
    });
    let train_xs = xs(view, &run.train.steps, &run.train.secs);
    let curve =
        |series, faint| Curve { name: unit, color: palette.throughput, xs: train_xs, series, faint, marks: false };
    let mut drawn = Vec::new();
    if view.smoothing > 0.0 {
        drawn.push(curve(series.raw(), true));
    }
    drawn.push(curve(series.smooth(), false));
    line_plot::plot(
        ui,
        "Throughput",
        group(view, run.key),
        &axes(view, Round::Decimal, format::tick_count, samples, Some(0.0)),
        &drawn,
        &[],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_far_budget_lie_over_no_curve() {
        for height in [40.0f32, 60.0, 120.0, 400.0] {
            let top = head(height);
            // Where the highest value of the curves, which is 1, is drawn: in points from the top.
            let span = top * (1.0 + 2.0 * MARGIN);
            let highest = (top * (1.0 + MARGIN) - 1.0) / span * f64::from(height);
            assert!(highest >= f64::from(FAR_HEAD) - 0.1, "{height}: {highest}");
        }
    }
}

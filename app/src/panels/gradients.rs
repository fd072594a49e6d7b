//! Gradient norm and learning rate of a run, one above the other over the same steps: whether training is stable, and what
//! the schedule does to it. They move with the live curves.

use eframe::egui::{self, RichText, Ui, UiBuilder, vec2};

use plimsoll_engine::memory::Category;

use super::{
    PanelContext,
    live::{axes, figure, group, over, smoothed, title, which, xs},
    without_run,
};
use crate::{
    format,
    session::RunRecord,
    theme,
    view::View,
    widgets::{
        axes::Round,
        chip,
        ends::{Room, ends},
        line_plot::{self, Axes, Curve, Rule},
        tip::Tip as _,
    },
};

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(run) = context.state.shown_run().filter(|run| run.last.is_some()) else {
        without_run(ui, context, "the gradient norm and the learning rate of every step");
        return;
    };
    options(ui, context, run);
    ui.add_space(2.0);
    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        let space = ui.available_size();
        let cell = vec2(space.x, ((space.y - theme::GAP) / 2.0).max(theme::LOWEST_TITLED_PLOT));
        for draw in [norm, learning_rate] {
            let (_, rect) = ui.allocate_space(cell);
            let builder = UiBuilder::new().id_salt(rect.top() as i32).max_rect(rect);
            ui.scope_builder(builder, |ui| draw(ui, context.view, run));
        }
    });
}

fn options(ui: &mut Ui, context: &mut PanelContext<'_>, run: &RunRecord) {
    let PanelContext { state, view, send } = context;
    let log = |ui: &mut Ui| {
        let log = ui.toggle_value(&mut view.log_norm, "Log norm");
        log.tip("Show the gradient norm on a logarithmic axis.");
    };
    ui.horizontal(|ui| ends(ui, "options", Room::Now, |ui| which(ui, state, send, run), log));
}

fn norm(ui: &mut Ui, view: &View, run: &RunRecord) {
    let color = theme::palette(ui).category(Category::Gradients);
    let series = &run.train.gradient_norm;
    if series.raw().range(0, usize::MAX).is_none() {
        title(ui, "Gradient norm", |_| {});
        let text = "This run has no gradient norm: it updates each parameter in the backward pass, and never holds the whole \
                    gradient.";
        chip::empty(ui, text);
        return;
    }
    let clip = run.experiment().optimizer.clip_norm;
    title(ui, "Gradient norm", |ui| {
        let text = format!("before clipping {}{}", figure(series.smooth().last(), format::three), over(view));
        let chip = chip::stroke(ui, color, false, RichText::new(text).small());
        smoothed(chip, view, series.raw(), format::three);
        if clip > 0.0 {
            let text = format!("clipped at {}", format::plain(clip));
            chip::stroke(ui, theme::palette(ui).budget, true, RichText::new(text).small());
        }
    });
    let log = view.log_norm;
    let axes = Axes { log, ..axes(view, Round::Decimal, format::plain, format::three, (!log).then_some(0.0)) };
    let xs = xs(view, &run.train.steps, &run.train.secs);
    let curve = |series, faint| Curve { name: "gradient norm", color, xs, series, faint, marks: false };
    let mut drawn = vec![curve(series.smooth(), false)];
    if view.smoothing > 0.0 {
        drawn.insert(0, curve(series.raw(), true));
    }
    let rule = Rule { name: "clipped at", color: theme::palette(ui).budget, y: clip, is_far: false };
    let rules = if clip > 0.0 { vec![rule] } else { Vec::new() };
    line_plot::plot(ui, "Gradient norm", group(view, run.key), &axes, &drawn, &rules);
}

fn learning_rate(ui: &mut Ui, view: &View, run: &RunRecord) {
    let color = theme::palette(ui).category(Category::OptimizerState);
    let series = &run.train.learning_rate;
    title(ui, "Learning rate", |ui| {
        let text = figure(series.last(), format::three);
        chip::stroke(ui, color, false, RichText::new(text).small());
    });
    let axes = axes(view, Round::Decimal, format::plain, format::three, Some(0.0));
    let xs = xs(view, &run.train.steps, &run.train.secs);
    let curve = Curve { name: "learning rate", color, xs, series, faint: false, marks: false };
    line_plot::plot(ui, "Learning rate", group(view, run.key), &axes, &[curve], &[]);
}

//! The model of the run that is shown, or of the weights that the experiment begins with, tried: its test set class by class
//! and leafed through, a drawing or an image, a prompt.
//!
//! Always holds: everything on screen belongs to one checkpoint of that run, or to those weights, and the pane names it;
//! slow work happens on another thread.

mod classes;
mod model;
mod picture;
mod prompt;
mod rows;
mod samples;

use eframe::egui::{self, Button, RichText, ScrollArea, Ui, WidgetInfo};
use plimsoll_engine::{
    experiment::{Data, Task},
    train::{Evaluation, Took, WeightsFrom},
};

use super::PanelContext;
use crate::{
    command::Action,
    format, theme,
    trials::{self, Subject, TryWith},
    view::TryPart,
    widgets::{button, chip, text, tip::Tip as _},
};

const PARTS: [(TryPart, &str, &str); 3] = [
    (TryPart::Classes, "Classes", "Which class was taken for which."),
    (TryPart::Samples, "Samples", "The test set, leafed through: right, wrong, unsure."),
    (TryPart::Picture, "Your own", "Draw, or drop an image on the window."),
];

/// Draws the pane.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(tried) = Subject::now(context.state) else {
        super::without_run(ui, context, "how its model answers, here");
        return;
    };
    match tried {
        Subject::Run(run) if run.kept.is_none() => {
            model::list(ui, context, tried);
            chip::empty(ui, "This run is not kept, and neither is its model: train one that is kept to try it.");
            return;
        }
        Subject::Weights { .. } if context.state.prediction.obstacle.is_some() => {
            model::list(ui, context, tried);
            super::without_plan(ui, context, "how these weights answer");
            return;
        }
        Subject::Run(_) | Subject::Weights { .. } => {}
    }
    let (task, is_low) = (tried.data().task(), ui.available_height() < theme::LOW_PANE);
    head(ui, context, tried, (task, is_low));
    match task {
        Task::Next => return prompt::ui(ui, context, tried),
        Task::Value => {
            let trial = &context.state.trial;
            let Some(evaluation) = &trial.evaluation else {
                return untested(ui, context, tried, "how far off its answers to the test set are, row by row");
            };
            ScrollArea::both().auto_shrink(false).show(ui, |ui| rows::ui(ui, context, evaluation));
            return;
        }
        Task::Class | Task::Mask => {}
    }
    let has_pictures = tried.data().kind.traits().has_pictures;
    parts(ui, context, has_pictures, is_low);
    let part = match context.view.try_out.part {
        TryPart::Picture if !has_pictures => TryPart::Samples,
        part => part,
    };
    ui.push_id(part, |ui| match (part, &context.state.trial.evaluation) {
        (TryPart::Picture, _) => {
            let height = ui.available_height();
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| picture::ui(ui, context, tried, height));
        }
        (_, None) => untested(ui, context, tried, "what the model answers to its test set"),
        (TryPart::Classes, Some(evaluation)) => {
            let height = ui.available_height();
            ScrollArea::both().auto_shrink(false).show(ui, |ui| classes::ui(ui, context.view, evaluation, height));
        }
        (TryPart::Samples, Some(evaluation)) => {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| samples::ui(ui, context, evaluation));
        }
    });
}

/// What stands where the answers will be: that they come, why there are none, or what to press to see `what`.
fn untested(ui: &mut Ui, context: &PanelContext<'_>, tried: Subject<'_>, what: &str) {
    let words = match (context.state.trial.is_testing, trials::without_checkpoint(context.state, tried)) {
        (true, _) => format!("The test is under way. Here you will see {what}."),
        (false, Some(missing)) => missing.to_owned(),
        (false, None) => format!("Press Test to see {what}."),
    };
    chip::empty(ui, &words);
}

/// The parts of the pane to choose from, and what the last test took; in a low pane that is shown with its figures on hover.
fn parts(ui: &mut Ui, context: &mut PanelContext<'_>, has_pictures: bool, is_low: bool) {
    ui.horizontal_wrapped(|ui| {
        for (part, name, about) in PARTS {
            // A point of a plane is not a picture that can be drawn.
            let is_there = part != TryPart::Picture || has_pictures;
            let button = Button::selectable(context.view.try_out.part == part, name);
            let about = if part == TryPart::Classes { format!("{about} {}", classes::ABOUT) } else { about.to_owned() };
            if is_there && ui.add(button).tip(about).clicked() {
                context.view.try_out.part = part;
            }
        }
        if let Some(evaluation) = context.state.trial.evaluation.as_ref().filter(|_| !is_low) {
            test_took(ui, &evaluation.took);
        }
    });
}

/// The button that asks for figures, whose model it is, and a line of figures, or of why there are none: what is below stays
/// where it is. In a low pane the figures are in the line of the button, and the name is shown with them on hover, unless there
/// are models to choose from.
fn head(ui: &mut Ui, context: &PanelContext<'_>, tried: Subject<'_>, (task, is_low): (Task, bool)) {
    let trial = &context.state.trial;
    let name = tried.name(&context.state.runs);
    let palette = theme::palette(ui);
    let (words, color) = match (&trial.trouble, trial.under_way(), &trial.evaluation) {
        (Some(why), ..) => (why.clone(), palette.warn),
        (None, Some(far), _) => (far, palette.weak()),
        (None, None, Some(evaluation)) => (figures(evaluation, task, tried.data()), palette.strong()),
        (None, None, None) => ("Not tested in this session".to_owned(), palette.weak()),
    };
    let took = trial.evaluation.as_ref().map(|evaluation| format!(" {}", own_memory(OF_TEST, &evaluation.took)));
    let about = format!("{words}.{}", took.unwrap_or_default());
    ui.horizontal(|ui| {
        test(ui, context, tried);
        if model::is_choice(context, tried) {
            // Of a low pane's one line, the figures have the second half.
            let width = ui.available_width() * if is_low { 0.5 } else { 1.0 };
            ui.scope(|ui| {
                ui.set_max_width(width);
                model::list(ui, context, tried);
            });
        } else if !is_low {
            text::cut(ui, RichText::new(&name).strong(), &name);
        }
        if is_low {
            // Untested, whose model it is says more.
            let is_silent = trial.trouble.is_none() && trial.evaluation.is_none() && !trial.is_testing;
            let is_named = is_silent && !model::is_choice(context, tried);
            let shown = if is_named { &name } else { &words };
            text::cut(ui, RichText::new(shown).color(color), &format!("{name}\n{about}"));
        }
    });
    if !is_low {
        text::cut(ui, RichText::new(&words).color(color), &about);
    }
    // A prompt is the model's own, for any test set.
    let of_data = tried.caution().filter(|_| task != Task::Next || trial.evaluation.is_some());
    if let Some(caution) = trial.caution().or(of_data) {
        let words = format!("⚠ {caution}");
        text::cut(ui, RichText::new(&words).color(palette.warn), caution);
    }
    if !tried.experiment().is_on_cpu() {
        let text = "It is tried on the processor: the graphics card stays with runs. Its figures may differ in their last digits.";
        ui.add(egui::Label::new(RichText::new(text).small().weak()).wrap());
    }
}

/// The button that asks for figures.
fn test(ui: &mut Ui, context: &PanelContext<'_>, tried: Subject<'_>) {
    const WORDS: [&str; 3] = ["Test", "Test again", "Testing…"];
    let trial = &context.state.trial;
    let word = if trial.is_testing { WORDS[2] } else { WORDS[usize::from(trial.evaluation.is_some())] };
    let font = egui::TextStyle::Button.resolve(ui.style());
    let widest = WORDS.map(|word| text::width(ui, word, &font)).into_iter().fold(0.0, f32::max);
    let least = egui::vec2(widest + 2.0 * ui.spacing().button_padding.x, 0.0);
    let what = match tried {
        Subject::Run(run) if run.status.is_active() => {
            "Evaluate the last checkpoint on the test set, on the processor, while the run goes on."
        }
        Subject::Run(_) => "Evaluate the run's best checkpoint, or its last where it has no best, on the test set.",
        Subject::Weights { .. } => "Evaluate these weights on the test set, as they are: nothing is trained.",
    };
    let missing = trials::without_checkpoint(context.state, tried);
    let button = button::enabled(ui, !trial.is_testing && missing.is_none(), Button::new(word).min_size(least));
    let why = missing.unwrap_or("The test is under way.");
    if button.tip(what).tip_disabled(why).clicked() {
        context.send.send(Action::Try(TryWith::TestSet));
    }
}

/// Loss and measures of an evaluation in a line.
fn figures(evaluation: &Evaluation, task: Task, data: &Data) -> String {
    let mut words = vec![
        format!("loss {:.4}", evaluation.loss),
        format!("{} {}", format::measure(data), format::score(data, evaluation.accuracy)),
    ];
    words.extend(
        evaluation
            .errors
            .map(|errors| format!("RMSE {}, MAE {}", format::figures(errors.rmse), format::figures(errors.mae))),
    );
    words.extend(evaluation.perplexity().map(|perplexity| format!("perplexity {}", format::three(perplexity))));
    let iou = evaluation.answers.as_ref().filter(|_| task == Task::Mask).and_then(|answers| answers.mean_iou());
    words.extend(iou.map(|iou| format!("mean IoU {iou:.3}")));
    let step = match &evaluation.weights {
        WeightsFrom::Checkpoint { step, .. } => format!("After step {}: ", format::count(*step)),
        WeightsFrom::Files(_) | WeightsFrom::Initialised => String::new(),
    };
    format!("{step}{}, of {}", words.join(", "), format::counted(evaluation.samples as u64, "sample"))
}

/// What something took, compared with what was predicted, in as many lines as it needs.
fn took(ui: &mut Ui, took: &Took) {
    let label = egui::Label::new(RichText::new(own_memory("Memory of this answer", took)).small().weak()).wrap();
    let cache = took.cached.map_or("", |_| CACHE);
    ui.add(label.sense(egui::Sense::hover())).tip(format!("{BESIDE}{cache}"));
}

/// The same of a test, in a line with something else.
fn test_took(ui: &mut Ui, took: &Took) {
    let words = own_memory(OF_TEST, took);
    text::cut(ui, RichText::new(&words).small().weak(), &format!("{words} {BESIDE}"));
}

/// Whose the memory of a try is.
const BESIDE: &str = "It is memory of its own and does not count towards what a run takes, which keeps its own budget.";

/// What a key-value cache is for.
const CACHE: &str = "\n\nThe key-value cache has what attention needs of the tokens so far, so that each new token is one row \
    through the model and not the whole text. It grows with the layers, the key heads and the length; grouped heads make it \
    smaller. Past the length that the model was trained on, the text shifts and each token takes a whole pass.";

/// What the memory of a test is called.
const OF_TEST: &str = "Memory of the test";

fn own_memory(whose: &str, took: &Took) -> String {
    let Took { predicted, measured, .. } = took;
    let mut words = format!("{whose}: {measured} measured of {predicted} predicted.");
    if let Some(cache) = format::cache(took) {
        words.push_str(&format!(" {cache}"));
    }
    words
}

/// Between the ends of a bar and its words.
const INSIDE: f32 = 3.0;

/// How wide a bar is in which a name stands whole.
fn bar_width(ui: &Ui, name: &str) -> f32 {
    let font = egui::FontId::proportional(theme::SMALL_TEXT);
    let words = [name, &format::share(1.0)].map(|words| text::width(ui, words, &font));
    (words[0] + theme::GAP + words[1] + 2.0 * INSIDE).ceil()
}

/// A share as a bar with its class before it.
fn bar(ui: &mut Ui, name: &str, share: f32, color: egui::Color32, width: f32) {
    let palette = theme::palette(ui);
    let size = egui::vec2(width, theme::SMALL_TEXT + 3.0);
    let (rect, response) = ui.allocate_exact_size(size, egui::Sense::hover());
    let percent = format::share(f64::from(share));
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Label, true, format!("{name}: {percent}")));
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, egui::CornerRadius::same(2), palette.trough);
    let filled = egui::Rect::from_min_size(rect.min, egui::vec2(size.x * share.clamp(0.0, 1.0), size.y));
    painter.rect_filled(filled, egui::CornerRadius::same(2), color.gamma_multiply(0.55));
    let font = egui::FontId::proportional(theme::SMALL_TEXT);
    let at = |x: f32| egui::pos2(x, rect.center().y);
    let strong = palette.strong();
    let room = size.x - 2.0 * INSIDE - theme::GAP - text::width(ui, &percent, &font);
    let short = text::shortened(name, |part| text::width(ui, part, &font) <= room);
    if short != name {
        response.tip(format!("{name}: {percent}"));
    }
    painter.text(at(rect.left() + INSIDE), egui::Align2::LEFT_CENTER, short, font.clone(), strong);
    painter.text(at(rect.right() - INSIDE), egui::Align2::RIGHT_CENTER, percent, font, strong);
}

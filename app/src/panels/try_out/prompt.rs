//! A prompt for a model of sequences, and the text as it comes.

use eframe::egui::{
    self, Button, Label, RichText, ScrollArea, TextEdit, Ui,
    text::{LayoutJob, TextFormat},
};
use plimsoll_engine::{experiment::DataKind, train::Sampling};

use super::{PanelContext, took};
use crate::{
    command::Action,
    theme,
    trials::{self, Subject, TryWith},
    widgets::{button, draft, tip::Tip as _},
};

/// The most tokens that are asked for here.
const MOST: usize = 2000;
/// What is missing if a prompt is not text.
const NO_TOKENIZER: &str = "There is no tokenizer next to these weights, so a prompt is the numbers of its tokens: put its \
    tokenizer.json into their folder and open it again for text.";

/// Draws the part.
pub(super) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, tried: Subject<'_>) {
    let trial = &context.state.trial;
    let Some(alphabet) = &trial.alphabet else { return };
    let missing = trials::without_checkpoint(context.state, tried);
    if tried.is_weights() && tried.data().kind == DataKind::Tokens && !alphabet.is_text() {
        ui.add(Label::new(RichText::new(NO_TOKENIZER).small().weak()).wrap());
    }
    let tried = &mut context.view.try_out;
    let hint = alphabet.hint();
    let field = TextEdit::multiline(&mut tried.prompt).hint_text(format!("A prompt: {hint}")).desired_rows(2);
    let field = theme::bordered(ui, |ui| ui.add(field.desired_width(ui.available_width() - theme::GAP)));
    draft::is_no_setting(&field);
    field.accessible_name("Prompt").tip(format!("What the data have tokens for: {hint}."));
    ui.horizontal_wrapped(|ui| how(ui, &mut tried.sampling, alphabet.usual_tokens()));
    ui.horizontal(|ui| {
        if trial.is_writing {
            if ui.button("Stop writing").clicked() {
                context.send.send(Action::EndText);
            }
            return;
        }
        let prompt = if tried.prompt.trim().is_empty() { alphabet.example() } else { tried.prompt.clone() };
        let about = format!("Let the model write on from: {}", prompt.chars().take(60).collect::<String>());
        let button = button::enabled(ui, missing.is_none(), Button::new("Write on"));
        let button = button.tip(about).tip_disabled(missing.unwrap_or_default());
        if button.clicked() {
            context.send.send(Action::Try(TryWith::Prompt(prompt, tried.sampling)));
        }
    });
    if trial.written.is_empty() {
        let words = missing.unwrap_or("Press Write on: the text comes here, token by token.");
        ui.add(Label::new(RichText::new(words).weak()).wrap());
        return;
    }
    ScrollArea::vertical().auto_shrink(false).stick_to_bottom(true).show(ui, |ui| {
        ui.add(Label::new(told(ui, &trial.written, trial.prompt_bytes)).wrap().selectable(true));
        if let Some(figures) = &trial.wrote {
            took(ui, figures);
        }
    });
}

/// The prompt, pale, and what the model wrote on.
fn told(ui: &Ui, written: &str, prompt_bytes: usize) -> LayoutJob {
    let (prompt, answer) = written.split_at(prompt_bytes.min(written.len()));
    let (palette, font) = (theme::palette(ui), egui::TextStyle::Body.resolve(ui.style()));
    let mut job = LayoutJob::default();
    job.append(prompt, 0.0, TextFormat::simple(font.clone(), palette.weak()));
    job.append(answer, 0.0, TextFormat::simple(font, palette.strong()));
    job
}

/// How tokens are drawn.
fn how(ui: &mut Ui, sampling: &mut Sampling, usual: usize) {
    let named = |ui: &mut Ui, name: &str, about: &str, control: egui::DragValue<'_>| {
        // A name stays next to its value where the row is broken.
        let row = ui.horizontal(|ui| {
            ui.label(name);
            ui.add(control)
        });
        draft::is_no_setting(&row.inner);
        row.inner.accessible_name(name).tip(about).changed()
    };
    let share = |value| egui::DragValue::new(value).speed(0.01).fixed_decimals(2);
    let about = "Logits are divided by this: less prefers what is likely; 0 takes only the likeliest.";
    named(ui, "Temperature", about, share(&mut sampling.temperature).range(0.0..=2.0));
    let about = "Tokens are drawn from the likeliest that together have this share of the probability.";
    named(ui, "Top-p", about, share(&mut sampling.top_p).range(0.05..=1.0));
    let mut tokens = sampling.tokens.unwrap_or(usual);
    let count = egui::DragValue::new(&mut tokens).range(1..=MOST);
    if named(ui, "Tokens", "How many are written.", count) {
        sampling.tokens = Some(tokens);
    }
    named(ui, "Seed", "The same seed writes the same text.", egui::DragValue::new(&mut sampling.seed));
}

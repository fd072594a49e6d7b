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
    widgets::{
        button,
        control::{self, Typed},
        draft, text,
        tip::Tip as _,
    },
};

/// The most tokens that are asked for here.
const MOST: usize = 2000;
/// The last seed that can be typed: up to it, floating point holds every whole number.
const LAST_SEED: f64 = 9_007_199_254_740_992.0;
/// The numbers that a text is written by, as their fields tell them apart.
const KEYS: [&str; 4] = ["try.temperature", "try.top_p", "try.tokens", "try.seed"];
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
    let generation = context.state.document.generation;
    ui.horizontal_wrapped(|ui| how(ui, &mut tried.sampling, alphabet.usual_tokens(), generation));
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
        if let Some(refused) = KEYS.iter().find_map(|key| refused(ui, key, generation)) {
            text::cut(ui, RichText::new(&refused).small().color(theme::palette(ui).bad), &refused);
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

/// What was typed over the number of this key and is none, in words.
fn refused(ui: &Ui, key: &str, generation: u64) -> Option<String> {
    control::refused(ui.ctx(), generation).filter(|_| control::is_refused(ui.ctx(), key, generation))
}

/// How tokens are drawn.
fn how(ui: &mut Ui, sampling: &mut Sampling, usual: usize, generation: u64) {
    let number = |ui: &mut Ui, typed: Typed, about: &str, value: f64| {
        // A name stays next to its value where the row is broken.
        let font = egui::TextStyle::Body.resolve(ui.style());
        let width = text::width(ui, typed.name, &font) + ui.spacing().item_spacing.x + theme::NUMBER_WIDTH;
        if width > ui.available_size_before_wrap().x {
            ui.end_row();
        }
        let row = ui.horizontal(|ui| {
            let palette = theme::palette(ui);
            let color = if refused(ui, typed.key, generation).is_some() { palette.bad } else { palette.strong() };
            ui.label(RichText::new(typed.name).color(color));
            control::number(ui, &typed, value, (theme::NUMBER_WIDTH, generation))
        });
        let (field, new) = row.inner;
        draft::is_no_setting(&field);
        let refused = refused(ui, typed.key, generation);
        field.accessible_name(typed.name).tip(refused.as_deref().unwrap_or(about));
        new
    };
    let share =
        |name, key, range| Typed { key, name, zero: None, is_whole: false, range, is_setting: false, speed: 0.01 };
    let count = |name, key, range| Typed { is_whole: true, speed: 0.25, ..share(name, key, range) };
    let typed = share("Temperature", KEYS[0], 0.0..=2.0);
    let about = "Logits are divided by this: less prefers what is likely; 0 takes only the likeliest.";
    sampling.temperature = number(ui, typed, about, sampling.temperature);
    let typed = share("Top-p", KEYS[1], 0.05..=1.0);
    let about = "Tokens are drawn from the likeliest that together have this share of the probability.";
    sampling.top_p = number(ui, typed, about, sampling.top_p);
    let present = sampling.tokens.unwrap_or(usual);
    let typed = count("Tokens", KEYS[2], 1.0..=MOST as f64);
    let tokens = number(ui, typed, "How many are written.", present as f64) as usize;
    if tokens != present {
        sampling.tokens = Some(tokens);
    }
    let typed = count("Seed", KEYS[3], 0.0..=LAST_SEED);
    sampling.seed = number(ui, typed, "The same seed writes the same text.", sampling.seed as f64) as u64;
}

//! The legend of the budget bar: bytes by category, the difference to the pin, and the bytes of the whole process.
//!
//! Always holds: it keeps to its lines. Entries without room are counted and shown on hover.

use eframe::egui::{RichText, Ui};
use plimsoll_engine::{memory::Category, plan::Plan};

use super::budget_bar::{UNCOUNTED_WORDS, counts, meaning};
use crate::{
    format, theme,
    widgets::{
        legend::{self, Entry},
        text,
    },
};

/// Draws the legend in at most `lines` lines.
pub(super) fn ui(ui: &mut Ui, plan: &Plan, pin: Option<&Plan>, lines: usize) {
    let entries = entries(ui, plan, pin);
    legend::ui(ui, &entries, lines);
}

fn entries(ui: &Ui, plan: &Plan, pin: Option<&Plan>) -> Vec<Entry> {
    let palette = theme::palette(ui);
    let to_pin = pin.map(|pin| {
        let time = format::time_ratio(per_sample(plan) / per_sample(pin));
        let peak =
            if plan.load() == pin.load() { "the same peak".to_owned() } else { plan.load().difference(pin.load()) };
        let words = format!("against the pin of {}: {peak}, {time} a sample", pin.load());
        let hover = "The difference of the peaks, and of the time that a sample takes.".to_owned();
        Entry { color: None, text: RichText::new(words).small().strong(), hover }
    });
    let categories = plan.categories_at_peak.iter().filter_map(|(category, bytes)| {
        let before = pin.map(|pin| pin.categories_at_peak.get(category));
        if bytes.0 == 0 && before.unwrap_or_default().0 == 0 {
            return None;
        }
        let words = match before {
            Some(before) if before != bytes => format!("{} {bytes} ({})", category.name(), bytes.difference(before)),
            _ => format!("{} {bytes}", category.name()),
        };
        let words = RichText::new(words).small();
        let is_estimate = category == Category::Context && plan.target.profile().is_some_and(|card| card.is_estimate());
        let words = if is_estimate { text::estimate(format!("{}, an estimate", words.text())).small() } else { words };
        let mut hover = meaning(category).to_owned();
        if !counts(plan, category) {
            hover = format!("{hover} {UNCOUNTED_WORDS}");
        }
        Some(Entry { color: Some(palette.category(category)), text: words, hover })
    });
    let process = (!plan.target.is_gpu()).then(|| {
        let words = text::estimate(format!("whole process about {}, an estimate", plan.peak.process));
        let hover = "What the operating system will show for this program: the run, the window and the libraries. No dry run \
                     gives this figure, and the budget does not count it.";
        Entry { color: None, text: words.small().color(palette.weak()), hover: hover.to_owned() }
    });
    to_pin.into_iter().chain(categories).chain(process).collect()
}

fn per_sample(plan: &Plan) -> f64 {
    plan.step_secs / plan.experiment.batch.effective().max(1) as f64
}

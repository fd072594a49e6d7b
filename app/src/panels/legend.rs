//! The legend of the budget bar: bytes by category, the difference to the pin, and what the whole process takes.
//!
//! Always holds: it keeps to its lines. What has no room there is counted and told on hover.

use eframe::egui::{Color32, Label, Response, RichText, TextStyle, Ui, vec2};
use plimsoll_engine::{memory::Category, plan::Plan};

use super::budget_bar::meaning;
use crate::{
    format, theme,
    widgets::{chip, text},
};

/// One thing to tell.
struct Entry {
    /// The colour of its chip; the text alone where it has none.
    color: Option<Color32>,
    text: RichText,
    hover: String,
}

/// Draws the legend in at most `lines` lines.
pub(super) fn ui(ui: &mut Ui, plan: &Plan, pin: Option<&Plan>, lines: usize) {
    let entries = entries(ui, plan, pin);
    let font = TextStyle::Small.resolve(ui.style());
    let of_chip = theme::CHIP + theme::CHIP_GAP;
    let width = |entry: &Entry| {
        text::width(ui, entry.text.text(), &font) + 1.0 + if entry.color.is_some() { of_chip } else { 0.0 }
    };
    let widths: Vec<f32> = entries.iter().map(width).collect();
    let more = text::width(ui, "and 10 more", &font);
    let shown = shown(&widths, more, ui.available_width(), lines);
    // A row is as high as its text.
    ui.spacing_mut().interact_size.y = theme::SMALL_ROW;
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(theme::WIDE_GAP, 3.0);
        for entry in &entries[..shown] {
            draw(ui, entry).on_hover_text(&entry.hover);
        }
        let left = &entries[shown..];
        if !left.is_empty() {
            let response = ui.label(RichText::new(format!("and {} more", left.len())).small());
            response.on_hover_ui(|ui| {
                ui.set_max_width(theme::TOOLTIP_WIDTH);
                left.iter().for_each(|entry| drop(draw(ui, entry)));
            });
        }
    });
}

fn draw(ui: &mut Ui, entry: &Entry) -> Response {
    match entry.color {
        Some(color) => chip::chip(ui, color, entry.text.clone()),
        None => ui.add(Label::new(entry.text.clone()).extend()),
    }
}

fn entries(ui: &Ui, plan: &Plan, pin: Option<&Plan>) -> Vec<Entry> {
    let palette = theme::palette(ui);
    let to_pin = pin.map(|pin| {
        let time = format::time_ratio(per_sample(plan) / per_sample(pin));
        let words = format!("to the pin: {}, {time}", plan.load().difference(pin.load()));
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
        Some(Entry { color: Some(palette.category(category)), text: words, hover: meaning(category).to_owned() })
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

/// How many entries have room in `lines` lines of a width, with the words for the others after them.
fn shown(widths: &[f32], more: f32, width: f32, lines: usize) -> usize {
    // What would stand on the last line, if `count` entries and perhaps the words for the others were shown.
    let fits = |count: usize| {
        let others = (count < widths.len()).then_some(more);
        let (mut line, mut used) = (1, 0.0);
        for next in widths[..count].iter().copied().chain(others) {
            let with_next = if used == 0.0 { next } else { used + theme::WIDE_GAP + next };
            (line, used) = if with_next <= width { (line, with_next) } else { (line + usize::from(used > 0.0), next) };
        }
        line <= lines
    };
    (0..=widths.len()).rev().find(|count| fits(*count)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_in_the_lines_is_left_to_the_words_for_the_others() {
        let widths = [40.0; 6];
        assert_eq!(shown(&widths, 30.0, 1000.0, 1), 6);
        // Three a line: 40 + 14 + 40 + 14 + 40.
        assert_eq!(shown(&widths, 30.0, 148.0, 2), 6);
        assert_eq!(shown(&widths, 30.0, 148.0, 1), 2);
        assert_eq!(shown(&widths, 30.0, 20.0, 1), 0);
        assert_eq!(shown(&[], 30.0, 20.0, 1), 0);
    }
}

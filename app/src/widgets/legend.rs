//! A legend that keeps to its lines: entries without room are counted and shown on hover.

use eframe::egui::{Color32, Label, Response, RichText, Sense, TextStyle, Ui, vec2};

use super::{chip, text};
use crate::{theme, widgets::tip::Tip as _};

/// One entry of the legend.
pub(crate) struct Entry {
    /// The colour of its chip; the text alone if it has none.
    pub(crate) color: Option<Color32>,
    /// Its name.
    pub(crate) text: RichText,
    /// Its meaning.
    pub(crate) hover: String,
}

/// Draws the entries in at most `lines` lines.
pub(crate) fn ui(ui: &mut Ui, entries: &[Entry], lines: usize) {
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
            draw(ui, entry).tip_above(&entry.hover);
        }
        let left = &entries[shown..];
        if !left.is_empty() {
            // After none that has a sign, "more" would be more of nothing.
            let is_begun = entries[..shown].iter().any(|entry| entry.color.is_some());
            let words = if is_begun { format!("and {} more", left.len()) } else { format!("legend ({})", left.len()) };
            let response = ui.label(RichText::new(words).small());
            response.tip_ui(|ui| {
                ui.set_max_width(theme::TOOLTIP_WIDTH);
                for entry in left {
                    draw(ui, entry);
                    ui.label(RichText::new(&entry.hover).small().weak());
                }
            });
        }
    });
}

fn draw(ui: &mut Ui, entry: &Entry) -> Response {
    match entry.color {
        Some(color) => chip::chip(ui, color, entry.text.clone()),
        None => ui.add(Label::new(entry.text.clone()).extend().sense(Sense::hover())),
    }
}

/// How many entries have room in `lines` lines of a width, with the words for the others after them.
fn shown(widths: &[f32], more: f32, width: f32, lines: usize) -> usize {
    // The content of the last line, if `count` entries and perhaps the words for the others were shown.
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

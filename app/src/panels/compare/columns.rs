//! Which columns of a table are in sight where the pane has no room for all, and the line that says so and goes on.
//!
//! Always holds: each column can be brought into sight, by pointer and by keyboard; with room for all there is no line.

use std::ops::Range;

use eframe::egui::{Button, Id, RichText, Ui};

use crate::{widgets::button, widgets::tip::Tip as _};

/// The columns that are shown of `count`, where there is room for `room`.
pub(super) fn in_sight(ui: &mut Ui, count: usize, room: usize) -> Range<usize> {
    let room = room.clamp(1, count.max(1));
    if room >= count {
        return 0..count;
    }
    let id = Id::unique("first column of what is compared");
    let known: usize = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let last = count - room;
    let mut first = known.min(last);
    ui.horizontal(|ui| {
        for (sign, name, to) in
            [("◀", "Columns before", first.saturating_sub(room)), ("▶", "Next columns", (first + room).min(last))]
        {
            let button = button::enabled(ui, to != first, Button::new(sign).small()).accessible_name(name);
            if button.tip(name).clicked() {
                first = to;
            }
        }
        ui.label(RichText::new(words(&(first..first + room), count)).small());
    });
    ui.data_mut(|data| data.insert_temp(id, first));
    first..first + room
}

/// Which of them these are.
fn words(shown: &Range<usize>, count: usize) -> String {
    match shown.len() {
        1 => format!("Column {} of {count}", shown.end),
        _ => format!("Columns {} to {} of {count}", shown.start + 1, shown.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_from_one_and_says_how_many_there_are() {
        assert_eq!(words(&(0..2), 5), "Columns 1 to 2 of 5");
        assert_eq!(words(&(4..5), 5), "Column 5 of 5");
    }
}

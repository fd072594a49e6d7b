//! The cards by keys: the arrows lead to the neighbouring card, above or below, and from the end of a row to the next; Home
//! and End to the first card and the last.
//!
//! Always holds: the card that gets the focus is in sight.

use eframe::egui::{FocusDirection, Id, Key, Modifiers, Response, Ui};

/// Moves the focus as an arrow says, where a card of `rows` has it; from the top of them back to `above`.
pub(super) fn ui(ui: &mut Ui, rows: &[Vec<Response>], above: &Response) {
    let Some(focused) = ui.memory(|memory| memory.focused()) else { return };
    let place = |row: &Vec<Response>| row.iter().position(|card| card.id == focused);
    let Some((row, column)) = rows.iter().enumerate().find_map(|(i, row)| Some((i, place(row)?))) else { return };
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    // A short row on the way down or up is passed through: the column that the way began in is kept with the card it led to.
    let kept = Id::unique("column in the gallery");
    let began: Option<(Id, usize)> = ui.data(|data| data.get_temp(kept));
    let column_of_way = began.filter(|(card, _)| *card == focused).map_or(column, |(_, column)| column);
    for key in [Key::ArrowLeft, Key::ArrowRight, Key::ArrowUp, Key::ArrowDown, Key::Home, Key::End] {
        if !ui.input_mut(|input| input.consume_key(Modifiers::NONE, key)) {
            continue;
        }
        // The arrow is handled here, so egui must not move the focus by its own measure of distance.
        ui.memory_mut(|memory| memory.move_focus(FocusDirection::None));
        let is_across = !matches!(key, Key::ArrowUp | Key::ArrowDown);
        match next(&lengths, (row, if is_across { column } else { column_of_way }), key) {
            Some((row, column)) => {
                let card = &rows[row][column];
                let way = (card.id, if is_across { column } else { column_of_way });
                ui.data_mut(|data| data.insert_temp(kept, way));
                card.request_focus();
                ui.scroll_to_rect(card.rect, None);
            }
            None if key == Key::ArrowUp => above.request_focus(),
            None => {}
        }
        return;
    }
}

/// The card that a key leads to, by its row and its place there.
fn next(lengths: &[usize], (row, column): (usize, usize), arrow: Key) -> Option<(usize, usize)> {
    let in_row = |row: usize, column: usize| {
        let last = lengths.get(row)?.checked_sub(1)?;
        Some((row, column.min(last)))
    };
    match arrow {
        Key::ArrowRight if column + 1 < lengths[row] => Some((row, column + 1)),
        Key::ArrowRight => in_row(row + 1, 0),
        Key::ArrowLeft if column > 0 => Some((row, column - 1)),
        Key::ArrowLeft => in_row(row.checked_sub(1)?, usize::MAX),
        Key::ArrowDown => in_row(row + 1, column),
        Key::Home => in_row(lengths.iter().position(|length| *length > 0)?, 0),
        Key::End => in_row(lengths.iter().rposition(|length| *length > 0)?, usize::MAX),
        _ => in_row(row.checked_sub(1)?, column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_lead_to_the_card_beside_above_and_below() {
        let lengths = [4, 2, 3];
        let to = |from, key| next(&lengths, from, key);
        assert_eq!(to((0, 1), Key::ArrowRight), Some((0, 2)));
        assert_eq!(to((0, 3), Key::ArrowRight), Some((1, 0)), "on to the next row");
        assert_eq!(to((2, 2), Key::ArrowRight), None);
        assert_eq!(to((1, 0), Key::ArrowLeft), Some((0, 3)), "back to the end of the row before");
        assert_eq!(to((0, 0), Key::ArrowLeft), None);
        assert_eq!(to((0, 3), Key::ArrowDown), Some((1, 1)), "a short row has its last below");
        assert_eq!(to((2, 2), Key::ArrowUp), Some((1, 1)));
        assert_eq!(to((1, 3), Key::ArrowDown), Some((2, 2)), "the column of the way, which the row passed lacks");
        assert_eq!(to((0, 2), Key::ArrowUp), None, "above is the search");
        assert_eq!([Key::Home, Key::End].map(|key| to((1, 1), key)), [Some((0, 0)), Some((2, 2))]);
    }
}

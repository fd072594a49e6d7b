//! A line with two ends: the right end is drawn after the left one, so that the Tab key and a screen reader follow the order
//! on screen.

use eframe::egui::{self, Ui};

use crate::{passes, theme};

/// The room that the right end gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Room {
    /// As much as it takes now.
    Now,
    /// The same, and this much before it was drawn once. A width that is right from the start saves the second layout of
    /// the frame in which it comes.
    From(f32),
    /// The same, but another width is given from the next frame on: no frame is laid out twice for it.
    Soon(f32),
    /// As much as it ever took, and this much from the start, so that its neighbours do not move with every figure.
    Most(f32),
}

/// Draws `right` at the end of the line, and `left` in the rest of it. The layout of `ui` goes from left to right.
pub(crate) fn ends(
    ui: &mut Ui,
    name: impl egui::AsIdSalt,
    room: Room,
    left: impl FnOnce(&mut Ui),
    right: impl FnOnce(&mut Ui),
) {
    let id = ui.scope_id().with(name);
    let known: Option<f32> = ui.data(|data| data.get_temp(id));
    let known = match room {
        Room::Now => known.unwrap_or_default(),
        Room::From(first) | Room::Soon(first) => known.unwrap_or(first),
        Room::Most(least) => known.unwrap_or_default().max(least),
    };
    ui.scope(|ui| {
        ui.set_max_width((ui.available_width() - known - theme::WIDE_GAP).max(0.0));
        left(ui);
    });
    ui.add_space((ui.available_width() - known).max(0.0));
    let taken = ui.horizontal(right).response.rect.width();
    let now = if matches!(room, Room::Most(_)) { taken.max(known) } else { taken };
    if (now - known).abs() > 0.5 {
        ui.data_mut(|data| data.insert_temp(id, now));
        match room {
            Room::Soon(_) => ui.ctx().request_repaint(),
            Room::Now | Room::From(_) | Room::Most(_) => {
                passes::again(ui.ctx(), "the right end of a line has another width");
            }
        }
    }
}

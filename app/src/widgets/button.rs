//! A button that shows when it cannot be used.

use eframe::egui::{Button, Color32, Response, Stroke, StrokeKind, Ui};

use crate::{planner::Generation, theme};

/// Draws a button. One that is of no use at the moment has an outline and no ground: its words alone, which stay readable, would
/// not tell.
pub(crate) fn enabled(ui: &mut Ui, is_enabled: bool, button: Button<'_>) -> Response {
    if is_enabled {
        return ui.add(button);
    }
    let response = ui.add_enabled(false, button.fill(Color32::TRANSPARENT));
    // Drawn over it: a stroke of its own would make the button larger and move its neighbours.
    let outline = Stroke::new(1.0, theme::palette(ui).rule);
    let corners = ui.visuals().widgets.inactive.corner_radius;
    ui.painter().rect_stroke(response.rect, corners, outline, StrokeKind::Inside);
    response
}

/// Frames after a click until the settings have what was typed in the field that it left.
const UNTIL_TAKEN: u8 = 4;

/// A press on a button that was disabled then.
#[derive(Clone, Copy, Default)]
struct Early {
    /// The settings at the press.
    settings: Generation,
    /// Frames in which these may still change; none before the release.
    left: Option<u8>,
}

/// Whether a click counts that began while the button was disabled: it left a field, and what was typed there has changed the
/// settings since. `settings` are the present ones.
pub(crate) fn clicked_early(button: &Response, settings: Generation) -> bool {
    let (ctx, id, is_over) = (&button.ctx, button.id.with("early"), button.contains_pointer());
    let (presses, releases) = ctx.input(|input| (input.pointer.primary_pressed(), input.pointer.primary_released()));
    let ends = releases.then_some(UNTIL_TAKEN);
    let early = match ctx.data_mut(|data| data.remove_temp::<Early>(id)) {
        _ if presses => (is_over && !button.enabled()).then_some(Early { settings, left: ends }),
        Some(early) if releases => is_over.then_some(Early { left: ends, ..early }),
        Some(Early { settings, left: Some(left) }) => {
            left.checked_sub(1).map(|left| Early { settings, left: Some(left) })
        }
        early => early,
    };
    let Some(early) = early else { return false };
    let is_released = early.left.is_some();
    if is_released && early.settings != settings {
        return true;
    }
    ctx.data_mut(|data| data.insert_temp(id, early));
    if is_released {
        ctx.request_repaint();
    }
    false
}

#[cfg(test)]
mod tests {
    use eframe::egui::Shape;
    use egui_kittest::Harness;

    use super::*;

    #[test]
    fn a_button_of_no_use_has_no_ground() {
        let grounds = |is_enabled: bool| {
            let draw = move |ui: &mut Ui| drop(enabled(ui, is_enabled, Button::new("Stop")));
            let harness = Harness::builder().with_context_setup(theme::install).build_ui(draw);
            let shapes = harness.output().shapes.iter();
            let filled =
                |shape: &Shape| matches!(shape, Shape::Rect(rect) if rect.fill.a() > 0 && rect.rect.width() < 100.0);
            shapes.filter(|clipped| filled(&clipped.shape)).count()
        };
        assert_eq!(grounds(true), grounds(false) + 1);
    }

    #[test]
    fn a_button_of_no_use_takes_the_same_room() {
        let mut sizes = Vec::new();
        let draw = |ui: &mut Ui| {
            sizes = [true, false].map(|is_enabled| enabled(ui, is_enabled, Button::new("Stop")).rect.size()).to_vec();
        };
        drop(Harness::builder().with_context_setup(theme::install).build_ui(draw));
        assert_eq!(sizes[0], sizes[1]);
    }
}

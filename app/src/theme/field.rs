//! The border of a field that takes text: seen on every ground that fields lie on, dark and light.

use eframe::egui::{Stroke, Ui};

use super::palette;

/// Draws a field of text with its border. The border takes no room.
pub(crate) fn bordered<T>(ui: &mut Ui, field: impl FnOnce(&mut Ui) -> T) -> T {
    let palette = palette(ui);
    let known = ui.visuals().widgets.clone();
    let widgets = &mut ui.visuals_mut().widgets;
    widgets.inactive.bg_stroke = Stroke::new(1.0, palette.border);
    widgets.hovered.bg_stroke = Stroke::new(1.0, palette.weak());
    let drawn = field(ui);
    ui.visuals_mut().widgets = known;
    drawn
}

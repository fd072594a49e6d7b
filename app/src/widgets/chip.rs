//! A colour chip with a name: one entry of a legend.

use eframe::egui::{self, Color32, CornerRadius, Response, RichText, Sense, Ui, vec2};

use crate::theme;

/// A chip and `text`, in one row.
pub(crate) fn chip(ui: &mut Ui, color: Color32, text: impl Into<RichText>) -> Response {
    let text = text.into();
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let (rect, _) = ui.allocate_exact_size(vec2(theme::CHIP, theme::CHIP), Sense::hover());
        ui.painter().rect_filled(rect, CornerRadius::same(2), color);
        ui.add(egui::Label::new(text).extend())
    })
    .inner
}

/// A short stretch of a curve and `text`, in one row; dashed for what is not measured.
pub(crate) fn stroke(ui: &mut Ui, color: Color32, dashed: bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let (rect, _) = ui.allocate_exact_size(vec2(14.0, theme::CHIP), Sense::hover());
        let ends = [rect.left_center(), rect.right_center()];
        let stroke = egui::Stroke::new(theme::CURVE, color);
        if dashed {
            ui.painter().extend(egui::Shape::dashed_line(&ends, stroke, 4.0, 3.0));
        } else {
            ui.painter().line_segment(ends, stroke);
        }
        ui.add(egui::Label::new(text).extend())
    })
    .inner
}

/// The empty state of a pane: one sentence in the middle that says what will be here.
pub(crate) fn empty(ui: &mut Ui, text: &str) {
    ui.centered_and_justified(|ui| {
        ui.add(egui::Label::new(RichText::new(text).weak()).wrap());
    });
}

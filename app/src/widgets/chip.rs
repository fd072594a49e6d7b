//! A colour chip with a name: one entry of a legend.

use eframe::egui::{
    self, Color32, CornerRadius, Rect, Response, RichText, Sense, Shape, Stroke, TextStyle, Ui, WidgetText, pos2, vec2,
};

use super::text;
use crate::theme;

/// Length of the stretch of a curve in a legend.
const STRETCH: f32 = 14.0;

/// A chip and `text`, in one row.
pub(crate) fn chip(ui: &mut Ui, color: Color32, text: impl Into<RichText>) -> Response {
    entry(ui, theme::CHIP, Sense::hover(), text.into(), |painter, at| {
        painter.rect_filled(at, CornerRadius::same(2), color);
    })
}

/// A short stretch of a curve and `text`, in one row; dashed for a figure that is not measured.
pub(crate) fn stroke(ui: &mut Ui, color: Color32, dashed: bool, text: impl Into<RichText>) -> Response {
    stretch(ui, Sense::hover(), color, dashed, text.into())
}

/// The width of such a stretch with small words.
pub(crate) fn stroke_width(ui: &Ui, words: &str) -> f32 {
    STRETCH + theme::CHIP_GAP + text::width(ui, words, &TextStyle::Small.resolve(ui.style()))
}

/// The same chip, to click on.
pub(crate) fn switch(ui: &mut Ui, color: Color32, dashed: bool, text: impl Into<RichText>) -> Response {
    stretch(ui, Sense::click(), color, dashed, text.into())
}

fn stretch(ui: &mut Ui, sense: Sense, color: Color32, dashed: bool, text: RichText) -> Response {
    entry(ui, STRETCH, sense, text, |painter, at| {
        let ends = [at.left_center(), at.right_center()];
        let stroke = Stroke::new(theme::CURVE, color);
        if dashed {
            painter.extend(Shape::dashed_line(&ends, stroke, 4.0, 3.0));
        } else {
            painter.line_segment(ends, stroke);
        }
    })
}

/// One widget, so that a legend wraps between entries and not within one.
fn entry(ui: &mut Ui, width: f32, sense: Sense, text: RichText, sign: impl FnOnce(&egui::Painter, Rect)) -> Response {
    let text = WidgetText::from(text);
    let galley = text.into_galley(ui, Some(egui::TextWrapMode::Extend), f32::INFINITY, TextStyle::Body);
    let size = vec2(width + theme::CHIP_GAP + galley.size().x, galley.size().y.max(theme::CHIP));
    let (rect, response) = ui.allocate_exact_size(size, sense);
    let at = Rect::from_center_size(pos2(rect.left() + width / 2.0, rect.center().y), vec2(width, theme::CHIP));
    sign(ui.painter(), at);
    let corner = pos2(at.right() + theme::CHIP_GAP, rect.center().y - galley.size().y / 2.0);
    let name = galley.text().to_owned();
    ui.painter().galley(corner, galley, ui.visuals().text_color());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, &name));
    response
}

/// The empty state of a pane: one sentence in the middle that names its later content.
pub(crate) fn empty(ui: &mut Ui, text: &str) {
    let space = ui.available_rect_before_wrap();
    let most = space.width().min(theme::TOOLTIP_WIDTH);
    let font = TextStyle::Body.resolve(ui.style());
    let rows = |width: f32| ui.painter().layout(text.to_owned(), font.clone(), Color32::WHITE, width).rows.len();
    let size = egui::vec2(balanced(most, rows), space.height());
    let middle = egui::Rect::from_center_size(space.center(), size);
    ui.scope_builder(egui::UiBuilder::new().max_rect(middle), |ui| {
        ui.with_layout(egui::Layout::top_down(egui::Align::Center), |ui| {
            ui.add_space((size.y / 2.0 - theme::ROW_HEIGHT).max(0.0));
            ui.add(egui::Label::new(RichText::new(text).weak()).wrap());
        });
    });
}

/// The least width with as few lines as `most` has: no word stands alone on the last one.
fn balanced(most: f32, rows: impl Fn(f32) -> usize) -> f32 {
    const STEPS: usize = 6;
    let whole = rows(most);
    let (mut too_little, mut enough) = (0.0, most);
    for _ in 0..STEPS {
        let middle = f32::midpoint(too_little, enough);
        if rows(middle) <= whole { enough = middle } else { too_little = middle }
    }
    enough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_about_as_long_as_each_other() {
        // 33 letters of 10 points: two lines of 300 points, of which the second would have three letters.
        let rows = |width: f32| (330.0 / width).ceil() as usize;
        let width = balanced(300.0, rows);
        assert!((165.0..172.0).contains(&width), "{width}");
        assert!(balanced(400.0, rows) >= 330.0, "one line stays one");
    }
}

//! Cells and headings that the tables share.

use eframe::egui::{
    Align, AsIdSalt, Button, Color32, CornerRadius, Label, Layout, Rect, Response, RichText, Sense, TextStyle, Ui, vec2,
};
use egui_extras::{Column, TableBuilder};
use plimsoll_engine::Bytes;

use crate::{
    format, theme,
    view::Sort,
    widgets::{text as words, tip::Tip as _},
};

/// Width of a share as a bar.
pub(crate) const SHARE: f32 = 26.0;
/// Next to a heading.
const BESIDE: f32 = 2.0;

/// A table that fills the rest of its pane and scrolls its rows there. In a pane with little room it is as low as that room:
/// the toolkit's least height would put its last rows below the pane, where nothing scrolls to them.
pub(crate) fn filling(ui: &mut Ui, salt: impl AsIdSalt) -> TableBuilder<'_> {
    TableBuilder::new(ui).id_salt(salt).striped(true).auto_shrink(false).min_scrolled_height(0.0)
}

/// A column that is as wide as its contents. Its cells are not cut off at its sides, and cells that are cut off nowhere are
/// painted at once.
pub(crate) fn fitting(width: f32) -> Column {
    Column::exact(width).clip(false)
}

/// How wide a text is in a cell.
pub(crate) fn text_width(ui: &Ui, text: &str) -> f32 {
    words::width(ui, text, &TextStyle::Body.resolve(ui.style())).ceil() + 1.0
}

/// How wide any amount is in a cell.
pub(crate) fn bytes_width(ui: &Ui) -> f32 {
    text_width(ui, "9.99 MiB").max(text_width(ui, "999 MiB"))
}

/// How wide a heading is with its arrow.
pub(crate) fn heading_width(ui: &Ui, name: &str) -> f32 {
    let text = format!("{name} ⏷");
    words::width(ui, &text, &TextStyle::Small.resolve(ui.style())).ceil() + BESIDE * 2.0 + 1.0
}

/// How wide a heading of one sign is, which has no arrow.
pub(crate) fn sign_width(ui: &Ui, sign: &str) -> f32 {
    words::width(ui, sign, &TextStyle::Small.resolve(ui.style())).ceil() + BESIDE * 2.0 + 1.0
}

/// A heading that sorts as [`Sort::clicked`] says; `at_first` is how the table is sorted without a click.
pub(crate) fn heading<C: Copy + PartialEq + Default>(
    ui: &mut Ui,
    (sort, at_first): (&mut Sort<C>, Sort<C>),
    column: C,
    (name, about): (&str, &str),
    has_words: bool,
) {
    heading_as(ui, (sort, at_first), column, (name, name, about), has_words);
}

/// The words of a heading that also says what all rows are of, as far as the title has room in `width`.
pub(crate) fn heading_of(ui: &Ui, name: &str, title: &str, width: f32) -> String {
    let of = |title: &str| format!("{name} of {title}");
    of(&words::shortened(title, |title| heading_width(ui, &of(title)) <= width))
}

/// The same as [`heading`] with other words than the name of its column: that is what it is called, `shown` what is read.
pub(crate) fn heading_as<C: Copy + PartialEq + Default>(
    ui: &mut Ui,
    (sort, at_first): (&mut Sort<C>, Sort<C>),
    column: C,
    (name, shown, about): (&str, &str, &str),
    has_words: bool,
) {
    let sorted = sort.column == column;
    let is_sign = shown.chars().count() == 1;
    let arrow = match (sorted, sort.falling) {
        // A column as narrow as a sign says by its colour alone that it sorts.
        _ if is_sign => "",
        (false, _) => "",
        (true, true) => " ⏷",
        (true, false) => " ⏶",
    };
    let palette = theme::palette(ui);
    let color = if sorted { palette.strong() } else { palette.weak() };
    let layout = if column == C::default() { Layout::left_to_right(Align::Center) } else { *ui.layout() };
    ui.with_layout(layout, |ui| {
        ui.spacing_mut().button_padding.x = BESIDE;
        // No part of it lies below its row.
        ui.spacing_mut().interact_size.y = ui.available_height();
        let button = Button::new(RichText::new(format!("{shown}{arrow}")).small().color(color)).frame(false);
        let response = ui.add(button).accessible_name(format!("Sort by {name}"));
        if response.tip(about).clicked() {
            *sort = sort.clicked(column, has_words, at_first);
        }
    });
}

/// A path, from the left, without its middle if it has no room. Its whole, with `about`, is shown on hover.
pub(crate) fn path(ui: &mut Ui, path: &str, about: &str) {
    ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
        words::path(ui, path, about);
    });
}

/// A figure.
pub(crate) fn text(ui: &mut Ui, text: &str) -> Response {
    ui.add(Label::new(text).extend().sense(Sense::hover()))
}

/// A number; nothing is a dash.
pub(crate) fn count(ui: &mut Ui, count: u64) {
    if count == 0 { nothing(ui) } else { drop(text(ui, &format::count(count))) }
}

/// An amount; nothing is a dash.
pub(crate) fn bytes(ui: &mut Ui, bytes: Bytes) {
    if bytes == Bytes::ZERO { nothing(ui) } else { drop(text(ui, &bytes.to_string())) }
}

/// A dash, if there is nothing to count.
pub(crate) fn nothing(ui: &mut Ui) {
    ui.add(Label::new(RichText::new("–").weak()).extend());
}

/// A share as a short bar.
pub(crate) fn share(ui: &mut Ui, share: f64, color: Color32) -> Response {
    let (rect, response) = ui.allocate_exact_size(vec2(SHARE, 8.0), Sense::hover());
    let palette = theme::palette(ui);
    ui.painter().rect_filled(rect, CornerRadius::same(2), palette.trough);
    let filled = Rect::from_min_size(rect.min, vec2(rect.width() * share.clamp(0.0, 1.0) as f32, rect.height()));
    ui.painter().rect_filled(filled, CornerRadius::same(2), color);
    response
}

//! The card that was planned for before an experiment was opened, offered next to the first heading.

use eframe::egui::{self, Align, Button, Layout, Rect, RichText, Ui, UiBuilder, vec2};

use super::PanelContext;
use crate::{
    format, theme,
    widgets::{
        control::{Form, follow},
        text, tip,
    },
};

/// The card that was planned for before, in one click, and the preset's own device in one click back: next to the first
/// heading, in its `line`, where it takes no room of its own, so that no setting moves when a document with an offer is opened.
pub(super) fn card(ui: &mut Ui, line: Rect, form: &Form<'_>, context: &PanelContext<'_>) {
    let document = &context.state.document;
    let own = &document.saved.device;
    let Some(card) = document.offered.as_ref().filter(|card| *card != own) else { return };
    let device = if form.experiment().device == *card { own } else { card };
    let size = vec2(ui.max_rect().width() - theme::HEADING_WIDTH, ui.spacing().interact_size.y);
    let beside = Rect::from_min_size(line.min + vec2(theme::HEADING_WIDTH, 0.0), size);
    let builder = UiBuilder::new().max_rect(beside).layout(Layout::right_to_left(Align::Center));
    let mut ui = ui.new_child(builder.id_salt("plan for"));
    let device_name = format::device(device);
    let name = format!("Plan for {device_name}");
    let font = egui::TextStyle::Small.resolve(ui.style());
    let room = beside.width() - 2.0 * ui.spacing().button_padding.x;
    let shown = shorter_names(&device_name).into_iter().map(|device| format!("Plan for {device}"));
    let shown = shown.into_iter().find(|words| text::width(&ui, words, &font) <= room).unwrap_or_else(|| name.clone());
    let button = ui.add(Button::new(RichText::new(shown).small()).truncate()).accessible_name(&name);
    follow(&button);
    tip::show(tip::beside(&button), |ui| {
        ui.set_max_width(theme::TOOLTIP_WIDTH);
        ui.label(format!("{name}, with the budget that it last had."));
    });
    if button.clicked() {
        form.edit("device", |experiment| device.clone_into(&mut experiment.device));
    }
}

/// The name of a device, then without its memory, then without its maker's word as well.
fn shorter_names(device: &str) -> [&str; 3] {
    let model = device.split(", ").next().unwrap_or(device);
    [device, model, model.split_once(' ').map_or(model, |(_, rest)| rest)]
}

//! The list of keys: as wide as the longest name with the longest keys, as far as the window is.
//!
//! Always holds: keys stand whole; a name that has no room next to them is cut, and whole on hover.

use eframe::egui::{
    Align, Context, Id, Key, KeyboardShortcut, Label, Layout, Modal, Modifiers, RichText, ScrollArea, TextStyle, Ui,
    vec2,
};

use super::{PanelContext, WIDTH, heading};
use crate::{
    command::{Action, UiCommand},
    theme,
    widgets::{text, tip::Tip as _},
};

/// What keys do, which keys, and more about it on hover.
struct Row {
    name: String,
    keys: String,
    about: Option<&'static str>,
}

/// Draws the dialog.
pub(super) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let modal = Modal::new(Id::unique("dialog")).show(ui.ctx(), |ui| {
        let rows = rows(ui.ctx());
        let widths = widths(ui, &rows);
        let (between, bar) = (theme::WIDE_GAP * 2.0, theme::WIDE_GAP);
        let room = (ui.ctx().content_rect().width() - theme::DIALOG_MARGIN / 2.0).max(WIDTH / 2.0);
        let width = (widths[0] + between + widths[1] + bar).max(WIDTH).min(room);
        ui.set_width(width);
        heading(ui, "Keys");
        let height = ui.ctx().content_rect().height() - theme::DIALOG_MARGIN;
        ScrollArea::vertical().max_height(height).min_scrolled_height(height).show(ui, |ui| {
            scroll_by_keys(ui, height);
            ui.set_min_width(ui.available_width());
            rows.iter().for_each(|row| line(ui, row, width - between - widths[1] - bar, between));
        });
        ui.add_space(theme::GAP);
        if ui.button("Close").clicked() {
            context.send.send(Action::CloseDialog);
        }
    });
    if modal.should_close() {
        context.send.send(Action::CloseDialog);
    }
}

/// A row, whose name has this width and whose keys begin at a distance from it.
fn line(ui: &mut Ui, row: &Row, name: f32, between: f32) {
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = between;
        let size = vec2(name, ui.spacing().interact_size.y);
        ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
            ui.set_min_width(name);
            // Where it is cut, it shows itself whole on hover.
            let name = ui.add(Label::new(&row.name).truncate());
            if let Some(about) = row.about {
                name.tip(about);
            }
        });
        ui.label(RichText::new(&row.keys).monospace().strong());
    });
}

/// How wide the widest name is, and the widest keys.
fn widths(ui: &Ui, rows: &[Row]) -> [f32; 2] {
    let widest = |style: TextStyle, of: fn(&Row) -> &str| {
        let font = style.resolve(ui.style());
        rows.iter().map(|row| text::width(ui, of(row), &font)).fold(0.0, f32::max).ceil()
    };
    [widest(TextStyle::Body, |row| &row.name), widest(TextStyle::Monospace, |row| &row.keys)]
}

/// All of them: of commands, then of tables, plots and the window.
fn rows(ctx: &Context) -> Vec<Row> {
    let of_command = |command: UiCommand| {
        let keys = ctx.format_shortcut(&command.shortcut()?);
        Some(Row { name: command.label().to_owned(), keys, about: Some(command.tooltip()) })
    };
    let key = |modifiers, key| ctx.format_shortcut(&KeyboardShortcut::new(modifiers, key));
    let [all, menu] = [key(Modifiers::COMMAND, Key::A), key(Modifiers::SHIFT, Key::F10)];
    let zoom = [Key::Plus, Key::Minus, Key::Num0].map(|sign| key(Modifiers::COMMAND, sign)).join(", ");
    let others = [
        ("Next or previous tab of a pane", "Ctrl+Tab, Ctrl+Shift+Tab"),
        ("Table of runs: pick one, several, all", &format!("arrows, Shift+arrows, {all}")),
        ("Table of runs: open, star, delete", "Enter, S, Delete"),
        ("Table of runs: menu of the picked runs", &menu),
        ("Move a plot, zoom, show all again", "drag, Ctrl+wheel, double-click"),
        ("Pane: scroll it", "Page Up, Page Down, Home, End"),
        ("Memory against accuracy: point, its settings, menu", &format!("arrows, Enter, {menu}")),
        ("Plot: go along it, zoom, show all again", "arrows, Page Up, Home, +, -, 0"),
        ("Zoom the window in, out, back", &zoom),
    ];
    let other = |(name, keys): (&str, &str)| Row { name: name.to_owned(), keys: keys.to_owned(), about: None };
    UiCommand::ALL.iter().copied().filter_map(of_command).chain(others.map(other)).collect()
}

/// Scrolls a list of which no row takes the focus.
fn scroll_by_keys(ui: &Ui, page: f32) {
    let row = ui.spacing().interact_size.y;
    let all = f32::from(u16::MAX);
    let steps = [
        (Key::ArrowDown, row),
        (Key::ArrowUp, -row),
        (Key::PageDown, page),
        (Key::PageUp, -page),
        (Key::End, all),
        (Key::Home, -all),
    ];
    let down: f32 = ui.input(|input| steps.iter().filter(|(key, _)| input.key_pressed(*key)).map(|(_, by)| by).sum());
    if down != 0.0 {
        ui.scroll_with_delta(vec2(0.0, -down));
    }
}

//! Below the table: the run that was picked last, with its name, its user's notes, and the actions on all that are picked.
//!
//! Always holds: the lines take the same room for one run, for several and for none, and one more from the first deletion
//! on. What is typed is sent when the field is left, so that a letter costs no writing.

use eframe::egui::{Align, Button, Id, Layout, RichText, Role, TextStyle, Ui, UiBuilder, WidgetInfo, vec2};
use plimsoll_engine::store::RunKey;

use super::{PanelContext, ask, deeds};
use crate::{
    command::RunsAction,
    runs::{Deletion, Row, Runs},
    theme,
    widgets::{draft, run_name, text, tip::Tip as _},
};

/// The field for a name, for a screen reader.
const NAME: &str = "Name of the kept run";
/// Lines of it.
const LINES: f32 = 4.0;
/// Between two of them: the rows above need the room.
const BETWEEN: f32 = 2.0;
/// Share of its line that the note has; the tags have the rest.
const NOTE_SHARE: f32 = 0.62;

/// The height that it takes.
pub(super) fn height(ui: &Ui, runs: &Runs) -> f32 {
    // Also where none is picked: nothing moves as a search leaves some picked or none.
    let lines = if runs.had_deletions { LINES + 1.0 } else { LINES };
    ui.spacing().item_spacing.y + (ui.spacing().interact_size.y + BETWEEN) * lines - BETWEEN
}

/// Draws it.
pub(super) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    ui.spacing_mut().item_spacing.y = BETWEEN;
    let runs = &context.state.runs;
    if runs.had_deletions {
        line(ui, |ui| {
            runs.deletions.last().into_iter().for_each(|last| deleted(ui, context, (last, runs.deletions.len())));
        });
    }
    let Some(front) = runs.front() else {
        line(ui, |ui| {
            let hint = "Click: look at it. Double click: open it. Ctrl+click: pick several.";
            text::cut(ui, RichText::new(hint).weak(), hint);
        });
        return;
    };
    line(ui, |ui| heading(ui, context, front));
    line(ui, |ui| named(ui, context, front));
    line(ui, |ui| noted(ui, context, front));
    line(ui, |ui| buttons(ui, context, front));
}

fn line(ui: &mut Ui, contents: impl FnOnce(&mut Ui)) {
    let (_, rect) = ui.allocate_space(vec2(ui.available_width(), ui.spacing().interact_size.y));
    ui.scope_builder(UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center)), contents);
}

fn deleted(ui: &mut Ui, context: &PanelContext<'_>, (last, deletions): (&Deletion, usize)) {
    let undo = ui.button("Undo").accessible_name("Bring the deleted runs back");
    if undo
        .tip("Bring back what was deleted last; Ctrl+Z does the same. It is gone for good when the window closes.")
        .clicked()
    {
        ask(context, RunsAction::Restore);
    }
    let words = match last.keys.len() {
        1 => format!("Deleted: {}", last.name),
        count => format!("{count} runs were deleted."),
    };
    let words = match deletions - 1 {
        0 => words,
        1 => format!("{words} (and a deletion before)"),
        before => format!("{words} (and {before} deletions before)"),
    };
    text::cut(ui, RichText::new(&words).color(theme::palette(ui).warn), &words);
}

/// Which run the lines below belong to.
fn heading(ui: &mut Ui, context: &PanelContext<'_>, front: &Row) {
    let words = |name: String| match context.state.runs.picked().len() {
        1 => name,
        count => format!("The last of {count} picked: {name}"),
    };
    // Where there is little room, the details go first, then the title, and the name keeps its number and what tells it from
    // the others.
    let (font, room) = (TextStyle::Body.resolve(ui.style()), ui.available_width());
    let fits = |part: &str| text::width(ui, part, &font) <= room;
    let whole = words(front.whole_name());
    let name = || front.fitting_name(context.state.runs.rows().iter(), |name| fits(&words(name.to_owned())));
    let longer = [whole.clone(), words(front.name_and_title())].into_iter().find(|longer| fits(longer));
    let short = longer.unwrap_or_else(|| words(name()));
    let shown = text::cut(ui, RichText::new(short).color(theme::palette(ui).strong()), &whole);
    shown.widget_info(|| WidgetInfo::labeled(Role::Label, true, &whole));
}

/// The star and the name.
fn named(ui: &mut Ui, context: &PanelContext<'_>, row: &Row) {
    let picked = context.state.runs.picked();
    let palette = theme::palette(ui);
    let is_starred = row.run.is_starred;
    let (sign, color) = if is_starred { ("★", palette.warn) } else { ("☆", palette.weak()) };
    let name = if is_starred { "Take the star" } else { "Star" };
    let star = ui.add(Button::new(RichText::new(sign).color(color)).frame(false)).accessible_name(name);
    if star.tip(format!("{name}: click the heading ★ to find starred runs.")).clicked() {
        ask(context, RunsAction::Star(picked.to_vec(), !is_starred));
    }
    let hint = row.told();
    let known = row.run.name.as_deref().unwrap_or_default();
    let of = (&context.state.runs, Some(&row.run.key));
    let width = width(ui, 1.0);
    let about = |text: &str| about(NAME, hint, text);
    let typed = run_name::field(ui, of, (name_field(&row.run.key), NAME, hint), known, width, about);
    if let Some(name) = typed {
        ask(context, RunsAction::Name(row.run.key.clone(), name));
    }
}

/// The note and the tags.
fn noted(ui: &mut Ui, context: &PanelContext<'_>, row: &Row) {
    let key = &row.run.key;
    // A note of the command line may have lines.
    if let Some(note) = field(ui, key, "Note", "Note", &row.run.note.replace('\n', " "), NOTE_SHARE) {
        ask(context, RunsAction::Note(key.clone(), note));
    }
    if let Some(tags) = field(ui, key, "Tags", "Tags, with commas", &row.run.tags.join(", "), 1.0) {
        let tags = tags.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect();
        ask(context, RunsAction::Tags(key.clone(), tags));
    }
}

/// The field for the name of a run.
pub(super) fn name_field(key: &RunKey) -> Id {
    field_id(key, NAME)
}

fn field_id(key: &RunKey, name: &str) -> Id {
    Id::unique(("kept run", key.as_str(), name))
}

/// A field that answers what was typed once it is left, if that is something else than before.
fn field(ui: &mut Ui, key: &RunKey, name: &str, hint: &str, known: &str, share: f32) -> Option<String> {
    let id = field_id(key, name);
    draft::field(ui, id, (name, hint), known, width(ui, share), |text| about(name, hint, text))
}

/// The width of a field that has a share of its line.
fn width(ui: &Ui, share: f32) -> f32 {
    (ui.available_width() * share - 2.0 * theme::GAP).max(theme::SHORTEST_TEXT)
}

/// What a field says on hover.
fn about(name: &str, hint: &str, text: &str) -> String {
    if text.is_empty() { hint.to_owned() } else { format!("{name}: {text}") }
}

fn buttons(ui: &mut Ui, context: &PanelContext<'_>, front: &Row) {
    let runs = &context.state.runs;
    let picked = runs.picked();
    deeds::open(front).button(ui, context);
    let mut load = deeds::load(context, front);
    if ui.max_rect().width() < theme::NARROW_BUTTONS {
        load.words = "Load".to_owned();
        ui.spacing_mut().button_padding.x = theme::NARROW_PADDING;
        ui.spacing_mut().item_spacing.x = theme::NARROW_PADDING;
    }
    load.button(ui, context);
    deeds::go_on(context, front).button(ui, context);
    deeds::delete(context, picked).button(ui, context);
    let size: u64 = picked.iter().filter_map(|key| runs.get(key)).map(|row| row.run.on_disk.0).sum();
    let words = format!("{} on the disk", plimsoll_engine::Bytes(size));
    if ui.available_width() > theme::SHORTEST_TEXT {
        text::cut(ui, RichText::new(&words).weak().small(), &words);
    }
}

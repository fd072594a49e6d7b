//! A field whose text is taken once the field is left, except by Escape, which takes it back.
//!
//! Owns the typed text until it is taken. Always holds: the text does not change while the user types, even if the value
//! changes elsewhere; a text that is not taken stays in the field.

use eframe::egui::{Context, Id, Key, Response, TextEdit, Ui};

use crate::{theme, widgets::tip::Tip as _};

/// A text that is typed over the known one.
#[derive(Debug, Clone, Default)]
struct Draft {
    known: String,
    text: String,
    /// Whether it was returned: the toolkit counts a field as left for two frames.
    is_told: bool,
}

/// The text that is typed in a field and not taken yet.
pub(crate) fn typed(ui: &Ui, id: Id) -> Option<String> {
    ui.data(|data| data.get_temp::<Draft>(id)).map(|draft| draft.text)
}

/// Takes back what was typed in a field and not taken; whether there was something.
pub(crate) fn take_back(ctx: &Context, id: Id) -> bool {
    let typed = ctx.data(|data| data.get_temp::<Draft>(id));
    let is_another = typed.is_some_and(|draft| draft.text.trim() != draft.known.trim());
    if is_another {
        ctx.data_mut(|data| data.remove::<Draft>(id));
    }
    is_another
}

/// Notes that a value is no setting: with the focus in its field, undo and redo are of what is typed there and of nothing else.
pub(crate) fn is_no_setting(field: &Response) {
    field.ctx.data_mut(|data| data.insert_temp(field.id.with("no setting"), true));
}

/// Whether a field is that of a setting.
pub(crate) fn is_setting(ctx: &Context, id: Id) -> bool {
    ctx.data(|data| data.get_temp::<bool>(id.with("no setting"))).is_none()
}

/// Gives a field the focus in the next frame: at once, the click that asks for it would count as one outside the field.
pub(crate) fn ask_for_focus(ctx: &Context, field: Id) {
    ctx.data_mut(|data| data.insert_temp(field.with("asked"), true));
    ctx.request_repaint();
}

/// Whether a field was to have the focus with this frame.
pub(crate) fn is_focus_asked(ui: &Ui, field: Id) -> bool {
    !ui.input(|input| input.pointer.any_released())
        && ui.data_mut(|data| data.remove_temp::<bool>(field.with("asked"))).is_some()
}

/// Draws a field of one line over `known`, which is no setting. Once it is left it returns the typed text, if that differs.
/// If the text is taken, `known` has it from then on. `about` describes the text on hover, or the field while it is empty.
pub(crate) fn field(
    ui: &mut Ui,
    id: Id,
    (name, hint): (&str, &str),
    known: &str,
    width: f32,
    about: impl FnOnce(&str) -> String,
) -> Option<String> {
    let edited = edit(ui, id, (name, hint), (known, known), width);
    is_no_setting(&edited.response);
    edited.response.tip(about(&edited.text));
    edited.taken
}

/// The result of a field in this frame.
pub(crate) struct Edited {
    /// The field.
    pub(crate) response: Response,
    /// Its text.
    pub(crate) text: String,
    /// The typed text, once the field was left and if it differs from the known one.
    pub(crate) taken: Option<String>,
}

/// The same without a word on hover. `shown` stands for `known` while the field is not edited: as much of it as has room.
pub(crate) fn edit(
    ui: &mut Ui,
    id: Id,
    (name, hint): (&str, &str),
    (known, shown): (&str, &str),
    width: f32,
) -> Edited {
    let has_focus = ui.memory(|memory| memory.has_focus(id));
    let draft = ui.data(|data| data.get_temp::<Draft>(id));
    let is_over = draft.as_ref().is_some_and(|draft| !has_focus && draft.known != known);
    if is_over {
        // It was taken, or something else was: undo is not to bring it back.
        ui.data_mut(|data| data.remove::<Draft>(id));
    }
    let draft = draft.filter(|_| !is_over);
    let is_shown = draft.is_none() && !has_focus;
    let mut draft = draft.unwrap_or_else(|| Draft { known: known.to_owned(), text: known.to_owned(), is_told: false });
    let mut text = if is_shown { shown.to_owned() } else { draft.text.clone() };
    let edit = TextEdit::singleline(&mut text).id(id).hint_text(hint).desired_width(width);
    let response: Response = theme::bordered(ui, |ui| ui.add(edit)).accessible_name(name);
    if !is_shown || shown == known {
        draft.text = text;
    }
    if is_focus_asked(ui, id) {
        response.request_focus();
    }
    if has_focus || response.changed() {
        known.clone_into(&mut draft.known);
        draft.is_told = false;
        ui.data_mut(|data| data.insert_temp(id, draft.clone()));
    }
    let is_escaped = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Escape));
    let is_another = draft.text.trim() != known.trim() && !is_escaped;
    if response.lost_focus() && !is_another {
        ui.data_mut(|data| data.remove::<Draft>(id));
    }
    let taken = (response.lost_focus() && is_another && !draft.is_told).then(|| draft.text.clone());
    if taken.is_some() {
        draft.is_told = true;
        ui.data_mut(|data| data.insert_temp(id, draft.clone()));
    }
    Edited { response, text: draft.text, taken }
}

//! The title and the description: shown above the settings, edited below them.
//!
//! Always holds: while the description is edited, the text above stays as it was and takes the same room, so that nothing moves
//! below the hands of who types. It is the new one once the field is left; what is in sight then stays where it is as far as
//! the pane has room to scroll.

use eframe::egui::{Id, Label, RichText, TextEdit, Ui};

use crate::{
    panels::PanelContext,
    theme,
    widgets::control::{Form, Spec, follow},
};

const TITLE: Spec = Spec {
    key: "title",
    name: "Title",
    help: "One line for menus and for the picture of memory against accuracy. It changes neither memory nor time.",
};
const DESCRIPTION: Spec = Spec {
    key: "description",
    name: "Description",
    help: "A paragraph that says what to look at. It changes neither memory nor time.",
};

/// The field of the description.
fn field() -> Id {
    Id::unique("field of the description")
}

/// What is shown while the description is edited, and how high it is.
#[derive(Debug, Clone, Default)]
struct Held {
    text: String,
    height: f32,
}

/// What to look at, from the preset. Answers how much higher it became since the description was edited.
pub(super) fn shown(ui: &mut Ui, context: &PanelContext<'_>) -> f32 {
    let id = Id::unique("description that is shown");
    let held: Option<Held> = ui.data(|data| data.get_temp(id));
    let is_edited = ui.memory(|memory| memory.has_focus(field()));
    let now = &context.state.document.experiment.description;
    let text = held.as_ref().filter(|_| is_edited).map_or(now, |held| &held.text).clone();
    let top = ui.cursor().top();
    if !text.is_empty() {
        ui.add(Label::new(RichText::new(&text).color(theme::palette(ui).weak())).wrap());
        ui.add_space(theme::GAP);
    }
    let height = ui.cursor().top() - top;
    if is_edited {
        let held = Held { text, height: held.map_or(height, |held| held.height) };
        ui.data_mut(|data| data.insert_temp(id, held));
        return 0.0;
    }
    ui.data_mut(|data| data.remove::<Held>(id));
    held.map_or(0.0, |held| height - held.height)
}

/// The fields of the title and the description.
pub(super) fn edited(ui: &mut Ui, form: &Form<'_>) {
    let mut title = form.experiment().title.clone();
    let hover = form.row(ui, TITLE, |ui| {
        let edit = TextEdit::singleline(&mut title).desired_width(f32::INFINITY);
        follow(&theme::bordered(ui, |ui| ui.add(edit)).accessible_name(TITLE.name));
    });
    form.help(&hover, TITLE, Vec::new);
    form.edit(TITLE.key, |experiment| experiment.title = title);
    let mut description = form.experiment().description.clone();
    let edit = TextEdit::multiline(&mut description).id(field()).desired_rows(4).desired_width(f32::INFINITY);
    let edit = edit.hint_text("What to look at");
    let hover = theme::bordered(ui, |ui| ui.add(edit)).accessible_name(DESCRIPTION.name);
    follow(&hover);
    form.help(&hover, DESCRIPTION, Vec::new);
    form.edit(DESCRIPTION.key, |experiment| experiment.description = description);
}

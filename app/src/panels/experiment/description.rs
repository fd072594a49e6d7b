//! The title and the description: shown above the settings, edited below them.
//!
//! Always holds: while the description is edited, the text above stays as it was and takes the same room, so that nothing
//! moves while the user types. The new text is shown once the field is left; the rows in sight then stay where they are as
//! far as the pane has room to scroll.

use std::sync::Arc;

use eframe::egui::{Align, Id, Label, RichText, TextEdit, TextStyle, TextWrapMode, Ui, WidgetText};

use super::problems;
use crate::{
    format,
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

/// The state that is shown while the description is edited, with its height.
#[derive(Debug, Clone, Default)]
struct Held {
    text: String,
    height: f32,
}

/// The preset's advice on what to look at. Returns how much higher it became since the description was edited.
pub(super) fn shown(ui: &mut Ui, context: &PanelContext<'_>) -> f32 {
    let id = Id::unique("description that is shown");
    let held: Option<Held> = ui.data(|data| data.get_temp(id));
    let is_edited = ui.memory(|memory| memory.has_focus(field()));
    let now = &context.state.document.experiment.description;
    let text = held.as_ref().filter(|_| is_edited).map_or(now, |held| &held.text).clone();
    let top = ui.cursor().top();
    if !text.is_empty() {
        lines(ui, id.with(&text), &text);
        written_for(ui, context);
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

/// Says which device and budget the text is about, with more weight where the settings are for another device by now. It is there in
/// any case: no row moves when the device changes.
fn written_for(ui: &mut Ui, context: &PanelContext<'_>) {
    let document = &context.state.document;
    let (saved, now) = (&document.saved, &document.experiment);
    let words =
        format!("Written for {} with a budget of {}.", format::device(&saved.device), format::size(saved.budget));
    let palette = theme::palette(ui);
    let color = if saved.device == now.device { palette.weak() } else { palette.warn };
    ui.add(Label::new(RichText::new(words).small().color(color)).wrap());
}

/// The part of a pane that a description may fill unasked, and the lines that it has in any case.
const SHARE: f32 = 0.4;
const FEWEST_LINES: usize = 3;

/// A text, of which only the first lines are shown if it would fill the pane, until more is asked for.
fn lines(ui: &mut Ui, id: Id, text: &str) {
    let words = RichText::new(text).color(theme::palette(ui).weak());
    let whole = WidgetText::from(words.clone()).into_galley(
        ui,
        Some(TextWrapMode::Wrap),
        ui.available_width(),
        TextStyle::Body,
    );
    let pane = ui.clip_rect().height() + problems::taken(ui);
    let most = (SHARE * pane / ui.text_style_height(&TextStyle::Body)) as usize;
    let most = most.max(FEWEST_LINES);
    // A line for the link is worth at least two of the text.
    if whole.rows.len() <= most + 1 {
        ui.add(Label::new(whole));
        return;
    }
    let is_whole: bool = ui.data(|data| data.get_temp(id)).unwrap_or(false);
    if is_whole {
        ui.add(Label::new(whole));
    } else {
        let job = WidgetText::from(words).into_layout_job(ui.style(), TextStyle::Body.into(), Align::Min);
        let mut job = Arc::unwrap_or_clone(job);
        job.wrap.max_rows = most;
        ui.add(Label::new(job).wrap());
    }
    let link = ui.link(if is_whole { "Show less of the description" } else { "Show the whole description" });
    follow(&link);
    if link.clicked() {
        ui.data_mut(|data| data.insert_temp(id, !is_whole));
    }
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

//! Rows of the settings of a table: its columns by their names, as the file has them.

use eframe::egui::{ComboBox, TextEdit, Ui};
use plimsoll_engine::{data::TableFacts, experiment::Data};

use super::PanelContext;
use crate::{
    theme,
    widgets::control::{Form, Spec, follow},
};

const LABEL: Spec = Spec {
    key: "data.label",
    name: "Label",
    help: "The column that is learned; without a choice the last one. The others are what the model sees. A class for each \
            different label is an output of the last layer, so many classes make it larger and slower; a value is one output.",
};

pub(super) const CATEGORICAL: Spec = Spec {
    key: "data.categorical",
    name: "Categories",
    help: "Columns of numbers that stand for categories, such as codes, by their names with commas between them. Each of up to 64 \
            categories becomes an input of its own, so the first layer grows in memory and time.",
};

pub(super) const LEAVE_OUT: Spec = Spec {
    key: "data.leave_out",
    name: "Left out",
    help: "Columns that nothing is learned from, such as numbers of rows, by their names with commas between them. Fewer inputs make \
            the first layer smaller, in memory and in time.",
};

/// Draws the label as a list of the file's columns; a field for its name where the file is not read.
pub(super) fn label(ui: &mut Ui, form: &Form<'_>, context: &PanelContext<'_>) {
    let facts = context.state.newest_plan().and_then(|plan| plan.resolved.data().table_facts());
    let Some(TableFacts { columns, label, .. }) = facts else {
        return names(ui, form, LABEL, |data| &mut data.label);
    };
    let hover = form.row(ui, LABEL, |ui| {
        let list = ComboBox::from_id_salt(LABEL.key).width(ui.available_width()).truncate();
        let list = list.selected_text(label).show_ui(ui, |ui| {
            for column in columns {
                let is_chosen = column.name == *label;
                if ui.selectable_label(is_chosen, &column.name).clicked() && !is_chosen {
                    form.edit(LABEL.key, |experiment| experiment.data.label.clone_from(&column.name));
                }
            }
        });
        follow(&list.response.accessible_name(LABEL.name));
    });
    form.help(&hover, LABEL, Vec::new);
}

/// Draws a field for names of columns.
pub(super) fn names(ui: &mut Ui, form: &Form<'_>, spec: Spec, field: fn(&mut Data) -> &mut String) {
    let before = field(&mut form.experiment().data.clone()).clone();
    let mut text = before.clone();
    let hover = form.row(ui, spec, |ui| {
        let edit = TextEdit::singleline(&mut text).hint_text("none").desired_width(f32::INFINITY);
        follow(&theme::bordered(ui, |ui| ui.add(edit)).accessible_name(spec.name));
    });
    form.help(&hover, spec, Vec::new);
    if text != before {
        form.edit(spec.key, |experiment| field(&mut experiment.data).clone_from(&text));
    }
}

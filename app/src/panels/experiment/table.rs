//! Rows of the settings of a table: its columns by their names, as the file has them.

use eframe::egui::{ComboBox, TextEdit, Ui};
use plimsoll_engine::{
    data::TableFacts,
    experiment::{Data, TableTask},
};

use super::PanelContext;
use crate::{
    theme,
    widgets::control::{Choice, Form, Place, Spec, follow},
};

pub(super) const LABEL: Spec = Spec {
    key: "data.label",
    name: "Label",
    help: "The column that is learned; without a choice the last one. The others are the model's inputs. A class for each \
            different label is an output of the last layer, so many classes make it larger and slower; a value is one \
            output.",
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
    help: "Columns that the model does not see, such as row numbers, by their names with commas between them. Fewer inputs \
            make the first layer smaller, in memory and in time.",
};

/// The task that is learned from the label.
pub(super) const TASK: (Spec, Choice<TableTask>) = (
    Spec {
        key: "data.task",
        name: "Learned",
        help: "A class, judged by the share that is answered right, or a value, judged by its squared error. By default texts and \
                few whole numbers are classes, and other numbers values. Classes have an output each, a value has one: memory and \
                time of the last layer follow.",
    },
    Choice {
        options: &[
            (TableTask::Auto, "by the label"),
            (TableTask::Classification, "a class"),
            (TableTask::Regression, "a value"),
        ],
        place: Place::Setting,
    },
);

/// Draws the columns that are categories.
pub(super) fn categorical(ui: &mut Ui, form: &Form<'_>, _: &PanelContext<'_>) {
    names(ui, form, CATEGORICAL, |data| &mut data.categorical);
}

/// Draws the columns that are left out.
pub(super) fn left_out(ui: &mut Ui, form: &Form<'_>, _: &PanelContext<'_>) {
    names(ui, form, LEAVE_OUT, |data| &mut data.leave_out);
}

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
fn names(ui: &mut Ui, form: &Form<'_>, spec: Spec, field: fn(&mut Data) -> &mut String) {
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

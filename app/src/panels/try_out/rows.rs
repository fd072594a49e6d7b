//! The test rows of a table: what stands in each, and of a value what it is and what was answered.

use eframe::egui::{Align, Grid, Label, Layout, RichText, Ui};
use plimsoll_engine::{data::TableRow, train::Evaluation};

use super::{PanelContext, samples};
use crate::{format, theme};

/// Rows of a page.
const PAGE: usize = 20;

/// Draws the rows of a table of values, page by page.
pub(super) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, evaluation: &Evaluation) {
    let pages = evaluation.samples.div_ceil(PAGE).max(1);
    let page = context.view.try_out.page.min(pages - 1);
    context.view.try_out.page = samples::pages_ui(ui, page, pages, evaluation.samples);
    let shown: Vec<usize> = (page * PAGE..evaluation.samples.min((page + 1) * PAGE)).collect();
    samples::ask(context, &shown);
    let found = &context.state.trial.rows;
    Grid::new("rows of values").num_columns(5).striped(true).show(ui, |ui| {
        for (name, about) in [
            ("Row", "Its number in the test set, from 0 (plimsoll try RUN --sample N)."),
            ("True", "What its label says."),
            ("Answered", "What the model answers."),
            ("Off by", "The answer less the label."),
        ] {
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                ui.label(RichText::new(name).small().weak()).on_hover_text(about)
            });
        }
        ui.label(RichText::new("What the model sees").small().weak());
        ui.end_row();
        for index in shown {
            let reply = found.get(&index);
            let row = reply.and_then(|reply| reply.row.as_ref());
            let (own, answered) = (row.and_then(|row| row.value), reply.and_then(|reply| reply.value));
            let off = answered.zip(own).map(|(answered, own)| answered - own);
            number(ui, index.to_string());
            for figure in [own, answered, off] {
                // Its place is there before the answer is.
                number(ui, figure.map_or_else(|| "…".to_owned(), format::figures));
            }
            fields(ui, row);
            ui.end_row();
        }
    });
}

fn number(ui: &mut Ui, text: String) {
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.label(RichText::new(text).monospace()));
}

/// The columns of a row in a line, all of them in its tooltip.
pub(super) fn fields(ui: &mut Ui, row: Option<&TableRow>) {
    let Some(row) = row else {
        ui.label(RichText::new("…").small().weak());
        return;
    };
    let shown = |(name, value): &(String, String)| {
        format!("{name} {}", if value.is_empty() { "(missing)" } else { value.as_str() })
    };
    let line = row.columns.iter().map(shown).collect::<Vec<_>>();
    let text = RichText::new(line.join(", ")).small().color(theme::palette(ui).weak());
    ui.add(Label::new(text).truncate()).on_hover_text(line.join("\n"));
}

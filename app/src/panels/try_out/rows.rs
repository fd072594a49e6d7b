//! The test rows of a table: what stands in each, and of a value what it is and what was answered.

use eframe::egui::{Grid, Label, RichText, TextStyle, Ui, vec2};
use plimsoll_engine::{
    data::TableRow,
    train::{Evaluation, Reply},
};

use super::{PanelContext, samples};
use crate::{
    format, theme,
    widgets::{text, tip::Tip as _},
};

/// Rows of a page.
const PAGE: usize = 20;
/// The widest name of a label in a heading.
const LABEL: f32 = 110.0;
/// Between two rows: many are to be in sight.
const BETWEEN: f32 = 1.0;

/// Draws the rows of a table of values, page by page.
pub(super) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, evaluation: &Evaluation) {
    let pages = evaluation.samples.div_ceil(PAGE).max(1);
    let page = context.view.try_out.page.min(pages - 1);
    context.view.try_out.page = ui
        .horizontal(|ui| {
            let more = format!(", {}", format::counted(evaluation.samples as u64, "sample"));
            let turned = samples::turned(ui, page, pages, &more);
            super::test_took(ui, &evaluation.took);
            turned
        })
        .inner;
    let label = context.state.trial.rows.values().find_map(|reply| reply.row.as_ref()).map(|row| row.label.0.clone());
    let shown: Vec<usize> = (page * PAGE..evaluation.samples.min((page + 1) * PAGE)).collect();
    samples::ask(context, &shown);
    let found = &context.state.trial.rows;
    // The three figures of each row, those of a column with their points below each other.
    let figures: Vec<[Option<f64>; 3]> =
        shown.iter().map(|index| figures(found.get(index).map(|reply| &**reply))).collect();
    let columns = [0, 1, 2].map(|column| aligned(figures.iter().map(|row| row[column])));
    let unit = label.unwrap_or_else(|| "in the label's unit".to_owned());
    let font = TextStyle::Small.resolve(ui.style());
    let unit_shown = text::shortened(&unit, |part| text::width(ui, part, &font) <= LABEL);
    let spacing = vec2(ui.spacing().item_spacing.x, BETWEEN);
    let height = ui.text_style_height(&TextStyle::Monospace);
    let grid = Grid::new("rows of values").num_columns(5).striped(true).spacing(spacing).min_row_height(height);
    grid.show(ui, |ui| {
        let numbers = [
            ("Row".to_owned(), "Its number in the test set, from 0 (plimsoll try RUN --sample N).".to_owned()),
            ("True".to_owned(), format!("What its label says: {unit}.")),
            ("Answered".to_owned(), format!("What the model answers: {unit}.")),
            (format!("Off by ({unit_shown})"), format!("The answer less the label, in the unit of {unit}.")),
        ];
        for (name, about) in numbers {
            ui.label(RichText::new(name).small().weak()).tip(about);
        }
        ui.label(RichText::new("What the model sees").small().weak());
        ui.end_row();
        for (at, index) in shown.iter().enumerate() {
            ui.monospace(index.to_string());
            columns.iter().for_each(|column| _ = ui.monospace(&column[at]));
            fields(ui, found.get(index).and_then(|reply| reply.row.as_ref()));
            ui.end_row();
        }
    });
}

/// What the label of a row is, what was answered, and by how much that is off.
fn figures(reply: Option<&Reply>) -> [Option<f64>; 3] {
    let own = reply.and_then(|reply| reply.row.as_ref()).and_then(|row| row.value);
    let answered = reply.and_then(|reply| reply.value);
    [own, answered, answered.zip(own).map(|(answered, own)| answered - own)]
}

/// Figures of a column in letters of one width: filled up before them, so that their points are below each other where they
/// begin at the same place. Of one that is not there yet the place is.
fn aligned(figures: impl Iterator<Item = Option<f64>>) -> Vec<String> {
    let texts: Vec<String> = figures.map(|figure| figure.map_or_else(|| "…".to_owned(), format::figures)).collect();
    let before = |text: &str| text.chars().take_while(|sign| *sign != '.').count();
    let most = texts.iter().map(|text| before(text)).max().unwrap_or_default();
    texts.iter().map(|text| format!("{}{text}", "\u{a0}".repeat(most - before(text)))).collect()
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
    ui.add(Label::new(text).truncate()).tip(line.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_points_of_a_column_are_below_each_other() {
        let column = aligned([Some(12.5), Some(-0.01234), None, Some(12_345.0), Some(-7.0)].into_iter());
        let gap = |count: usize| "\u{a0}".repeat(count);
        let wanted = [(3, "12.50"), (3, "-0.01234"), (4, "…"), (0, "12345"), (3, "-7.000")];
        assert_eq!(column, wanted.map(|(before, text)| gap(before) + text));
    }
}

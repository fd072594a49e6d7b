//! The blocks alive at the peak, each with the layer that owns it.

use eframe::egui::{Align, Layout, RichText, Ui};
use egui_extras::Column;
use plimsoll_engine::{
    Bytes,
    memory::{Alive, Category},
};

use super::{PanelContext, without_plan};
use crate::{
    format, theme,
    view::{ALIVE, AliveColumn, Sort},
    widgets::{chip, table, tip::Tip as _},
};

/// The names of layers are not narrower.
const LAYER: f32 = 80.0;
/// A pane without room for the category of a block leaves it out: its bar has the colour, and the words on hover.
const COLUMNS: [(AliveColumn, &str, &str); 4] = [
    (AliveColumn::Bytes, "bytes", "Its size, and its share of the peak."),
    (AliveColumn::Name, "what", "What it is."),
    (AliveColumn::Layer, "layer", "The layer that owns it."),
    (AliveColumn::Category, "for", "What it is for."),
];

/// Draws the table.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(plan) = context.state.newest_plan().filter(|plan| !plan.alive_at_peak.is_empty()) else {
        without_plan(ui, context, "the list of blocks alive at the peak");
        return;
    };
    let palette = theme::palette(ui);
    let order = order(&plan.alive_at_peak, context.view.alive);
    let sort = &mut context.view.alive;
    let gap = ui.spacing().item_spacing.x;
    let size = (table::SHARE + gap + table::bytes_width(ui)).max(table::heading_width(ui, "bytes"));
    let name = widest(ui, plan.alive_at_peak.iter().map(|block| block.name)).max(table::heading_width(ui, "what"));
    // The layer tells one block from another of the same name: a long name leaves it its room.
    let name = name.min((ui.available_width() - size - LAYER - gap * 2.0).max(LAYER));
    let purpose = table::text_width(ui, Category::OptimizerState.name()) + theme::CHIP + gap;
    let has_purpose = size + name + LAYER + purpose + gap * 3.0 <= ui.available_width();
    let table = table::filling(ui, ("alive", has_purpose))
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(table::fitting(size))
        .column(table::fitting(name))
        .column(Column::remainder().clip(true));
    let table = if has_purpose { table.column(table::fitting(purpose)) } else { table };
    let table = table.header(theme::ROW_HEIGHT, |mut header| {
        for (column, name, about) in COLUMNS.into_iter().filter(|(c, ..)| has_purpose || *c != AliveColumn::Category) {
            let has_words = column != AliveColumn::Bytes;
            header.col(|ui| table::heading(ui, (sort, ALIVE), column, (name, about), has_words));
        }
    });
    table.body(|body| {
        body.rows(theme::ROW_HEIGHT, order.len(), |mut row| {
            let block = &plan.alive_at_peak[order[row.index()]];
            row.col(|ui| {
                let share = block.bytes as f64 / plan.load().0.max(1) as f64;
                let hover = format!("{}, {} of the peak", block.category.name(), format::share(share));
                table::share(ui, share, palette.category(block.category)).tip(hover);
                table::bytes(ui, Bytes(block.bytes));
            });
            row.col(|ui| table::path(ui, block.name, ""));
            row.col(|ui| table::path(ui, &block.layer, ""));
            if has_purpose {
                row.col(|ui| {
                    chip::chip(ui, palette.category(block.category), RichText::new(block.category.name()));
                });
            }
        });
    });
}

/// The width of the longest of some names.
fn widest<'a>(ui: &Ui, names: impl Iterator<Item = &'a str>) -> f32 {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| table::text_width(ui, name)).fold(0.0, f32::max)
}

/// The order in which blocks are shown.
fn order(blocks: &[Alive], sort: Sort<AliveColumn>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    match sort.column {
        AliveColumn::Name => order.sort_by_key(|i| blocks[*i].name),
        AliveColumn::Layer => order.sort_by(|a, b| blocks[*a].layer.cmp(&blocks[*b].layer)),
        AliveColumn::Category => order.sort_by_key(|i| blocks[*i].category),
        AliveColumn::Bytes => order.sort_by_key(|i| blocks[*i].bytes),
    }
    if sort.falling {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_sort_by_size_and_by_owner() {
        let block =
            |name, layer: &str, bytes| Alive { name, layer: layer.to_owned(), category: Category::Batch, bytes };
        let blocks = [block("weight", "b", 3), block("input", "a", 7), block("output", "c", 5)];
        assert_eq!(order(&blocks, Sort { column: AliveColumn::Bytes, falling: true }), [1, 2, 0]);
        assert_eq!(order(&blocks, Sort { column: AliveColumn::Layer, falling: false }), [1, 0, 2]);
        assert_eq!(order(&blocks, Sort { column: AliveColumn::Name, falling: false }), [1, 2, 0]);
    }
}

//! What is alive at the peak: every block, with the layer that owns it.

use eframe::egui::{Align, Layout, RichText, Ui};
use egui_extras::{Column, TableBuilder};
use plimsoll_engine::{Bytes, memory::Alive};

use super::PanelContext;
use crate::{
    format, theme,
    view::{AliveColumn, Sort},
    widgets::{chip, table},
};

const COLUMNS: [(AliveColumn, &str, &str); 4] = [
    (AliveColumn::Bytes, "bytes", "Its size, and its share of the peak."),
    (AliveColumn::Name, "what", "What it is."),
    (AliveColumn::Layer, "layer", "The layer that owns it."),
    (AliveColumn::Category, "for", "What it is for."),
];

/// Draws the table.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(plan) = context.state.newest_plan().filter(|plan| !plan.alive_at_peak.is_empty()) else {
        chip::empty(ui, "What is alive when memory is at its peak is listed here once there is a prediction.");
        return;
    };
    let palette = theme::palette(ui);
    let order = order(&plan.alive_at_peak, context.view.alive);
    let sort = &mut context.view.alive;
    let table = TableBuilder::new(ui)
        .id_salt("alive")
        .striped(true)
        .auto_shrink(false)
        .cell_layout(Layout::left_to_right(Align::Center))
        .column(Column::exact(112.0))
        .column(Column::remainder().at_least(70.0).clip(true))
        .column(Column::remainder().at_least(80.0).clip(true))
        .column(Column::auto().at_least(110.0).clip(true));
    let table = table.header(theme::ROW_HEIGHT, |mut header| {
        for (column, name, about) in COLUMNS {
            header.col(|ui| table::heading(ui, sort, column, name, about));
        }
    });
    table.body(|body| {
        body.rows(theme::ROW_HEIGHT, order.len(), |mut row| {
            let block = &plan.alive_at_peak[order[row.index()]];
            row.col(|ui| {
                let share = block.bytes as f64 / plan.load().0.max(1) as f64;
                let hover = format!("{} of the peak", format::share(share));
                table::share(ui, share, palette.category(block.category)).on_hover_text(hover);
                table::bytes(ui, Bytes(block.bytes));
            });
            row.col(|ui| table::name(ui, block.name));
            row.col(|ui| table::name(ui, &block.layer));
            row.col(|ui| {
                chip::chip(ui, palette.category(block.category), RichText::new(block.category.name()));
            });
        });
    });
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
    use plimsoll_engine::memory::Category;

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

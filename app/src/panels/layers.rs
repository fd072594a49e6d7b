//! The layers: a sortable table with the memory of each.

use eframe::egui::{Align, Layout, Ui};
use plimsoll_engine::{
    Bytes,
    plan::{LayerRow, Plan},
};

use super::{PanelContext, without_plan};
use crate::{
    format, theme,
    view::{LAYERS, LayerColumn, Sort},
    widgets::{table, tip::Tip as _},
};

const COLUMNS: [(LayerColumn, &str, &str); 7] = [
    (LayerColumn::Layer, "layer", "In the order of the forward pass."),
    (LayerColumn::Parameters, "parameters", "Numbers that are learned."),
    (LayerColumn::Weights, "weights", "Bytes of its weights, master weights included."),
    (LayerColumn::Saved, "saved", "Activations that are alive when the backward pass begins."),
    (LayerColumn::Gradient, "gradient", "Gradients of its parameters."),
    (LayerColumn::Optimizer, "optimizer", "Its optimizer state."),
    (LayerColumn::Peak, "of the peak", "Its share of what is alive when the run is at its peak."),
];
/// Columns that a pane without room leaves out, in this order: the name of a layer shows all its figures on hover.
const LEFT_OUT: [LayerColumn; 5] =
    [LayerColumn::Weights, LayerColumn::Optimizer, LayerColumn::Gradient, LayerColumn::Saved, LayerColumn::Parameters];
/// The name of a layer is not narrower.
const NAME: f32 = 96.0;
/// Between columns.
const BETWEEN: f32 = 10.0;

/// Draws the table.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(plan) = context.state.newest_plan() else {
        without_plan(ui, context, "the memory of each layer");
        return;
    };
    let order = order(&plan.layers, context.view.layers);
    let sort = &mut context.view.layers;
    let columns = columns(ui, plan);
    ui.spacing_mut().item_spacing.x = BETWEEN;
    let room = ui.available_width();
    let table = table::filling(ui, ("layers", columns.len())).cell_layout(Layout::right_to_left(Align::Center));
    // The names have the rest, except for the scroll bar, which floats.
    let taken: f32 = columns.iter().map(|(_, width)| width.map_or(0.0, |width| width + BETWEEN)).sum();
    let rest = (room - taken - theme::GAP).max(1.0);
    let table = columns.iter().fold(table, |table, (_, width)| match width {
        Some(width) => table.column(table::fitting(*width)),
        None => table.column(table::fitting(rest)),
    });
    let table = table.header(theme::ROW_HEIGHT, |mut header| {
        for ((column, name, about), _) in &columns {
            let has_words = *column == LayerColumn::Layer;
            header.col(|ui| table::heading(ui, (sort, LAYERS), *column, (name, about), has_words));
        }
    });
    table.body(|body| {
        body.rows(theme::ROW_HEIGHT, order.len(), |mut row| {
            let layer = &plan.layers[order[row.index()]];
            for ((column, ..), _) in &columns {
                row.col(|ui| cell(ui, plan, layer, *column));
            }
        });
    });
}

/// A column with its name and its meaning.
type Named = (LayerColumn, &'static str, &'static str);

/// The columns that have room, each with its width by its content; the names have the rest.
fn columns(ui: &Ui, plan: &Plan) -> Vec<(Named, Option<f32>)> {
    let most = plan.layers.iter().map(|layer| layer.parameters).max().unwrap_or_default();
    let width = |(column, name, _): &Named| {
        let content = match column {
            LayerColumn::Layer => return None,
            LayerColumn::Parameters => table::text_width(ui, &format::count(most)),
            LayerColumn::Peak => table::text_width(ui, &format::share(1.0)) + table::SHARE + BETWEEN,
            _ => table::bytes_width(ui),
        };
        Some(content.max(table::heading_width(ui, name)))
    };
    let mut columns: Vec<(Named, Option<f32>)> = COLUMNS.into_iter().map(|column| (column, width(&column))).collect();
    for least in LEFT_OUT {
        let taken: f32 = columns.iter().map(|(_, width)| width.unwrap_or(NAME) + BETWEEN).sum();
        if taken <= ui.available_width() - theme::GAP {
            break;
        }
        columns.retain(|((column, ..), _)| *column != least);
    }
    columns
}

/// Everything of a layer, for a pane that leaves columns out.
fn about(layer: &LayerRow) -> String {
    let bytes = |name, bytes| (bytes > 0).then(|| format!("{name} {}", Bytes(bytes)));
    let parts = [
        (layer.parameters > 0).then(|| format::counted(layer.parameters, "parameter")),
        bytes("weights", layer.weight_bytes),
        bytes("saved", layer.saved_bytes),
        bytes("gradient", layer.gradient_bytes),
        bytes("optimizer", layer.optimizer_bytes),
        bytes("at the peak", layer.peak_bytes),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn cell(ui: &mut Ui, plan: &Plan, layer: &LayerRow, column: LayerColumn) {
    match column {
        LayerColumn::Layer => table::path(ui, &layer.path, &about(layer)),
        LayerColumn::Parameters => table::count(ui, layer.parameters),
        LayerColumn::Weights => table::bytes(ui, Bytes(layer.weight_bytes)),
        LayerColumn::Saved => table::bytes(ui, Bytes(layer.saved_bytes)),
        LayerColumn::Gradient => table::bytes(ui, Bytes(layer.gradient_bytes)),
        LayerColumn::Optimizer => table::bytes(ui, Bytes(layer.optimizer_bytes)),
        LayerColumn::Peak if layer.peak_bytes == 0 => table::nothing(ui),
        LayerColumn::Peak => {
            let share = layer.peak_bytes as f64 / plan.load().0.max(1) as f64;
            let hover = format!("{} at the peak", Bytes(layer.peak_bytes));
            // Every bar begins at the same place, for any width of its figure.
            let start = ui.cursor().right() - table::text_width(ui, &format::share(1.0)) - BETWEEN;
            table::text(ui, &format::share(share)).tip(&hover);
            ui.add_space((ui.cursor().right() - start).max(0.0));
            table::share(ui, share, theme::palette(ui).accent).tip(&hover);
        }
    }
}

/// The order in which rows are shown.
fn order(rows: &[LayerRow], sort: Sort<LayerColumn>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let key = |i: usize| match sort.column {
        LayerColumn::Layer => i as u64,
        LayerColumn::Parameters => rows[i].parameters,
        LayerColumn::Weights => rows[i].weight_bytes,
        LayerColumn::Saved => rows[i].saved_bytes,
        LayerColumn::Gradient => rows[i].gradient_bytes,
        LayerColumn::Optimizer => rows[i].optimizer_bytes,
        LayerColumn::Peak => rows[i].peak_bytes,
    };
    order.sort_by(|a, b| if sort.falling { key(*b).cmp(&key(*a)) } else { key(*a).cmp(&key(*b)) });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, parameters: u64, saved_bytes: u64) -> LayerRow {
        LayerRow {
            path: path.to_owned(),
            parameters,
            trained: parameters,
            weight_bytes: parameters * 4,
            saved_bytes,
            gradient_bytes: 0,
            optimizer_bytes: 0,
            peak_bytes: 0,
        }
    }

    #[test]
    fn rows_sort_by_any_column_and_equal_rows_stay_in_forward_order() {
        let rows = [row("a", 5, 1), row("b", 9, 1), row("c", 2, 1)];
        let by = |column, falling| order(&rows, Sort { column, falling });
        assert_eq!(by(LayerColumn::Layer, false), [0, 1, 2]);
        assert_eq!(by(LayerColumn::Layer, true), [2, 1, 0]);
        assert_eq!(by(LayerColumn::Parameters, true), [1, 0, 2]);
        assert_eq!(by(LayerColumn::Saved, true), [0, 1, 2]);
    }
}

//! The layers: a sortable table of what each holds.

use eframe::egui::{Align, Layout, Ui};
use egui_extras::{Column, TableBuilder};
use plimsoll_engine::{
    Bytes,
    plan::{LayerRow, Plan},
};

use super::PanelContext;
use crate::{
    format, theme,
    view::{LayerColumn, Sort},
    widgets::{chip, table},
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
/// Narrower panes leave out the weights, which follow from the parameters, and the bars next to the shares.
const WEIGHTS_FROM: f32 = 500.0;

/// Draws the table.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>) {
    let Some(plan) = context.state.newest_plan() else {
        chip::empty(ui, "What each layer holds is shown here once there is a prediction.");
        return;
    };
    let order = order(&plan.layers, context.view.layers);
    let sort = &mut context.view.layers;
    let wide = ui.available_width() >= WEIGHTS_FROM;
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(c, ..)| wide || *c != LayerColumn::Weights).collect();
    ui.spacing_mut().item_spacing.x = 10.0;
    let table = TableBuilder::new(ui)
        .id_salt(("layers", wide))
        .striped(true)
        .auto_shrink(false)
        .cell_layout(Layout::right_to_left(Align::Center))
        .column(Column::remainder().at_least(96.0).clip(true))
        .columns(Column::auto().at_least(46.0), columns.len() - 2)
        .column(Column::exact(if wide { 84.0 } else { 58.0 }));
    let table = table.header(theme::ROW_HEIGHT, |mut header| {
        for (column, name, about) in &columns {
            header.col(|ui| table::heading(ui, sort, *column, name, about));
        }
    });
    table.body(|body| {
        body.rows(theme::ROW_HEIGHT, order.len(), |mut row| {
            let layer = &plan.layers[order[row.index()]];
            for (column, ..) in &columns {
                row.col(|ui| cell(ui, plan, layer, *column, wide));
            }
        });
    });
}

fn cell(ui: &mut Ui, plan: &Plan, layer: &LayerRow, column: LayerColumn, wide: bool) {
    match column {
        LayerColumn::Layer => table::name(ui, &layer.path),
        LayerColumn::Parameters => table::count(ui, layer.parameters),
        LayerColumn::Weights => table::bytes(ui, Bytes(layer.weight_bytes)),
        LayerColumn::Saved => table::bytes(ui, Bytes(layer.saved_bytes)),
        LayerColumn::Gradient => table::bytes(ui, Bytes(layer.gradient_bytes)),
        LayerColumn::Optimizer => table::bytes(ui, Bytes(layer.optimizer_bytes)),
        LayerColumn::Peak if layer.peak_bytes == 0 => table::nothing(ui),
        LayerColumn::Peak => {
            let share = layer.peak_bytes as f64 / plan.load().0.max(1) as f64;
            let hover = format!("{} at the peak", Bytes(layer.peak_bytes));
            table::text(ui, &format::share(share)).on_hover_text(&hover);
            if wide {
                table::share(ui, share, theme::palette(ui).accent).on_hover_text(&hover);
            }
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

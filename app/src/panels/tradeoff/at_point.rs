//! The menu of the run at a point, on the right button: the menu of a kept run, if it is one.

use eframe::egui::{Context, Id, Popup, Pos2, Ui};

use super::chosen;
use crate::{
    panels::{PanelContext, runs::menu},
    session::RunKey,
};

fn id() -> Id {
    Id::unique("menu of a point")
}

/// Opens it.
pub(super) fn open(ctx: &Context, run: RunKey) {
    menu::open(ctx, id(), run);
}

/// Opens it at the point by a key that `focused` took.
pub(super) fn open_by_key(ctx: &Context, run: RunKey, at: Pos2, focused: Id) {
    menu::open_by_key(ctx, id(), run, at, focused);
}

/// Whether it is open: a point then shows nothing about itself over it.
pub(super) fn is_open(ctx: &Context) -> bool {
    Popup::is_id_open(ctx, id())
}

/// Draws it where it is open.
pub(super) fn ui(ui: &Ui, context: &PanelContext<'_>) {
    let state = context.state;
    menu::ui(ui, id(), |ui, key: &RunKey| {
        let Some(run) = state.session.get(*key) else { return ui.close() };
        let name = chosen::name_field(run.key);
        if let Some(row) = run.kept.as_ref().and_then(|kept| state.runs.get(kept)) {
            return menu::entries(ui, context, row, std::slice::from_ref(&row.run.key), name);
        }
        // Where runs are not kept.
        if chosen::load(ui, context, run) {
            ui.close();
        }
        menu::rename(ui, name);
    });
}

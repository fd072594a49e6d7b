//! The menu of a run: on the right button where the run is a row or a point, on the menu key where it is picked.
//!
//! Always holds: it does what the buttons below the table do, with all that are picked where the run is one of them. Opened by
//! a key, its first entry has the focus, which goes back where it came from when the menu closes.

use eframe::egui::{
    Align, Button, Context, FocusDirection, Id, Layout, Popup, PopupKind, Pos2, RectAlign, Response, Ui,
    containers::menu,
};
use plimsoll_engine::store::RunKey;

use super::{PanelContext, deeds};
use crate::{
    runs::Row,
    theme,
    widgets::{draft, tip::Tip as _},
};

/// Where a menu was opened, and for what.
#[derive(Debug, Clone)]
struct Opened<T> {
    at: Pos2,
    of: T,
    by: By,
}

/// How a menu was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The right button.
    Pointer,
    /// A key, when this had the focus; it was not drawn yet.
    Key(Id),
    /// The same, once it was drawn.
    KeyBefore(Id),
}

/// Opens the menu `id` of something where the right button was pressed.
pub(crate) fn open<T: Clone + Send + Sync + 'static>(ctx: &Context, id: Id, of: T) {
    if let Some(at) = ctx.input(|input| input.pointer.interact_pos()) {
        open_at(ctx, id, Opened { at, of, by: By::Pointer });
    }
}

/// Opens it at a place by a key that `focused` took.
pub(crate) fn open_by_key<T: Clone + Send + Sync + 'static>(ctx: &Context, id: Id, of: T, at: Pos2, focused: Id) {
    open_at(ctx, id, Opened { at, of, by: By::Key(focused) });
}

fn open_at<T: Clone + Send + Sync + 'static>(ctx: &Context, id: Id, opened: Opened<T>) {
    ctx.data_mut(|data| data.insert_temp(id, opened));
    Popup::open_id(ctx, id);
}

/// Draws the menu `id` where it is open.
pub(crate) fn ui<T: Clone + Send + Sync + 'static>(ui: &Ui, id: Id, entries: impl FnOnce(&mut Ui, &T)) {
    let ctx = ui.ctx();
    let Some(opened) = ctx.data(|data| data.get_temp::<Opened<T>>(id)) else { return };
    let popup = Popup::new(id, ctx.clone(), opened.at, ui.layer_id()).open_memory(None).kind(PopupKind::Menu);
    let popup = popup.align_alternatives(&[RectAlign::TOP_START, RectAlign::BOTTOM_END, RectAlign::TOP_END]);
    popup.layout(Layout::top_down_justified(Align::Min)).style(menu::menu_style).show(|ui| {
        ui.set_min_width(theme::MENU_WIDTH);
        // What is measured only takes no focus.
        if let (By::Key(focused), false) = (opened.by, ui.is_sizing_pass()) {
            ui.data_mut(|data| data.insert_temp(id, Opened { by: By::KeyBefore(focused), ..opened.clone() }));
            ui.memory_mut(|memory| {
                memory.focused().into_iter().for_each(|id| memory.surrender_focus(id));
                memory.move_focus(FocusDirection::Next);
            });
        }
        entries(ui, &opened.of);
    });
    if !Popup::is_id_open(ctx, id) {
        ctx.data_mut(|data| data.remove::<Opened<T>>(id));
        if let By::KeyBefore(focused) = opened.by {
            // An entry may have brought it elsewhere; with an entry itself it would be gone.
            let is_in_menu = |response: Response| response.layer_id.order != ui.layer_id().order;
            let now = ctx.memory(|memory| memory.focused());
            if now.is_none_or(|now| ctx.read_response(now).is_some_and(is_in_menu)) {
                ctx.memory_mut(|memory| memory.request_focus(focused));
            }
        }
    }
}

/// The entries for kept runs: `row`, and all that are `picked`, itself included. `name` is the field for its name.
pub(crate) fn entries(ui: &mut Ui, context: &PanelContext<'_>, row: &Row, picked: &[RunKey], name: Id) {
    let mut is_done = deeds::open(row).button(ui, context);
    is_done |= deeds::load(context, row).button(ui, context);
    is_done |= deeds::go_on(context, row).button(ui, context);
    is_done |= deeds::compare(picked).button(ui, context);
    is_done |= deeds::export(row).button(ui, context);
    ui.separator();
    is_done |= deeds::star(row, picked).button(ui, context);
    rename(ui, name);
    ui.separator();
    is_done |= deeds::delete(context, picked).button(ui, context);
    if is_done {
        ui.close();
    }
}

/// Brings the focus to the field for a name.
pub(crate) fn rename(ui: &mut Ui, field: Id) {
    if ui.add(Button::new("Rename")).tip("Type its name in the field below.").clicked() {
        draft::ask_for_focus(ui.ctx(), field);
        ui.close();
    }
}

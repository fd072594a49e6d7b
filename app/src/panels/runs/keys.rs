//! The table by keys: it is one stop of the Tab key, and the arrows go from row to row.

use eframe::egui::{Context, EventFilter, Id, InputState, Key, Modifiers, Rect, Role, Sense, Ui, WidgetInfo, pos2};

use super::{PanelContext, ask, menu, pick, table::clicked};
use crate::{
    command::RunsAction,
    runs::{Row, Runs},
    theme,
};

/// Rows of a page.
const PAGE: usize = 10;

/// The table's place among what has the keyboard's focus.
pub(super) fn id() -> Id {
    Id::unique("kept runs")
}

/// The menu of a row.
pub(super) fn menu() -> Id {
    Id::unique("menu of kept runs")
}

/// Notes where the row of the run that was picked last was drawn: a key opens its menu there.
pub(super) fn front_is_at(ctx: &Context, rect: Rect) {
    ctx.data_mut(|data| data.insert_temp(row(), rect));
}

fn row() -> Id {
    Id::unique("row of the run picked last")
}

/// Gives the table the focus when it is drawn next: at once, the click that asks for it would count as one outside the table.
pub(super) fn ask_for_focus(ctx: &Context) {
    ctx.data_mut(|data| data.insert_temp(id(), true));
    ctx.request_repaint();
}

/// Takes the keys, where the table has the focus; answers the row that must come into sight.
pub(super) fn ui(ui: &mut Ui, context: &PanelContext<'_>, order: &[usize]) -> Option<usize> {
    let runs = &context.state.runs;
    let response = ui.interact(ui.available_rect_before_wrap(), id(), Sense::focusable_noninteractive());
    response.widget_info(|| WidgetInfo::labeled(Role::ListBox, true, spoken(runs, order)));
    if ui.data_mut(|data| data.remove_temp::<bool>(id())).is_some() {
        response.request_focus();
    }
    if !response.has_focus() {
        return None;
    }
    if response.gained_focus() {
        // Only in the frame after it are the arrows kept from leading the focus away.
        ui.ctx().request_repaint();
    }
    let filter = EventFilter { vertical_arrows: true, ..EventFilter::default() };
    ui.memory_mut(|memory| memory.set_focus_lock_filter(id(), filter));
    let to = moves(ui, context, order);
    if to.is_none() {
        if ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::A)) {
            pick(context, order.iter().map(|i| runs.rows()[*i].run.key.clone()).collect());
        }
        if let Some(front) = runs.front() {
            menu_of(ui, context, front, response.rect);
            deeds(ui, context, front);
        }
    }
    to
}

/// What a screen reader says of the table.
fn spoken(runs: &Runs, order: &[usize]) -> String {
    match (runs.front(), runs.picked().len()) {
        (None, _) => format!("Kept runs: {}", order.len()),
        (Some(front), 1) => format!("Kept runs: {}", front.whole_name()),
        (Some(front), picked) => format!("Kept runs: {picked} picked, last {}", front.name()),
    }
}

/// The keys that go to another row, which is picked; with Shift all up to it. Answers that row.
fn moves(ui: &Ui, context: &PanelContext<'_>, order: &[usize]) -> Option<usize> {
    let runs = &context.state.runs;
    let front = runs.front();
    let at = front.and_then(|front| order.iter().position(|i| runs.rows()[*i].run.key == front.run.key));
    let last = order.len().saturating_sub(1);
    let place = at.unwrap_or_default();
    for (key, to) in [
        (Key::ArrowDown, if at.is_some() { (place + 1).min(last) } else { 0 }),
        (Key::ArrowUp, place.saturating_sub(1)),
        (Key::PageDown, (place + PAGE).min(last)),
        (Key::PageUp, place.saturating_sub(PAGE)),
        (Key::Home, 0),
        (Key::End, last),
    ] {
        for modifiers in [Modifiers::SHIFT, Modifiers::NONE] {
            if ui.input_mut(|input| input.consume_key(modifiers, key)) {
                clicked(context, order, to, modifiers);
                return Some(to);
            }
        }
    }
    None
}

/// The keys that open the menu of the run that was picked last: at its row, or in the table where its row is not drawn.
fn menu_of(ui: &Ui, context: &PanelContext<'_>, front: &Row, table: Rect) {
    let drawn = ui.data_mut(|data| {
        let drawn: Option<Rect> = data.get_temp(row());
        data.remove::<Rect>(row());
        drawn
    });
    let row = drawn.unwrap_or(table);
    let is_asked = |input: &mut InputState| {
        input.consume_key(Modifiers::SHIFT, Key::F10) || input.consume_key(Modifiers::NONE, Key::Menu)
    };
    if ui.input_mut(is_asked) {
        let at = pos2(table.left() + theme::WIDE_GAP, (row.top() + theme::RUN_ROW).min(row.bottom()));
        let of = (front.run.key.clone(), context.state.runs.picked().to_vec());
        menu::open_by_key(ui.ctx(), menu(), of, at, id());
    }
}

/// The keys that open, delete and star.
fn deeds(ui: &Ui, context: &PanelContext<'_>, front: &Row) {
    let picked = || context.state.runs.picked().to_vec();
    if ui.input(|input| input.key_pressed(Key::Enter)) {
        ask(context, RunsAction::Open(front.run.key.clone()));
    }
    if ui.input(|input| input.key_pressed(Key::Delete)) {
        ask(context, RunsAction::Delete(picked()));
    }
    if ui.input(|input| input.key_pressed(Key::S) && input.modifiers.is_none()) {
        ask(context, RunsAction::Star(picked(), !front.run.is_starred));
    }
}

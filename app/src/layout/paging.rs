//! Panes scrolled by keys: Page Up, Page Down, Home and End move the pane that has the focus, or whose tab has it, where the
//! widget with the focus has no use for them. If nothing has the focus, they move the pane that was clicked last.
//!
//! Owns how far a pane is to be moved with the next frame.

use eframe::egui::{
    Context, Id, Key, Modifiers, Order, Rect, Response, ScrollArea, Ui, UiBuilder, Vec2, style::ScrollAnimation, vec2,
};

use crate::panels::pane::Pane;

/// The part of a pane that a page leaves in sight.
const KEPT: f32 = 0.1;
/// Farther than any pane is high.
const END: f32 = 1e6;

/// Moves the contents of a pane that were asked to move in the last frame. To be called before they are drawn; in a pane with
/// areas inside that scroll as well, at the end of the contents of the outer one.
pub(crate) fn begin(ui: &Ui, pane: Pane) {
    if let Some(down) = ui.data_mut(|data| data.remove_temp::<f32>(id(pane))) {
        ui.scroll_with_delta_animation(vec2(0.0, -down), ScrollAnimation::none());
        ui.data_mut(|data| data.insert_temp(moved(), true));
    }
}

/// Forgets a move that no area of the pane took, because nothing in it scrolls: the next area that is drawn would take it,
/// and that is one of another pane.
fn forget(ui: &mut Ui) {
    if ui.data_mut(|data| data.remove_temp::<bool>(moved())).is_some() {
        let nowhere = UiBuilder::new().id_salt("paging").max_rect(Rect::from_min_size(ui.max_rect().min, Vec2::ZERO));
        ScrollArea::vertical().min_scrolled_height(0.0).show(&mut ui.new_child(nowhere), |_| ());
    }
}

/// Looks for keys that nothing in the pane had a use for; `rect` is the pane with its tabs. To be called after it is drawn.
pub(super) fn end(ui: &mut Ui, pane: Pane, rect: Rect) {
    forget(ui);
    let ctx = ui.ctx();
    note_click(ctx, pane, rect);
    let focused = ctx.memory(|memory| memory.focused());
    // Scrolled out of sight, it still has the keys.
    let is_scrolled = focused.is_some() && ctx.data(|data| data.get_temp::<Id>(scrolled(pane))) == focused;
    // A dialog or a menu over the pane has keys of its own.
    let is_here =
        |response: Response| response.layer_id.order == Order::Background && rect.contains(response.rect.center());
    let has_focus = match focused {
        Some(focused) => is_scrolled || ctx.read_response(focused).is_some_and(is_here),
        None => ctx.data(|data| data.get_temp::<Pane>(clicked())) == Some(pane),
    };
    if !has_focus {
        return;
    }
    let page = rect.height() * (1.0 - KEPT);
    let keys = [(Key::PageDown, page), (Key::PageUp, -page), (Key::End, END), (Key::Home, -END)];
    // In a field of a line, Home and End move the caret.
    let keys = if ctx.text_edit_focused() { &keys[..2] } else { &keys[..] };
    let pressed = |(key, by)| ctx.input_mut(|input| input.consume_key(Modifiers::NONE, key)).then_some(by);
    if let Some(down) = keys.iter().copied().find_map(pressed) {
        ctx.data_mut(|data| {
            data.insert_temp::<f32>(id(pane), down);
            if let Some(focused) = focused {
                data.insert_temp::<Id>(scrolled(pane), focused);
            }
        });
        ctx.request_repaint();
    }
}

/// Keeps the pane that was clicked last.
fn note_click(ctx: &Context, pane: Pane, rect: Rect) {
    let pressed = ctx.input(|input| input.pointer.primary_pressed().then(|| input.pointer.interact_pos()).flatten());
    let is_over = |at| ctx.layer_id_at(at).is_some_and(|layer| layer.order == Order::Background);
    if pressed.is_some_and(|at| rect.contains(at) && is_over(at)) {
        ctx.data_mut(|data| data.insert_temp::<Pane>(clicked(), pane));
    }
}

/// Where it is kept that the pane that is drawn was asked to move.
fn moved() -> Id {
    Id::unique("pane that is moved by keys")
}

fn clicked() -> Id {
    Id::unique("pane that was clicked")
}

/// Where the widget is kept that had the focus when a pane was last scrolled by keys.
fn scrolled(pane: Pane) -> Id {
    id(pane).with("focus")
}

fn id(pane: Pane) -> Id {
    Id::unique(("scrolled by keys", pane))
}

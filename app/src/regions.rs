//! The regions of the window, which F6 goes through as it does in browsers and editors: the bars, and the panes between them.
//!
//! Owns the list of the drawn regions, and the one that gets the keyboard's focus. Always holds: they are visited in the
//! order in which they are drawn, which is the reading order; a region that is gone is never waited for.

use eframe::egui::{Context, FocusDirection, Id, Order, Popup, Pos2, Rect, Ui};

/// The regions that were drawn in a frame, in order, and the control that is to have the focus in the next.
#[derive(Debug, Clone, Default)]
struct Regions {
    drawn: Vec<(Id, Rect)>,
    wanted: Option<Id>,
}

fn id() -> Id {
    Id::unique("regions of the window")
}

fn with<T>(ctx: &Context, what: impl FnOnce(&mut Regions) -> T) -> T {
    ctx.data_mut(|data| what(data.get_temp_mut_or_default(id())))
}

/// Asks for the focus to go to the region after the one that has it, or before it. If none has it, it goes to the first,
/// or to the last.
///
/// A menu or a list that is open is closed instead, and the focus goes back to the control that opened it, because the focus
/// below it would be out of sight.
pub(crate) fn go(ctx: &Context, forward: bool) {
    if Popup::is_any_open(ctx) {
        Popup::close_all(ctx);
        return;
    }
    let focused = ctx.memory(|memory| memory.focused()).and_then(|id| ctx.read_response(id));
    // An area over the window, such as a menu, is in no region.
    let at = focused.filter(|response| response.layer_id.order == Order::Background).map(|r| r.interact_rect.center());
    with(ctx, |regions| {
        let count = regions.drawn.len();
        // If one region lies in another, the inner one is drawn later.
        let now = at.and_then(|at| regions.drawn.iter().rposition(|(_, rect)| rect.contains(at)));
        let next = match (now, forward) {
            (Some(now), true) => (now + 1) % count,
            (Some(now), false) => (now + count - 1) % count,
            (None, true) => 0,
            (None, false) => count.saturating_sub(1),
        };
        regions.wanted = regions.drawn.get(next).map(|(id, _)| *id);
    });
}

/// Asks for the focus to go to a region that is drawn in this frame.
pub(crate) fn want(ctx: &Context, region: Id) {
    with(ctx, |regions| regions.wanted = Some(region));
}

/// Asks for the focus to go to the region that was drawn at a place.
pub(crate) fn want_at(ctx: &Context, place: Pos2) {
    with(ctx, |regions| {
        // If one region lies in another, the inner one is drawn later.
        let found = regions.drawn.iter().rfind(|(_, rect)| rect.contains(place));
        regions.wanted = found.map(|(id, _)| *id);
    });
}

/// Begins a frame.
pub(crate) fn begin(ctx: &Context) {
    with(ctx, |regions| regions.drawn.clear());
}

/// Ends it: a request for a region that was not drawn is dropped.
pub(crate) fn end(ctx: &Context) {
    with(ctx, |regions| regions.wanted = None);
}

/// Notes a region; whether it is to have the focus.
pub(crate) fn enter(ctx: &Context, region: Id, rect: Rect) -> bool {
    with(ctx, |regions| {
        regions.drawn.push((region, rect));
        regions.wanted.take_if(|wanted| *wanted == region).is_some()
    })
}

/// Draws a region; where it is to have the focus, the first of its widgets gets it.
pub(crate) fn region<T>(ui: &mut Ui, name: &'static str, contents: impl FnOnce(&mut Ui) -> T) -> T {
    let region = id().with(name);
    let is_wanted = with(ui.ctx(), |regions| regions.wanted.take_if(|wanted| *wanted == region).is_some());
    if is_wanted {
        ui.memory_mut(|memory| {
            memory.focused().into_iter().for_each(|id| memory.surrender_focus(id));
            memory.move_focus(FocusDirection::Next);
        });
    }
    let drawn = contents(ui);
    enter(ui.ctx(), region, ui.min_rect());
    drawn
}

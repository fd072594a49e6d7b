//! The keyboard's focus around what opens over the window: into a list when it opens, and back to the control that
//! opened a menu, a list or a dialog when that is closed; and on from the control that had it last, where Escape or Enter took
//! it away.
//!
//! Owns the control that had the focus before it was opened, and the one that had it last. Always holds: a focus that is already
//! in the window again, or that the pointer took away, is left as it is.

use eframe::egui::{Context, Id, Key, Order, Popup, Pos2, Rect, Response, Ui};

use crate::regions;

/// The control that had the focus before something was opened over the window.
#[derive(Debug, Default)]
pub(crate) struct Opener {
    /// The control that had the focus in the last frame in which nothing was open.
    last: Option<Id>,
    is_over: bool,
    /// Where the focus was last, or the pointer was pressed after that; and the control that had the focus there.
    left: Option<(Pos2, Option<Id>)>,
}

impl Opener {
    /// Before a frame: Tab goes on from where the focus was, if nothing has it. Where that control is gone or has nothing to do
    /// any more, such as a button that began a run, the focus goes to the first control of its bar or pane; and so it does where
    /// the pointer was pressed.
    pub(crate) fn resume(&self, ctx: &Context) {
        let Some((place, control)) = self.left else { return };
        let is_asked = ctx.input(|input| input.key_pressed(Key::Tab));
        if !is_asked || self.is_over || ctx.memory(|memory| memory.focused().is_some()) {
            return;
        }
        let serves =
            |id: &Id| is_in_window(ctx, *id) && ctx.read_response(*id).is_some_and(|response| response.enabled());
        match control.filter(serves) {
            Some(control) => ctx.memory_mut(|memory| memory.request_focus(control)),
            None => regions::want_at(ctx, place),
        }
    }

    /// Looks at a frame that was just drawn.
    pub(crate) fn follow(&mut self, ctx: &Context, is_dialog: bool) {
        let is_over = is_dialog || Popup::is_any_open(ctx);
        let was_over = std::mem::replace(&mut self.is_over, is_over);
        let focused = ctx.memory(|memory| memory.focused());
        let pressed = ctx.input(|input| input.pointer.any_pressed().then(|| input.pointer.interact_pos()).flatten());
        let in_window = focused.filter(|id| is_in_window(ctx, *id)).and_then(|id| ctx.read_response(id));
        let now = in_window.map(|response| (response.rect.center(), Some(response.id)));
        self.left = now.or(pressed.map(|place| (place, None))).or(self.left);
        if was_over && !is_over {
            let is_pointers = ctx.input(|input| input.pointer.any_pressed() || input.pointer.any_released());
            if let Some(opener) = self.last.filter(|_| !is_pointers && !focused.is_some_and(|id| is_in_window(ctx, id)))
            {
                ctx.memory_mut(|memory| memory.request_focus(opener));
            }
        } else if !was_over && !is_over {
            self.last = focused;
        }
    }
}

/// Has the ring of the focus go around a place in place of the widget itself.
pub(crate) fn ring_around(widget: &Response, place: Rect) {
    widget.ctx.data_mut(|data| data.insert_temp(ring_id(widget.id), place));
}

/// The place that the ring goes around, where it is another than the widget's.
pub(crate) fn ring_of(widget: &Response) -> Option<Rect> {
    widget.ctx.data(|data| data.get_temp(ring_id(widget.id)))
}

fn ring_id(widget: Id) -> Id {
    widget.with("ring of the focus")
}

/// Whether a list was just opened. What is asked for in the frame of the pointer's click is taken back with it.
pub(crate) fn opens(ui: &Ui, key: &str) -> bool {
    let (id, now) = (Id::unique(("a list was open", key)), ui.ctx().cumulative_frame_nr());
    let known: Option<(u64, u64)> = ui.data(|data| data.get_temp(id));
    let first = known.filter(|(_, last)| last + 1 >= now).map_or(now, |(first, _)| first);
    ui.data_mut(|data| data.insert_temp(id, (first, now)));
    now <= first + 1
}

/// Whether a widget is drawn in the window, and not over it.
fn is_in_window(ctx: &Context, id: Id) -> bool {
    ctx.read_response(id).is_some_and(|response| response.layer_id.order == Order::Background)
}

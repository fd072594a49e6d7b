//! The keyboard's focus around what opens over the window: into a list when it opens, and back to the control that
//! opened a menu, a list or a dialog when that is closed; and on from the control that had it last, where Escape or Enter took
//! it away.
//!
//! Owns the control that had the focus before it was opened, and the one that had it last. Always holds: a focus that is already
//! in the window again, or that the pointer took away, is left as it is.

use eframe::egui::{Context, Id, Key, Order, Popup, Rect, Ui};

use crate::regions;

/// The control that had the focus before something was opened over the window.
#[derive(Debug, Default)]
pub(crate) struct Opener {
    /// The control that had the focus in the last frame in which nothing was open.
    last: Option<Id>,
    is_over: bool,
    /// The control that had the focus last and where it was, if the pointer was not pressed since.
    left: Option<(Id, Rect)>,
}

impl Opener {
    /// Before a frame: Tab goes on from where the focus was, if nothing has it. Where that control is gone or has nothing to do
    /// any more, such as a button that began a run, the focus goes to the first control of its bar or pane.
    pub(crate) fn resume(&self, ctx: &Context) {
        let Some((left, rect)) = self.left else { return };
        let is_asked = ctx.input(|input| input.key_pressed(Key::Tab));
        if !is_asked || self.is_over || ctx.memory(|memory| memory.focused().is_some()) {
            return;
        }
        if is_in_window(ctx, left) && ctx.read_response(left).is_some_and(|response| response.enabled()) {
            ctx.memory_mut(|memory| memory.request_focus(left));
        } else {
            regions::want_at(ctx, rect.center());
        }
    }

    /// Looks at a frame that was just drawn.
    pub(crate) fn follow(&mut self, ctx: &Context, is_dialog: bool) {
        let is_over = is_dialog || Popup::is_any_open(ctx);
        let was_over = std::mem::replace(&mut self.is_over, is_over);
        let focused = ctx.memory(|memory| memory.focused());
        if ctx.input(|input| input.pointer.any_pressed()) {
            self.left = None;
        }
        let now = focused.and_then(|id| Some((id, ctx.read_response(id)?.rect)));
        self.left = now.filter(|(id, _)| is_in_window(ctx, *id)).or(self.left);
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

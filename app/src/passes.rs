//! A frame that is drawn again before it is shown, because something turned out to have another size than it had been given.
//!
//! Always holds: what was laid out for another size is on screen for a frame at most.

use std::num::NonZeroUsize;

use eframe::egui::Context;

/// How often a frame is laid out at most. What has another size in the second pass may give something else another one.
const MOST: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// Lets frames be drawn as often as that.
pub(crate) fn install(ctx: &Context) {
    ctx.options_mut(|options| options.max_passes = MOST);
}

/// Draws this frame again before it is shown; where that was done too often already, the next frame comes at once.
pub(crate) fn again(ctx: &Context, reason: &'static str) {
    ctx.request_discard(reason);
    if !ctx.will_discard() {
        ctx.request_repaint();
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::RawInput;

    use super::*;

    fn draw(ctx: &Context, mut contents: impl FnMut(&Context)) {
        ctx.run_ui(RawInput::default(), |ui| contents(ui.ctx())).textures_delta.clear();
    }

    #[test]
    fn what_needs_more_passes_than_a_frame_has_gets_another_frame() {
        for (needed, repaints) in [(1, false), (2, false), (3, false), (4, true)] {
            let ctx = Context::default();
            install(&ctx);
            // The first frames of a context ask for others by themselves.
            (0..3).for_each(|_| draw(&ctx, |_| {}));
            let mut passes = 0;
            draw(&ctx, |ctx| {
                passes += 1;
                if passes < needed {
                    again(ctx, "a test");
                }
            });
            assert_eq!((passes, ctx.has_requested_repaint()), (needed.min(MOST.get()), repaints), "{needed}");
        }
    }
}

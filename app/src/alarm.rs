//! A frame at a later moment that nothing else brings: a thread of its own sleeps until then.
//!
//! A window under X11 at times forgets the frame that it was asked to draw later, and what should be gone stays until the
//! pointer moves. What comes from another thread wakes it in any case.

use std::time::Duration;

use eframe::egui;

/// How much later than asked for: by then the window has woken by itself, as a rule.
const AFTER: Duration = Duration::from_millis(30);

/// Has a frame drawn in `delay`, or a little later.
pub(crate) fn ring(ctx: &egui::Context, delay: Duration) {
    let ctx = ctx.clone();
    let wait = move || {
        std::thread::sleep(delay + AFTER);
        ctx.request_repaint();
    };
    // Without a thread the frame comes with the next event.
    let _ = std::thread::Builder::new().name("alarm".to_owned()).spawn(wait);
}

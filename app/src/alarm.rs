//! A frame at a later moment, without any event: a thread of its own sleeps until then.
//!
//! A window under X11 sometimes forgets a frame that was requested for later, so that a message stays until the pointer
//! moves. A request from another thread always wakes it.

use std::time::Duration;

use eframe::egui;

/// How much later it rings than asked for: usually the window has woken by itself by then.
const AFTER: Duration = Duration::from_millis(30);

/// Requests a frame in `delay`, or a little later.
pub(crate) fn ring(ctx: &egui::Context, delay: Duration) {
    let ctx = ctx.clone();
    let wait = move || {
        std::thread::sleep(delay + AFTER);
        ctx.request_repaint();
    };
    // Without a thread the frame comes with the next event.
    let _ = std::thread::Builder::new().name("alarm".to_owned()).spawn(wait);
}

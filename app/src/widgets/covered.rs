//! The part of a pane that lies below a notice: the pane scrolls that much further, so that nothing in it stays out of
//! sight.
//!
//! Owns where the notice is, as it was drawn last.

use eframe::egui::{Context, Id, Rect, Ui};

fn notice() -> Id {
    Id::unique("place of the notice")
}

fn foot() -> Id {
    Id::unique("foot of the pane that is covered")
}

/// Notes where the notice is; `None` without one.
pub(crate) fn by(ctx: &Context, rect: Option<Rect>) {
    ctx.data_mut(|data| data.insert_temp(notice(), rect));
}

/// How much of the foot of the visible area is covered. It is noted for controls that are brought into sight in it.
pub(crate) fn measure(ui: &Ui) -> f32 {
    let seen = ui.clip_rect();
    let rect = ui.data(|data| data.get_temp::<Option<Rect>>(notice())).flatten();
    let height = rect.filter(|rect| rect.intersects(seen)).map_or(0.0, |rect| seen.bottom() - rect.top());
    ui.data_mut(|data| data.insert_temp(foot(), height));
    height
}

/// A place with as much below it as is covered: once this is in sight, the place is seen.
pub(crate) fn clear(ctx: &Context, place: Rect) -> Rect {
    let height: f32 = ctx.data(|data| data.get_temp(foot())).unwrap_or_default();
    place.with_max_y(place.bottom() + height)
}

//! The part of the picture that is in view: it is the user's choice until a run ends outside it, or the arrows lead out of
//! it.

use eframe::egui::{Id, Rect, Ui, Vec2};
use egui_plot::{PlotBounds, PlotPoint, PlotUi};

use super::{ACTIVE, Dot, RING};
use crate::{session::RunKey, theme};

/// A point that the arrows led to is at least this far inside the view, with its ring.
const INSIDE: f32 = theme::POINT_RADIUS + ACTIVE + RING + 8.0;

/// The view of the last frame.
fn last(ui: &Ui) -> Option<PlotBounds> {
    ui.data(|data| data.get_temp(id(ui)))
}

/// Whether the view is another one than in the last frame.
pub(super) fn has_changed(ui: &Ui, view: &PlotBounds) -> bool {
    last(ui).is_some_and(|last| last != *view)
}

/// Keeps the view for the next frame.
pub(super) fn keep(ui: &Ui, view: &PlotBounds) {
    ui.data_mut(|data| data.insert_temp(id(ui), *view));
}

fn id(ui: &Ui) -> Id {
    ui.scope_id().with("view")
}

/// Whether a run came to its end since the frame before, and its point lies outside the view that the user chose. A run that
/// trains begins far below where it ends.
pub(super) fn has_new_out_of_view(ui: &Ui, dots: &[Dot<'_>]) -> bool {
    let in_focus = || dots.iter().filter(|dot| dot.in_focus && !dot.run.status.is_active());
    let now: Vec<RunKey> = in_focus().map(|dot| dot.run.key).collect();
    let id = ui.scope_id().with("points");
    let known: Option<Vec<RunKey>> = ui.data(|data| data.get_temp(id));
    let view = last(ui);
    let is_in_view = |dot: &Dot<'_>| {
        let inside = |axis: usize, range: std::ops::RangeInclusive<f64>| range.contains(&dot.at[axis]);
        view.is_none_or(|view| inside(0, view.range_x()) && inside(1, view.range_y()))
    };
    let is_new = |dot: &Dot<'_>| known.as_ref().is_some_and(|known| !known.contains(&dot.run.key));
    let is_out = in_focus().any(|dot| is_new(dot) && !is_in_view(dot));
    if known.as_ref() != Some(&now) {
        ui.data_mut(|data| data.insert_temp(id, now));
    }
    is_out
}

/// Has the view follow the arrows to a run.
pub(super) fn lead(ui: &Ui, to: RunKey) {
    ui.data_mut(|data| data.insert_temp(led(ui), to));
}

/// The point that the arrows have led to since the last frame.
pub(super) fn followed(ui: &Ui, dots: &[Dot<'_>]) -> Option<[f64; 2]> {
    let to: RunKey = ui.data_mut(|data| data.remove_temp(led(ui)))?;
    dots.iter().find(|dot| dot.run.key == to).map(|dot| dot.at)
}

fn led(ui: &Ui) -> Id {
    ui.scope_id().with("led to")
}

/// Moves a view that a point lies outside of, just so far that the point is inside.
pub(super) fn follow(plot: &mut PlotUi<'_>, at: [f64; 2]) {
    let transform = plot.transform();
    let by = outside(*transform.frame(), transform.position_from_point(&PlotPoint::new(at[0], at[1])));
    let [x, y] = transform.dvalue_dpos();
    if by != Vec2::ZERO {
        plot.translate_bounds(Vec2::new(by.x * x as f32, by.y * y as f32));
    }
}

/// How far a view is to be moved to have a place inside; not at all where it has.
fn outside(frame: Rect, place: eframe::egui::Pos2) -> Vec2 {
    if frame.contains(place) || frame.is_negative() {
        return Vec2::ZERO;
    }
    // A little less than half: what is left is a rectangle, however the numbers are rounded.
    let margin = Vec2::splat(INSIDE).min(frame.size() * 0.49);
    place - frame.shrink2(margin).clamp(place)
}

#[cfg(test)]
mod tests {
    use eframe::egui::pos2;

    use super::*;

    #[test]
    fn a_view_is_moved_no_farther_than_a_point_needs() {
        let frame = Rect::from_min_size(pos2(100.0, 50.0), Vec2::new(200.0, 100.0));
        assert_eq!(outside(frame, pos2(102.0, 60.0)), Vec2::ZERO, "it is in view");
        assert_eq!(outside(frame, pos2(310.0, 100.0)), Vec2::new(10.0 + INSIDE, 0.0));
        assert_eq!(outside(frame, pos2(90.0, 155.0)), Vec2::new(-10.0 - INSIDE, 5.0 + INSIDE));
        for side in 0..200 {
            let small = Rect::from_min_size(pos2(1231.8281, 0.1), Vec2::splat(side as f32 * 0.173 - 4.0));
            assert!(outside(small, pos2(0.0, 0.0)).is_finite(), "{small:?}");
        }
    }
}

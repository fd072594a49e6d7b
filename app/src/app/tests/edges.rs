//! The edges between panes, dragged by the pointer.

use eframe::egui::{Pos2, Rect, pos2};

use super::*;

fn rect(window: &Window, pane: Pane) -> Rect {
    let rects = app(window).layout.rects();
    rects.into_iter().find_map(|(own, rect)| rect.filter(|_| own == pane)).expect("it is in front")
}

/// Drags from one place to another, through those between.
fn drag(window: &mut Window, from: Pos2, to: Pos2) {
    window.hover_at(from);
    window.run_steps(2);
    window.drag_at(from);
    window.run_steps(2);
    for step in 1..=8 {
        window.hover_at(from + (to - from) * step as f32 / 8.0);
        window.run_steps(2);
    }
    window.drop_at(to);
    window.run_steps(3);
}

#[test]
fn an_edge_between_panes_side_by_side_stops_where_their_contents_have_room_and_one_above_another_goes_on() {
    const WIDTH: f32 = 260.0;
    const A_POINT: f32 = 1.0;
    let mut window = window(digits());
    settle(&mut window);
    let before = rect(&window, Pane::Tradeoff);
    assert!(before.width() > WIDTH);
    // Past the right end of the window.
    drag(&mut window, pos2(before.left() - 2.0, before.center().y), pos2(1275.0, before.center().y));
    let narrow = rect(&window, Pane::Tradeoff);
    assert!((narrow.width() - WIDTH).abs() <= A_POINT, "{before:?} became {narrow:?}");
    let lower = rect(&window, Pane::Layers);
    let edge = pos2(lower.center().x, narrow.bottom() + 2.0);
    drag(&mut window, edge, pos2(edge.x, 790.0));
    let low = rect(&window, Pane::Layers);
    assert!(low.height() < WIDTH / 2.0 && low.height() < lower.height(), "{lower:?} became {low:?}");
}

//! The names at the points: each where it covers neither another name nor a point; the number alone where the name has no
//! room; none where nothing has.

use eframe::egui::{Align2, FontId, Rect, Ui, Vec2, pos2, vec2};
use egui_plot::{PlotPoint, PlotTransform};

use super::{Dot, RING};
use crate::{
    session::{RunKey, Session},
    theme,
};

/// From a point to its name.
const AWAY: f32 = 4.0;
/// Letters of a name.
const LETTERS: usize = 26;
/// Where a name may stand, the best first.
const SIDES: [(Align2, Vec2); 4] = [
    (Align2::LEFT_CENTER, vec2(1.0, 0.0)),
    (Align2::RIGHT_CENTER, vec2(-1.0, 0.0)),
    (Align2::CENTER_BOTTOM, vec2(0.0, -1.0)),
    (Align2::CENTER_TOP, vec2(0.0, 1.0)),
];

/// Draws them: the run that is looked at first, then those that nothing beats.
pub(super) fn draw(ui: &Ui, session: &Session, dots: &[Dot<'_>], shown: RunKey, transform: &PlotTransform) {
    let frame = *transform.frame();
    let painter = ui.painter_at(frame);
    let palette = theme::palette(ui);
    let place = |dot: &Dot<'_>| transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1]));
    let radius = |dot: &Dot<'_>| theme::POINT_RADIUS + if dot.run.key == shown { RING } else { 0.0 };
    let around = |dot: &Dot<'_>| Rect::from_center_size(place(dot), Vec2::splat(radius(dot) * 2.0));
    let mut taken: Vec<Rect> = dots.iter().map(around).collect();
    let mut order: Vec<&Dot<'_>> = dots.iter().filter(|dot| dot.in_focus && frame.contains(place(dot))).collect();
    order.sort_by_key(|dot| (dot.run.key != shown, !dot.is_best, dot.run.key));
    for dot in order {
        let color = if dot.run.key == shown { palette.strong() } else { palette.weak() };
        let (number, name) = (dot.run.short_label(), shortened(&session.short_name(dot.run)));
        for text in [format!("{number}: {name}"), number] {
            let galley = painter.layout_no_wrap(text, FontId::proportional(theme::SMALL_TEXT), color);
            let free = SIDES.iter().find_map(|(align, away)| {
                let rect = align.anchor_size(place(dot) + *away * (radius(dot) + AWAY), galley.size());
                let is_free = frame.contains_rect(rect) && taken.iter().all(|other| !other.intersects(rect));
                is_free.then_some(rect)
            });
            if let Some(rect) = free {
                painter.galley(pos2(rect.left(), rect.top()), galley, color);
                taken.push(rect);
                break;
            }
        }
    }
}

fn shortened(name: &str) -> String {
    let short: String = name.chars().take(LETTERS).collect();
    if short == name { short } else { format!("{}…", short.trim_end()) }
}

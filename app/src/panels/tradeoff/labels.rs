//! The names at the points. A name covers neither another name nor a point. It stands beside its own point and near no other,
//! or farther away with a line to its point; the number alone where the name has no room; none where nothing has.

use eframe::egui::{Align2, FontId, Rect, Stroke, Ui, Vec2, pos2, vec2};
use egui_plot::{PlotPoint, PlotTransform};

use super::{Dot, RING};
use crate::{
    session::{RunKey, Session},
    theme,
};

/// From a point to its name.
const AWAY: f32 = 4.0;
/// A name without a line is this much farther from the points of others than from its own.
const FARTHER: f32 = 8.0;
/// From a point to a name with a line.
const FAR: [f32; 3] = [16.0, 30.0, 48.0];
/// Names that are sought a place at most: where there are more points, names would hide them.
const NAMES: usize = 40;
/// Letters of a name.
const LETTERS: usize = 26;
/// Where a name may stand, the best first.
const SIDES: [(Align2, Vec2); 8] = [
    (Align2::LEFT_CENTER, vec2(1.0, 0.0)),
    (Align2::RIGHT_CENTER, vec2(-1.0, 0.0)),
    (Align2::CENTER_BOTTOM, vec2(0.0, -1.0)),
    (Align2::CENTER_TOP, vec2(0.0, 1.0)),
    (Align2::LEFT_BOTTOM, vec2(0.7, -0.7)),
    (Align2::RIGHT_BOTTOM, vec2(-0.7, -0.7)),
    (Align2::LEFT_TOP, vec2(0.7, 0.7)),
    (Align2::RIGHT_TOP, vec2(-0.7, 0.7)),
];
/// How many of them are beside the point, where a name needs no line.
const BESIDE: usize = 4;

/// The points and the names that are already there.
struct Taken {
    points: Vec<(RunKey, Rect)>,
    names: Vec<Rect>,
    frame: Rect,
}

impl Taken {
    /// A place for a name of a size, and whether it takes a line to the point.
    fn place(&self, key: RunKey, size: Vec2) -> Option<(Rect, bool)> {
        let own = self.points.iter().find(|(other, _)| *other == key)?.1;
        let at = |away: f32, (align, side): (Align2, Vec2)| {
            align.anchor_size(own.center() + side * (own.width() / 2.0 + away), size)
        };
        let beside = SIDES[..BESIDE].iter().map(|side| at(AWAY, *side));
        if let Some(rect) = beside.into_iter().find(|rect| self.is_free(*rect) && self.is_own(key, *rect)) {
            return Some((rect, false));
        }
        let far = FAR.iter().flat_map(|away| SIDES.iter().map(|side| at(*away, *side)));
        far.into_iter().find(|rect| self.is_free(*rect)).map(|rect| (rect, true))
    }

    fn is_free(&self, rect: Rect) -> bool {
        let points = self.points.iter().map(|(_, point)| point);
        self.frame.contains_rect(rect) && points.chain(&self.names).all(|other| !other.intersects(rect))
    }

    /// Whether a name there is read as that of the run: no point of another is as near.
    fn is_own(&self, key: RunKey, rect: Rect) -> bool {
        let others = self.points.iter().filter(|(other, _)| *other != key);
        others.into_iter().all(|(_, point)| !point.expand(AWAY + FARTHER).intersects(rect))
    }
}

/// Draws them: the run that is looked at first, then those that nothing beats.
pub(super) fn draw(ui: &Ui, session: &Session, dots: &[Dot<'_>], shown: RunKey, transform: &PlotTransform) {
    let frame = *transform.frame();
    let painter = ui.painter_at(frame);
    let palette = theme::palette(ui);
    let place = |dot: &Dot<'_>| transform.position_from_point(&PlotPoint::new(dot.at[0], dot.at[1]));
    let radius = |dot: &Dot<'_>| theme::POINT_RADIUS + if dot.run.key == shown { RING } else { 0.0 };
    let around = |dot: &Dot<'_>| Rect::from_center_size(place(dot), Vec2::splat(radius(dot) * 2.0));
    let points = dots.iter().map(|dot| (dot.run.key, around(dot))).collect();
    let mut taken = Taken { points, names: Vec::new(), frame };
    let mut order: Vec<&Dot<'_>> = dots.iter().filter(|dot| dot.in_focus && frame.contains(place(dot))).collect();
    order.sort_by_key(|dot| (dot.run.key != shown, !dot.is_best, dot.run.key));
    for dot in order.into_iter().take(NAMES) {
        let color = if dot.run.key == shown { palette.strong() } else { palette.weak() };
        let (number, name) = (dot.run.short_label(), shortened(&session.short_name(dot.run)));
        for text in [format!("{number}: {name}"), number] {
            let galley = painter.layout_no_wrap(text, FontId::proportional(theme::SMALL_TEXT), color);
            if let Some((rect, has_line)) = taken.place(dot.run.key, galley.size()) {
                if has_line {
                    let (point, end) = (place(dot), rect.clamp(place(dot)));
                    let start = point + (end - point).normalized() * radius(dot);
                    painter.line_segment([start, end], Stroke::new(0.8, palette.weak()));
                }
                painter.galley(pos2(rect.left(), rect.top()), galley, color);
                taken.names.push(rect);
                break;
            }
        }
    }
}

fn shortened(name: &str) -> String {
    let short: String = name.chars().take(LETTERS).collect();
    if short == name { short } else { format!("{}…", short.trim_end()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(points: &[(f32, f32)]) -> Taken {
        let point = |(x, y): &(f32, f32)| Rect::from_center_size(pos2(*x, *y), Vec2::splat(10.0));
        let points = points.iter().enumerate().map(|(i, at)| (i as RunKey, point(at))).collect();
        Taken { points, names: Vec::new(), frame: Rect::from_min_size(pos2(0.0, 0.0), vec2(300.0, 200.0)) }
    }

    #[test]
    fn a_name_stands_beside_its_own_point_or_has_a_line_to_it() {
        let size = vec2(40.0, 12.0);
        assert_eq!(
            taken(&[(100.0, 100.0)]).place(0, size),
            Some((Rect::from_min_size(pos2(109.0, 94.0), size), false))
        );
        // At the right it would end at the second point and be read as that one's.
        let (rect, has_line) = taken(&[(100.0, 100.0), (160.0, 100.0)]).place(0, size).expect("there is room");
        assert!(rect.right() < 100.0 && !has_line, "{rect:?}");
        // Of points that all but cover each other, neither could be told.
        let (rect, has_line) = taken(&[(100.0, 100.0), (102.0, 100.0)]).place(0, size).expect("there is room");
        assert!(has_line && !rect.contains(pos2(100.0, 100.0)), "{rect:?}");
    }

    #[test]
    fn a_name_covers_nothing_and_stays_in_the_picture() {
        let size = vec2(80.0, 12.0);
        let mut crowded = taken(&[(20.0, 20.0), (40.0, 25.0), (60.0, 20.0), (50.0, 40.0), (280.0, 190.0)]);
        for key in 0..5 {
            if let Some((rect, _)) = crowded.place(key, size) {
                assert!(crowded.is_free(rect) && crowded.frame.contains_rect(rect));
                crowded.names.push(rect);
            }
        }
        assert!(crowded.names.len() >= 4, "{:?}", crowded.names);
        let none = Taken { frame: Rect::from_min_size(pos2(0.0, 0.0), vec2(60.0, 40.0)), ..taken(&[(30.0, 20.0)]) };
        assert_eq!(none.place(0, size), None);
    }
}

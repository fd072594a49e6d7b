//! Places for the names of points in a picture. A name covers neither another name nor a point nor a line of the picture. It
//! stands next to its own point and near no other, or farther away with a line to its point.

use eframe::egui::{Align2, Pos2, Rect, Vec2, vec2};

/// From a point to its name.
const AWAY: f32 = 4.0;
/// A name without a line is this much farther from the points of others than from its own.
const FARTHER: f32 = 8.0;
/// From a point to a name with a line.
const FAR: [f32; 6] = [16.0, 30.0, 48.0, 72.0, 104.0, 144.0];
/// From a line of the picture to a name.
const BESIDE_LINE: f32 = 1.0;
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
/// How many of them are next to the point, where a name needs no line.
const BESIDE: usize = 4;

/// The points, the lines and the names that are already there.
pub(crate) struct Places {
    frame: Rect,
    points: Vec<Rect>,
    taken: Vec<Rect>,
}

impl Places {
    /// A picture with points in it, each as large as it is drawn.
    pub(crate) fn new(frame: Rect, points: Vec<Rect>) -> Self {
        Self { frame, points, taken: Vec::new() }
    }

    /// A level or upright line is in the picture.
    pub(crate) fn line(&mut self, from: Pos2, to: Pos2) {
        self.taken.push(Rect::from_two_pos(from, to).expand(BESIDE_LINE));
    }

    /// A name is in the picture.
    pub(crate) fn take(&mut self, name: Rect) {
        self.taken.push(name);
    }

    /// A place for a name of a size, and whether it takes a line to its point, which is the one at `index`.
    pub(crate) fn place(&self, index: usize, size: Vec2) -> Option<(Rect, bool)> {
        let own = self.points.get(index)?;
        let at = |away: f32, (align, side): (Align2, Vec2)| {
            align.anchor_size(own.center() + side * (own.width() / 2.0 + away), size)
        };
        let beside = SIDES[..BESIDE].iter().map(|side| at(AWAY, *side));
        if let Some(rect) = beside.into_iter().find(|rect| self.is_free(*rect) && self.is_own(index, *rect)) {
            return Some((rect, false));
        }
        let far = FAR.iter().flat_map(|away| SIDES.iter().map(|side| at(*away, *side)));
        far.into_iter().find(|rect| self.is_free(*rect)).map(|rect| (rect, true))
    }

    fn is_free(&self, rect: Rect) -> bool {
        self.frame.contains_rect(rect) && self.points.iter().chain(&self.taken).all(|other| !other.intersects(rect))
    }

    /// Whether a name there reads as its own point's: no other is as near.
    fn is_own(&self, index: usize, rect: Rect) -> bool {
        let others = self.points.iter().enumerate().filter(|(other, _)| *other != index);
        others.into_iter().all(|(_, point)| !point.expand(AWAY + FARTHER).intersects(rect))
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::pos2;

    use super::*;

    fn places(points: &[(f32, f32)]) -> Places {
        let point = |(x, y): &(f32, f32)| Rect::from_center_size(pos2(*x, *y), Vec2::splat(10.0));
        let frame = Rect::from_min_size(pos2(0.0, 0.0), vec2(300.0, 200.0));
        Places::new(frame, points.iter().map(point).collect())
    }

    #[test]
    fn a_name_stands_beside_its_own_point_or_has_a_line_to_it() {
        let size = vec2(40.0, 12.0);
        let beside = Rect::from_min_size(pos2(109.0, 94.0), size);
        assert_eq!(places(&[(100.0, 100.0)]).place(0, size), Some((beside, false)));
        // At the right it would end at the second point and be read as that one's.
        let (rect, has_line) = places(&[(100.0, 100.0), (160.0, 100.0)]).place(0, size).expect("there is room");
        assert!(rect.right() < 100.0 && !has_line, "{rect:?}");
        // Of points that all but cover each other, neither could be told.
        let (rect, has_line) = places(&[(100.0, 100.0), (102.0, 100.0)]).place(0, size).expect("there is room");
        assert!(has_line && !rect.contains(pos2(100.0, 100.0)), "{rect:?}");
    }

    #[test]
    fn a_name_covers_nothing_and_stays_in_the_picture() {
        let size = vec2(80.0, 12.0);
        let mut crowded = places(&[(20.0, 20.0), (40.0, 25.0), (60.0, 20.0), (50.0, 40.0), (280.0, 190.0)]);
        let mut named = 0;
        for index in 0..5 {
            if let Some((rect, _)) = crowded.place(index, size) {
                assert!(crowded.is_free(rect) && crowded.frame.contains_rect(rect));
                crowded.take(rect);
                named += 1;
            }
        }
        assert_eq!(named, 5, "{:?}", crowded.taken);
        let none = Places { frame: Rect::from_min_size(pos2(0.0, 0.0), vec2(60.0, 40.0)), ..places(&[(30.0, 20.0)]) };
        assert_eq!(none.place(0, size), None);
    }

    #[test]
    fn no_line_of_the_picture_strikes_a_name_through() {
        let mut struck = places(&[(100.0, 100.0)]);
        struck.line(pos2(100.0, 100.0), pos2(300.0, 100.0));
        struck.line(pos2(60.0, 0.0), pos2(60.0, 200.0));
        let (rect, _) = struck.place(0, vec2(40.0, 12.0)).expect("there is room");
        assert!(rect.bottom() < 100.0 && rect.left() > 60.0, "{rect:?}");
    }
}

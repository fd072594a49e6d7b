//! Places for the names of points in a picture. A name covers neither another name nor a point nor a line of the picture. It
//! stands next to its own point and near no other, or farther away with a line to its point, which meets no other point and
//! strikes no name through.

use eframe::egui::{Align2, Pos2, Rect, Vec2, vec2};

/// From a point to its name.
const AWAY: f32 = 4.0;
/// A name without a line is this much farther from the points of others than from its own.
const FARTHER: f32 = 8.0;
/// From a point to a name with a line.
const FAR: [f32; 6] = [16.0, 30.0, 48.0, 72.0, 104.0, 144.0];
/// Between two names in a line: a space, so that `6` and `1, 2` are not read as `61, 2`.
const BETWEEN_NAMES: f32 = 6.0;
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

/// The places at each distance from a point with a line to it: the sides, and those between them.
const AROUND: usize = 2 * SIDES.len();

/// A place for a name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    pub(crate) rect: Rect,
    /// The line to its point, where it takes one.
    pub(crate) leader: Option<[Pos2; 2]>,
    /// Which of the places of its point it is, the best first.
    pub(crate) side: usize,
}

/// The points, the lines and the names that are already there.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    frame: Rect,
    points: Vec<Rect>,
    /// The lines of the picture.
    lines: Vec<Rect>,
    /// The names.
    taken: Vec<Rect>,
    /// From points to their names.
    leaders: Vec<[Pos2; 2]>,
}

impl Places {
    /// A picture with points in it, each as large as it is drawn.
    pub(crate) fn new(frame: Rect, points: Vec<Rect>) -> Self {
        Self { frame, points, lines: Vec::new(), taken: Vec::new(), leaders: Vec::new() }
    }

    /// A level or upright line is in the picture.
    pub(crate) fn line(&mut self, from: Pos2, to: Pos2) {
        self.lines.push(Rect::from_two_pos(from, to).expand(BESIDE_LINE));
    }

    /// A name is in the picture, with the line to its point if it has one.
    pub(crate) fn take(&mut self, name: Rect, leader: Option<[Pos2; 2]>) {
        self.taken.push(name);
        self.leaders.extend(leader);
    }

    /// A place for a name of a size. The point is the one at `index`.
    pub(crate) fn place(&self, index: usize, size: Vec2) -> Option<Placed> {
        self.place_anywhere(index, size, false)
    }

    /// The same for a name that has a ground of its own: lines of the picture may run under it.
    pub(crate) fn place_over_lines(&self, index: usize, size: Vec2) -> Option<Placed> {
        self.place_anywhere(index, size, true)
    }

    fn place_anywhere(&self, index: usize, size: Vec2, over_lines: bool) -> Option<Placed> {
        (0..BESIDE + FAR.len() * AROUND).find_map(|side| self.place_at(index, size, (side, over_lines)))
    }

    /// The same at one side, if it has room there; lines of the picture do not matter if it is `over_lines`.
    pub(crate) fn place_at(&self, index: usize, size: Vec2, (side, over_lines): (usize, bool)) -> Option<Placed> {
        let own = self.points.get(index)?;
        let (away, (align, to)) = match side.checked_sub(BESIDE) {
            None => (AWAY, SIDES[side]),
            Some(far) => (*FAR.get(far / AROUND)?, SIDES.iter().copied().chain(between()).nth(far % AROUND)?),
        };
        let rect = align.anchor_size(own.center() + to * (own.width() / 2.0 + away), size);
        if !self.is_free(rect) || (!over_lines && self.lines.iter().any(|line| line.intersects(rect))) {
            return None;
        }
        if side < BESIDE {
            return self.is_own(index, rect).then_some(Placed { rect, leader: None, side });
        }
        let (point, end) = (own.center(), rect.clamp(own.center()));
        let leader = [point + (end - point).normalized() * own.width() / 2.0, end];
        self.is_clear(own.center(), leader).then_some(Placed { rect, leader: Some(leader), side })
    }

    fn is_free(&self, rect: Rect) -> bool {
        let apart = rect.expand2(vec2(BETWEEN_NAMES, 0.0));
        self.frame.contains_rect(rect)
            && self.points.iter().all(|other| !other.intersects(rect))
            && self.taken.iter().all(|name| !name.intersects(apart))
            && self.leaders.iter().all(|leader| !crosses(rect, *leader))
    }

    /// Whether a line from the point at `own` meets no other point, no name and no other such line. Lines of the picture are
    /// level or upright, and are crossed.
    fn is_clear(&self, own: Pos2, leader: [Pos2; 2]) -> bool {
        // A line to a point at the very place of another means either.
        let points = self.points.iter().filter(|point| point.center().distance(own) >= 1.0);
        points.chain(&self.taken).all(|rect| !crosses(*rect, leader))
            && !self.leaders.iter().any(|other| meet(*other, leader))
    }

    /// Whether a name there reads as its own point's: no other is as near.
    fn is_own(&self, index: usize, rect: Rect) -> bool {
        let others = self.points.iter().enumerate().filter(|(other, _)| *other != index);
        others.into_iter().all(|(_, point)| !point.expand(AWAY + FARTHER).intersects(rect))
    }
}

/// The sides between the eight, for names with a line.
fn between() -> impl Iterator<Item = (Align2, Vec2)> {
    let signs = [(1.0, -1.0), (-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)];
    let corners = [Align2::LEFT_BOTTOM, Align2::RIGHT_BOTTOM, Align2::LEFT_TOP, Align2::RIGHT_TOP];
    let both = signs.into_iter().zip(corners);
    both.flat_map(|((x, y), align)| [(0.92, 0.38), (0.38, 0.92)].map(|(along, up)| (align, vec2(x * along, y * up))))
}

/// Whether two lines cross each other.
fn meet([a, b]: [Pos2; 2], [c, d]: [Pos2; 2]) -> bool {
    let side = |from: Pos2, to: Pos2, at: Pos2| {
        let (along, off) = (to - from, at - from);
        along.x * off.y - along.y * off.x
    };
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

/// Whether a line runs through a rectangle.
fn crosses(rect: Rect, [from, to]: [Pos2; 2]) -> bool {
    let along = to - from;
    let (mut enters, mut leaves) = (0.0f32, 1.0f32);
    for (start, step, least, most) in
        [(from.x, along.x, rect.left(), rect.right()), (from.y, along.y, rect.top(), rect.bottom())]
    {
        if step.abs() < f32::EPSILON {
            if start < least || start > most {
                return false;
            }
            continue;
        }
        let (a, b) = ((least - start) / step, (most - start) / step);
        enters = enters.max(a.min(b));
        leaves = leaves.min(a.max(b));
    }
    enters <= leaves
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
        let placed = places(&[(100.0, 100.0)]).place(0, size).expect("there is room");
        assert_eq!((placed.rect, placed.leader), (beside, None));
        // At the right it would end at the second point and be read as that one's.
        let Placed { rect, leader: has_line, .. } =
            places(&[(100.0, 100.0), (160.0, 100.0)]).place(0, size).expect("there is room");
        assert!(rect.right() < 100.0 && has_line.is_none(), "{rect:?}");
        // Points that nearly cover each other cannot be told apart by a name next to them.
        let Placed { rect, leader: has_line, .. } =
            places(&[(100.0, 100.0), (102.0, 100.0)]).place(0, size).expect("there is room");
        assert!(has_line.is_some() && !rect.contains(pos2(100.0, 100.0)), "{rect:?}");
    }

    #[test]
    fn two_names_in_a_line_have_a_space_between_them() {
        let size = vec2(40.0, 12.0);
        let mut named = places(&[(100.0, 100.0)]);
        // A name that ends just where the next one would begin, or a space before that.
        for (gap, is_free) in [(1.0, false), (BETWEEN_NAMES + 1.0, true)] {
            named.taken = vec![Rect::from_min_size(pos2(109.0 + size.x + gap, 94.0), size)];
            let placed = named.place(0, size).expect("there is room");
            assert_eq!(placed.side == 0, is_free, "{gap}: {placed:?}");
        }
    }

    #[test]
    fn a_name_covers_nothing_and_stays_in_the_picture() {
        let size = vec2(80.0, 12.0);
        let mut crowded = places(&[(20.0, 20.0), (40.0, 25.0), (60.0, 20.0), (50.0, 40.0), (280.0, 190.0)]);
        let mut named = 0;
        for index in 0..5 {
            if let Some(Placed { rect, .. }) = crowded.place(index, size) {
                assert!(crowded.is_free(rect) && crowded.frame.contains_rect(rect));
                crowded.take(rect, None);
                named += 1;
            }
        }
        assert_eq!(named, 5, "{:?}", crowded.taken);
        let none = Places { frame: Rect::from_min_size(pos2(0.0, 0.0), vec2(60.0, 40.0)), ..places(&[(30.0, 20.0)]) };
        assert_eq!(none.place(0, size), None);
    }

    #[test]
    fn no_line_to_a_name_meets_another_point_or_strikes_a_name_through() {
        // Two points side by side, and one almost on the first.
        let mut near = places(&[(100.0, 100.0), (102.0, 100.0), (124.0, 100.0)]);
        for index in 0..3 {
            let Placed { rect, leader, .. } = near.place(index, vec2(12.0, 12.0)).expect("there is room");
            let own = near.points[index].center();
            if let Some(leader) = leader {
                let others = near.points.iter().filter(|point| point.center() != own);
                assert!(others.chain(&near.taken).all(|other| !crosses(*other, leader)), "{index}: {leader:?}");
            }
            assert!(near.leaders.iter().all(|leader| !crosses(rect, *leader)), "{index}: {rect:?}");
            near.take(rect, leader);
        }
        assert!(crosses(Rect::from_min_size(pos2(0.0, 0.0), vec2(10.0, 10.0)), [pos2(-5.0, 5.0), pos2(15.0, 6.0)]));
        assert!(!crosses(Rect::from_min_size(pos2(0.0, 0.0), vec2(10.0, 10.0)), [pos2(-5.0, 5.0), pos2(-1.0, 6.0)]));
    }

    #[test]
    fn lines_to_points_that_half_cover_each_other_lead_away_from_the_other() {
        for apart in [2.0, 4.0, 7.0] {
            let (left, right) = (100.0, 100.0 + apart);
            let mut near = places(&[(right, 100.0), (left, 100.0)]);
            let mut end = |index| {
                let Placed { rect, leader, .. } = near.place(index, vec2(8.0, 12.0)).expect("there is room");
                near.take(rect, leader);
                rect.center().x
            };
            let (of_right, of_left) = (end(0), end(1));
            assert!(of_left < left && right < of_right, "{apart}: {of_left} and {of_right}");
        }
    }

    #[test]
    fn no_line_of_the_picture_strikes_a_name_through() {
        let mut struck = places(&[(100.0, 100.0)]);
        struck.line(pos2(100.0, 100.0), pos2(300.0, 100.0));
        struck.line(pos2(60.0, 0.0), pos2(60.0, 200.0));
        let Placed { rect, .. } = struck.place(0, vec2(40.0, 12.0)).expect("there is room");
        assert!(rect.bottom() < 100.0 && rect.left() > 60.0, "{rect:?}");
    }
}

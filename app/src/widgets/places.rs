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
/// The same where points are crowded.
const BETWEEN_CROWDED: f32 = 4.0;
/// A name slides so far before it leaves its side.
const SLIDE: f32 = 8.0;
/// Places anywhere in the picture come in columns and rows so far apart.
const APART: Vec2 = vec2(6.0, 7.0);
/// No picture has so many columns of them.
const COLUMNS: usize = 1024;
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

/// All places that lie around a point. Those after them lie in columns and rows of the picture.
const AROUND_POINT: usize = BESIDE + FAR.len() * AROUND;

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
    /// Points that will move on: the names of others leave them no room.
    passing: Vec<usize>,
    /// Points take so much less room at each of their sides from the names of others.
    slack: f32,
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
        let (passing, lines, taken, leaders) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { frame, points, passing, slack: 0.0, lines, taken, leaders }
    }

    /// The point at `index` moves, and a name that stands where it passes by stays.
    pub(crate) fn passes(&mut self, index: usize) {
        self.passing.push(index);
    }

    /// The same picture, in which points take less room from the names of others, by `slack` at each side.
    pub(crate) fn closer(&self, slack: f32) -> Self {
        Self { slack, ..self.clone() }
    }

    /// The same picture without a name that is in it.
    pub(crate) fn without(&self, name: Rect) -> Self {
        Self { taken: self.taken.iter().copied().filter(|taken| *taken != name).collect(), ..self.clone() }
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

    /// The same for a name that may stand anywhere where it covers nothing, however near to another point, but as near to its own
    /// as it can.
    pub(crate) fn place_uncovered(&self, index: usize, size: Vec2) -> Option<Placed> {
        let near = (0..AROUND_POINT).find_map(|side| self.stay_at(index, size, side));
        let own = self.points.get(index)?.center();
        let [columns, rows] = [self.frame.width() / APART.x, self.frame.height() / APART.y].map(|count| count as usize);
        let places = || (0..rows).flat_map(|row| (0..columns.min(COLUMNS)).map(move |column| row * COLUMNS + column));
        let free = || places().filter_map(|place| self.stay_at(index, size, AROUND_POINT + place));
        let away = |placed: &Placed| placed.rect.distance_sq_to_pos(own);
        near.or_else(|| free().min_by(|a, b| away(a).total_cmp(&away(b))))
    }

    fn place_anywhere(&self, index: usize, size: Vec2, over_lines: bool) -> Option<Placed> {
        (0..AROUND_POINT).find_map(|side| self.place_at(index, size, (side, over_lines)))
    }

    /// The same at one side, if it has room there; lines of the picture do not matter if it is `over_lines`.
    pub(crate) fn place_at(&self, index: usize, size: Vec2, (side, over_lines): (usize, bool)) -> Option<Placed> {
        let placed = self.at_side(index, size, side)?;
        let is_free = self.is_free(index, placed.rect)
            && (over_lines || !self.lines.iter().any(|line| line.intersects(placed.rect)))
            && match placed.leader {
                None => self.is_own(index, placed.rect),
                Some(leader) => self.is_clear(index, leader),
            };
        is_free.then_some(placed)
    }

    /// The same for a name that is there already: it stays although a line to a name meets it, or another point is as near, and
    /// slides a little at the edge of the picture.
    pub(crate) fn stay_at(&self, index: usize, size: Vec2, side: usize) -> Option<Placed> {
        let mut placed = self.at_side(index, size, side)?;
        if !(self.frame.width() >= size.x && self.frame.height() >= size.y) {
            // A pane may be made narrower than any name.
            return None;
        }
        let center = placed.rect.center();
        let slid = self.frame.shrink2(size / 2.0).clamp(center) - center;
        if slid.length() <= SLIDE {
            placed.rect = placed.rect.translate(slid);
            placed.leader = placed.leader.map(|[from, end]| [from, end + slid]);
        }
        self.covers_nothing(index, placed.rect).then_some(placed)
    }

    /// Where a name would stand at a side, whatever is there.
    fn at_side(&self, index: usize, size: Vec2, side: usize) -> Option<Placed> {
        let own = self.points.get(index)?;
        let around = |away: f32, (align, to): (Align2, Vec2)| {
            align.anchor_size(own.center() + to * (own.width() / 2.0 + away), size)
        };
        let rect = match (side.checked_sub(AROUND_POINT), side.checked_sub(BESIDE)) {
            (Some(place), _) => {
                let at = vec2((place % COLUMNS) as f32, (place / COLUMNS) as f32) * APART;
                Rect::from_min_size(self.frame.min + at, size)
            }
            (None, Some(far)) => around(FAR[far / AROUND], SIDES.iter().copied().chain(between()).nth(far % AROUND)?),
            (None, None) => around(AWAY, SIDES[side]),
        };
        let (point, end) = (own.center(), rect.clamp(own.center()));
        let leader = [point + (end - point).normalized() * own.width() / 2.0, end];
        Some(Placed { rect, leader: (side >= BESIDE).then_some(leader), side })
    }

    /// The points that the name of one leaves room for: its own, and those that stay where they are.
    fn rooms(&self, index: usize) -> impl Iterator<Item = (usize, Rect)> {
        let points = self.points.iter().copied().enumerate();
        let stays = move |at: &usize| *at == index || !self.passing.contains(at);
        points.filter(move |(at, _)| stays(at)).map(move |(at, point)| {
            let slack = if at == index { 0.0 } else { self.slack };
            (at, point.shrink(slack))
        })
    }

    fn covers_nothing(&self, index: usize, rect: Rect) -> bool {
        // The sum of floating-point numbers may be a little larger.
        let frame = self.frame.expand(0.01);
        let apart = rect.expand2(vec2(if self.slack > 0.0 { BETWEEN_CROWDED } else { BETWEEN_NAMES }, 0.0));
        frame.contains_rect(rect)
            && self.rooms(index).all(|(_, other)| !other.intersects(rect))
            && self.taken.iter().all(|name| !name.intersects(apart))
    }

    fn is_free(&self, index: usize, rect: Rect) -> bool {
        self.covers_nothing(index, rect) && self.leaders.iter().all(|leader| !crosses(rect, *leader))
    }

    /// Whether a line from the point at `index` meets no other point, no name and no other such line. Lines of the picture are
    /// level or upright, and are crossed.
    fn is_clear(&self, index: usize, leader: [Pos2; 2]) -> bool {
        // A line to a point at the very place of another means either.
        let own = self.points[index].center();
        let points = self.rooms(index).map(|(_, point)| point).filter(|point| point.center().distance(own) >= 1.0);
        points.chain(self.taken.iter().copied()).all(|rect| !crosses(rect, leader))
            && !self.leaders.iter().any(|other| meet(*other, leader))
    }

    /// Whether a name there reads as its own point's: no other is as near.
    fn is_own(&self, index: usize, rect: Rect) -> bool {
        let mut others = self.rooms(index).filter(|(other, _)| *other != index);
        others.all(|(_, point)| !point.expand(AWAY + FARTHER).intersects(rect))
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
    fn a_name_that_is_larger_than_the_picture_has_no_place() {
        for (width, height) in [(39.0, 200.0), (300.0, 11.0), (5.0, 5.0), (0.0, 0.0), (-3.0, 40.0), (f32::NAN, 40.0)] {
            let point = Rect::from_center_size(pos2(1.0, 1.0), Vec2::splat(10.0));
            let frame = Rect::from_min_size(pos2(0.0, 0.0), vec2(width, height));
            let (places, size) = (Places::new(frame, vec![point]), vec2(40.0, 12.0));
            assert!(places.place(0, size).is_none() && places.place_uncovered(0, size).is_none(), "{frame:?}");
            assert!((0..200).all(|side| places.stay_at(0, size, side).is_none()), "{frame:?}");
        }
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
                assert!(crowded.is_free(index, rect) && crowded.frame.contains_rect(rect));
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
    fn a_name_stays_where_a_point_passes_by_or_comes_near() {
        let size = vec2(40.0, 12.0);
        let beside = places(&[(100.0, 100.0)]).place(0, size).expect("there is room");
        // On the name itself: only one that stays there takes its room.
        let mut met = places(&[(100.0, 100.0), (130.0, 100.0)]);
        assert_eq!((met.place_at(0, size, (beside.side, true)), met.stay_at(0, size, beside.side)), (None, None));
        met.passes(1);
        assert_eq!(met.place_at(0, size, (beside.side, true)), Some(beside));
        // So near that a new name would be read as that one's, and at last over it.
        for (apart, stays) in [(8.0, true), (4.0, false)] {
            let near = places(&[(100.0, 100.0), (beside.rect.right() + apart, 100.0)]);
            assert_eq!(near.place_at(0, size, (beside.side, true)), None, "{apart}");
            assert_eq!(near.stay_at(0, size, beside.side).is_some(), stays, "{apart}");
            assert_eq!(near.closer(2.0).stay_at(0, size, beside.side), Some(beside), "{apart}");
        }
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

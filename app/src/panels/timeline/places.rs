//! Where the words of a timeline are: at the peak, at the budget's line, and the names of the phases.
//!
//! Always holds: words lie neither over other words nor over a level line, and inside the picture. What has no such place is
//! left out; but the words at the peak, which are the point of the picture, are then where they would be alone.

use eframe::egui::{Pos2, Rangef, Rect, Vec2, pos2, vec2};

/// Between words, and from words to a line.
const CLEAR: f32 = 3.0;
/// From words to a name that gives way to them.
const ASIDE: f32 = 2.0 * CLEAR + 0.5;
/// Words at the peak are not farther from its height than this, in addition to their own height.
const NEAR: f32 = 14.0;
/// Words at the budget's line are not lifted farther from it, to be above a hill.
const LIFTED: f32 = 48.0;
/// From the peak to the words next to it.
const BESIDE: f32 = 8.0;
/// The arrow that points at the peak: half its width, and its height.
pub(super) const ARROW: Vec2 = vec2(4.5, 8.0);
/// The names of the phases lie this far below the top, if nothing else does: above them is the budget that is past a break.
const NAMES: f32 = 26.0;

/// What there is to place.
#[derive(Debug, Clone)]
pub(super) struct Words {
    /// The picture.
    pub(super) frame: Rect,
    /// Heights of level lines: the budget's first, where it is in the picture.
    pub(super) lines: Vec<f32>,
    /// Where the arrow at the peak points, and the size of the words next to it.
    pub(super) peak: Option<(Pos2, Vec2)>,
    /// The size of the words at the budget's line, which is the first of the lines.
    pub(super) budget: Option<Vec2>,
    /// The height of the line at the outline's budget, where it has one of its own, and the size of the words there.
    pub(super) other: Option<(f32, Vec2)>,
    /// The size of what the signs mean, where that stands in the picture.
    pub(super) signs: Option<Vec2>,
    /// For each phase that has room for its name, where it begins and ends, and the size of the name.
    pub(super) phases: Vec<(Rangef, Vec2)>,
    /// The hills that are drawn, in columns from left to right: where each ends, and how high on screen it reaches.
    pub(super) hills: Vec<(f32, f32)>,
}

/// Where it stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Places {
    /// The words at the peak.
    pub(super) peak: Option<Rect>,
    /// The words at the budget's line.
    pub(super) budget: Option<Rect>,
    /// The words at the line of the outline's budget.
    pub(super) other: Option<Rect>,
    /// What the signs mean.
    pub(super) signs: Option<Rect>,
    /// The name of each phase.
    pub(super) phases: Vec<Option<Rect>>,
}

/// Whether the words at a peak stand to its left.
pub(super) fn is_left_of(frame: Rect, tip: Pos2) -> bool {
    tip.x > frame.center().x
}

/// How wide the words at a peak may be.
pub(super) fn room_beside(frame: Rect, tip: Pos2) -> f32 {
    let room = if is_left_of(frame, tip) { tip.x - frame.left() } else { frame.right() - tip.x };
    (room - BESIDE - 2.0 * CLEAR).max(1.0)
}

impl Words {
    /// Finds the places: the peak's first, then the budget's.
    pub(super) fn places(&self) -> Places {
        let peak = self.peak.map(|(tip, size)| self.beside_peak(tip, size));
        let arrow = self.peak.map(|(tip, _)| Rect::from_min_max(tip - ARROW, pos2(tip.x + ARROW.x, tip.y)));
        let mut taken: Vec<Rect> = peak.into_iter().chain(arrow).collect();
        let budget = self.budget.and_then(|size| self.beside_line(*self.lines.first()?, size, &taken));
        taken.extend(budget);
        let other = self.other.and_then(|(line, size)| self.beside_line(line, size, &taken));
        taken.extend(other);
        let signs = self.signs.and_then(|size| self.in_a_corner(size, &taken));
        taken.extend(signs);
        Places { peak, budget, other, signs, phases: self.along_the_top(&taken) }
    }

    /// At either end of the top, or below a line there: where it hides the least of a hill.
    fn in_a_corner(&self, size: Vec2, taken: &[Rect]) -> Option<Rect> {
        let (left, right) = (self.frame.left() + 2.0 * CLEAR, self.frame.right() - 2.0 * CLEAR - size.x);
        let below = taken.iter().map(Rect::bottom).chain(self.lines.iter().copied()).map(|bottom| bottom + CLEAR);
        let mut rows: Vec<f32> = below.chain([self.frame.top() + 1.0]).collect();
        rows.sort_by(f32::total_cmp);
        let places = rows.into_iter().flat_map(|row| [right, left].map(|x| Rect::from_min_size(pos2(x, row), size)));
        let free: Vec<Rect> = places.filter(|place| self.is_free(*place, taken)).collect();
        free.iter().find(|place| self.hidden(**place) <= 0.0).or(free.first()).copied()
    }

    /// Next to the peak, as near to its height as no line is, or above it: where they hide nothing of a hill.
    fn beside_peak(&self, tip: Pos2, size: Vec2) -> Rect {
        let frame = self.frame;
        let (before, behind) = (tip.x - BESIDE - size.x, tip.x + BESIDE);
        let (left, other) = if is_left_of(frame, tip) { (before, behind) } else { (behind, before) };
        // Below the top, however high the peak is.
        let alone = (tip.y - size.y).max(frame.top() + 1.0);
        let beside_lines = self.lines.iter().flat_map(|line| [line - CLEAR - size.y, line + CLEAR]);
        // Words that are farther away are not seen to be the peak's.
        let beside_lines = beside_lines.filter(|top| (top - alone).abs() <= size.y + NEAR);
        let mut tops: Vec<f32> = std::iter::once(alone).chain(beside_lines).collect();
        tops.sort_by(|a, b| (a - alone).abs().total_cmp(&(b - alone).abs()));
        let at = |left: f32, top: f32| Rect::from_min_size(pos2(left, top), size);
        let over = tip.y - ARROW.y - CLEAR - size.y;
        let middle = (tip.x - size.x / 2.0).min(frame.right() - CLEAR - size.x).max(frame.left() + CLEAR);
        let sides = [left, other].map(|left| tops.iter().map(move |top| at(left, *top)));
        let above = [middle, left, other].map(|left| at(left, over));
        let [own, across] = sides;
        let places: Vec<Rect> = own.chain(across).chain(above).filter(|place| self.is_free(*place, &[])).collect();
        let clear = places.iter().find(|place| self.hidden(**place) <= 0.0);
        // Where each hides something, the one that hides the least.
        let least = || places.iter().min_by(|a, b| self.hidden(**a).total_cmp(&self.hidden(**b)));
        clear.or_else(least).copied().unwrap_or_else(|| at(left, alone))
    }

    /// How far a place reaches into the hills below it.
    pub(super) fn hidden(&self, place: Rect) -> f32 {
        let mut from = self.frame.left();
        let mut depth = 0.0f32;
        for (end, top) in &self.hills {
            if *end > place.left() && from < place.right() {
                depth = depth.max(place.bottom() - top);
            }
            from = *end;
        }
        depth
    }

    /// Above a line or below it, at either end: where it hides nothing of a hill; else a little higher, above the hill; else
    /// where it hides the least.
    fn beside_line(&self, line: f32, size: Vec2, taken: &[Rect]) -> Option<Rect> {
        let (left, right) = (self.frame.left() + 2.0 * CLEAR, self.frame.right() - 2.0 * CLEAR - size.x);
        let (above, below) = (line - CLEAR - size.y, line + CLEAR);
        let corners = [(left, above), (right, above), (left, below), (right, below)];
        let corners = corners.map(|(x, y)| Rect::from_min_size(pos2(x, y), size));
        let lift = |place: &Rect| self.hidden(*place) + CLEAR;
        let mut lifted: Vec<Rect> = corners[..2].iter().copied().filter(|place| lift(place) <= LIFTED).collect();
        lifted.sort_by(|a, b| lift(a).total_cmp(&lift(b)));
        let lifted = lifted.into_iter().map(|place| place.translate(vec2(0.0, -lift(&place))));
        let is_free = |place: &Rect| self.is_free(*place, taken);
        let clear = corners.into_iter().chain(lifted).filter(is_free).find(|place| self.hidden(*place) <= 0.0);
        let least = || corners.into_iter().filter(is_free).min_by(|a, b| self.hidden(*a).total_cmp(&self.hidden(*b)));
        clear.or_else(least)
    }

    /// The names of the phases in one row: the first in which the most of them have room. One that has none there stands in
    /// the row in which it hides the least of a hill.
    fn along_the_top(&self, taken: &[Rect]) -> Vec<Option<Rect>> {
        let height = self.phases.iter().map(|(_, size)| size.y).fold(0.0, f32::max);
        let top = self.frame.top();
        let beside = taken.iter().map(|rect| rect.bottom() + CLEAR).chain(self.lines.iter().map(|line| line + CLEAR));
        let tops = taken.iter().map(Rect::top).chain(self.lines.iter().copied());
        let above = tops.map(|top| top - CLEAR - height).chain([top + CLEAR]);
        let mut rows: Vec<f32> = beside.chain(above).filter(|row| *row < self.frame.center().y).collect();
        rows.sort_by(f32::total_cmp);
        let free = |name: &(Rangef, Vec2), row| self.in_phase(name, row, taken);
        let at = |row: f32| -> Vec<Option<Rect>> { self.phases.iter().map(|name| free(name, row)).collect() };
        let named = |places: &Vec<Option<Rect>>| places.iter().flatten().count();
        let mut best = at(top + NAMES);
        for row in &rows {
            let places = at(*row);
            if named(&places) > named(&best) {
                best = places;
            }
        }
        for (name, found) in self.phases.iter().zip(&mut best).filter(|(_, found)| found.is_none()) {
            let others = rows.iter().filter_map(|row| free(name, *row));
            *found = others.min_by(|a, b| self.hidden(*a).total_cmp(&self.hidden(*b)));
        }
        best
    }

    /// In a row of a phase: in its middle, else at the free place that is nearest to that.
    fn in_phase(&self, (phase, size): &(Rangef, Vec2), row: f32, taken: &[Rect]) -> Option<Rect> {
        let middle = phase.center() - size.x / 2.0;
        let (first, last) = (phase.min + CLEAR, phase.max - CLEAR - size.x);
        let beside = taken.iter().flat_map(|rect| [rect.left() - ASIDE - size.x, rect.right() + ASIDE]);
        let mut lefts: Vec<f32> = beside.filter(|left| (first..=last).contains(left)).chain([middle]).collect();
        lefts.sort_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()));
        let places = lefts.into_iter().map(|left| Rect::from_min_size(pos2(left, row), *size));
        places.into_iter().find(|place| self.is_free(*place, taken))
    }

    fn is_free(&self, place: Rect, taken: &[Rect]) -> bool {
        self.frame.contains_rect(place)
            && self.lines.iter().all(|line| !place.y_range().expand(CLEAR / 2.0).contains(*line))
            && taken.iter().all(|other| !other.expand2(vec2(2.0 * CLEAR, CLEAR / 2.0)).intersects(place))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: f32 = 13.0;

    fn words(frame: Vec2, lines: &[f32], tip: Pos2) -> Words {
        let frame = Rect::from_min_size(pos2(40.0, 100.0), frame);
        let phase = |from: f32, to: f32| {
            (Rangef::new(frame.left() + frame.width() * from, frame.left() + frame.width() * to), vec2(50.0, LINE))
        };
        Words {
            frame,
            lines: lines.iter().map(|line| frame.top() + line).collect(),
            peak: Some((frame.min + tip.to_vec2(), vec2(150.0, LINE))),
            budget: Some(vec2(90.0, LINE)),
            other: None,
            signs: Some(vec2(60.0, LINE)),
            phases: vec![phase(0.0, 0.4), phase(0.4, 0.8), phase(0.8, 1.0)],
            hills: Vec::new(),
        }
    }

    /// What of the words overlaps.
    fn overlaps(words: &Words, places: &Places) -> Vec<String> {
        let named = [("peak", places.peak), ("budget", places.budget), ("signs", places.signs)];
        let phases = places.phases.iter().map(|place| ("phase", *place));
        let all: Vec<(&str, Rect)> =
            named.into_iter().chain(phases).filter_map(|(n, place)| Some((n, place?))).collect();
        let mut found = Vec::new();
        for (i, (name, place)) in all.iter().enumerate() {
            found.extend(
                words.lines.iter().filter(|y| place.y_range().contains(**y)).map(|y| format!("{name} over {y}")),
            );
            found
                .extend(all[..i].iter().filter(|(_, o)| o.intersects(*place)).map(|(o, _)| format!("{name} over {o}")));
            if !words.frame.contains_rect(*place) {
                found.push(format!("{name} outside"));
            }
        }
        found
    }

    #[test]
    fn a_peak_right_below_the_budget_has_its_words_clear_of_the_line() {
        // The words would stand over the line, which is 6 points above the peak.
        let words = words(vec2(600.0, 300.0), &[62.0], pos2(250.0, 68.0));
        let places = words.places();
        assert_eq!(overlaps(&words, &places), [""; 0]);
        let (peak, budget) = (places.peak.expect("a peak"), places.budget.expect("room"));
        assert_eq!((peak.bottom(), budget.bottom()), (100.0 + 59.0, 100.0 + 59.0), "both above the line");
        assert_eq!(places.phases.iter().flatten().count(), 3);
    }

    #[test]
    fn a_budget_past_a_break_leaves_a_row_to_the_names() {
        let words = words(vec2(600.0, 300.0), &[16.0, 22.0], pos2(100.0, 70.0));
        let places = words.places();
        assert_eq!(overlaps(&words, &places), [""; 0]);
        assert_eq!(places.budget.expect("room").bottom(), 100.0 + 13.0, "above its line");
        assert_eq!(places.phases[0].expect("room").top(), 100.0 + NAMES);
    }

    #[test]
    fn the_words_at_a_peak_hide_nothing_of_a_hill() {
        // A peak so near to the top that words next to it cover the hill.
        let high = words(vec2(600.0, 300.0), &[], pos2(400.0, 10.0));
        let alone = high.places().peak.expect("a peak");
        assert_eq!((alone.right(), alone.top()), (440.0 - BESIDE, 101.0));
        let hills = vec![(446.0, 112.0), (640.0, 300.0)];
        let peak = Words { hills, ..high.clone() }.places().peak.expect("a peak");
        assert_eq!((peak.left(), peak.top()), (440.0 + BESIDE, 101.0), "on the side that falls off");
        let hills = vec![(640.0, 112.0)];
        assert_eq!(Words { hills, ..high }.places().peak, Some(alone), "hidden on either side: as it would stand");
    }

    #[test]
    fn words_at_a_line_in_a_hill_stand_above_the_hill_and_the_names_above_the_peaks_words() {
        // A budget that the hill crosses: higher in the middle, lower at its right end.
        let hills = vec![(240.0, 170.0), (400.0, 160.0), (640.0, 180.0)];
        let words = Words { hills, ..words(vec2(600.0, 300.0), &[100.0], pos2(200.0, 60.0)) };
        let places = words.places();
        assert_eq!(overlaps(&words, &places), [""; 0]);
        let budget = places.budget.expect("room");
        assert!(budget.bottom() <= 180.0 && budget.left() > 500.0, "{budget:?}");
        assert_eq!(places.phases.iter().flatten().count(), 3, "{places:?}");
    }

    #[test]
    fn a_name_that_has_no_room_in_the_row_of_the_others_stands_in_another() {
        let words = words(vec2(600.0, 300.0), &[], pos2(300.0, 290.0));
        let over_the_first = Rect::from_min_max(pos2(45.0, 100.0), pos2(275.0, 160.0));
        let over_the_last = Rect::from_min_max(pos2(550.0, 163.0), pos2(610.0, 260.0));
        let places = words.along_the_top(&[over_the_first, over_the_last]);
        let tops: Vec<_> = places.iter().map(|place| place.map(|place| place.top())).collect();
        assert_eq!(tops, [Some(163.0), Some(100.0 + NAMES), Some(100.0 + NAMES)]);
    }

    #[test]
    fn a_name_gives_way_to_words_within_its_phase() {
        // Words over the middle of the first phase, in every row that names may have.
        let words = words(vec2(600.0, 120.0), &[], pos2(300.0, 110.0));
        let over_the_middle = Rect::from_min_max(pos2(130.0, 100.0), pos2(190.0, 190.0));
        let first = words.along_the_top(&[over_the_middle])[0].expect("beside them");
        assert!(first.right() < 130.0 - CLEAR && first.left() >= 40.0 + CLEAR, "{first:?}");
        let whole = Rect::from_min_max(pos2(50.0, 100.0), pos2(270.0, 190.0));
        assert_eq!(words.along_the_top(&[whole])[0], None, "the tooltip tells it");
    }

    #[test]
    fn the_words_at_a_peak_are_near_to_it() {
        // A line far below is no place for them, however clear it is there.
        let hills = vec![(640.0, 120.0)];
        let words = Words { hills, ..words(vec2(600.0, 300.0), &[16.0, 250.0], pos2(300.0, 40.0)) };
        let peak = words.places().peak.expect("a peak");
        assert!((peak.center().y - 140.0).abs() < 40.0, "{peak:?}");
    }

    proptest! {
        /// Wherever the peak and the budget are in a picture that is high enough, nothing lies over anything.
        #[test]
        fn nothing_overlaps(width in 420f32..1200.0, height in 110f32..500.0, line in 0.05f32..0.95, x in 0.0f32..1.0, y in 0.1f32..1.0) {
            let words = words(vec2(width, height), &[height * line], pos2(width * x, height * y));
            let places = words.places();
            prop_assert!(places.peak.is_some());
            prop_assert_eq!(overlaps(&words, &places), Vec::<String>::new());
        }
    }
}

//! Points at one place: runs of nearly the same peak and accuracy, as of one experiment that was run twice.

use eframe::egui::Pos2;

use super::Dot;
use crate::{session::RunKey, theme};

/// Points this near to each other hide one another.
const ONE: f32 = theme::POINT_RADIUS * 2.0;

/// Whether two places are one.
pub(super) fn is_one(a: Pos2, b: Pos2) -> bool {
    a.distance(b) <= ONE
}

/// The points in focus that are in view, by their places: `at` has where each lies on the screen, if it is in view. The older
/// runs come first, among places and at each of them.
pub(super) fn by_place(dots: &[Dot<'_>], at: impl Fn(usize) -> Option<Pos2>) -> Vec<Vec<usize>> {
    let mut order: Vec<(usize, Pos2)> =
        dots.iter().enumerate().filter(|(_, dot)| dot.in_focus).filter_map(|(i, _)| Some((i, at(i)?))).collect();
    order.sort_by_key(|(i, _)| dots[*i].run.key);
    let mut places: Vec<(Pos2, Vec<usize>)> = Vec::new();
    for (i, at) in order {
        match places.iter_mut().find(|(place, _)| is_one(*place, at)) {
            Some((_, here)) => here.push(i),
            None => places.push((at, vec![i])),
        }
    }
    places.into_iter().map(|(_, here)| here).collect()
}

/// The run that a click on a place means: the one after the run that is looked at, if that is one of them, else the first.
pub(super) fn next(runs: &[RunKey], shown: Option<RunKey>) -> Option<RunKey> {
    let after = runs.iter().position(|run| Some(*run) == shown).map_or(0, |at| (at + 1) % runs.len());
    runs.get(after).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clicks_on_a_place_go_through_its_runs() {
        assert_eq!([None, Some(4), Some(7), Some(9)].map(|shown| next(&[4, 7], shown)), [4, 7, 4, 4].map(Some));
        assert_eq!(next(&[4], Some(4)), Some(4));
        assert_eq!(next(&[], None), None);
    }
}

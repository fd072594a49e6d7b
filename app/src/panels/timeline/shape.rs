//! The shape of a timeline: which phases follow each other, and which op stands for each pixel column.

use plimsoll_engine::memory::{Phase, Point};

/// Ops of one phase in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Band {
    /// The phase.
    pub(crate) phase: Phase,
    /// Its first op.
    pub(crate) from: usize,
    /// One past its last op.
    pub(crate) to: usize,
}

/// The phases in order. Bringing a batch is too short to see and belongs to the forward pass that follows.
pub(crate) fn bands(points: &[Point]) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for (i, point) in points.iter().enumerate() {
        match bands.last_mut() {
            Some(band) if band.phase == point.phase => band.to = i + 1,
            Some(band) if band.phase == Phase::Batch => (band.phase, band.to) = (point.phase, i + 1),
            _ => bands.push(Band { phase: point.phase, from: i, to: i + 1 }),
        }
    }
    bands
}

/// Ops that share a pixel column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    /// The first.
    pub(crate) from: usize,
    /// One past the last.
    pub(crate) to: usize,
    /// The one with the most memory, which stands for all.
    pub(crate) highest: usize,
}

/// Ops `from..to` in at most `count` columns of about equal width.
pub(crate) fn columns(points: &[Point], from: usize, to: usize, count: usize) -> Vec<Column> {
    let (from, to) = (from.min(points.len()), to.min(points.len()));
    let length = to.saturating_sub(from);
    let count = count.clamp(1, length.max(1));
    let edge = |i: usize| from + length * i / count;
    let column = |i: usize| {
        let (from, to) = (edge(i), edge(i + 1));
        let highest = (from..to).max_by_key(|j| (points[*j].live, std::cmp::Reverse(*j)))?;
        Some(Column { from, to, highest })
    };
    (0..count).filter_map(column).collect()
}

/// Which of `count` points of a step line are drawn: not those that are at one level with their neighbours.
pub(crate) fn corners(count: usize, is_level: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let is_between = |i: usize| i > 0 && i + 1 < count && is_level(i - 1, i) && is_level(i, i + 1);
    (0..count).filter(|i| !is_between(*i)).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{
        Bytes,
        memory::{Categories, timeline::LayerId},
    };
    use proptest::prelude::*;

    use super::*;

    fn point(phase: Phase, live: u64) -> Point {
        Point { op: "matmul", layer: LayerId(0), phase, live: Bytes(live), categories: Categories::default() }
    }

    #[test]
    fn a_batch_belongs_to_the_pass_that_follows() {
        let phases = [Phase::Batch, Phase::Forward, Phase::Forward, Phase::Backward, Phase::Batch, Phase::Forward];
        let points: Vec<Point> = phases.iter().map(|phase| point(*phase, 1)).collect();
        let found: Vec<_> = bands(&points).iter().map(|b| (b.phase, b.from, b.to)).collect();
        assert_eq!(found, [(Phase::Forward, 0, 3), (Phase::Backward, 3, 4), (Phase::Forward, 4, 6)]);
    }

    #[test]
    fn a_level_stretch_has_two_corners() {
        let heights = [1, 1, 1, 1, 3, 3, 2, 2, 2, 2, 2, 2];
        assert_eq!(corners(heights.len(), |a, b| heights[a] == heights[b]), [0, 3, 4, 5, 6, 11]);
        assert!(corners(0, |_, _| true).is_empty());
    }

    proptest! {
        #[test]
        fn columns_cover_what_is_seen_and_keep_its_peak(lives in prop::collection::vec(0u64..1000, 0..500), a in 0usize..500, b in 0usize..500, count in 0usize..200) {
            let points: Vec<Point> = lives.iter().map(|live| point(Phase::Forward, *live)).collect();
            let (from, to) = (a.min(b).min(points.len()), a.max(b).min(points.len()));
            let columns = columns(&points, from, to, count);
            prop_assert!(columns.len() <= count.max(1));
            prop_assert_eq!(columns.iter().map(|c| c.to - c.from).sum::<usize>(), to - from);
            let highest = columns.iter().map(|c| points[c.highest].live).max();
            prop_assert_eq!(highest, points[from..to].iter().map(|p| p.live).max());
        }
    }
}

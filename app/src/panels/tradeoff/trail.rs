//! The trail of a run that trains: where its point has been.
//!
//! Owns which of its points are drawn, and refuses to move any of them.

/// The trail without what lies between its ends where it goes up and down on the spot: the peak of a run rises seldom, and a
/// point comes with each of its figures.
pub(super) fn drawn(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let on_the_spot = |points: &[[f64; 2]]| {
        let height = |a: &[f64; 2], b: &[f64; 2]| a[1].total_cmp(&b[1]);
        let ends = [0, points.len() - 1].map(|i| points.get(i).copied());
        let (low, high) = (points.iter().copied().min_by(height), points.iter().copied().max_by(height));
        [ends[0], low, high, ends[1]].into_iter().flatten()
    };
    let mut drawn: Vec<[f64; 2]> = points.chunk_by(|a, b| a[0] == b[0]).flat_map(on_the_spot).collect();
    drawn.dedup();
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_keeps_its_ends_and_how_far_it_went() {
        let up_and_down: Vec<[f64; 2]> = (0..1000).map(|i| [2.0, f64::from(i * 7 % 100)]).collect();
        assert_eq!(drawn(&up_and_down), [[2.0, 0.0], [2.0, 99.0], [2.0, 93.0]]);
        let across = [[1.0, 0.5], [2.0, 0.5], [2.0, 0.6], [3.0, 0.9]];
        assert_eq!(drawn(&across), across);
        assert!(drawn(&[]).is_empty());
    }
}

//! Categories stacked in a bar: where each segment lies. Pure arithmetic, so that it can be tested without a screen.

use plimsoll_engine::{
    Bytes,
    memory::{Categories, Category},
};

/// One segment of a bar, as shares of the bar's whole length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Segment {
    /// Its purpose.
    pub(crate) category: Category,
    /// How much.
    pub(crate) bytes: Bytes,
    /// Where it begins, 0 to 1.
    pub(crate) from: f32,
    /// Where it ends, 0 to 1.
    pub(crate) to: f32,
}

/// The segments of `categories` on a bar as long as `full`, in stacking order, empty ones left out.
pub(crate) fn segments(categories: &Categories, full: Bytes) -> Vec<Segment> {
    let mut at = 0;
    let share = |bytes: u64| (bytes as f64 / full.0.max(1) as f64).min(1.0) as f32;
    let mut segments = Vec::new();
    for (category, bytes) in categories.iter().filter(|(_, bytes)| bytes.0 > 0) {
        segments.push(Segment { category, bytes, from: share(at), to: share(at + bytes.0) });
        at += bytes.0;
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other_without_gaps_and_end_at_their_sum() {
        let mut categories = Categories::default();
        categories.add(Category::Parameters, 10);
        categories.add(Category::Activations, 30);
        let segments = segments(&categories, Bytes(80));
        assert_eq!(
            segments.iter().map(|s| s.category).collect::<Vec<_>>(),
            [Category::Parameters, Category::Activations]
        );
        assert_eq!((segments[0].from, segments[0].to, segments[1].from, segments[1].to), (0.0, 0.125, 0.125, 0.5));
    }

    #[test]
    fn a_bar_of_no_length_is_no_fault() {
        let mut categories = Categories::default();
        categories.add(Category::Batch, 5);
        assert_eq!(segments(&categories, Bytes(0))[0].to, 1.0);
    }
}

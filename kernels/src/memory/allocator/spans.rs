//! Parts of a room that lie apart from each other.

/// A part of the room: where it begins, and where it ends.
pub(super) type Span = (u64, u64);

/// Adds a span to others that are apart and in order, and joins it with those that it meets.
pub(super) fn join(spans: &mut Vec<Span>, (start, end): Span) {
    let first = spans.partition_point(|span| span.1 < start);
    let last = first + spans[first..].partition_point(|span| span.0 <= end);
    match spans[first..last] {
        [] => spans.insert(first, (start, end)),
        [one] => spans[first] = (one.0.min(start), one.1.max(end)),
        [low, .., high] => {
            spans[first] = (low.0.min(start), high.1.max(end));
            spans.drain(first + 1..last);
        }
    }
}

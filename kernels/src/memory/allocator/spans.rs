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

/// Takes a span out of others that are apart and in order.
pub(super) fn leave(spans: &mut Vec<Span>, (start, end): Span) {
    let first = spans.partition_point(|span| span.1 <= start);
    let last = first + spans[first..].partition_point(|span| span.0 < end);
    let (Some(&(low, _)), Some(&(_, high))) = (spans[first..last].first(), spans[first..last].last()) else { return };
    let rest = [(low, start), (end, high)].into_iter().filter(|(start, end)| start < end);
    spans.splice(first..last, rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROOM: usize = 48;

    proptest! {
        #[test]
        fn spans_that_join_and_leave_cover_what_a_list_of_places_does(
            changes in prop::collection::vec((any::<bool>(), 0..ROOM - 12, 1..12_usize), 0..60),
        ) {
            let (mut spans, mut covered) = (Vec::new(), [false; ROOM]);
            for (joins, start, length) in changes {
                let change = if joins { join } else { leave };
                change(&mut spans, (start as u64, (start + length) as u64));
                covered[start..start + length].fill(joins);
                prop_assert!(spans.iter().all(|(start, end)| start < end), "{spans:?}");
                prop_assert!(spans.is_sorted_by(|one, next| one.1 < next.0), "apart and in order: {spans:?}");
                let is_in = |place: usize| spans.iter().any(|(start, end)| (*start..*end).contains(&(place as u64)));
                prop_assert!((0..ROOM).all(|place| is_in(place) == covered[place]), "{spans:?}");
            }
        }
    }
}

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
    use super::*;

    #[test]
    fn spans_that_join_and_leave_cover_what_a_list_of_places_does() {
        const ROOM: u64 = 48;
        let (mut spans, mut covered, mut drawn) = (Vec::new(), [false; ROOM as usize], 7_u64);
        let mut below = |most: u64| {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (drawn >> 33) % most
        };
        for _ in 0..5000 {
            let start = below(ROOM - 1);
            let end = start + 1 + below((ROOM - start - 1).min(12));
            let joins = below(2) == 0;
            let change = if joins { join } else { leave };
            change(&mut spans, (start, end));
            covered[start as usize..end as usize].fill(joins);
            assert!(spans.iter().all(|(start, end)| start < end), "{spans:?}");
            assert!(spans.is_sorted_by(|one, next| one.1 < next.0), "apart and in order: {spans:?}");
            let is_in = |place: u64| spans.iter().any(|(start, end)| (*start..*end).contains(&place));
            assert!((0..ROOM).all(|place| is_in(place) == covered[place as usize]), "{spans:?}");
        }
    }
}

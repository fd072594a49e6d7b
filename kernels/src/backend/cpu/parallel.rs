//! The division of a launch into pieces for threads, with the part of the output that each piece may write.
//!
//! Pieces depend on the work alone, never on the number of threads, so that a result does not either. Work that is
//! too small to be worth waking a thread stays on the caller's. Each piece gets a part of the output of its own, so no two
//! pieces can write the same element.

use std::{ops::Range, sync::Arc};

use super::scratch::{Room, current, enter};
use crate::{
    backend::scratch::on_cpu::loop_step,
    memory::probe::{counted_on, meter_of_this_thread, uncounted},
};

pub(super) use crate::backend::scratch::on_cpu::GRAIN;

/// The output of pieces of work, which can be split between two pieces.
pub(super) trait Cut: Send + Sized {
    /// The share of one piece.
    type Part;
    /// Cuts it in two: the pieces before `piece`, and that piece with those after it. The numbers of pieces count from the
    /// first one, also after an earlier cut.
    fn cut(self, piece: usize) -> (Self, Self);
    /// The part of the one piece that is left.
    fn part(self) -> Self::Part;
}

impl Cut for () {
    type Part = ();

    fn cut(self, _: usize) -> ((), ()) {
        ((), ())
    }

    fn part(self) {}
}

impl<A: Cut, B: Cut> Cut for (A, B) {
    type Part = (A::Part, B::Part);

    fn cut(self, piece: usize) -> (Self, Self) {
        let ((a, a_rest), (b, b_rest)) = (self.0.cut(piece), self.1.cut(piece));
        ((a, b), (a_rest, b_rest))
    }

    fn part(self) -> Self::Part {
        (self.0.part(), self.1.part())
    }
}

/// As many parts as the state of an optimizer has.
impl<A: Cut, const N: usize> Cut for [A; N] {
    type Part = [A::Part; N];

    fn cut(self, piece: usize) -> (Self, Self) {
        let mut rests = [const { None }; N];
        let mut rest = rests.iter_mut();
        let before = self.map(|of| {
            let (before, after) = of.cut(piece);
            *rest.next().expect("one for each") = Some(after);
            before
        });
        (before, rests.map(|rest| rest.expect("one for each")))
    }

    fn part(self) -> Self::Part {
        self.map(A::part)
    }
}

impl<A: Cut> Cut for Option<A> {
    type Part = Option<A::Part>;

    fn cut(self, piece: usize) -> (Self, Self) {
        self.map(|of| of.cut(piece)).unzip()
    }

    fn part(self) -> Self::Part {
        self.map(A::part)
    }
}

/// Elements one after the other, cut where their pieces begin.
pub(super) struct Parts<'a, T> {
    elements: &'a mut [T],
    /// Elements before these.
    start: usize,
    bound: Bound<'a>,
}

/// The element that a piece begins with. With a type of its own for every function, everything that works on pieces would be
/// compiled as often.
#[derive(Clone, Copy)]
enum Bound<'a> {
    /// Pieces of so many elements.
    Rows(usize),
    /// What a function says of the piece's number.
    By(&'a (dyn Fn(usize) -> usize + Sync)),
}

/// Cuts elements into pieces that start at `bound` of their number.
pub(super) fn parts<'a, T: Send>(elements: &'a mut [T], bound: &'a (dyn Fn(usize) -> usize + Sync)) -> Parts<'a, T> {
    Parts { elements, start: 0, bound: Bound::By(bound) }
}

/// Rows of `columns` elements, one a piece.
pub(super) fn rows<T: Send>(elements: &mut [T], columns: usize) -> Parts<'_, T> {
    Parts { elements, start: 0, bound: Bound::Rows(columns) }
}

impl<'a, T: Send> Cut for Parts<'a, T> {
    type Part = &'a mut [T];

    fn cut(self, piece: usize) -> (Self, Self) {
        let end = match self.bound {
            Bound::Rows(columns) => piece * columns,
            Bound::By(bound) => bound(piece),
        };
        let (before, after) = self.elements.split_at_mut(end - self.start);
        (Self { elements: before, ..self }, Self { elements: after, start: end, bound: self.bound })
    }

    fn part(self) -> &'a mut [T] {
        self.elements
    }
}

/// Runs `piece` for each of `0..count` with its part of `of`, on all threads when `parallel`.
pub(super) fn pieces<C: Cut>(count: usize, parallel: bool, of: C, piece: impl Fn(usize, C::Part) + Sync) {
    in_pieces(count, parallel, of, &piece);
}

/// The same for any closure: one function for all kernels that write the same kind of parts.
fn in_pieces<C: Cut>(count: usize, parallel: bool, of: C, piece: &(dyn Fn(usize, C::Part) + Sync)) {
    match count {
        0 => (),
        _ if parallel && count > 1 && rayon::current_num_threads() > 1 => {
            share(0..count, of.cut(count).0, piece, &current());
        }
        _ => in_turn(0..count, of.cut(count).0, piece),
    }
}

/// Shares work out, with the room for its scratch.
fn share<C: Cut>(range: Range<usize>, of: C, piece: &(dyn Fn(usize, C::Part) + Sync), room: &Option<Arc<Room>>) {
    if range.len() == 1 {
        let _within = enter(room.clone());
        return piece(range.start, of.part());
    }
    let middle = range.start + range.len() / 2;
    let (before, after) = of.cut(middle);
    let (mut before, mut after) = (Some(before), Some(after));
    let share = |range, of: &mut Option<C>| share(range, of.take().expect("it is called once"), piece, room);
    join(&mut || share(range.start..middle, &mut before), &mut || share(middle..range.end, &mut after));
}

/// Runs both, at once if a thread is free. One function for all work, because a `rayon::join` generates much code.
///
/// Their memory is counted where the caller's is. That of rayon itself is counted nowhere: a thread frees what threads of
/// another pool left behind (crossbeam-epoch).
fn join(one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
    let meter = meter_of_this_thread();
    uncounted(|| rayon::join(|| counted_on(meter, one), || counted_on(meter, other)));
}

/// Works on one piece after the other.
fn in_turn<C: Cut>(range: Range<usize>, of: C, piece: &(dyn Fn(usize, C::Part) + Sync)) {
    let (mut rest, last) = (of, range.end - 1);
    for i in range.start..last {
        let (before, after) = rest.cut(i + 1);
        piece(i, before.part());
        rest = after;
    }
    piece(last, rest.part());
}

/// Cuts `0..length` into ranges of about [`GRAIN`] elements, where an item of the range stands for `weight` elements,
/// and runs `piece` on each with its part of `of`, whose pieces are the items.
pub(super) fn ranges<C: Cut>(length: usize, weight: usize, of: C, piece: impl Fn(Range<usize>, C::Part) + Sync) {
    in_ranges(length, weight, of, &piece);
}

/// The same for any closure. A closure that is called in two places is compiled twice.
fn in_ranges<C: Cut>(length: usize, weight: usize, of: C, piece: &(dyn Fn(Range<usize>, C::Part) + Sync)) {
    let step = loop_step(length, weight);
    if step == length {
        return piece(0..length, of.cut(length).0.part());
    }
    let of = Steps { of, step, length };
    in_pieces(length.div_ceil(step), true, of, &|i, part| piece(i * step..((i + 1) * step).min(length), part));
}

/// Runs `f` over pieces of `y`, with the place of each.
pub(super) fn each<T: Send>(y: &mut [T], f: impl Fn(usize, &mut [T]) + Sync) {
    ranges(y.len(), 1, rows(y, 1), |range, y| f(range.start, y));
}

/// `step` pieces of `of` as one.
struct Steps<C> {
    of: C,
    step: usize,
    length: usize,
}

impl<C: Cut> Cut for Steps<C> {
    type Part = C::Part;

    fn cut(self, piece: usize) -> (Self, Self) {
        let Self { of, step, length } = self;
        let (before, after) = of.cut((piece * step).min(length));
        (Self { of: before, step, length }, Self { of: after, step, length })
    }

    fn part(self) -> C::Part {
        self.of.part()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::thread_pool::{ThreadPool, ThreadPriority::Normal},
        memory::probe::Reading,
    };

    /// Runs pieces that hold 100 bytes each, again and again.
    fn work() {
        let hold = |_: usize, ()| drop(std::hint::black_box(vec![1u8; 100]));
        (0..100).for_each(|_| pieces(64, true, (), hold));
    }

    #[test]
    fn memory_of_pieces_is_counted_and_that_of_rayon_is_not_whatever_other_pools_leave_behind() {
        let pool = ThreadPool::of(2, Normal).expect("threads");
        let meter = pool.meter();
        let before = meter.now();
        assert_eq!(before, Reading::default());
        for round in 0..50 {
            // Its threads end, and others free what they leave.
            ThreadPool::of(2, Normal).expect("threads").run(work);
            meter.reset_peak();
            pool.run(|| {
                let block = vec![1u8; 1000];
                work();
                assert_eq!(meter.now().live.0, 1000, "{round}");
                drop(block);
            });
            assert_eq!(meter.now(), before, "{round}");
            let peak = meter.peak().live.0;
            assert!((1100..=1200).contains(&peak), "{round}: {peak}");
        }
    }

    #[test]
    fn every_element_is_written_once_by_the_piece_that_owns_it() {
        for (length, weight) in [(0, 1), (1, 1), (7, 1), (0, GRAIN), (1, GRAIN), (7, GRAIN), (101, GRAIN / 8)] {
            let (mut y, mut sums) = (vec![0; 3 * length], vec![0; length]);
            ranges(length, weight, (rows(&mut y, 3), Some(rows(&mut sums, 1))), |range, (y, sums)| {
                assert_eq!(y.len(), 3 * range.len());
                y.iter_mut().enumerate().for_each(|(i, y)| *y += 3 * range.start + i + 1);
                sums.expect("given").iter_mut().zip(range).for_each(|(sum, i)| *sum += i + 1);
            });
            assert!(y.iter().zip(1..).all(|(y, i)| *y == i), "{length} {weight}");
            assert!(sums.iter().zip(1..).all(|(sum, i)| *sum == i), "{length} {weight}");
        }
    }

    #[test]
    fn parts_may_be_of_any_length_and_what_lies_behind_is_left_alone() {
        let mut y = [0; 11];
        pieces(3, true, parts(&mut y, &|i| (4 * i).min(10)), |i, y| {
            assert_eq!(y.len(), [4, 4, 2][i]);
            y.fill(i + 1);
        });
        assert_eq!(y, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 0]);
        pieces(2, false, [rows(&mut y, 2), rows(&mut [0; 4], 2)], |_, [y, _]| y.fill(9));
        assert_eq!(y, [9, 9, 9, 9, 2, 2, 2, 2, 3, 3, 0]);
    }

    #[test]
    #[should_panic(expected = "mid > len")]
    fn elements_too_few_for_their_pieces_are_refused() {
        pieces(3, false, rows(&mut [0; 5], 2), |_, y| y.fill(1));
    }
}

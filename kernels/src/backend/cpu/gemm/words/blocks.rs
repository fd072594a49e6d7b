//! Tiles that are multiplied in blocks of 16 rows by 16 words, by AMX.
//!
//! One instruction multiplies a block of the left operand by one of the right and adds the products to 16 rows of 16 sums. The
//! right operand lies in the panels that words are multiplied by. The left one is read where it lies if its rows are evenly
//! apart and begin at lines of the cache, and laid out otherwise: a block whose rows cross lines takes several times as long to
//! load. Blocks that no window of a convolution sees are left out. Products are exact, and subnormal numbers count as zero.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};

use super::{BLOCK, CHUNK, COLUMNS, Layout, MOST_TERMS, Operand, Panels, RUN_ROWS, Run, Runs, Term, kernel, words_of};
use crate::backend::cpu::{matrix::MatMut, simd::simd};

/// Rows of a block, and words of each.
pub(super) const EXTENT: usize = 16;
/// Blocks of a group of rows, one below another.
const HALVES: usize = BLOCK / EXTENT;
/// The most blocks of a step, one after another.
const STEPS: usize = MOST_TERMS / BLOCK;

const _: () = assert!(RUN_ROWS == EXTENT && CHUNK == EXTENT && BLOCK == 2 * EXTENT);

/// Bytes of a row of a block: a line of the cache.
pub(super) const LINE: usize = 4 * EXTENT;

/// The sums of a group of rows with a panel, row after row.
#[repr(align(64))]
pub(super) struct Sums(pub(super) [f32; BLOCK * COLUMNS]);

/// `sums (+)= left * panels`, of some rows and terms of the left operand, whose blocks have `room`.
pub(super) fn multiply<L: Operand<E>, E: Term>(
    left: &L,
    (rows, terms): (Range<usize>, Range<usize>),
    room: &mut [u32],
    panels: Panels<'_>,
    add: bool,
    mut sums: MatMut<'_, f32>,
) {
    let registers = kernel::Registers::set_up();
    let (mut runs, mut found) = (Runs::new(), Sums([0.0; BLOCK * COLUMNS]));
    let [count, columns] = sums.extents();
    for first in (0..count).step_by(BLOCK) {
        let some = first..count.min(first + BLOCK);
        let group = rows.start + some.start..rows.start + some.end;
        let steps = Steps::of(left, group, terms.clone(), &mut runs, &mut *room);
        for column in (0..columns).step_by(COLUMNS) {
            registers.multiply(steps.all(), panels.from(column).words, &mut found);
            for (row, found) in some.clone().zip(found.0.chunks_exact(COLUMNS)) {
                put(found, add, &mut sums.row(row)[column..]);
            }
        }
    }
}

simd! {
    /// Stores or adds as many of a row's sums as there is room for.
    fn put [] (found: &[f32], add: bool, to: &mut [f32]) {
        if let (Some(to), Some(found)) = (to.first_chunk_mut::<COLUMNS>(), found.first_chunk::<COLUMNS>()) {
            for (to, found) in to.iter_mut().zip(found) {
                *to = if add { *to + *found } else { *found };
            }
            return;
        }
        for (to, found) in to.iter_mut().zip(found) {
            *to = if add { *to + *found } else { *found };
        }
    }
}

/// Rows evenly apart, each beginning at a line of the cache.
#[derive(Debug, Clone, Copy)]
struct EvenRows<'a> {
    first: &'a [u8],
    /// Bytes from a row to the next.
    stride: usize,
}

impl<'a> EvenRows<'a> {
    /// None if rows lie otherwise. All have the same length.
    fn of<E: Term>(rows: &[&'a [E]; EXTENT]) -> Option<Self> {
        let place = |row: usize| rows[row].as_ptr().addr();
        let stride = place(1).wrapping_sub(place(0));
        let is_even = (1..EXTENT).all(|row| place(row) == place(row - 1).wrapping_add(stride));
        let is_in_lines = place(0).is_multiple_of(LINE) && stride.is_multiple_of(LINE);
        let have_one_length = rows.iter().all(|row| row.len() >= rows[0].len());
        (is_even && is_in_lines && have_one_length).then(|| Self { first: cast_slice(rows[0]), stride })
    }
}

/// Where a block of the left operand is.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    /// Nothing but zeros.
    Nowhere,
    /// Laid out.
    Room,
    /// Where the operand has it, from a byte of its rows on.
    There(EvenRows<'a>, usize),
}

/// Zeros, as a block.
#[repr(align(64))]
struct Zeros([u8; EXTENT * LINE]);

static ZEROS: Zeros = Zeros([0; EXTENT * LINE]);

/// A block of the left operand: rows of a line of the cache, evenly apart.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Block<'a> {
    /// The first row. The others are as long, and live as long.
    pub(super) first: &'a [u8; LINE],
    /// Bytes from a row to the next.
    pub(super) stride: usize,
}

/// The blocks of a group of rows, and the panel's word by which the first word of their rows is multiplied. The kernel reads it as
/// five numbers of 8 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Step<'a> {
    pub(super) blocks: [Block<'a>; HALVES],
    pub(super) word: usize,
}

/// The steps of a group of rows through the terms.
pub(super) struct Steps<'a> {
    steps: [Step<'a>; STEPS],
    count: usize,
}

impl<'r> Steps<'r> {
    pub(super) fn all(&self) -> &[Step<'r>] {
        &self.steps[..self.count]
    }

    /// Finds the blocks of some rows, or lays them out in `room`.
    fn of<'a: 'r, L: Operand<E>, E: Term>(
        a: &'a L,
        rows: Range<usize>,
        terms: Range<usize>,
        runs: &mut Runs<'a, E>,
        room: &'r mut [u32],
    ) -> Self {
        let count = words_of::<E>(terms.len()).div_ceil(EXTENT);
        let (room, aside) = room.split_at_mut(count * HALVES * EXTENT * EXTENT);
        let mut places = [[Place::Nowhere; HALVES]; STEPS];
        let halves = (rows.start..rows.end).step_by(EXTENT).map(|start| start..rows.end.min(start + EXTENT));
        let aside = cast_slice_mut::<u32, E>(aside);
        for (half, rows) in halves.enumerate() {
            let mut to = Laying { places: &mut places, room: &mut *room, half };
            match a.layout() {
                Layout::Runs => {
                    runs.count = 0;
                    a.runs(rows.clone(), terms.clone(), runs);
                    runs.all().iter().for_each(|run| to.run(run, rows.len()));
                }
                Layout::Columns | Layout::CopiedColumns => {
                    let (elements, [_, stride]) = a.block(rows.clone(), terms.clone(), &mut []).parts();
                    to.lines(elements, stride, [rows.len(), terms.len()]);
                }
                Layout::Rows => {
                    let (elements, [stride, _]) = a.block(rows.clone(), terms.clone(), &mut []).parts();
                    let starts = starts(elements, stride, rows.len());
                    to.run(&Run { terms: terms.len(), before: 0, starts }, rows.len());
                }
                Layout::CopiedRows => {
                    let (elements, [stride, _]) = a.block(rows.clone(), terms.clone(), &mut *aside).parts();
                    let starts = starts(elements, stride, rows.len());
                    for (step, first) in (0..terms.len()).step_by(BLOCK).enumerate() {
                        to.copy(&starts[..rows.len()], first..terms.len().min(first + BLOCK), [step, 0]);
                    }
                }
            }
        }
        Self::at(&places[..count], room)
    }

    /// The steps whose blocks lie at these places. A step without any block adds nothing, and is left out.
    fn at(places: &[[Place<'r>; HALVES]], room: &'r [u32]) -> Self {
        let zeros = Block { first: ZEROS.0.first_chunk().expect("a line"), stride: LINE };
        let mut found = Self { steps: [Step { blocks: [zeros; HALVES], word: 0 }; STEPS], count: 0 };
        let (room, _) = cast_slice::<u32, u8>(room).as_chunks::<LINE>();
        for (step, places) in places.iter().enumerate() {
            if places.iter().all(|place| matches!(place, Place::Nowhere)) {
                continue;
            }
            let to = &mut found.steps[found.count];
            (found.count, to.word) = (found.count + 1, step * EXTENT);
            for (half, (block, place)) in to.blocks.iter_mut().zip(places).enumerate() {
                *block = match place {
                    Place::Nowhere => zeros,
                    Place::Room => Block { first: &room[(step * HALVES + half) * EXTENT], stride: LINE },
                    Place::There(rows, at) => Block {
                        first: rows.first[*at..].first_chunk().expect("a line of the row"),
                        stride: rows.stride,
                    },
                };
            }
        }
        found
    }
}

/// The starts of rows `stride` apart.
fn starts<E>(elements: &[E], stride: usize, count: usize) -> [&[E]; EXTENT] {
    let mut starts = [&elements[..0]; EXTENT];
    starts[..count].iter_mut().enumerate().for_each(|(row, start)| *start = &elements[row * stride..]);
    starts
}

/// The blocks of one half of a group of rows, being found or laid out.
struct Laying<'r, 'a> {
    places: &'r mut [[Place<'a>; HALVES]; STEPS],
    room: &'r mut [u32],
    half: usize,
}

impl<'a> Laying<'_, 'a> {
    /// Takes a run of some rows.
    fn run<E: Term>(&mut self, run: &Run<'a, E>, rows: usize) {
        let even = if rows == EXTENT { EvenRows::of(&run.starts) } else { None };
        let end = run.before + words_of::<E>(run.terms);
        for step in run.before / EXTENT..end.div_ceil(EXTENT) {
            let words = run.before.max(step * EXTENT)..end.min((step + 1) * EXTENT);
            let [from, to] = [words.start, words.end].map(|word| (word - run.before) * E::IN_WORD);
            match even {
                Some(rows) if words.len() == EXTENT && to <= run.terms => {
                    self.places[step][self.half] = Place::There(rows, from * size_of::<E>());
                }
                _ => self.copy(&run.starts[..rows], from..to.min(run.terms), [step, words.start % EXTENT]),
            }
        }
    }

    /// Copies some terms of rows to a block, from a word of its rows on.
    fn copy<E: Term>(&mut self, rows: &[&[E]], terms: Range<usize>, [step, word]: [usize; 2]) {
        let is_whole = rows.len() == EXTENT && terms.len() == BLOCK;
        let block = self.block(step, is_whole);
        for (row, to) in rows.iter().zip(block.chunks_exact_mut(EXTENT)) {
            let to = &mut cast_slice_mut::<u32, E>(to)[word * E::IN_WORD..][..terms.len()];
            to.copy_from_slice(&row[terms.clone()]);
        }
    }

    /// Takes rows whose terms lie in lines, `stride` apart.
    fn lines<E: Term>(&mut self, lines: &[E], stride: usize, [rows, terms]: [usize; 2]) {
        for (step, first) in (0..terms).step_by(BLOCK).enumerate() {
            let mut words = [[0; EXTENT]; EXTENT];
            gather(&lines[first * stride..], stride, [rows, BLOCK.min(terms - first)], &mut words);
            let block = self.block(step, true);
            kernel::transpose(words.each_ref().map(|words| cast_slice(words)), block, EXTENT);
        }
    }

    /// The room of a block: with zeros, unless it has been begun or is all written next.
    fn block(&mut self, step: usize, is_whole: bool) -> &mut [u32] {
        let block = &mut self.room[(step * HALVES + self.half) * EXTENT * EXTENT..][..EXTENT * EXTENT];
        let place = &mut self.places[step][self.half];
        if matches!(place, Place::Nowhere) && !is_whole {
            block.fill(0);
        }
        *place = Place::Room;
        block
    }
}

simd! {
    /// The words of some rows, of which terms lie in lines.
    fn gather [E: Term] (lines: &[E], stride: usize, extents: [usize; 2], to: &mut [[u32; EXTENT]; EXTENT]) {
        let [rows, terms] = extents;
        for (to, term) in to.iter_mut().zip((0..terms).step_by(E::IN_WORD)) {
            let low = &lines[term * stride..][..rows];
            let high = if term + 1 < terms { &lines[(term + 1) * stride..][..rows] } else { &[] };
            if let (Some(low), Some(high)) = (low.first_chunk::<EXTENT>(), high.first_chunk::<EXTENT>()) {
                for ((to, low), high) in to.iter_mut().zip(low).zip(high) {
                    *to = E::word(*low, *high);
                }
                continue;
            }
            for (i, (to, low)) in to.iter_mut().zip(low).enumerate() {
                *to = E::word(*low, high.get(i).copied().unwrap_or(E::ZERO));
            }
        }
    }
}

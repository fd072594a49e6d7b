//! Tiles that are multiplied here, word by word, by AVX-512.
//!
//! A word has 4 bytes: an f32, or two neighbouring bf16 terms of a sum, which one instruction multiplies by those of another
//! word and adds to an f32 (AVX-512 BF16). The left operand is read where it lies, the patches of an image as well; only pairs
//! whose terms are apart are laid out. The right operand is laid out in panels of 32 columns, unless its rows lie near each
//! other. The sums of 12 rows with a panel stay in registers. Products of pairs are exact, and their subnormal numbers count as zero.

mod blocks;
#[cfg(target_arch = "x86_64")]
mod kernel;
#[cfg(not(target_arch = "x86_64"))]
#[path = "words/no_kernel.rs"]
mod kernel;
mod panels;
#[cfg(test)]
mod tests;

use std::ops::Range;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::bf16;

#[cfg(target_arch = "x86_64")]
pub(in crate::backend::cpu) use self::kernel::transpose;
pub(in crate::backend::cpu) use self::panels::turn;
use self::panels::{Panel, Panels};
use super::{
    Operand, Target, Tile, store,
    tiling::{
        BLOCK, CHUNK, GemmTiling, Layout, MOST_TERMS, Multiplier, RUN_ROWS, WORD_COLUMNS as COLUMNS, WORD_ROWS as ROWS,
    },
};
use crate::backend::cpu::{
    float::{Accumulator, Float},
    matrix::{MatMut, MatRef},
    scratch::Scratch,
    simd::simd,
};
use crate::device::Instructions;

/// The most runs of terms in one step of a tile: each has a whole chunk.
const RUNS: usize = MOST_TERMS / CHUNK;

/// A type of numbers that fill a word alone or in pairs.
pub(in crate::backend::cpu) trait Term: Float<Acc = f32> + Pod {
    /// Terms of a sum in a word.
    const IN_WORD: usize;
    /// Rows that are copied before they are laid out in panels.
    const AHEAD: usize;
    /// A word of two terms; the second one counts only where a word has two.
    fn word(low: Self, high: Self) -> u32;
    /// The words of neighbouring terms, half of the last one empty where terms are odd.
    fn words(terms: &[Self], to: &mut [u32]);
    /// `sums (+)= group * panel`, from a column of the sums on. Only a processor that has the instructions may come here.
    fn multiply<const N: usize>(group: &Group<'_, Self>, panel: Panel<'_>, sums: &mut [&mut [f32]; N], column: usize);
}

/// Terms of a sum that lie in memory as far from each other in each of some rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cpu) struct Run<'a, E> {
    /// How many.
    terms: usize,
    /// Words of the panel before them.
    before: usize,
    /// Where each row's lie.
    pub(in crate::backend::cpu) starts: [&'a [E]; RUN_ROWS],
}

/// The terms of some rows, run after run.
pub(in crate::backend::cpu) struct Runs<'a, E> {
    runs: [Run<'a, E>; RUNS],
    count: usize,
}

impl<'a, E> Runs<'a, E> {
    fn new() -> Self {
        Self { runs: [const { Run { terms: 0, before: 0, starts: [&[]; RUN_ROWS] } }; RUNS], count: 0 }
    }

    /// Adds a run, and returns the starts of its rows to be written. So many terms of the step come before its own; those that no
    /// run has are left out of the sums.
    pub(in crate::backend::cpu) fn add(&mut self, before: usize, terms: usize) -> &mut [&'a [E]; RUN_ROWS]
    where
        E: Term,
    {
        let run = &mut self.runs[self.count];
        self.count += 1;
        (run.before, run.terms) = (before / E::IN_WORD, terms);
        &mut run.starts
    }

    fn all(&self) -> &[Run<'a, E>] {
        &self.runs[..self.count]
    }
}

/// Tiles that are multiplied word by word.
pub(super) struct ByWords<'a, L, R, E> {
    a: &'a L,
    b: &'a R,
    terms: std::marker::PhantomData<fn(E)>,
}

impl<'a, E: Term, L: Operand<E>, R: Operand<E>> ByWords<'a, L, R, E> {
    pub(super) fn new(a: &'a L, b: &'a R) -> Self {
        Self { a, b, terms: std::marker::PhantomData }
    }
}

impl<A: Accumulator, E: Term, L: Operand<E>, R: Operand<E>> Tile<A> for ByWords<'_, L, R, E> {
    fn layouts(&self) -> [Layout; 2] {
        [self.a.layout(), self.b.layout()]
    }

    fn compute<W: Float<Acc = A>>(
        &self,
        plan: &GemmTiling,
        [row, column]: [usize; 2],
        depth: Range<usize>,
        target: Target<'_, W>,
    ) {
        let Target { mut matrix, accumulate } = target;
        let [rows, columns] = matrix.extents();
        let [room_a, room_b, room_c] = plan.block_elements();
        let mut scratch = Scratch::<A>::new(room_a + room_b + room_c);
        let Some(room) = A::singles_mut(scratch.elements()) else { unreachable!("words are added up in f32") };
        let (in_a, room) = room.split_at_mut(room_a);
        let (in_b, in_c) = room.split_at_mut(room_b);
        let (is_staged, in_blocks) = (plan.staged(), plan.product.by == Multiplier::Blocks);
        let mut from = depth.start;
        loop {
            let step = from..(from + plan.depth).min(depth.end);
            let of_tile = column..column + columns;
            let panels = match plan.is_right_in_place() {
                true => Panels::in_place(self.b, step.clone(), of_tile),
                false => {
                    let words = words_of::<E>(step.len());
                    let words = if in_blocks { words.next_multiple_of(blocks::EXTENT) } else { words };
                    Panels::laid_out(self.b, step.clone(), of_tile, words, cast_slice_mut(in_b))
                }
            };
            let is_later = from > depth.start;
            let (add, sums) = match is_staged {
                true => (is_later, MatMut::new(in_c, [rows, columns], columns)),
                false => {
                    let sums = matrix.singles();
                    (accumulate || is_later, sums.expect("a product that is not staged is stored as it is computed"))
                }
            };
            let (of_left, room) = (row..row + rows, cast_slice_mut(&mut *in_a));
            if in_blocks {
                blocks::multiply(self.a, (of_left, step.clone()), room, panels, add, sums);
            } else {
                Left::of(self.a, of_left, step.clone(), room).multiply(panels, add, sums);
            }
            from = step.end;
            if from >= depth.end {
                break;
            }
        }
        if is_staged {
            store(&scratch.elements()[room_a + room_b..], columns, Target { matrix, accumulate });
        }
    }
}

/// How many words a row of terms has; an odd row of pairs ends with half a word, which counts.
fn words_of<E: Term>(terms: usize) -> usize {
    terms.div_ceil(E::IN_WORD)
}

/// A block of the left operand.
enum Left<'a, L, E> {
    /// In lines.
    Lines {
        elements: &'a [E],
        rows: usize,
        terms: usize,
        /// From a row of a group to the next, from a word to the next, and from a group of rows to the next.
        strides: [usize; 3],
    },
    /// In runs, which the operand finds.
    Runs { of: &'a L, rows: Range<usize>, terms: Range<usize> },
}

impl<'a, L: Operand<E>, E: Term> Left<'a, L, E> {
    /// Takes a block in place, or lays it out in `room`: for each group of rows the words of all rows, one after another.
    fn of(a: &'a L, rows: Range<usize>, terms: Range<usize>, room: &'a mut [u32]) -> Self {
        if a.layout() == Layout::Runs {
            return Self::Runs { of: a, rows, terms };
        }
        let (count, length) = (rows.len(), terms.len());
        if a.layout().by_rows() {
            let (elements, [stride, _]) = a.block(rows, terms, cast_slice_mut(room)).parts();
            return Self::Lines { elements, rows: count, terms: length, strides: [stride, E::IN_WORD, ROWS * stride] };
        }
        let (elements, [_, stride]) = a.block(rows, terms, &mut []).parts();
        if E::IN_WORD == 1 {
            return Self::Lines { elements, rows: count, terms: length, strides: [1, stride, ROWS] };
        }
        let words = words_of::<E>(length);
        let used = &mut room[..count.next_multiple_of(ROWS) * words];
        gather(elements, stride, [count, length], used);
        let strides = [E::IN_WORD, E::IN_WORD * ROWS, E::IN_WORD * ROWS * words];
        Self::Lines { elements: cast_slice(used), rows: count, terms: words * E::IN_WORD, strides }
    }

    /// `sums (+)= self * panels`.
    fn multiply(&self, panels: Panels<'_>, add: bool, mut sums: MatMut<'_, f32>) {
        let mut runs = Runs::new();
        let (rows, along) = match self {
            Self::Lines { rows, strides, .. } => (*rows, strides[1]),
            Self::Runs { rows, .. } => (rows.len(), E::IN_WORD),
        };
        for row in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - row);
            runs.count = 0;
            match self {
                Self::Lines { elements, terms, strides: [down, _, group], .. } => {
                    for (i, start) in runs.add(0, *terms)[..count].iter_mut().enumerate() {
                        *start = &elements[row / ROWS * group + i * down..];
                    }
                }
                Self::Runs { of, rows, terms } => {
                    of.runs(rows.start + row..rows.start + row + count, terms.clone(), &mut runs);
                }
            }
            Group { runs: runs.all(), along, add }.multiply_rows(count, panels, &mut sums, row);
        }
    }
}

/// `sums (+)= a * b`, of matrices in memory. The rows of `b` follow each other and are whole panels.
pub(in crate::backend::cpu) fn multiply_near(a: MatRef<'_, f32>, b: &[f32], add: bool, mut sums: MatMut<'_, f32>) {
    assert!(
        Instructions::detect() >= Instructions::Avx512,
        "a product is planned so only where there is the instruction"
    );
    let ([rows, columns], [_, terms]) = (sums.extents(), a.extents());
    assert!(a.extents()[0] == rows && columns.is_multiple_of(COLUMNS), "rows of whole panels");
    let (elements, [down, along]) = a.parts();
    let panels = Panels::rows(b, columns);
    for row in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - row);
        let mut run = Run { terms, before: 0, starts: [&[]; RUN_ROWS] };
        for (i, start) in run.starts[..count].iter_mut().enumerate() {
            *start = &elements[(row + i) * down..];
        }
        Group { runs: &[run], along, add }.multiply_rows(count, panels, &mut sums, row);
    }
}

/// Rows whose sums are in registers at once.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only kernels read it"))]
pub(in crate::backend::cpu) struct Group<'a, E> {
    runs: &'a [Run<'a, E>],
    /// From a word of a row to the next.
    along: usize,
    /// Whether their products are added to the present sums.
    add: bool,
}

impl<E: Term> Group<'_, E> {
    /// Multiplies so many rows, which are those of the sums from one on.
    fn multiply_rows(&self, count: usize, panels: Panels<'_>, sums: &mut MatMut<'_, f32>, row: usize) {
        match count {
            12 => self.multiply(panels, sums.some_rows::<12>(row)),
            11 => self.multiply(panels, sums.some_rows::<11>(row)),
            10 => self.multiply(panels, sums.some_rows::<10>(row)),
            9 => self.multiply(panels, sums.some_rows::<9>(row)),
            8 => self.multiply(panels, sums.some_rows::<8>(row)),
            7 => self.multiply(panels, sums.some_rows::<7>(row)),
            6 => self.multiply(panels, sums.some_rows::<6>(row)),
            5 => self.multiply(panels, sums.some_rows::<5>(row)),
            4 => self.multiply(panels, sums.some_rows::<4>(row)),
            3 => self.multiply(panels, sums.some_rows::<3>(row)),
            2 => self.multiply(panels, sums.some_rows::<2>(row)),
            _ => self.multiply(panels, sums.some_rows::<1>(row)),
        }
    }

    /// Multiplies by all panels, one after another.
    fn multiply<const N: usize>(&self, panels: Panels<'_>, mut sums: [&mut [f32]; N]) {
        for column in (0..sums[0].len()).step_by(COLUMNS) {
            E::multiply(self, panels.from(column), &mut sums, column);
        }
    }
}

simd! {
    /// Lays out groups of columns of a block whose terms lie in lines, `stride` apart, as words of two terms.
    fn gather [E: Term] (lines: &[E], stride: usize, extents: [usize; 2], to: &mut [u32]) {
        let [rows, terms] = extents;
        let words = terms.div_ceil(2);
        for word in 0..words {
            let low = &lines[2 * word * stride..][..rows];
            let high = if 2 * word + 1 < terms { &lines[(2 * word + 1) * stride..][..rows] } else { &[] };
            for (group, start) in to.chunks_exact_mut(ROWS * words).zip((0..rows).step_by(ROWS)) {
                let to = &mut group[word * ROWS..][..ROWS];
                if start + ROWS <= rows && !high.is_empty() {
                    let (low, high) = (&low[start..][..ROWS], &high[start..][..ROWS]);
                    for ((to, low), high) in to.iter_mut().zip(low).zip(high) {
                        *to = E::word(*low, *high);
                    }
                } else {
                    for (i, to) in to.iter_mut().enumerate() {
                        let of = |row: &[E]| row.get(start + i).copied().unwrap_or(E::ZERO);
                        *to = E::word(of(low), of(high));
                    }
                }
            }
        }
    }
}

impl Term for f32 {
    const IN_WORD: usize = 1;
    const AHEAD: usize = 8;

    #[inline(always)]
    fn word(low: f32, _: f32) -> u32 {
        low.to_bits()
    }

    #[inline(always)]
    fn words(terms: &[f32], to: &mut [u32]) {
        for (to, term) in to.iter_mut().zip(terms) {
            *to = term.to_bits();
        }
    }

    fn multiply<const N: usize>(group: &Group<'_, f32>, panel: Panel<'_>, sums: &mut [&mut [f32]; N], column: usize) {
        kernel::singles(group, panel, sums, column);
    }
}

impl Term for bf16 {
    const IN_WORD: usize = 2;
    const AHEAD: usize = 2;

    #[inline(always)]
    fn word(low: bf16, high: bf16) -> u32 {
        u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16
    }

    #[inline(always)]
    fn words(terms: &[bf16], to: &mut [u32]) {
        let whole = terms.as_chunks::<2>();
        for (to, [low, high]) in to.iter_mut().zip(whole.0) {
            *to = Self::word(*low, *high);
        }
        if let [last] = whole.1 {
            to[terms.len() / 2] = Self::word(*last, Self::ZERO);
        }
    }

    fn multiply<const N: usize>(group: &Group<'_, bf16>, panel: Panel<'_>, sums: &mut [&mut [f32]; N], column: usize) {
        kernel::pairs(group, panel, sums, column);
    }
}

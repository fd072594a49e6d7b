//! Tiles that are multiplied here, word by word, by AVX-512.
//!
//! A word has 4 bytes: an f32, or two neighbouring bf16 terms of a sum, which one instruction multiplies by those of another
//! word and adds to an f32 (AVX-512 BF16). The left operand is read where it lies, the patches of an image as well; only pairs
//! whose terms are apart are laid out. The right operand is laid out in panels of 32 columns. The sums of 12 rows with a panel
//! stay in registers. Products of pairs are exact, and their subnormal numbers count as zero.

use std::ops::Range;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::bf16;

use super::{
    Operand, Target, Tile, store,
    tiling::{CHUNK, GemmTiling, Layout, WORD_COLUMNS as COLUMNS, WORD_ROWS as ROWS},
};
use crate::backend::cpu::{
    float::{Accumulator, Float},
    matrix::MatMut,
    scratch::Scratch,
    simd::simd,
};

/// The most runs of terms in one step of a tile.
const RUNS: usize = 48;
/// The most chunks of columns of a tile.
const CHUNKS: usize = 16;

/// A number of which a word has one or two.
pub(in crate::backend::cpu) trait Term: Float<Acc = f32> + Pod {
    /// Terms of a sum in a word.
    const IN_WORD: usize;
    /// Rows that are copied before they are laid out in panels.
    const AHEAD: usize;
    /// A word of two terms; the second one counts only where a word has two.
    fn word(low: Self, high: Self) -> u32;
    /// The words of neighbouring terms, half of the last one empty where terms are odd.
    fn words(terms: &[Self], to: &mut [u32]);
    /// `sums (+)= runs * panel`, from a column of the sums on. A processor that does not have the instructions must not come
    /// here.
    fn multiply<const N: usize>(
        runs: &[Run<'_, Self>],
        along: usize,
        panel: &[u32],
        add: bool,
        sums: &mut [&mut [f32]; N],
        column: usize,
    );
}

/// Terms of a sum that lie in memory as far from each other in each of some rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend::cpu) struct Run<'a, E> {
    /// How many.
    terms: usize,
    /// Words of the panel before them.
    before: usize,
    /// Where each row's lie.
    pub(in crate::backend::cpu) starts: [&'a [E]; ROWS],
}

/// The terms of some rows, run after run.
pub(in crate::backend::cpu) struct Runs<'a, E> {
    runs: [Run<'a, E>; RUNS],
    count: usize,
}

impl<'a, E> Runs<'a, E> {
    fn new() -> Self {
        Self { runs: [const { Run { terms: 0, before: 0, starts: [&[]; ROWS] } }; RUNS], count: 0 }
    }

    /// Adds a run, of terms that follow so many others of the step, with its starts. The others are left out if no run has
    /// them.
    pub(in crate::backend::cpu) fn add(&mut self, before: usize, terms: usize) -> &mut [&'a [E]; ROWS]
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
        let is_staged = plan.staged();
        let mut from = depth.start;
        loop {
            let step = from..(from + plan.depth).min(depth.end);
            let panels = panels(self.b, step.clone(), column..column + columns, cast_slice_mut(in_b));
            let left = Left::of(self.a, row..row + rows, step.clone(), cast_slice_mut(in_a));
            let is_later = from > depth.start;
            if is_staged {
                left.multiply(panels, is_later, MatMut::new(in_c, [rows, columns], columns));
            } else {
                let sums = matrix.singles().expect("a product that is not staged is stored as it is computed");
                left.multiply(panels, accumulate || is_later, sums);
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

/// Lays a block of the right operand out: for each 32 columns a panel, and in it the words of all columns, one after another;
/// zeros where there are no more columns.
fn panels<'r, E: Term>(
    b: &impl Operand<E>,
    terms: Range<usize>,
    columns: Range<usize>,
    room: &'r mut [u32],
) -> &'r [u32] {
    let words = words_of::<E>(terms.len());
    let (to, aside) = room.split_at_mut(columns.len().next_multiple_of(COLUMNS) * words);
    match b.layout() {
        Layout::Runs => lay_chunks(b, terms, columns, words, to),
        Layout::Rows | Layout::CopiedRows => {
            let aside: &mut [E] = cast_slice_mut(aside);
            let step = if b.layout().copied() { E::AHEAD } else { terms.len() };
            for first in terms.clone().step_by(step) {
                let some = first..(first + step).min(terms.end);
                let extents = [some.len(), columns.len()];
                let (elements, [stride, _]) = b.block(some, columns.clone(), aside).parts();
                lay(elements, stride, extents, [(first - terms.start) / E::IN_WORD, words], to);
            }
        }
        Layout::Columns | Layout::CopiedColumns => {
            let (elements, [_, stride]) = b.block(terms.clone(), columns.clone(), &mut []).parts();
            turn(elements, stride, [columns.len(), terms.len()], to);
        }
    }
    to
}

/// Writes the words of a block whose columns lie in lines, `stride` apart, to all panels.
fn turn<E: Term>(lines: &[E], stride: usize, [columns, terms]: [usize; 2], to: &mut [u32]) {
    let words = words_of::<E>(terms);
    for column in (0..columns.next_multiple_of(COLUMNS)).step_by(CHUNK) {
        let (panel, within) = (column / COLUMNS, column % COLUMNS);
        let panel = &mut to[panel * COLUMNS * words..][..COLUMNS * words];
        let count = CHUNK.min(columns.saturating_sub(column));
        for word in (0..words).step_by(CHUNK) {
            let some = E::IN_WORD * word..terms.min(E::IN_WORD * (word + CHUNK));
            let to = &mut panel[word * COLUMNS..];
            let line = |i: usize| &lines[(column + i) * stride..][some.clone()];
            if count == CHUNK && some.len() == E::IN_WORD * CHUNK {
                kernel::transpose(std::array::from_fn(|i| cast_slice(line(i))), &mut to[within..], COLUMNS);
                continue;
            }
            let (mut tile, mut turned) = ([[0_u32; CHUNK]; CHUNK], [0; CHUNK * CHUNK]);
            tile[..count].iter_mut().enumerate().for_each(|(i, tile)| E::words(line(i), tile));
            kernel::transpose(tile.each_ref().map(|row| cast_slice(row)), &mut turned, CHUNK);
            for (to, turned) in to.chunks_exact_mut(COLUMNS).zip(turned.as_chunks::<CHUNK>().0) {
                to[within..within + CHUNK].copy_from_slice(turned);
            }
        }
    }
}

simd! {
    /// Writes the words of rows of terms, `stride` apart, to all panels of so many words, from a word on.
    fn lay [E: Term] (rows: &[E], stride: usize, extents: [usize; 2], place: [usize; 2], to: &mut [u32]) {
        let ([terms, columns], [first, words]) = (extents, place);
        for (word, term) in (0..terms).step_by(E::IN_WORD).enumerate() {
            let low = &rows[term * stride..][..columns];
            // Half of a last word is empty.
            let high = if E::IN_WORD == 1 || term + 1 < terms { &rows[(term + E::IN_WORD - 1) * stride..][..columns] } else { &[] };
            for (panel, start) in to.chunks_exact_mut(COLUMNS * words).zip((0..columns).step_by(COLUMNS)) {
                let to = &mut panel[(first + word) * COLUMNS..][..COLUMNS];
                let low = &low[start..];
                if low.len() >= COLUMNS && !high.is_empty() {
                    for ((to, low), high) in to.iter_mut().zip(&low[..COLUMNS]).zip(&high[start..][..COLUMNS]) {
                        *to = E::word(*low, *high);
                    }
                } else {
                    for (i, to) in to.iter_mut().enumerate() {
                        let high = high.get(start + i).copied().unwrap_or(E::ZERO);
                        *to = low.get(i).map_or(0, |low| E::word(*low, high));
                    }
                }
            }
        }
    }

    /// Writes the words of terms whose columns lie in chunks to all panels of so many words.
    fn lay_chunks [E: Term, O: Operand<E>] (
        b: &O, terms: Range<usize>, columns: Range<usize>, words: usize, to: &mut [u32],
    ) {
        let zeros = [E::ZERO; CHUNK];
        let (mut low, mut high) = ([&zeros; CHUNKS], [&zeros; CHUNKS]);
        let (count, all) = (columns.len() / CHUNK, columns.len().next_multiple_of(COLUMNS) / CHUNK);
        for word in 0..words {
            let term = terms.start + E::IN_WORD * word;
            b.chunks(term, columns.clone(), &mut low[..count]);
            if E::IN_WORD > 1 && term + 1 < terms.end {
                b.chunks(term + 1, columns.clone(), &mut high[..count]);
            } else if E::IN_WORD > 1 {
                high = [&zeros; CHUNKS];
            }
            for (at, (low, high)) in low[..all].iter().zip(&high).enumerate() {
                let start = (at * CHUNK / COLUMNS * words + word) * COLUMNS + at * CHUNK % COLUMNS;
                for ((to, low), high) in to[start..start + CHUNK].iter_mut().zip(*low).zip(*high) {
                    *to = E::word(*low, *high);
                }
            }
        }
    }
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
    fn multiply(&self, panels: &[u32], add: bool, mut sums: MatMut<'_, f32>) {
        let mut runs = Runs::new();
        let (rows, terms, along) = match self {
            Self::Lines { rows, terms, strides, .. } => (*rows, *terms, strides[1]),
            Self::Runs { rows, terms, .. } => (rows.len(), terms.len(), E::IN_WORD),
        };
        let words = words_of::<E>(terms);
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
            let of = Group { runs: runs.all(), along, panels, words, add };
            match count {
                12 => of.multiply::<12>(row, &mut sums),
                11 => of.multiply::<11>(row, &mut sums),
                10 => of.multiply::<10>(row, &mut sums),
                9 => of.multiply::<9>(row, &mut sums),
                8 => of.multiply::<8>(row, &mut sums),
                7 => of.multiply::<7>(row, &mut sums),
                6 => of.multiply::<6>(row, &mut sums),
                5 => of.multiply::<5>(row, &mut sums),
                4 => of.multiply::<4>(row, &mut sums),
                3 => of.multiply::<3>(row, &mut sums),
                2 => of.multiply::<2>(row, &mut sums),
                _ => of.multiply::<1>(row, &mut sums),
            }
        }
    }
}

/// Rows whose sums are in registers at once, and what they are multiplied by.
struct Group<'a, E> {
    runs: &'a [Run<'a, E>],
    along: usize,
    panels: &'a [u32],
    /// Of each column of a panel.
    words: usize,
    add: bool,
}

impl<E: Term> Group<'_, E> {
    fn multiply<const N: usize>(&self, row: usize, sums: &mut MatMut<'_, f32>) {
        let mut rows = sums.some_rows::<N>(row);
        let panels = self.panels.chunks_exact(COLUMNS * self.words);
        for (column, panel) in (0..rows[0].len()).step_by(COLUMNS).zip(panels) {
            E::multiply(self.runs, self.along, panel, self.add, &mut rows, column);
        }
    }
}

simd! {
    /// Lays out groups of columns of a block whose terms lie in lines, `stride` apart.
    fn gather [E: Term] (lines: &[E], stride: usize, extents: [usize; 2], to: &mut [u32]) {
        let [rows, terms] = extents;
        let words = terms.div_ceil(E::IN_WORD);
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

    fn multiply<const N: usize>(
        runs: &[Run<'_, f32>],
        along: usize,
        panel: &[u32],
        add: bool,
        sums: &mut [&mut [f32]; N],
        column: usize,
    ) {
        kernel::singles(runs, along, panel, add, sums, column);
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

    fn multiply<const N: usize>(
        runs: &[Run<'_, bf16>],
        along: usize,
        panel: &[u32],
        add: bool,
        sums: &mut [&mut [f32]; N],
        column: usize,
    ) {
        kernel::pairs(runs, along, panel, add, sums, column);
    }
}

#[cfg(target_arch = "x86_64")]
mod kernel {
    //! The kernels, one for each kind of word.

    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, _mm512_add_ps, _mm512_castps_si512, _mm512_dpbf16_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_shuffle_i32x4,
        _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
        _mm512_unpacklo_epi64,
    };

    use super::{COLUMNS, Float, ROWS, Run, Term, bf16};

    /// Numbers in a register.
    const LANES: usize = 16;

    /// Writes rows of words, given as their bytes, as columns, whose rows are so many words apart.
    pub(super) fn transpose(rows: [&[u8]; LANES], to: &mut [u32], stride: usize) {
        // SAFETY: words are laid out only where `run_words` found the instructions.
        unsafe { transpose_words(rows, to, stride) }
    }

    #[target_feature(enable = "avx512f")]
    fn transpose_words(rows: [&[u8]; LANES], to: &mut [u32], stride: usize) {
        let [mut x, mut y] = [[_mm512_setzero_si512(); LANES]; 2];
        for (x, row) in x.iter_mut().zip(rows) {
            *x = _mm512_castps_si512(load(row.as_chunks::<4>().0.first_chunk().expect("the bytes of a row")));
        }
        // Pairs of rows, then fours: after it, each quarter of `x[4 i + j]` is column `j` of a quarter, of rows `4 i` to `4 i + 3`.
        for i in (0..LANES).step_by(2) {
            y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
            y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
        }
        for i in (0..LANES).step_by(4) {
            x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
            x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
            x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
            x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
        }
        // The even and the odd quarters of eights, then of all.
        for i in 0..4 {
            y[i] = _mm512_shuffle_i32x4::<0x88>(x[i], x[4 + i]);
            y[4 + i] = _mm512_shuffle_i32x4::<0xdd>(x[i], x[4 + i]);
            y[8 + i] = _mm512_shuffle_i32x4::<0x88>(x[8 + i], x[12 + i]);
            y[12 + i] = _mm512_shuffle_i32x4::<0xdd>(x[8 + i], x[12 + i]);
        }
        let mut put = |row: usize, x| store(x, to[row * stride..].first_chunk_mut().expect("room for a row"));
        for i in 0..4 {
            put(i, _mm512_shuffle_i32x4::<0x88>(y[i], y[8 + i]));
            put(4 + i, _mm512_shuffle_i32x4::<0x88>(y[4 + i], y[12 + i]));
            put(8 + i, _mm512_shuffle_i32x4::<0xdd>(y[i], y[8 + i]));
            put(12 + i, _mm512_shuffle_i32x4::<0xdd>(y[4 + i], y[12 + i]));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<T: bytemuck::Pod>(from: &[T; LANES]) -> __m512 {
        const { assert!(size_of::<T>() == 4) };
        // SAFETY: the reference is to 64 bytes.
        unsafe { _mm512_loadu_ps(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store<T: bytemuck::Pod>(x: __m512i, to: &mut [T; LANES]) {
        const { assert!(size_of::<T>() == 4) };
        // SAFETY: the reference is to 64 bytes, which may have any value.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn as_pairs(x: __m512) -> __m512bh {
        // SAFETY: both are 64 bytes that may have any value.
        unsafe { std::mem::transmute(x) }
    }

    /// Defines a kernel by how the product of two registers of words is added to a third.
    macro_rules! kernel {
        ($name:ident, $inner:ident, $term:ty, $features:literal, |$sum:ident, $a:ident, $b:ident| $add:expr) => {
            /// `sums (+)= runs * panel`.
            pub(super) fn $name<const N: usize>(
                runs: &[Run<'_, $term>],
                along: usize,
                panel: &[u32],
                add: bool,
                sums: &mut [&mut [f32]; N],
                column: usize,
            ) {
                const { assert!(0 < N && N <= ROWS) };
                for run in runs {
                    let (words, odd) = (run.terms / <$term>::IN_WORD, run.terms % <$term>::IN_WORD);
                    // One past the last term that is read.
                    let end =
                        if odd > 0 { words * along + odd } else { words.saturating_sub(1) * along + <$term>::IN_WORD };
                    assert!(
                        run.starts[..N].iter().all(|start| run.terms == 0 || end <= start.len()),
                        "terms of the rows"
                    );
                }
                // SAFETY: `run_words` asserts that the processor has the instructions; the terms are as asserted.
                unsafe { $inner(runs, along, panel, add, sums, column) }
            }

            /// # Safety
            /// Every run has its terms in each row.
            #[target_feature(enable = $features)]
            unsafe fn $inner<const N: usize>(
                runs: &[Run<'_, $term>],
                along: usize,
                panel: &[u32],
                add: bool,
                sums: &mut [&mut [f32]; N],
                column: usize,
            ) {
                let panel = panel.as_chunks::<LANES>().0.as_chunks::<{ COLUMNS / LANES }>().0;
                let mut found = [[_mm512_setzero_ps(); COLUMNS / LANES]; N];
                for run in runs {
                    let starts: [_; N] = std::array::from_fn(|i| run.starts[i].as_ptr());
                    let words = run.terms / <$term>::IN_WORD;
                    for (word, [b0, b1]) in panel[run.before..][..words].iter().enumerate() {
                        let (b0, b1) = (load(b0), load(b1));
                        for (found, start) in found.iter_mut().zip(starts) {
                            // SAFETY: the caller says that the row has this word.
                            let a = unsafe { start.add(word * along).cast::<f32>().read_unaligned() };
                            let $a = _mm512_set1_ps(a);
                            for ($sum, $b) in found.iter_mut().zip([b0, b1]) {
                                *$sum = $add;
                            }
                        }
                    }
                    if run.terms % <$term>::IN_WORD > 0 {
                        let [b0, b1] = &panel[run.before + words];
                        let (b0, b1) = (load(b0), load(b1));
                        for (found, start) in found.iter_mut().zip(run.starts) {
                            let half = <$term>::word(start[words * along], <$term>::ZERO);
                            let $a = _mm512_set1_ps(f32::from_bits(half));
                            for ($sum, $b) in found.iter_mut().zip([b0, b1]) {
                                *$sum = $add;
                            }
                        }
                    }
                }
                for (sums, found) in sums.iter_mut().zip(found) {
                    let sums = &mut sums[column..];
                    if let Some(sums) = sums.first_chunk_mut::<COLUMNS>() {
                        for (to, found) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(found) {
                            let sum = if add { _mm512_add_ps(load(to), found) } else { found };
                            store(_mm512_castps_si512(sum), to);
                        }
                        continue;
                    }
                    let mut whole = [[0.0; LANES]; COLUMNS / LANES];
                    for (to, found) in whole.iter_mut().zip(found) {
                        store(_mm512_castps_si512(found), to);
                    }
                    for (to, found) in sums.iter_mut().zip(whole.as_flattened()) {
                        *to = if add { *to + *found } else { *found };
                    }
                }
            }
        };
    }

    kernel!(singles, add_singles, f32, "avx512f", |sum, a, b| _mm512_fmadd_ps(a, b, *sum));
    kernel!(pairs, add_pairs, bf16, "avx512f,avx512bf16", |sum, a, b| _mm512_dpbf16_ps(*sum, as_pairs(a), as_pairs(b)));
}

#[cfg(not(target_arch = "x86_64"))]
mod kernel {
    //! No other processor multiplies word by word.

    use super::{Run, bf16};

    pub(super) fn transpose(_: [&[u8]; 16], _: &mut [u32], _: usize) {
        unreachable!("a product is planned so only where there is the instruction");
    }

    pub(super) fn singles<const N: usize>(
        _: &[Run<'_, f32>],
        _: usize,
        _: &[u32],
        _: bool,
        _: &mut [&mut [f32]; N],
        _: usize,
    ) {
        unreachable!("a product is planned so only where there is the instruction");
    }

    pub(super) fn pairs<const N: usize>(
        _: &[Run<'_, bf16>],
        _: usize,
        _: &[u32],
        _: bool,
        _: &mut [&mut [f32]; N],
        _: usize,
    ) {
        unreachable!("a product is planned so only where there is the instruction");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{cpu::gemm::matmul, ops::MatMul},
        rng::Rng,
    };

    #[test]
    fn products_of_any_layout_and_extent_are_the_sums_of_products() {
        let rng = Rng::from_key(11);
        for case in 0..300 {
            let draw = |i: u64, below: usize| rng.below(case * 100 + i, below);
            let deep = if case % 7 == 0 { 700 } else { 40 };
            let (m, n, k) = (2 + draw(0, 210), 1 + draw(1, 290), 1 + draw(2, deep));
            let (transpose_a, transpose_b, accumulate) = (draw(3, 2) == 0, draw(4, 2) == 0, draw(5, 2) == 0);
            let p = MatMul { m, n, k, transpose_a, transpose_b, accumulate };
            // Small whole numbers, whose sums are exact in any order.
            let filled = |key: u64, count: usize| -> Vec<f32> {
                (0..count).map(|i| rng.below(case ^ key << 32 ^ i as u64, 17) as f32 - 8.0).collect()
            };
            let (a, b) = (filled(1, m * k), filled(2, n * k));
            let narrow = |x: &[f32]| x.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
            let (mut of_singles, mut of_pairs) = (vec![3.0_f32; m * n], vec![3.0_f32; m * n]);
            matmul(&p, &a, &b, &mut of_singles);
            matmul(&p, &narrow(&a), &narrow(&b), &mut of_pairs);
            for (at, found) in of_singles.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let term = |t: usize| {
                    let left = if transpose_a { a[t * m + i] } else { a[i * k + t] };
                    left * if transpose_b { b[j * k + t] } else { b[t * n + j] }
                };
                let wanted = (0..k).map(term).sum::<f32>() + if accumulate { 3.0 } else { 0.0 };
                assert_eq!([*found, of_pairs[at]], [wanted; 2], "{p:?} at {i}, {j}");
            }
        }
    }
}

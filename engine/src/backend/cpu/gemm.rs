//! Matrix products, tiled here and multiplied by the gemm crate, in scratch that is bounded by the plan.
//!
//! The crate packs operands into buffers it allocates per call, as large as the call; a call is one tile, so they are
//! small. Narrow operands are converted a block at a time and sums are rounded once, on store.

pub(in crate::backend) mod tiling;

use std::ops::Range;

use self::tiling::{Layout, Limits, Plan, Product};
use super::{
    convert::{add_down, down, turn, up},
    float::{Accumulator, Float},
    parallel::{self, Shared},
    scratch::Scratch,
};
use crate::backend::kernel::MatMul;

/// Where a block of an operand lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<A> {
    pointer: *const A,
    row_stride: usize,
    column_stride: usize,
}

impl<A> View<A> {
    /// The same without its first `rows`.
    pub(super) fn below(self, rows: usize) -> Self {
        Self { pointer: self.pointer.wrapping_add(rows * self.row_stride), ..self }
    }

    /// Rows as columns.
    pub(super) fn transposed(self) -> Self {
        Self { row_stride: self.column_stride, column_stride: self.row_stride, ..self }
    }
}

/// One side of a product: gives blocks, in place or copied into `room`, always in the same layout.
pub(super) trait Operand<A>: Sync {
    /// How blocks are laid out; what the plan was made with.
    fn layout(&self) -> Layout;
    /// The block of some rows and columns.
    fn block(&self, rows: Range<usize>, columns: Range<usize>, room: &mut [A]) -> View<A>;
}

/// A matrix in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix<'a, T> {
    elements: &'a [T],
    stride: usize,
    transposed: bool,
}

impl<'a, T> Matrix<'a, T> {
    /// `[rows, stride]`, or its transpose, stored `[columns, stride]`.
    pub(super) fn new(elements: &'a [T], stride: usize, transposed: bool) -> Self {
        Self { elements, stride, transposed }
    }
}

impl<T: Float> Operand<T::Acc> for Matrix<'_, T> {
    fn layout(&self) -> Layout {
        Layout::of(T::DIRECT, self.transposed)
    }

    fn block(&self, rows: Range<usize>, columns: Range<usize>, room: &mut [T::Acc]) -> View<T::Acc> {
        let (outer, inner) = if self.transposed { (columns, rows) } else { (rows, columns) };
        let (pointer, stride) = match T::direct(self.elements) {
            Some(elements) => (elements[outer.start * self.stride + inner.start..].as_ptr(), self.stride),
            None => {
                let extent = inner.len();
                for (to, i) in room.chunks_exact_mut(extent).zip(outer) {
                    let start = i * self.stride + inner.start;
                    up(&self.elements[start..start + extent], to);
                }
                (room.as_ptr(), extent)
            }
        };
        if self.transposed {
            View { pointer, row_stride: 1, column_stride: stride }
        } else {
            View { pointer, row_stride: stride, column_stride: 1 }
        }
    }
}

/// The transpose of a matrix stored `[columns, stride]`, turned a block at a time.
///
/// The crate packs such an operand by reading a column of 64 rows at once; rows whose distance is a large power of two
/// then push each other out of the cache.
#[derive(Debug, Clone, Copy)]
struct Turning<'a, A>(Matrix<'a, A>);

impl<A: Accumulator> Operand<A> for Turning<'_, A> {
    fn layout(&self) -> Layout {
        Layout::CopiedRows
    }

    fn block(&self, rows: Range<usize>, columns: Range<usize>, room: &mut [A]) -> View<A> {
        let (height, width) = (rows.len(), columns.len());
        turn(&self.0.elements[columns.start * self.0.stride + rows.start..], self.0.stride, [width, height], room);
        copied_rows(room, width)
    }
}

/// A block that was copied row after row.
pub(super) fn copied_rows<A>(room: &[A], columns: usize) -> View<A> {
    View { pointer: room.as_ptr(), row_stride: columns, column_stride: 1 }
}

/// Where the rows of a product go.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    /// One after the other, this many elements apart.
    Every(usize),
    /// Each at an element of its own.
    At(&'a (dyn Fn(usize) -> usize + Sync)),
}

/// What a product is written to.
pub(super) struct Target<'a, W> {
    elements: Shared<'a, W>,
    rows: Rows<'a>,
    accumulate: bool,
}

impl<'a, W: Float> Target<'a, W> {
    /// A matrix of rows of `stride` elements, overwritten or added to.
    pub(super) fn new(elements: &'a mut [W], stride: usize, accumulate: bool) -> Self {
        Self { elements: Shared::new(elements), rows: Rows::Every(stride), accumulate }
    }

    /// Rows that start where `rows` says, overwritten.
    pub(super) fn scattered(elements: &'a mut [W], rows: &'a (dyn Fn(usize) -> usize + Sync)) -> Self {
        Self { elements: Shared::new(elements), rows: Rows::At(rows), accumulate: false }
    }

    fn start(&self, row: usize) -> usize {
        match self.rows {
            Rows::Every(stride) => row * stride,
            Rows::At(start) => start(row),
        }
    }
}

/// Whether the right side is turned here, before the crate sees it: where its columns fill vectors, so that the crate
/// does not pack it again.
fn turns(p: &MatMul, narrow: bool) -> bool {
    !narrow && p.transpose_b && p.n.is_multiple_of(16)
}

/// Plan of a plain matrix product: operands of `narrow` types are converted a block at a time.
pub(in crate::backend) fn matmul_plan(p: &MatMul, width: usize, narrow: bool, staged: bool) -> Plan {
    let product = Product {
        m: p.m,
        n: p.n,
        k: p.k,
        width,
        a: Layout::of(!narrow, p.transpose_a),
        b: if turns(p, narrow) { Layout::CopiedRows } else { Layout::of(!narrow, p.transpose_b) },
        staged,
    };
    let depth = if width == 8 { 128 } else { 256 };
    let limits = match (narrow, p.transpose_a) {
        (true, _) => Limits { rows: 96, columns: 128, depth },
        (false, true) => Limits { rows: 240, columns: 256, depth },
        // Rows in place take no room, and the more of them, the less often a block of `b` is laid out.
        (false, false) => Limits { rows: 480, columns: 256, depth },
    };
    Plan::new(product, limits)
}

/// [`Kernel::MatMul`](crate::backend::Kernel::MatMul).
pub(super) fn matmul<T: Float, W: Float<Acc = T::Acc>>(p: &MatMul, a: &[T], b: &[T], c: &mut [W]) {
    let plan = matmul_plan(p, size_of::<T::Acc>(), !T::DIRECT, !W::DIRECT);
    let a = Matrix::new(a, if p.transpose_a { p.m } else { p.k }, p.transpose_a);
    let b = Matrix::new(b, if p.transpose_b { p.k } else { p.n }, p.transpose_b);
    let target = Target::new(c, p.n, p.accumulate);
    match T::direct(b.elements) {
        Some(elements) if turns(p, !T::DIRECT) => {
            run(&plan, &a, &Turning(Matrix::new(elements, b.stride, true)), &target);
        }
        _ => run(&plan, &a, &b, &target),
    }
}

/// Computes a product as planned.
pub(super) fn run<A: Accumulator, W: Float<Acc = A>>(
    plan: &Plan,
    a: &impl Operand<A>,
    b: &impl Operand<A>,
    target: &Target<'_, W>,
) {
    let Product { m, n, k, .. } = plan.product;
    assert!(plan.product.a == a.layout() && plan.product.b == b.layout(), "the plan is this product's");
    if m == 0 || n == 0 {
        return;
    }
    if plan.segments == 1 {
        return parallel::pieces(plan.tiles(), plan.parallel, |i| tile(plan, i, 0..k, a, b, target));
    }
    let mut sums = Scratch::<A>::new(plan.segments * m * n);
    let all = Shared::new(sums.elements());
    parallel::pieces(plan.pieces(), plan.parallel, |piece| {
        let (segment, i) = (piece / plan.tiles(), piece % plan.tiles());
        // SAFETY: segments lie apart; the tiles of one are disjoint.
        let part = unsafe { all.part(segment * m * n..(segment + 1) * m * n) };
        let depth = (segment * plan.segment()).min(k)..((segment + 1) * plan.segment()).min(k);
        tile(plan, i, depth, a, b, &Target::new(part, n, false));
    });
    let sums = &*sums.elements();
    for row in 0..m {
        // SAFETY: the only part alive.
        let to = unsafe { target.elements.part(target.start(row)..target.start(row) + n) };
        for (j, to) in to.iter_mut().enumerate() {
            let before = if target.accumulate { to.up() } else { A::ZERO };
            *to = W::down((0..plan.segments).fold(before, |sum, s| sum + sums[(s * m + row) * n + j]));
        }
    }
}

/// One tile over `depth`.
fn tile<A: Accumulator, W: Float<Acc = A>>(
    plan: &Plan,
    index: usize,
    depth: Range<usize>,
    a: &impl Operand<A>,
    b: &impl Operand<A>,
    target: &Target<'_, W>,
) {
    let Product { m, n, .. } = plan.product;
    let across = n.div_ceil(plan.columns);
    let (i, j) = (index / across * plan.rows, index % across * plan.columns);
    let (rows, columns) = (i..(i + plan.rows).min(m), j..(j + plan.columns).min(n));
    let [room_a, room_b, room_c] = plan.room();
    let mut scratch = Scratch::<A>::new(room_a + room_b + room_c);
    let (in_a, rest) = scratch.elements().split_at_mut(room_a);
    let (in_b, in_c) = rest.split_at_mut(room_b);
    let (c, stride) = match target.rows {
        Rows::Every(stride) if !plan.staged() && W::DIRECT => {
            (target.elements.pointer(rows.start * stride + columns.start).cast::<A>(), stride)
        }
        _ => (in_c.as_mut_ptr(), columns.len()),
    };
    let in_place = !plan.staged();
    debug_assert!(!in_place || target.elements.len() >= (rows.end - 1) * stride + columns.end, "room for the tile");
    let mut add = in_place && target.accumulate;
    let mut from = depth.start;
    loop {
        let step = from..(from + plan.depth).min(depth.end);
        let view_a = a.block(rows.clone(), step.clone(), in_a);
        let view_b = b.block(step.clone(), columns.clone(), in_b);
        // SAFETY: the views hold the blocks, and `c` the tile, which is this piece's own.
        unsafe { multiply([rows.len(), columns.len(), step.len()], view_a, view_b, c, stride, add) };
        (add, from) = (true, step.end);
        if from >= depth.end {
            break;
        }
    }
    if !in_place {
        for (row, from) in rows.zip(in_c.chunks_exact(columns.len())) {
            let start = target.start(row) + columns.start;
            // SAFETY: tiles are disjoint.
            let to = unsafe { target.elements.part(start..start + columns.len()) };
            if target.accumulate { add_down(from, to) } else { down(from, to) }
        }
    }
}

/// `c (+)= a b` for one block.
///
/// # Safety
/// The views hold `[m, k]` and `[k, n]`; `c` holds m rows of n elements, `stride` apart, and nobody else uses them.
pub(super) unsafe fn multiply<A: Accumulator>(
    [m, n, k]: [usize; 3],
    a: View<A>,
    b: View<A>,
    c: *mut A,
    stride: usize,
    add: bool,
) {
    if k < SMALL_DEPTH && m <= 64 && n <= 64 {
        // SAFETY: the caller's promises.
        return unsafe { multiply_small(m, n, k, a, b, c, stride, add) };
    }
    // SAFETY: the caller's promises; gemm reads `c` only to add to it.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c,
            1,
            stride as isize,
            add,
            a.pointer,
            a.column_stride as isize,
            a.row_stride as isize,
            b.pointer,
            b.column_stride as isize,
            b.row_stride as isize,
            A::ONE,
            A::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Inner extents below which a small product is done here: the crate would do bookkeeping that grows as the extent
/// shrinks.
const SMALL_DEPTH: usize = 16;

/// # Safety
/// As [`multiply`].
#[expect(clippy::too_many_arguments, reason = "a product's operands")]
unsafe fn multiply_small<A: Accumulator>(
    m: usize,
    n: usize,
    k: usize,
    a: View<A>,
    b: View<A>,
    c: *mut A,
    stride: usize,
    add: bool,
) {
    for i in 0..m {
        let mut sums = [A::ZERO; 64];
        for p in 0..k {
            // SAFETY: inside the views and the block, by the caller's promises.
            unsafe {
                let left = *a.pointer.add(i * a.row_stride + p * a.column_stride);
                for (j, sum) in sums[..n].iter_mut().enumerate() {
                    *sum += left * *b.pointer.add(p * b.row_stride + j * b.column_stride);
                }
            }
        }
        // SAFETY: inside the block.
        let row = unsafe { std::slice::from_raw_parts_mut(c.add(i * stride), n) };
        for (to, sum) in row.iter_mut().zip(&sums) {
            *to = if add { *to + *sum } else { *sum };
        }
    }
}

/// Makes this thread's packing buffer of the gemm crate.
pub(in crate::backend) fn warm_up<A: Accumulator>() {
    let (a, mut c) = (vec![A::ONE; 192 * 192], vec![A::ZERO; 192 * 192]);
    let view = copied_rows(&a, 192);
    // SAFETY: three matrices of 192 by 192.
    unsafe { multiply([192; 3], view, view, c.as_mut_ptr(), 192, false) };
}

//! Matrix products, tiled here and most multiplied by the gemm crate, in scratch that is bounded by the plan.
//!
//! The crate packs operands into buffers that it allocates for each call, as large as the call. A call is one tile, so the
//! buffers are small, and each piece of work lends their memory. Narrow operands are converted a block at a time, and sums are
//! rounded once, on store. Where the processor has registers of 64 bytes, tiles of f32 are multiplied here, and those of bf16,
//! unconverted, where it multiplies pairs or blocks of them.

mod operand;
mod row;
pub(in crate::backend) mod tiling;
mod words;

use std::{cell::Cell, ops::Range};

use half::bf16;

pub(in crate::backend) use self::row::is_row;
#[cfg(target_arch = "x86_64")]
pub(super) use self::words::transpose;
use self::{
    operand::TransposedOperand,
    row::row_product,
    tiling::{GemmTiling, Layout, Multiplier, NEAR_BYTES, Product, TileLimits, WORD_COLUMNS},
    words::ByWords,
};
pub(super) use self::{
    operand::{Matrix, Operand, Unconverted, copied},
    words::{Runs, Term, multiply_near, turn},
};
use super::{
    convert::{add_down, down},
    float::{Accumulator, Float},
    matrix::{MatMut, multiply},
    parallel,
    scratch::{Scratch, lending},
};
use crate::{
    backend::{DType, ops::MatMul, scratch::gemm::packed_by_crate},
    device::Instructions,
    memory::{lent, probe::uncounted},
};

/// How products of a type are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Arithmetic {
    /// In the type itself, whose bytes these are.
    Own(usize),
    /// In f32, to which operands are converted a block at a time.
    Converted,
    /// In f32, word by word.
    Singles,
    /// In f32, by an instruction that takes pairs of bf16.
    Pairs,
    /// In f32, by an instruction that takes blocks of bf16.
    Blocks,
}

impl Arithmetic {
    /// The arithmetic of plain products and convolutions, on a processor that has these instructions.
    pub(in crate::backend) fn of(dtype: DType, instructions: Instructions) -> Self {
        match dtype {
            DType::F32 if instructions >= Instructions::Avx512 => Self::Singles,
            DType::Bf16 if instructions >= Instructions::Amx => Self::Blocks,
            DType::Bf16 if instructions >= Instructions::Avx512Bf16 => Self::Pairs,
            DType::F16 | DType::Bf16 => Self::Converted,
            DType::F32 | DType::F64 | DType::U32 | DType::U8 => Self::Own(dtype.size()),
        }
    }

    /// The arithmetic of a kernel's type, on this processor.
    pub(super) fn of_type<T: Float>() -> Self {
        match Words::possible::<T>(&[], &[]) {
            Some(Words::Singles(_)) => Self::Singles,
            Some(Words::Pairs(_)) => Self::of(DType::Bf16, Instructions::detect()),
            None if T::DIRECT => Self::Own(size_of::<T>()),
            None => Self::Converted,
        }
    }

    /// The arithmetic of a product with this number of columns and terms. It goes word by word only where most of a panel's
    /// columns count, and where sums have enough terms to be worth the layout.
    pub(super) fn of_product(self, columns: usize, terms: usize) -> Self {
        let is_worth = terms >= WORD_COLUMNS && columns.next_multiple_of(WORD_COLUMNS) * 8 <= columns * 9;
        if self == Self::Singles && !is_worth { Self::Own(4) } else { self }
    }

    /// Bytes of a number that sums are carried in.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Own(bytes) => bytes,
            Self::Converted | Self::Singles | Self::Pairs | Self::Blocks => 4,
        }
    }

    /// Whether operands are narrower than the sums.
    pub(super) fn is_narrow(self) -> bool {
        match self {
            Self::Own(_) | Self::Singles => false,
            Self::Converted | Self::Pairs | Self::Blocks => true,
        }
    }

    /// The kernel that multiplies tiles.
    pub(super) fn multiplier(self) -> Multiplier {
        match self {
            Self::Own(_) | Self::Converted => Multiplier::Crate,
            Self::Singles => Multiplier::Singles,
            Self::Pairs => Multiplier::Pairs,
            Self::Blocks => Multiplier::Blocks,
        }
    }

    /// The layout of a matrix in memory.
    pub(super) fn layout(self, transposed: bool) -> Layout {
        Layout::of(self != Self::Converted, transposed)
    }
}

/// The elements of two operands that are multiplied word by word on this processor.
#[derive(Debug)]
pub(super) enum Words<'a> {
    /// One in a word.
    Singles([&'a [f32]; 2]),
    /// Two in a word.
    Pairs([&'a [bf16]; 2]),
}

impl<'a> Words<'a> {
    /// None if this processor does not multiply them so.
    fn possible<T: Float>(a: &'a [T], b: &'a [T]) -> Option<Self> {
        let instructions = Instructions::detect();
        if let Some(operands) = T::singles(a).zip(T::singles(b)) {
            return (instructions >= Instructions::Avx512).then(|| Self::Singles(operands.into()));
        }
        let operands = T::pairs(a).zip(T::pairs(b))?;
        (instructions >= Instructions::Avx512Bf16).then(|| Self::Pairs(operands.into()))
    }

    /// The operands of a product that is planned; none if the crate multiplies them.
    pub(super) fn of<T: Float>(plan: &GemmTiling, a: &'a [T], b: &'a [T]) -> Option<Self> {
        Self::possible(a, b).filter(|_| plan.product.by != Multiplier::Crate)
    }
}

/// The result of a product.
pub(super) struct Target<'a, W> {
    /// The matrix.
    pub(super) matrix: MatMut<'a, W>,
    /// Added to, or overwritten.
    pub(super) accumulate: bool,
}

impl<'a, W: Float> Target<'a, W> {
    /// A matrix `[rows, columns]`, overwritten or added to.
    pub(super) fn new(elements: &'a mut [W], [rows, columns]: [usize; 2], accumulate: bool) -> Self {
        Self { matrix: MatMut::new(elements, [rows, columns], columns), accumulate }
    }
}

/// Whether the right side is turned here, before the crate sees it: where its columns fill vectors, so that the crate
/// does not pack it again.
fn turns(p: &MatMul, arithmetic: Arithmetic) -> bool {
    matches!(arithmetic, Arithmetic::Own(_)) && p.transpose_b && p.n.is_multiple_of(16)
}

/// Tiling of a plain matrix product.
pub(in crate::backend) fn matmul_plan(p: &MatMul, arithmetic: Arithmetic, staged: bool) -> GemmTiling {
    let arithmetic = arithmetic.of_product(p.n, p.k);
    let turned = turns(p, arithmetic);
    let product = Product {
        m: p.m,
        n: p.n,
        k: p.k,
        width: arithmetic.width(),
        a: arithmetic.layout(p.transpose_a),
        b: if turned { Layout::CopiedRows } else { arithmetic.layout(p.transpose_b) },
        staged,
        by: arithmetic.multiplier(),
    };
    let depth = if product.width == 8 { 128 } else { 256 };
    let limits = match (arithmetic, p.transpose_a) {
        (Arithmetic::Converted, _) => TileLimits { rows: 96, columns: 128, depth },
        (Arithmetic::Pairs, true) => TileLimits { rows: 144, columns: 256, depth },
        (Arithmetic::Pairs, false) => TileLimits { rows: 192, columns: 256, depth },
        (Arithmetic::Blocks, _) => TileLimits { rows: 320, columns: 128, depth: 512 },
        (Arithmetic::Singles, _) => {
            let is_near = !p.transpose_b && depth * p.n * product.width <= NEAR_BYTES;
            // An operand that is not multiplied where it lies is laid out, a few columns at a time.
            TileLimits { rows: 480, columns: if is_near { 256 } else { 64 }, depth }
        }
        (Arithmetic::Own(_), true) => TileLimits { rows: 240, columns: 256, depth },
        // Rows in place take no room, and the more of them, the less often a block of `b` is laid out.
        (Arithmetic::Own(_), false) => TileLimits { rows: 480, columns: 256, depth },
    };
    GemmTiling::new(product, limits)
}

/// Runs [`Linear::MatMul`](crate::backend::ops::Linear::MatMul).
pub(super) fn matmul<T: Float, W: Float<Acc = T::Acc>>(p: &MatMul, a: &[T], b: &[T], c: &mut [W]) {
    if is_row(p) {
        return row_product(p, a, b, c);
    }
    let arithmetic = Arithmetic::of_type::<T>().of_product(p.n, p.k);
    let plan = matmul_plan(p, arithmetic, !W::DIRECT);
    let target = Target::new(c, [p.m, p.n], p.accumulate);
    let (a_stride, b_stride) = (if p.transpose_a { p.m } else { p.k }, if p.transpose_b { p.k } else { p.n });
    let sides = [(a_stride, p.transpose_a), (b_stride, p.transpose_b)];
    match Words::of(&plan, a, b) {
        Some(Words::Singles(operands)) => return matmul_of_words(&plan, operands, sides, target),
        Some(Words::Pairs(operands)) => return matmul_of_words(&plan, operands, sides, target),
        None => (),
    }
    let left = Matrix::new(a, a_stride, p.transpose_a);
    match T::direct(b) {
        Some(elements) if turns(p, arithmetic) => {
            run(&plan, &left, &TransposedOperand(Matrix::new(elements, b_stride, true)), target);
        }
        _ => run(&plan, &left, &Matrix::new(b, b_stride, p.transpose_b), target),
    }
}

fn matmul_of_words<E: Term, W: Float>(
    plan: &GemmTiling,
    [a, b]: [&[E]; 2],
    [(a_stride, a_transposed), (b_stride, b_transposed)]: [(usize, bool); 2],
    target: Target<'_, W>,
) {
    let (a, b) = (Matrix::new(a, a_stride, a_transposed), Matrix::new(b, b_stride, b_transposed));
    run_words(plan, &Unconverted(a), &Unconverted(b), target);
}

/// How a tile of a product is computed.
trait Tile<A>: Sync {
    /// The layouts of both operands.
    fn layouts(&self) -> [Layout; 2];
    /// Computes the tile that begins at a place, over `depth`.
    fn compute<W: Float<Acc = A>>(
        &self,
        plan: &GemmTiling,
        place: [usize; 2],
        depth: Range<usize>,
        target: Target<'_, W>,
    );
}

/// Computes a product as planned.
pub(super) fn run<A: Accumulator, W: Float<Acc = A>>(
    plan: &GemmTiling,
    a: &impl Operand<A>,
    b: &impl Operand<A>,
    target: Target<'_, W>,
) {
    tiled(plan, &ByCrate { a, b }, target);
}

/// Computes a product as planned, of operands that are multiplied word by word.
pub(super) fn run_words<E: Term, W: Float>(
    plan: &GemmTiling,
    a: &impl Operand<E>,
    b: &impl Operand<E>,
    target: Target<'_, W>,
) {
    let (in_word, wanted) = match plan.product.by {
        Multiplier::Crate => unreachable!("the crate multiplies no words"),
        Multiplier::Singles => (1, Instructions::Avx512),
        Multiplier::Pairs => (2, Instructions::Avx512Bf16),
        Multiplier::Blocks => (2, Instructions::Amx),
    };
    assert!(
        E::IN_WORD == in_word && Instructions::detect() >= wanted,
        "the plan is this product's and this processor's"
    );
    tiled(plan, &ByWords::new(a, b), target);
}

fn tiled<A: Accumulator, W: Float<Acc = A>>(plan: &GemmTiling, tile: &impl Tile<A>, target: Target<'_, W>) {
    let Product { m, n, k, .. } = plan.product;
    assert!([plan.product.a, plan.product.b] == tile.layouts(), "the plan is this product's");
    assert!(target.matrix.extents() == [m, n], "the plan is this target's");
    if m == 0 || n == 0 {
        return;
    }
    let Target { mut matrix, accumulate } = target;
    if plan.segments == 1 {
        return tiles(plan, matrix, &|place, matrix| tile.compute(plan, place, 0..k, Target { matrix, accumulate }));
    }
    let mut sums = Scratch::<A>::new(plan.segments * m * n);
    let segments = parallel::rows(sums.elements(), m * n);
    parallel::pieces(plan.segments, plan.parallel, segments, |segment, part| {
        let depth = (segment * plan.segment()).min(k)..((segment + 1) * plan.segment()).min(k);
        tiles(plan, MatMut::new(part, [m, n], n), &|place, matrix| {
            tile.compute(plan, place, depth.clone(), Target { matrix, accumulate: false });
        });
    });
    let sums = &*sums.elements();
    for row in 0..m {
        for (j, to) in matrix.row(row).iter_mut().enumerate() {
            let before = if accumulate { to.up() } else { A::ZERO };
            *to = W::down((0..plan.segments).fold(before, |sum, s| sum + sums[(s * m + row) * n + j]));
        }
    }
}

/// Runs `tile` on every tile of a matrix, with its first row and column.
fn tiles<W: Float>(plan: &GemmTiling, matrix: MatMut<'_, W>, tile: &(dyn Fn([usize; 2], MatMut<'_, W>) + Sync)) {
    let [m, n] = matrix.extents();
    parallel::pieces(m.div_ceil(plan.rows), plan.parallel, matrix.by_rows(plan.rows), |i, rows| {
        parallel::pieces(n.div_ceil(plan.columns), plan.parallel, rows.by_columns(plan.columns), |j, matrix| {
            tile([i * plan.rows, j * plan.columns], matrix);
        });
    });
}

/// Stores rows of sums in a target, or adds them to it.
fn store<W: Float>(sums: &[W::Acc], stride: usize, target: Target<'_, W>) {
    let Target { mut matrix, accumulate } = target;
    let [rows, columns] = matrix.extents();
    for (row, from) in sums.chunks_exact(stride).take(rows).enumerate() {
        let to = matrix.row(row);
        if accumulate { add_down(&from[..columns], to) } else { down(&from[..columns], to) }
    }
}

/// Tiles that the gemm crate multiplies.
struct ByCrate<'a, L, R> {
    a: &'a L,
    b: &'a R,
}

impl<A: Accumulator, L: Operand<A>, R: Operand<A>> Tile<A> for ByCrate<'_, L, R> {
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
        let extents = matrix.extents();
        let (rows, columns) = (row..row + extents[0], column..column + extents[1]);
        let [room_a, room_b, room_c] = plan.block_elements();
        let packed = packed_by_crate(plan, Instructions::detect());
        lending(room_a + room_b + room_c, packed, |room: &mut [A]| {
            let (in_a, rest) = room.split_at_mut(room_a);
            let (in_b, in_c) = rest.split_at_mut(room_b);
            let is_staged = plan.staged();
            let mut from = depth.start;
            loop {
                let step = from..(from + plan.depth).min(depth.end);
                let view_a = self.a.block(rows.clone(), step.clone(), in_a);
                let view_b = self.b.block(step.clone(), columns.clone(), in_b);
                let is_later = from > depth.start;
                if is_staged {
                    multiply(view_a, view_b, MatMut::new(in_c, extents, extents[1]), is_later);
                } else {
                    let c = matrix.direct().expect("a product that is not staged is stored as it is computed");
                    multiply(view_a, view_b, c, accumulate || is_later);
                }
                from = step.end;
                if from >= depth.end {
                    break;
                }
            }
            if is_staged {
                store(in_c, extents[1], Target { matrix, accumulate });
            }
        });
    }
}

/// Makes this thread's packing buffer of the gemm crate, which the thread keeps, before something is lent to the crate.
pub(super) fn warm_up_once() {
    thread_local! {
        static IS_WARM: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_WARM.replace(true) {
        uncounted(|| lent::without(warm_up));
    }
}

/// The same, if something is lent.
pub(super) fn warm_up_to_lend() {
    if lent::is_there() {
        warm_up_once();
    }
}

/// Multiplies as much as the crate packs.
fn warm_up() {
    let (a, mut c) = (vec![1f32; 192 * 192], vec![0f32; 192 * 192]);
    let view = copied(&a, [192; 2]);
    multiply(view, view, MatMut::new(&mut c, [192; 2], 192), false);
}

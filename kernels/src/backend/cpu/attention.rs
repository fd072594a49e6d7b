//! Attention over packed queries, keys and values, block by block (Rabe & Staats 2021; Dao et al. 2022; Dao 2023).
//!
//! Blocks of queries are multiplied by blocks of keys; fully masked blocks are skipped. Blocks depend on the shape alone
//! and each sum has one order, so a result is the same on any number of threads. In addition to the blocks, scratch
//! holds one number for each row of each head.

mod cached;
mod forward;
mod gradient;

use super::by_type::by_float;
use super::operands::Operands;
use crate::backend::ops::Attention;
use crate::error::Result;
use std::ops::Range;

use self::{
    cached::cached,
    forward::{forward, forward_plain},
    gradient::{Weights, gradient},
};
use super::{
    convert::turn,
    float::{Accumulator, Float},
    gemm::{self, Matrix},
    matrix::{MatMut, MatRef},
    parallel,
    scratch::lending,
};
use crate::{
    backend::{
        AttentionShape,
        cpu::Plain,
        scratch::{gemm::packed_in_attention, on_cpu::ATTENTION_FLOPS},
    },
    device::Instructions,
};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Attention, o: &Operands<'_>) -> Result<()> {
    by_float!(o.output_type(0), T => typed::<T>(kernel, o), else o.unsupported())
}

fn typed<T: Float>(kernel: &Attention, o: &Operands<'_>) -> Result<()> {
    let (qkv, mut y) = (o.input::<T>(0)?, o.output::<T>(0)?);
    match kernel {
        Attention::Efficient(s) => forward(s, &qkv, &mut y, &mut o.output::<T::Acc>(1)?),
        Attention::Plain(s) => forward_plain(s, &qkv, &mut y, &mut o.output::<T>(1)?),
        Attention::EfficientGrad(s) => {
            let (before, lse) = (o.input::<T>(1)?, o.input::<T::Acc>(2)?);
            let weights = Weights::Recomputed { y: &before, lse: &lse };
            gradient(s, &qkv, weights, &o.input::<T>(3)?, &mut y);
        }
        Attention::PlainGrad(s) => {
            let weights = o.input::<T>(1)?;
            gradient(s, &qkv, Weights::Kept(&weights), &o.input::<T>(2)?, &mut y);
        }
        Attention::Cached(s) => cached(s, &qkv, &o.input::<T>(1)?, &mut y),
    }
    Ok(())
}

/// The most positions of a block of queries.
const QUERIES: usize = 64;
/// The most positions of a block of keys.
const KEYS: usize = 64;
/// Elements of a block, where heads are large.
const BLOCK: usize = 8192;
/// Bytes of the rows of probabilities that plain attention computes in scratch.
const PLAIN_BYTES: usize = 128 << 10;
/// Sequences times key heads from which on each is one piece of the gradient.
const FUSED_PIECES: usize = 4;

/// The division of a shape into blocks, and their scratch.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct AttentionTiling {
    s: AttentionShape,
    /// Bytes of an element of arithmetic.
    width: usize,
    /// Elements are converted before they are multiplied.
    narrow: bool,
}

impl AttentionTiling {
    /// Finds the tiling for a shape with elements of `width` bytes in arithmetic, and narrower ones in memory.
    pub(in crate::backend) fn new(s: &AttentionShape, width: usize, narrow: bool) -> Self {
        Self { s: *s, width, narrow }
    }

    fn of<T: Float>(s: &AttentionShape) -> Self {
        Self::new(s, size_of::<T::Acc>(), !T::DIRECT)
    }

    fn queries(&self) -> usize {
        self.block(QUERIES)
    }

    fn keys(&self) -> usize {
        self.block(KEYS)
    }

    fn block(&self, most: usize) -> usize {
        (BLOCK / self.s.head_dim.max(1) / 16 * 16).clamp(32, most).min(self.s.length)
    }

    /// Rows of probabilities that plain attention computes at a time.
    fn plain_rows(&self) -> usize {
        let fitting = PLAIN_BYTES / (self.s.length * self.width).max(1);
        if self.narrow { fitting.clamp(16, QUERIES).min(self.queries()) } else { self.queries() }
    }

    fn is_parallel(&self) -> bool {
        4 * self.s.batch * self.s.heads * self.s.pairs() * self.s.head_dim >= ATTENTION_FLOPS
    }

    /// Whether the gradient visits each pair once: a piece is a sequence and a key head, and adds the gradients of its
    /// queries in place. Otherwise it visits pairs twice, by queries and by keys.
    fn is_fused(&self) -> bool {
        !self.narrow && self.s.batch * self.s.kv_heads >= FUSED_PIECES
    }

    /// Elements, where they have to be converted.
    fn converted(&self, elements: usize) -> usize {
        if self.narrow { elements } else { 0 }
    }

    /// Room of a piece of the forward pass: queries, turned keys, values, logits, result, largest logits, denominators.
    fn forward_room(&self) -> [usize; 7] {
        let (i, j, d) = (self.queries(), self.keys(), self.s.head_dim);
        [self.converted(i * d), d * j, self.converted(j * d), i * j, i * d, i, i]
    }

    /// The room of plain attention: queries, turned keys, values, probabilities, result.
    fn plain_room(&self) -> [usize; 5] {
        let (i, j, d) = (self.plain_rows(), self.keys(), self.s.head_dim);
        [self.converted(i * d), d * j, self.converted(j * d), self.converted(i * self.s.length), i * d]
    }

    /// The room of the gradient, by queries or by keys: queries, their gradients of the result, keys, turned keys, turned
    /// values, probabilities, their gradients, and two sums.
    fn gradient_room(&self) -> [usize; 9] {
        let (i, j, d) = (self.queries(), self.keys(), self.s.head_dim);
        let queries = self.converted(i * d);
        [queries, queries, self.converted(j * d), d * j, d * j, i * j, i * j, i.max(j) * d, j * d]
    }

    /// Elements of a piece's room, of the forward pass.
    pub(in crate::backend) fn forward_elements(&self, is_plain: bool) -> usize {
        if is_plain { self.plain_room().iter().sum() } else { self.forward_room().iter().sum() }
    }

    /// Elements of a piece's room, of the gradient.
    pub(in crate::backend) fn gradient_elements(&self) -> usize {
        self.gradient_room().iter().sum()
    }

    /// The largest of the small products: rows, columns and inner extent, and whether the left side lies row after row.
    pub(in crate::backend) fn products(&self) -> [([usize; 3], bool); 3] {
        let (i, j, d) = (self.queries(), self.keys(), self.s.head_dim);
        [([i, j, d], true), ([i, d, j], true), ([j, d, i], false)]
    }

    /// Whether every product's columns fill vectors.
    pub(in crate::backend) fn fills_vectors(&self) -> bool {
        self.s.head_dim.is_multiple_of(16) && self.s.length.is_multiple_of(16) && self.s.window == 0
    }

    /// How many of `threads` work at once.
    pub(in crate::backend) fn at_once(&self, threads: usize) -> usize {
        let pieces = self.s.batch * self.s.heads * self.s.length.div_ceil(self.plain_rows().min(self.keys()).max(1));
        if self.is_parallel() { threads.clamp(1, pieces.max(1)) } else { 1 }
    }
}

/// Runs a piece of work that has room for these many elements, and for what the crate packs in its products.
fn in_room<A: Plain, const N: usize>(tiling: &AttentionTiling, sizes: [usize; N], work: impl FnOnce([&mut [A]; N])) {
    let packed = packed_in_attention(tiling, size_of::<A>(), Instructions::detect());
    lending(sizes.iter().sum(), packed, |room| work(carve(room, sizes)));
}

/// Cuts `room` into parts of these many elements, one after the other.
fn carve<A, const N: usize>(mut room: &mut [A], sizes: [usize; N]) -> [&mut [A]; N] {
    sizes.map(|size| {
        let (part, rest) = std::mem::take(&mut room).split_at_mut(size);
        room = rest;
        part
    })
}

/// `range` in parts of at most `step`.
fn steps(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(step).map(move |start| start..(start + step).min(range.end))
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// One head of one sequence: where its first position's elements lie.
#[derive(Debug, Clone, Copy)]
struct Head {
    /// The start of its queries in `qkv`.
    queries: usize,
    /// The start of its keys in `qkv`.
    keys: usize,
    /// The start of its values in `qkv`.
    values: usize,
    /// The start of its rows in the result.
    result: usize,
    /// Among the numbers of each row of each head.
    row: usize,
}

impl Head {
    fn new(s: &AttentionShape, sequence: usize, head: usize) -> Self {
        let (start, shared) = (sequence * s.length * s.packed(), head / (s.heads / s.kv_heads));
        Self {
            queries: start + head * s.head_dim,
            keys: start + (s.heads + shared) * s.head_dim,
            values: start + (s.heads + s.kv_heads + shared) * s.head_dim,
            result: sequence * s.length * s.width() + head * s.head_dim,
            row: (sequence * s.heads + head) * s.length,
        }
    }
}

/// The elements of one head at every position.
#[derive(Debug, Clone, Copy)]
struct Positions<'a, T> {
    elements: &'a [T],
    stride: usize,
    head_dim: usize,
}

impl<'a, T: Float> Positions<'a, T> {
    fn new(elements: &'a [T], start: usize, stride: usize, head_dim: usize) -> Self {
        Self { elements: &elements[start..], stride, head_dim }
    }

    /// The elements of some positions, `[positions, head_dim]`, in place or converted into `room`.
    fn block<'s>(&self, positions: Range<usize>, room: &'s mut [T::Acc]) -> MatRef<'s, T::Acc>
    where
        'a: 's,
    {
        Matrix::new(self.elements, self.stride, false).view(positions, 0..self.head_dim, room)
    }

    /// The same elements as `[head_dim, positions]`, always in `room`.
    fn turned<'s>(&self, positions: Range<usize>, room: &'s mut [T::Acc]) -> MatRef<'s, T::Acc> {
        let extents = [positions.len(), self.head_dim];
        turn(&self.elements[positions.start * self.stride..], self.stride, extents, room);
        gemm::copied(room, [self.head_dim, positions.len()])
    }
}

/// The work on a block of a head's rows. It writes its columns of the result, and the numbers that are kept of its rows.
type Block<'f, T, U> = &'f (dyn Fn(Head, Range<usize>, MatMut<'_, T>, &mut [U]) + Sync);

/// Runs `block` on every head's rows, `step` at a time. `y` is `[batch * length, heads * head_dim]`, and `kept` holds as
/// many numbers for each row of each head; either may be without columns.
fn by_blocks<T: Float, U: Send>(
    s: &AttentionShape,
    (step, parallel): (usize, bool),
    y: MatMut<'_, T>,
    kept: &mut [U],
    block: Block<'_, T, U>,
) {
    let dim = y.extents()[1] / s.heads;
    let width = kept.len() / (s.batch * s.heads * s.length);
    let parts = (y.by_rows(s.length), parallel::rows(kept, s.heads * s.length * width));
    parallel::pieces(s.batch, parallel, parts, |sequence, (y, kept)| {
        let parts = (y.by_columns(dim), parallel::rows(kept, s.length * width));
        parallel::pieces(s.heads, parallel, parts, |head, (y, kept)| {
            let first = move |i: usize| (i * step).min(s.length) * width;
            let parts = (y.by_rows(step), parallel::parts(kept, &first));
            parallel::pieces(s.length.div_ceil(step), parallel, parts, |i, (y, kept)| {
                let rows = i * step..((i + 1) * step).min(s.length);
                block(Head::new(s, sequence, head), rows, y, kept);
            });
        });
    });
}

/// Which keys of a block the queries of a block see.
#[derive(Debug, Clone)]
struct Pairs<'a> {
    s: &'a AttentionShape,
    queries: Range<usize>,
    keys: Range<usize>,
}

impl Pairs<'_> {
    /// The keys of the block that its query number `row` sees.
    #[inline(always)]
    fn seen(&self, row: usize) -> Range<usize> {
        let query = self.queries.start + row;
        let seen = self.s.seen_by(&(query..query + 1));
        let within = |at: usize| at.clamp(self.keys.start, self.keys.end) - self.keys.start;
        within(seen.start)..within(seen.end)
    }

    /// How many queries and keys.
    fn extents(&self) -> [usize; 2] {
        [self.queries.len(), self.keys.len()]
    }
}

/// 1 / sqrt(head_dim).
fn scale<A: Accumulator>(s: &AttentionShape) -> A {
    A::from_f64(1.0 / (s.head_dim as f64).sqrt())
}

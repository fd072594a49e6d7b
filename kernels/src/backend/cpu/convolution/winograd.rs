//! Convolutions of 3 x 3 taps by minimal filtering, F(2 x 2, 3 x 3) (Winograd 1980; Lavin & Gray 2015, arXiv 1509.09308).
//!
//! A tile of 2 x 2 outputs sees 4 x 4 inputs. Both are transformed over their places, so that the sum over channels is a product
//! of matrices at each of 16 positions, with 16 products a tile where the definition has 36. The gradient by the weights is the
//! same transforms the other way round. Transforms are sums and halves; they round, so that a result differs from the
//! definition's by a few units in the last place. Pieces of work transform what they multiply in their own scratch, a block of
//! channels and a line of positions at a time, and no more scratch than the products of patches that they replace. Always holds:
//! extents alone decide the blocks, so a result is the same on any number of threads.

#[cfg(test)]
mod tests;
mod transforms;

use std::ops::Range;

use self::transforms::{LANES, Lanes, POSITIONS, Place, SIDE, apart};
use crate::backend::{
    Window,
    cpu::{
        gemm::{
            Arithmetic, multiply_near,
            tiling::{WORD_COLUMNS, WORD_ROWS},
        },
        matrix::{MatMut, MatRef},
        parallel,
        scratch::Scratch,
    },
};

/// Elements between the matrices of two positions, so that they do not push each other out of the cache.
const APART: usize = LANES;
/// Taps of a window.
const TAPS: usize = 9;
/// Channels that a block has at most, and that both sides have at least: transforms of fewer cost what they save.
const WIDE: usize = 64;
/// The most tiles at once.
const MOST_TILES: usize = 96;
/// Tiles of a piece whose transformed weights are kept.
const KEPT_TILES: usize = 512;
/// Products below which a convolution stays on one thread.
const PARALLEL_PRODUCTS: usize = 3 << 19;
/// The fewest tiles for which transformed weights pay.
const FEWEST_TILES: usize = 48;
/// The fewest tiles of an image for which weights are turned again and again.
const FEWEST_TURNED: usize = 9;
/// The most tiles at once in a gradient by the weights.
const MOST_SUMMED: usize = 48;

/// Tiles of images, in the order of images, of lines of tiles and of tiles in a line.
#[derive(Debug, Clone, Copy)]
struct Tiles {
    height: usize,
    width: usize,
    /// Tiles down and across an image.
    down: usize,
    across: usize,
    /// All of them.
    count: usize,
}

impl Tiles {
    fn of(w: &Window) -> Self {
        let (down, across) = (w.height.div_ceil(2), w.width.div_ceil(2));
        Self { height: w.height, width: w.width, down, across, count: w.batch * down * across }
    }

    /// The first pixel line of a line of tiles, counted over all images.
    fn line(&self, of_tiles: usize) -> usize {
        of_tiles / self.down * self.height + of_tiles % self.down * 2
    }

    /// Where some of them are, one after another.
    fn places(&self, tiles: Range<usize>) -> impl ExactSizeIterator<Item = Place> + use<> {
        let Self { height, width, down, across, .. } = *self;
        let (mut row, mut column) = (tiles.start / across % down, tiles.start % across);
        let mut line = tiles.start / across / down * height;
        tiles.map(move |_| {
            let place = Place { line, top: 2 * row, left: 2 * column, height, width };
            column += 1;
            if column == across {
                (column, row) = (0, row + 1);
            }
            if row == down {
                (row, line) = (0, line + height);
            }
            place
        })
    }
}

/// The pass of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Pass {
    /// `y` of `x` and the weights.
    Forward,
    /// `dx` of `dy` and the weights.
    InputGrad,
    /// `dw` of `x` and `dy`.
    WeightGrad,
}

/// A convolution cut into blocks.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct Winograd {
    pass: Pass,
    tiles: Tiles,
    /// Channels of the input and of the output.
    channels: usize,
    filters: usize,
    /// Blocks that a piece has at once: so many tiles; so many channels of the image that is transformed; and so many columns of
    /// the result, which are the filters of a gradient by the weights.
    at_once: usize,
    depth: usize,
    wide: usize,
    /// Whether the transformed weights of a piece's columns stay for all of its tiles.
    is_kept: bool,
    /// Lines of tiles of a piece of an image.
    lines: usize,
    /// Whether more than one thread pays.
    pub(in crate::backend) is_parallel: bool,
}

impl Winograd {
    /// Whether it can pay, as far as extents tell.
    pub(super) fn suits(w: &Window, arithmetic: Arithmetic) -> bool {
        let is_whole = w.channels.is_multiple_of(WORD_COLUMNS) && w.filters.is_multiple_of(WORD_COLUMNS);
        let has_tiles = w.size == 3 && w.stride == 1 && w.padding == 1 && Tiles::of(w).count >= FEWEST_TILES;
        let is_wide = w.channels.min(w.filters) >= WIDE;
        arithmetic == Arithmetic::Singles && is_whole && is_wide && has_tiles
    }

    /// The plan of a convolution that it suits, where it pays with at most so many elements of scratch for a piece.
    pub(super) fn of(w: &Window, pass: Pass, room: usize) -> Option<Self> {
        let tiles = Tiles::of(w);
        let is_parallel = tiles.count * POSITIONS * w.channels * w.filters >= PARALLEL_PRODUCTS;
        let (channels, filters) = (w.channels, w.filters);
        let (terms, columns) = if pass == Pass::InputGrad { (filters, channels) } else { (channels, filters) };
        let plan = Self {
            pass,
            tiles,
            channels,
            filters,
            at_once: 0,
            depth: 0,
            wide: 0,
            is_kept: false,
            lines: 1,
            is_parallel,
        };
        if pass == Pass::WeightGrad {
            // More than one piece for few filters.
            let wide = if filters >= 2 * WIDE { WIDE } else { WORD_COLUMNS };
            return Self { depth: WORD_COLUMNS, wide, ..plan }.filling(room);
        }
        let plan = Self { depth: terms.min(WIDE), wide: columns.min(WIDE), ..plan };
        let kept = Self { is_kept: true, ..plan }.filling(room);
        let plan = kept
            .or_else(|| plan.filling(room))
            .or_else(|| Self { wide: WORD_COLUMNS, depth: WORD_COLUMNS, ..plan }.filling(room))?;
        // Turning weights takes long, and products of patches leave out the taps outside of small images.
        if pass == Pass::Forward && !plan.is_kept && tiles.down * tiles.across < FEWEST_TURNED {
            return None;
        }
        let most = (if plan.is_kept { KEPT_TILES } else { plan.at_once } / tiles.across).max(1);
        let all = tiles.count / tiles.across;
        let lines = all.div_ceil(all.div_ceil(most));
        let in_piece = lines * tiles.across;
        Some(Self { lines, at_once: in_piece.div_ceil(in_piece.div_ceil(plan.at_once)), ..plan })
    }

    /// The plan with as many tiles at once as there is room for.
    fn filling(self, room: usize) -> Option<Self> {
        let left = room.checked_sub(self.elements())? / (SIDE * (self.depth + self.wide));
        let most = if self.pass == Pass::WeightGrad { MOST_SUMMED } else { MOST_TILES };
        (left >= WORD_ROWS).then(|| Self { at_once: (left / WORD_ROWS * WORD_ROWS).min(most), ..self })
    }

    /// Channels that are summed over, and columns of the result.
    fn sides(&self) -> [usize; 2] {
        if self.pass == Pass::InputGrad { [self.filters, self.channels] } else { [self.channels, self.filters] }
    }

    /// Pieces of work.
    pub(in crate::backend) fn pieces(&self) -> usize {
        let across = match self.pass {
            Pass::Forward | Pass::InputGrad => self.of_lines(),
            Pass::WeightGrad => self.channels.div_ceil(self.depth),
        };
        across * self.sides()[1].div_ceil(self.wide)
    }

    /// Pieces of lines of tiles.
    fn of_lines(&self) -> usize {
        (self.tiles.count / self.tiles.across).div_ceil(self.lines)
    }

    /// Elements of the matrices of images, of outputs and of weights, which a piece makes room for: those of images and outputs at
    /// four positions at once, and so those of weights, but for their sums.
    fn room(&self) -> [usize; 3] {
        let Self { at_once, depth, wide, .. } = *self;
        let (rows, positions) = match self.pass {
            Pass::WeightGrad => (depth, POSITIONS),
            _ if self.is_kept => (self.sides()[0], SIDE),
            _ => (depth, SIDE),
        };
        [SIDE * (at_once * depth + APART), SIDE * (at_once * wide + APART), positions * (rows * wide + APART)]
    }

    /// Elements of scratch of a piece.
    pub(in crate::backend) fn elements(&self) -> usize {
        self.room().iter().sum()
    }

    /// Computes the output, or the gradient by the input, from the image and the weights.
    pub(super) fn convolve(&self, image: &[f32], weights: &[f32], to: &mut [f32]) {
        let Tiles { width, count, across, .. } = self.tiles;
        let ([_, columns], lines) = (self.sides(), count / across);
        let first = |piece: usize| self.tiles.line((piece * self.lines).min(lines));
        let bound = |piece: usize| first(piece) * width * columns;
        let pieces = parallel::parts(to, &bound);
        parallel::pieces(self.of_lines(), self.is_parallel, pieces, |piece, part| {
            let tiles = piece * self.lines * across..((piece + 1) * self.lines).min(lines) * across;
            let pixels = part.len() / columns;
            let matrix = MatMut::new(part, [pixels, columns], columns).by_columns(self.wide);
            parallel::pieces(columns.div_ceil(self.wide), self.is_parallel, matrix, |i, to| {
                let column = i * self.wide;
                let columns = column..column + to.extents()[1];
                let of = Piece { plan: self, image: image.as_chunks().0, weights, columns, line: first(piece), to };
                of.compute(tiles.clone());
            });
        });
    }

    /// Computes the gradient by the weights from the image and the gradient of the output.
    pub(super) fn weight_gradient(&self, [image, dy]: [&[f32]; 2], accumulate: bool, dw: &mut [f32]) {
        let Self { depth, wide, is_parallel, .. } = *self;
        let matrix = MatMut::new(dw, [self.filters * TAPS, self.channels], self.channels);
        parallel::pieces(self.filters.div_ceil(wide), is_parallel, matrix.by_rows(TAPS * wide), |i, rows| {
            parallel::pieces(self.channels.div_ceil(depth), is_parallel, rows.by_columns(depth), |j, matrix| {
                self.weights([image.as_chunks().0, dy.as_chunks().0], [i * wide, j * depth], accumulate, matrix);
            });
        });
    }

    fn weights(
        &self,
        [image, dy]: [&[Lanes]; 2],
        [filter, channel]: [usize; 2],
        accumulate: bool,
        mut to: MatMut<'_, f32>,
    ) {
        let room = self.room();
        let mut scratch = Scratch::<f32>::new(self.elements());
        let (inputs, rest) = scratch.elements().as_chunks_mut().0.split_at_mut(room[0] / LANES);
        let (outputs, sums) = rest.split_at_mut(room[1] / LANES);
        let [taps, channels] = to.extents();
        let (filters, count) = (taps / TAPS, self.tiles.count);
        let target = [filters, channels];
        for start in (0..count).step_by(self.at_once) {
            let some = start..(start + self.at_once).min(count);
            let (left, right) = ([some.len(), filters], [some.len(), channels]);
            for line in 0..SIDE {
                let places = || self.tiles.places(some.clone());
                transforms::inputs(image, self.channels, line, &mut places(), channel..channel + channels, inputs);
                transforms::gradients(dy, self.filters, line, &mut places(), filter..filter + filters, outputs);
                for position in 0..SIDE {
                    let a = MatRef::new(at(outputs, position, left), left, left[1]).transposed();
                    let c = MatMut::new(at_mut(sums, SIDE * line + position, target), target, target[1]);
                    multiply_near(a, at(inputs, position, right), start > 0, c);
                }
            }
        }
        transforms::taps(sums, apart(target), accumulate, &mut to);
    }
}

/// Some columns of some lines of a result.
struct Piece<'a> {
    plan: &'a Winograd,
    image: &'a [Lanes],
    weights: &'a [f32],
    columns: Range<usize>,
    /// The first line.
    line: usize,
    to: MatMut<'a, f32>,
}

impl Piece<'_> {
    fn compute(mut self, tiles: Range<usize>) {
        let (plan, room) = (self.plan, self.plan.room());
        let mut scratch = Scratch::<f32>::new(plan.elements());
        let (inputs, rest) = scratch.elements().as_chunks_mut().0.split_at_mut(room[0] / LANES);
        let (sums, weights) = rest.split_at_mut(room[1] / LANES);
        let mut room = [inputs, sums, weights];
        let blocks = || {
            let end = tiles.end;
            tiles.clone().step_by(plan.at_once).map(move |start| start..(start + plan.at_once).min(end))
        };
        if plan.is_kept {
            for line in 0..SIDE {
                self.transform(line, 0..plan.sides()[0], room[2]);
                blocks().for_each(|some| self.positions(line, some, &mut room));
            }
        } else {
            for some in blocks() {
                (0..SIDE).for_each(|line| self.positions(line, some.clone(), &mut room));
            }
        }
    }

    /// Transforms the weights of some terms.
    fn transform(&self, line: usize, terms: Range<usize>, to: &mut [Lanes]) {
        let taps = TAPS * self.plan.channels;
        if self.plan.pass == Pass::Forward {
            transforms::weights(self.weights, taps, line, terms, self.columns.clone(), to);
        } else {
            transforms::flipped(self.weights, taps, line, terms, self.columns.clone(), to);
        }
    }

    /// Computes what a line of positions of some tiles adds to their outputs.
    fn positions(&mut self, line: usize, some: Range<usize>, room: &mut [&mut [Lanes]; 3]) {
        let (plan, columns) = (self.plan, self.columns.len());
        let [inputs, sums, weights] = room;
        let ([terms, _], target) = (plan.sides(), [some.len(), columns]);
        for term in (0..terms).step_by(plan.depth) {
            let of_step = term..(term + plan.depth).min(terms);
            let left = [some.len(), of_step.len()];
            transforms::inputs(self.image, terms, line, &mut plan.tiles.places(some.clone()), of_step.clone(), inputs);
            let (right, first) = match plan.is_kept {
                true => ([terms, columns], term * columns),
                false => {
                    self.transform(line, of_step.clone(), weights);
                    ([of_step.len(), columns], 0)
                }
            };
            for position in 0..SIDE {
                let a = MatRef::new(at(inputs, position, left), left, left[1]);
                let c = MatMut::new(at_mut(sums, position, target), target, columns);
                multiply_near(a, &at(weights, position, right)[first..], term > 0, c);
            }
        }
        transforms::outputs(sums, line, &mut plan.tiles.places(some), self.line, &mut self.to);
    }
}

/// The matrix of a position.
fn at(room: &[Lanes], position: usize, extents: [usize; 2]) -> &[f32] {
    room[position * apart(extents)..(position + 1) * apart(extents)].as_flattened()
}

fn at_mut(room: &mut [Lanes], position: usize, extents: [usize; 2]) -> &mut [f32] {
    room[position * apart(extents)..(position + 1) * apart(extents)].as_flattened_mut()
}

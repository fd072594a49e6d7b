//! The mapping of threads to elements and to the rows and columns of a matrix: the host's side of `vectors.cuh` and
//! `columns.cuh`.

use super::{
    DType,
    launch::{Grid, Pointer, THREADS},
};

/// Elements that a thread takes at once where it may.
const RUN: usize = 4;
/// The most threads across a tile of columns, by elements of each thread: for runs, and for single elements.
const ACROSS: [usize; 2] = [32, 64];
/// Blocks that keep a card busy.
const BLOCKS: usize = 512;
/// The most rows that a thread has before more blocks are started.
const ROWS: usize = 8;
/// The most blocks along y.
const DOWN: usize = 65535;
/// Columns of a block that adds up parts, as `TOTALS` of `columns.cuh`.
const TOTALS: usize = 8;

/// Whether runs of elements may be read and written at once: every address, and every one of `strides`, is a multiple of
/// their length.
pub(super) fn is_wide(tensors: &[(Pointer, DType)], strides: &[usize]) -> bool {
    let aligned = |(pointer, dtype): &(Pointer, DType)| pointer.0.is_multiple_of((RUN * dtype.size()) as u64);
    strides.iter().all(|stride| stride.is_multiple_of(RUN)) && tensors.iter().all(aligned)
}

/// A thread a run of elements, or an element.
pub(super) fn runs(elements: usize, wide: bool) -> Grid {
    Grid::elements(if wide { elements.div_ceil(RUN) } else { elements })
}

/// The same grid for a matrix whose rows keep their threads, as `each_run_of_rows` has them.
pub(super) fn runs_of_rows(rows: usize, columns: usize, wide: bool) -> Grid {
    Grid::matrix(rows, if wide { columns.div_ceil(RUN) } else { columns })
}

/// A matrix's columns in tiles, as `tile_of` of `columns.cuh` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiles {
    /// Threads across a tile.
    pub(super) width: usize,
    /// Whether each has a run of columns.
    pub(super) wide: bool,
    count: usize,
}

impl Tiles {
    /// Tiles of one width that cover this many columns.
    pub(super) fn new(columns: usize, wide: bool) -> Self {
        let (units, most) = if wide { (columns / RUN, ACROSS[0]) } else { (columns, ACROSS[1]) };
        let count = units.div_ceil(most).max(1);
        Self { width: units.div_ceil(count).max(1), wide, count }
    }

    /// A block for each tile of each part.
    pub(super) fn parts(&self, parts: usize) -> Grid {
        Grid::plane([self.count, parts.min(DOWN)], [THREADS, 1])
    }

    /// The same grid, `layers` times.
    pub(super) fn parts_of(&self, parts: usize, layers: usize) -> Grid {
        Grid::space([self.count, parts.min(DOWN), layers], THREADS)
    }

    /// Blocks that share the rows.
    pub(super) fn rows(&self, rows: usize) -> Grid {
        let lanes = THREADS as usize / self.width;
        let each = (rows * self.count / (lanes * BLOCKS)).clamp(1, ROWS);
        self.parts(rows.div_ceil(lanes * each))
    }
}

/// Tensors of fewer elements have places of 32 bits.
const SHORT: usize = 1 << 31;

/// How a kernel over images is compiled, as `by_form` of `windows.cuh` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Single channels with places of 64 bits.
    Long,
    /// Single channels.
    Single,
    /// Runs of channels.
    Runs,
}

impl Form {
    /// A grid for tensors of at most this many elements, whose runs may be read at once where they are `wide`.
    pub(super) fn new(most: usize, wide: bool) -> Self {
        match wide {
            _ if most >= SHORT => Self::Long,
            true => Self::Runs,
            false => Self::Single,
        }
    }

    /// The number that a kernel takes.
    pub(super) fn code(self) -> usize {
        self as usize
    }

    /// Whether channels go in runs.
    pub(super) fn is_wide(self) -> bool {
        self == Self::Runs
    }

    /// A thread a run, or an element.
    pub(super) fn grid(self, elements: usize) -> Grid {
        runs(elements, self.is_wide())
    }
}

/// A grid whose blocks add up the parts of this many columns.
pub(super) fn totals(columns: usize) -> Grid {
    Grid::blocks(columns.div_ceil(TOTALS), THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_column_and_fit_a_block() {
        for columns in 1..1200_usize {
            for wide in [false, true] {
                if wide && !columns.is_multiple_of(RUN) {
                    continue;
                }
                let tiles = Tiles::new(columns, wide);
                let across = tiles.width * if wide { RUN } else { 1 };
                assert!(tiles.count * across >= columns && (tiles.count - 1) * across < columns, "{columns} {tiles:?}");
                assert!(tiles.width <= THREADS as usize);
            }
        }
    }

    #[test]
    fn a_run_needs_aligned_addresses_and_strides() {
        assert!(is_wide(&[(Pointer(32), DType::F64), (Pointer(8), DType::F16)], &[64]));
        assert!(!is_wide(&[(Pointer(16), DType::F64)], &[64]));
        assert!(!is_wide(&[(Pointer(32), DType::F64)], &[6]));
    }
}

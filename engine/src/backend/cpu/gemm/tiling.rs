//! The division of a product into tiles: geometry only, shared by the kernels and their scratch rule.
//!
//! A plan depends on extents and types, never on the number of threads. Tiles are independent of each other, and the
//! order of summation inside one is fixed, so a result is the same on any number of threads.

/// The layout of a block of an operand in the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Layout {
    /// Read in place, row after row.
    Rows,
    /// Read in place, column after column.
    Columns,
    /// Copied (converted, or gathered from an image), row after row.
    CopiedRows,
    /// Copied (converted), column after column.
    CopiedColumns,
}

impl Layout {
    /// How an operand is read that is a matrix in memory.
    pub(in crate::backend) fn of(direct: bool, transposed: bool) -> Self {
        match (direct, transposed) {
            (true, false) => Self::Rows,
            (true, true) => Self::Columns,
            (false, false) => Self::CopiedRows,
            (false, true) => Self::CopiedColumns,
        }
    }

    pub(in crate::backend) fn copied(self) -> bool {
        matches!(self, Self::CopiedRows | Self::CopiedColumns)
    }

    pub(in crate::backend) fn by_rows(self) -> bool {
        matches!(self, Self::Rows | Self::CopiedRows)
    }
}

/// The product `c [m, n] = a [m, k] b [k, n]`.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct Product {
    /// Rows of `c`.
    pub(in crate::backend) m: usize,
    /// Columns of `c`.
    pub(in crate::backend) n: usize,
    /// The inner extent.
    pub(in crate::backend) k: usize,
    /// Bytes of an element of arithmetic.
    pub(in crate::backend) width: usize,
    /// Layout of blocks of `a`.
    pub(in crate::backend) a: Layout,
    /// Layout of blocks of `b`.
    pub(in crate::backend) b: Layout,
    /// Whether a tile of `c` is computed in scratch and then stored, because `c` is narrower than the arithmetic or
    /// irregular.
    pub(in crate::backend) staged: bool,
    /// Whether pairs of bf16 are multiplied, by an instruction.
    pub(in crate::backend) paired: bool,
}

/// Rows whose sums are in registers at once, where pairs are multiplied.
pub(super) const PAIRED_ROWS: usize = 12;
/// Columns whose sums are.
pub(super) const PAIRED_COLUMNS: usize = 32;

/// The largest tile.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct TileLimits {
    pub(in crate::backend) rows: usize,
    pub(in crate::backend) columns: usize,
    pub(in crate::backend) depth: usize,
}

/// A product cut into tiles.
#[derive(Debug, Clone, Copy)]
pub(in crate::backend) struct GemmTiling {
    /// What is computed.
    pub(in crate::backend) product: Product,
    /// Rows of a tile.
    pub(in crate::backend) rows: usize,
    /// Columns of a tile.
    pub(in crate::backend) columns: usize,
    /// Inner extent of a step.
    pub(in crate::backend) depth: usize,
    /// Parts of the inner extent that are summed apart and then together; 1 for most.
    pub(in crate::backend) segments: usize,
    /// Whether more than one thread pays.
    pub(in crate::backend) parallel: bool,
}

/// Multiplications and additions below which a product stays on one thread.
const PARALLEL_FLOPS: usize = 3 << 20;
/// Pieces to cut a parallel product into, where its extents allow.
const WANTED_PIECES: usize = 4;
/// Bytes for sums of segments.
const SEGMENT_BYTES: usize = 192 << 10;

impl GemmTiling {
    /// Cuts a product into tiles of at most `limits`.
    pub(in crate::backend) fn new(product: Product, limits: TileLimits) -> Self {
        let Product { m, n, k, width, .. } = product;
        let group = if product.paired { PAIRED_ROWS } else { 6 };
        let mut plan = Self {
            product,
            rows: balanced(m, limits.rows, group),
            columns: balanced(n, limits.columns, 16),
            depth: balanced(k, limits.depth, 16),
            segments: 1,
            parallel: 2 * m * n * k >= PARALLEL_FLOPS,
        };
        if !plan.parallel {
            return plan;
        }
        while plan.tiles() < WANTED_PIECES && plan.columns > 64 {
            plan.columns = plan.columns.div_ceil(2).next_multiple_of(16);
        }
        if plan.tiles() < WANTED_PIECES {
            let by_depth = k / (2 * plan.depth.max(1));
            let by_room = SEGMENT_BYTES / (m * n * width).max(1);
            plan.segments = by_depth.min(by_room).clamp(1, 8);
        }
        // Last, for every row of tiles copies the same blocks of `b`.
        while plan.pieces() < WANTED_PIECES && plan.rows >= 48 {
            plan.rows = plan.rows.div_ceil(2).next_multiple_of(group);
        }
        plan
    }

    /// Tiles of `c`.
    pub(in crate::backend) fn tiles(&self) -> usize {
        self.product.m.div_ceil(self.rows.max(1)) * self.product.n.div_ceil(self.columns.max(1))
    }

    /// What threads share out.
    pub(in crate::backend) fn pieces(&self) -> usize {
        self.tiles() * self.segments
    }

    /// Inner extent of a segment.
    pub(in crate::backend) fn segment(&self) -> usize {
        self.product.k.div_ceil(self.segments)
    }

    /// Whether a piece computes its tile in scratch. Sums of segments are regular and have the type of arithmetic.
    pub(in crate::backend) fn staged(&self) -> bool {
        self.product.staged && self.segments == 1
    }

    /// Elements of a block of `a`, of `b` and of a tile of `c` that a piece makes room for.
    pub(in crate::backend) fn block_elements(&self) -> [usize; 3] {
        if self.product.paired {
            return self.paired_elements();
        }
        let (a, b) = (self.product.a.copied(), self.product.b.copied());
        [
            if a { self.rows * self.depth } else { 0 },
            if b { self.depth * self.columns } else { 0 },
            if self.staged() { self.rows * self.columns } else { 0 },
        ]
    }
}

impl GemmTiling {
    /// The same elements where pairs are multiplied, of which each is as large as a sum: the left operand's pairs, if it is
    /// copied or its columns lie together; the right operand's in panels, with room for two of its rows if they are copied; and
    /// all sums.
    fn paired_elements(&self) -> [usize; 3] {
        let (pairs, wide) = (self.depth.div_ceil(2), self.columns.next_multiple_of(PAIRED_COLUMNS));
        let a = match self.product.a {
            Layout::Rows => 0,
            Layout::CopiedRows => self.rows * pairs,
            Layout::Columns | Layout::CopiedColumns => self.rows.next_multiple_of(PAIRED_ROWS) * pairs,
        };
        let b = match self.product.b {
            Layout::CopiedRows => self.columns,
            Layout::Rows | Layout::Columns | Layout::CopiedColumns => 0,
        };
        [a, wide * pairs + b, self.rows * wide]
    }
}

/// The extent of equal parts of `extent`, each at most `limit`, rounded up to a multiple.
fn balanced(extent: usize, limit: usize, multiple: usize) -> usize {
    let parts = extent.div_ceil(limit).max(1);
    extent.div_ceil(parts).next_multiple_of(multiple).min(limit).max(1)
}

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
    /// Read in place, row after row, each in runs of whole chunks that lie anywhere: the patches of an image.
    Runs,
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
        matches!(self, Self::Rows | Self::CopiedRows | Self::Runs)
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
    /// The kernel that multiplies its tiles.
    pub(in crate::backend) by: Multiplier,
}

/// The kernels that multiply tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Multiplier {
    /// The gemm crate.
    Crate,
    /// This program, in words of one f32.
    Singles,
    /// This program, in words of two bf16.
    Pairs,
    /// This program, in blocks of rows of such words.
    Blocks,
}

impl Multiplier {
    /// Rows and columns of a tile, and terms of its steps, come in multiples of these.
    fn multiples(self) -> [usize; 3] {
        match self {
            Self::Crate => [6, 16, 16],
            Self::Singles | Self::Pairs => [WORD_ROWS, WORD_COLUMNS, CHUNK],
            Self::Blocks => [BLOCK, WORD_COLUMNS, BLOCK],
        }
    }
}

/// Rows whose sums are in registers at once, where words are multiplied.
pub(in crate::backend::cpu) const WORD_ROWS: usize = 12;
/// Columns whose sums are.
pub(in crate::backend::cpu) const WORD_COLUMNS: usize = 32;
/// Rows whose sums are in registers at once, where blocks are multiplied, and terms of a block.
pub(in crate::backend::cpu) const BLOCK: usize = 32;
/// The most rows whose terms are found at once.
pub(in crate::backend::cpu) const RUN_ROWS: usize = 16;
/// Neighbouring elements of an operand in runs. Steps and segments of a product begin at whole ones.
pub(in crate::backend::cpu) const CHUNK: usize = 16;
/// The most terms of a step whose left operand is in runs.
pub(in crate::backend::cpu) const MOST_TERMS: usize = 640;
/// The most bytes from the first to the last term of a step of a right operand that is multiplied where it lies.
pub(super) const NEAR_BYTES: usize = 256 << 10;
/// Rows of a right operand of f32 that are copied before they are laid out.
pub(super) const SINGLES_AHEAD: usize = 8;

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
    /// The product that is computed.
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
        let [group, panel, terms] = product.by.multiples();
        // Where words are multiplied, many pieces are a multiple of most numbers of threads.
        let evenly = if product.by == Multiplier::Crate { 1 } else { 4 };
        let parts = m.div_ceil(limits.rows).max(1);
        let parts = if parts > 2 { parts.next_multiple_of(evenly) } else { parts };
        let mut plan = Self {
            product,
            rows: m.div_ceil(parts).next_multiple_of(group).min(limits.rows).max(1),
            columns: balanced(n, limits.columns, panel),
            depth: balanced(k, limits.depth, terms),
            segments: 1,
            parallel: 2 * m * n * k >= PARALLEL_FLOPS,
        };
        if !plan.parallel {
            return plan;
        }
        while plan.tiles() < WANTED_PIECES && plan.columns > 64 {
            plan.columns = plan.columns.div_ceil(2).next_multiple_of(panel);
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

    /// The pieces of work that threads share out.
    pub(in crate::backend) fn pieces(&self) -> usize {
        self.tiles() * self.segments
    }

    /// Inner extent of a segment: whole chunks where words are multiplied, so that no word has terms of two segments. Each has
    /// more terms than two steps, so the last one is not empty.
    pub(in crate::backend) fn segment(&self) -> usize {
        let even = self.product.k.div_ceil(self.segments);
        let [_, _, terms] = self.product.by.multiples();
        if self.product.by == Multiplier::Crate { even } else { even.next_multiple_of(terms) }
    }

    /// Whether a piece computes its tile in scratch. Sums of segments are regular and have the type of arithmetic.
    pub(in crate::backend) fn staged(&self) -> bool {
        self.product.staged && self.segments == 1
    }

    /// Whether the right operand is multiplied where it lies: rows of whole panels, of which a step's are so near each other that
    /// the processor has their addresses at hand.
    pub(super) fn is_right_in_place(&self) -> bool {
        let Product { n, width, by, b, .. } = self.product;
        by == Multiplier::Singles
            && b == Layout::Rows
            && n.is_multiple_of(WORD_COLUMNS)
            && self.depth * n * width <= NEAR_BYTES
    }

    /// Elements of a block of `a`, of `b` and of a tile of `c` that a piece makes room for.
    pub(in crate::backend) fn block_elements(&self) -> [usize; 3] {
        let (a, b) = (self.product.a, self.product.b);
        let c = if self.staged() { self.rows * self.columns } else { 0 };
        let of_pairs = self.depth.div_ceil(2);
        let of_blocks = self.depth.next_multiple_of(BLOCK) / 2;
        // Elements of a row of the left operand, and of a column of the right one, each as large as a sum; and rows of the right
        // one that are copied before they are laid out in panels.
        let (row, column, ahead) = match self.product.by {
            Multiplier::Crate => (self.depth, if b.copied() { self.depth } else { 0 }, 0),
            Multiplier::Singles if self.is_right_in_place() => (self.depth, 0, 0),
            Multiplier::Singles => (self.depth, self.depth, SINGLES_AHEAD),
            Multiplier::Pairs => (of_pairs, of_pairs, 1),
            Multiplier::Blocks => (of_pairs, of_blocks, 1),
        };
        let a = match (a, self.product.by) {
            // One group of rows at a time; rows that are copied, half a group at a time, are laid out after it.
            (_, Multiplier::Blocks) => BLOCK * of_blocks + if a == Layout::CopiedRows { RUN_ROWS * row } else { 0 },
            (Layout::Rows | Layout::Runs, _) | (Layout::Columns, Multiplier::Crate | Multiplier::Singles) => 0,
            (Layout::CopiedRows, _) | (Layout::CopiedColumns, Multiplier::Crate) => self.rows * row,
            (Layout::Columns | Layout::CopiedColumns, _) => self.rows.next_multiple_of(WORD_ROWS) * row,
        };
        let columns = match self.product.by {
            Multiplier::Crate => self.columns,
            _ => self.columns.next_multiple_of(WORD_COLUMNS),
        };
        let aside = if b == Layout::CopiedRows { ahead * self.columns } else { 0 };
        [a, columns * column + aside, c]
    }
}

/// The extent of equal parts of `extent`, each at most `limit`, rounded up to a multiple.
fn balanced(extent: usize, limit: usize, multiple: usize) -> usize {
    let parts = extent.div_ceil(limit).max(1);
    extent.div_ceil(parts).next_multiple_of(multiple).min(limit).max(1)
}

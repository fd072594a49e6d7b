//! The geometry of a product.

/// A matrix product `c = op(a) op(b)`, or `c += op(a) op(b)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMul {
    /// Rows of `c`.
    pub m: usize,
    /// Columns of `c`.
    pub n: usize,
    /// Inner extent.
    pub k: usize,
    /// `a` is stored `[k, m]` rather than `[m, k]`.
    pub transpose_a: bool,
    /// `b` is stored `[n, k]` rather than `[k, n]`.
    pub transpose_b: bool,
    /// Add to `c` rather than overwrite it.
    pub accumulate: bool,
}

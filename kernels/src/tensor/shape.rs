//! Extents of a tensor.

use std::fmt;

/// The most elements of one tensor: far past any machine, and far below where sizes in bytes overflow.
pub const MAX_ELEMENTS: usize = 1 << 42;

/// Up to four extents, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; 4],
    rank: usize,
}

impl Shape {
    /// The extents.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// How many extents.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The product of the extents.
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// The product of the extents; `None` if it is more than [`MAX_ELEMENTS`].
    pub fn checked_elements(&self) -> Option<usize> {
        let elements = self.dims().iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
        elements.filter(|elements| *elements <= MAX_ELEMENTS)
    }

    /// The innermost extent; 1 for a scalar.
    pub fn last(&self) -> usize {
        self.dims().last().copied().unwrap_or(1)
    }

    /// The outermost extent; 1 for a scalar.
    pub fn first(&self) -> usize {
        self.dims().first().copied().unwrap_or(1)
    }

    /// The same shape with another outermost extent.
    #[must_use]
    pub(crate) fn with_first(mut self, extent: usize) -> Self {
        self.dims[0] = extent;
        self
    }

    /// The same shape with another innermost extent.
    #[must_use]
    pub(crate) fn with_last(mut self, extent: usize) -> Self {
        self.dims[self.rank.saturating_sub(1)] = extent;
        self
    }

    /// The product of all extents but the innermost.
    pub fn rows(&self) -> usize {
        self.elements() / self.last().max(1)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Self {
        const { assert!(N <= 4, "a shape has at most four extents") };
        let mut dims = [1; 4];
        dims[..N].copy_from_slice(&extents);
        Self { dims, rank: N }
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dims().fmt(f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> = self.dims().iter().map(usize::to_string).collect();
        f.pad(&text.join(" x "))
    }
}

//! Kernels that move elements: columns of matrices, and transposes.

use super::{
    convert::turn,
    elementwise::convert,
    float::Float,
    parallel::{self, Shared},
};

/// Rows that lie evenly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strided {
    /// Elements from one row to the next.
    pub(super) stride: usize,
    /// Where the first starts.
    pub(super) offset: usize,
}

/// [`Kernel::CopyColumns`](crate::backend::Kernel::CopyColumns).
pub(super) fn copy<T: Float, U: Float>([rows, columns]: [usize; 2], x: &[T], from: Strided, y: &mut [U], to: Strided) {
    let y = Shared::new(y);
    parallel::ranges(rows, columns, |rows| {
        for row in rows {
            let (from, to) = (row * from.stride + from.offset, row * to.stride + to.offset);
            // SAFETY: rows are disjoint, for none is longer than the stride.
            convert(&x[from..from + columns], unsafe { y.part(to..to + columns) });
        }
    });
}

/// Columns turned at a time.
const STRIP: usize = 32;

/// [`Kernel::Transpose`](crate::backend::Kernel::Transpose), of matrices of so many rows and columns.
pub(super) fn transpose<T: Float>([rows, columns]: [usize; 2], x: &[T], y: &mut [T]) {
    let (matrix, y) = (rows * columns, Shared::new(y));
    // Strips of columns, which become whole rows.
    let strips = columns.div_ceil(STRIP);
    parallel::ranges(x.len() / matrix * strips, rows * STRIP.min(columns), |range| {
        for piece in range {
            let (start, from) = (piece / strips * matrix, piece % strips * STRIP);
            let width = STRIP.min(columns - from);
            // SAFETY: strips are disjoint.
            let to = unsafe { y.part(start + from * rows..start + (from + width) * rows) };
            turn(&x[start + from..start + matrix], columns, [rows, width], to);
        }
    });
}

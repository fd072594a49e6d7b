//! Kernels that move elements: columns of matrices, and transposes.

use super::{convert::turn, elementwise::convert, float::Float, matrix::MatMut, parallel};

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
    let y = MatMut::new(&mut y[to.offset..], [rows, columns], to.stride);
    parallel::ranges(rows, columns, y.by_rows(1), |rows, mut y| {
        for (i, row) in rows.enumerate() {
            let from = row * from.stride + from.offset;
            convert(&x[from..from + columns], y.row(i));
        }
    });
}

/// Columns turned at a time.
const STRIP: usize = 32;

/// [`Kernel::Transpose`](crate::backend::Kernel::Transpose), of matrices of so many rows and columns.
pub(super) fn transpose<T: Float>([rows, columns]: [usize; 2], x: &[T], y: &mut [T]) {
    // Strips of columns, which become whole rows.
    let (matrix, strips) = (rows * columns, columns.div_ceil(STRIP));
    let start = |strip: usize| strip / strips * matrix + (strip % strips * STRIP).min(columns) * rows;
    parallel::ranges(x.len() / matrix * strips, rows * STRIP.min(columns), parallel::parts(y, start), |range, y| {
        let mut rest = y;
        for strip in range {
            let (matrix, from) = (&x[strip / strips * matrix..][..matrix], strip % strips * STRIP);
            let width = STRIP.min(columns - from);
            let (to, after) = rest.split_at_mut(width * rows);
            turn(&matrix[from..], columns, [rows, width], to);
            rest = after;
        }
    });
}

//! The same elements in another type or another order: casts, columns of matrices, transposes.

use super::{
    by_type::by_float,
    convert::{convert, turn},
    float::Float,
    matrix::MatMut,
    operands::Operands,
    parallel,
};
use crate::{backend::ops::Layout, error::Result};

/// Runs a kernel of this family.
pub(super) fn launch(kernel: &Layout, o: &Operands<'_>) -> Result<()> {
    match *kernel {
        Layout::Cast => by_float!(o.input_type(0), T => by_float!(o.output_type(0), U => {
            cast::<T, U>(&o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()), else o.unsupported()),
        Layout::CopyColumns(c) => {
            let from = Strided { stride: c.from_stride, offset: c.from_offset };
            let to = Strided { stride: c.to_stride, offset: c.to_offset };
            by_float!(o.input_type(0), T => by_float!(o.output_type(0), U => {
                copy::<T, U>([c.rows, c.columns], &o.input(0)?, from, &mut o.output(0)?, to);
                Ok(())
            }, else o.unsupported()), else o.unsupported())
        }
        Layout::Transpose { rows, columns, .. } => by_float!(o.output_type(0), T => {
            transpose::<T>([rows, columns], &o.input(0)?, &mut o.output(0)?);
            Ok(())
        }, else o.unsupported()),
    }
}

/// Runs [`Layout::Cast`](crate::backend::ops::Layout::Cast). Between f64 and a 16-bit type it rounds through f32.
fn cast<T: Float, U: Float>(x: &[T], y: &mut [U]) {
    parallel::each(y, |start, y| convert(&x[start..start + y.len()], y));
}

/// Rows at a constant distance.
#[derive(Debug, Clone, Copy)]
struct Strided {
    /// Elements from one row to the next.
    stride: usize,
    /// Where the first element starts.
    offset: usize,
}

/// Runs [`Layout::CopyColumns`](crate::backend::ops::Layout::CopyColumns).
fn copy<T: Float, U: Float>([rows, columns]: [usize; 2], x: &[T], from: Strided, y: &mut [U], to: Strided) {
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

/// Runs [`Layout::Transpose`](crate::backend::ops::Layout::Transpose), of matrices of this many rows and columns.
fn transpose<T: Float>([rows, columns]: [usize; 2], x: &[T], y: &mut [T]) {
    // Strips of columns, which become whole rows.
    let (matrix, strips) = (rows * columns, columns.div_ceil(STRIP));
    let start = |strip: usize| strip / strips * matrix + (strip % strips * STRIP).min(columns) * rows;
    parallel::ranges(x.len() / matrix * strips, rows * STRIP.min(columns), parallel::parts(y, &start), |range, y| {
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

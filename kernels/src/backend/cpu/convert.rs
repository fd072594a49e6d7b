//! Conversions of elements between the types of storage and arithmetic, and transposes.

use super::{float::Float, simd::simd};

simd! {
    /// Copies, converting. Between f64 and a 16-bit type it rounds through f32.
    pub(super) fn convert [T: Float, U: Float] (x: &[T], y: &mut [U]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = U::from_f64(x.to_f64());
        }
    }

    /// Converts to the type of arithmetic.
    pub(super) fn up [T: Float] (from: &[T], to: &mut [T::Acc]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.up();
        }
    }

    /// Writes the transpose of `rows` rows of `columns` elements, `stride` apart, to `to [columns, rows]`.
    pub(super) fn turn [T: Float, U: Float<Acc = T::Acc>] (
        from: &[T], stride: usize, extents: [usize; 2], to: &mut [U],
    ) {
        let [rows, columns] = extents;
        const HEIGHT: usize = 8;
        const WIDTH: usize = 16;
        for j in (0..columns).step_by(WIDTH) {
            let width = WIDTH.min(columns - j);
            for i in (0..rows).step_by(HEIGHT) {
                let height = HEIGHT.min(rows - i);
                let mut tile = [[U::ZERO; WIDTH]; HEIGHT];
                for (r, tile) in tile[..height].iter_mut().enumerate() {
                    let start = (i + r) * stride + j;
                    for (to, from) in tile.iter_mut().zip(&from[start..start + width]) {
                        *to = U::down(from.up());
                    }
                }
                if height == HEIGHT {
                    for c in 0..width {
                        let start = (j + c) * rows + i;
                        for (to, tile) in to[start..start + HEIGHT].iter_mut().zip(&tile) {
                            *to = tile[c];
                        }
                    }
                } else {
                    for c in 0..width {
                        let start = (j + c) * rows + i;
                        for (to, tile) in to[start..start + height].iter_mut().zip(&tile) {
                            *to = tile[c];
                        }
                    }
                }
            }
        }
    }

    /// Rounds from the type of arithmetic.
    pub(super) fn down [W: Float] (from: &[W::Acc], to: &mut [W]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = W::down(*from);
        }
    }

    /// Adds in the type of arithmetic, and rounds.
    pub(super) fn add_down [W: Float] (from: &[W::Acc], to: &mut [W]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = W::down(to.up() + *from);
        }
    }
}

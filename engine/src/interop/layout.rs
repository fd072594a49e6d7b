//! Layouts: how the elements of a tensor here lie in a published one, and elements on their way from one to the other.
//!
//! Owns [`Layout`] and [`View`]. Always holds: a view reads each element of a tensor once, in the order in which it is
//! written, so that any part of it can be made without the rest. Elements are converted one by one, rounded once.

use crate::tensor::DType;

/// How a published tensor differs from the one here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// The same extents as here.
    Same,
    /// `[out, in]` here, `[in, out]` there, as GPT-2's dense layers have it.
    Transposed,
    /// `[filters, height, width, channels]` here, `[filters, channels, height, width]` there.
    Convolution,
    /// `[height, width, channels]` here, `[channels, 1, height, width]` there.
    Depthwise,
    /// With extents of 1 before the extents here, as a vision transformer stores a learned row or table: three in all.
    Led,
}

/// A tensor's elements in another order: extents, and how far apart the next one is along each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    dims: [usize; 4],
    strides: [usize; 4],
    /// The element that comes first.
    first: usize,
}

impl Layout {
    /// Which axis here, of four, each axis there is.
    const fn axes(self) -> [usize; 4] {
        match self {
            Self::Same | Self::Led => [0, 1, 2, 3],
            Self::Transposed => [0, 1, 3, 2],
            Self::Convolution => [0, 3, 1, 2],
            Self::Depthwise => [3, 0, 1, 2],
        }
    }

    /// The extents there of a tensor with `here`.
    pub(super) fn there(self, here: &[usize]) -> Vec<usize> {
        let four = four(here);
        match self {
            Self::Same => here.to_vec(),
            Self::Transposed => here.iter().rev().copied().collect(),
            Self::Convolution | Self::Depthwise => self.axes().map(|axis| four[axis]).to_vec(),
            Self::Led => {
                let ones = 3_usize.saturating_sub(here.len());
                std::iter::repeat_n(1, ones).chain(here.iter().copied()).collect()
            }
        }
    }

    /// The elements of a published tensor in the order of the one here, which has the extents `here`.
    pub(super) fn reading(self, here: &[usize]) -> View {
        let (dims, axes) = (four(here), self.axes());
        let steps = steps(axes.map(|axis| dims[axis]));
        let mut strides = [0; 4];
        for (axis, step) in axes.into_iter().zip(steps) {
            strides[axis] = step;
        }
        View { dims, strides, first: 0 }
    }

    /// The elements of a tensor here, or of some rows of it that begin at the element `first`, in the order of the published
    /// one. The extents are `here`.
    pub(super) fn writing(self, here: &[usize], first: usize) -> View {
        let (dims, axes) = (four(here), self.axes());
        let steps = steps(dims);
        View { dims: axes.map(|axis| dims[axis]), strides: axes.map(|axis| steps[axis]), first }
    }
}

/// Extents with ones before them, four in all. More than four are one: such tensors have the same layout everywhere.
fn four(dims: &[usize]) -> [usize; 4] {
    let mut four = [1; 4];
    match dims.len() {
        0..=4 => four[4 - dims.len()..].copy_from_slice(dims),
        _ => four[3] = dims.iter().product(),
    }
    four
}

/// How far apart the next element is along each axis of a tensor without gaps.
fn steps(dims: [usize; 4]) -> [usize; 4] {
    [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1]
}

impl View {
    pub(super) fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Writes elements to `to`, beginning with number `at`, as many as fit whole. `from` has them all, of type `source`; they
    /// are written with the type `target`. Types that hold no real numbers have no elements to convert.
    pub(super) fn convert(&self, from: &[u8], source: DType, at: usize, to: &mut [u8], target: DType) {
        let mut at = at;
        let mut to = to;
        while to.len() >= target.size() && at < self.elements() {
            let column = at % self.dims[3];
            let count = (self.dims[3] - column).min(to.len() / target.size());
            let (part, rest) = to.split_at_mut(count * target.size());
            run(from, source, self.place(at), self.strides[3], part, target);
            at += count;
            to = rest;
        }
    }

    /// The place before which nothing is read any more when the elements up to number `at` were read.
    pub(super) fn passed(&self, at: usize) -> usize {
        let outer = (0..4).find(|axis| self.dims[*axis] > 1).unwrap_or(3);
        let is_outermost = self.strides[outer..].iter().all(|stride| *stride <= self.strides[outer]);
        let inner: usize = self.dims[outer + 1..].iter().product();
        self.first + if is_outermost { at / inner.max(1) * self.strides[outer] } else { 0 }
    }

    /// Where the element of number `at` lies.
    fn place(&self, at: usize) -> usize {
        let mut rest = at;
        let mut place = self.first;
        for axis in (0..4).rev() {
            place += rest % self.dims[axis] * self.strides[axis];
            rest /= self.dims[axis];
        }
        place
    }
}

/// A number as it lies in a file. Every type's numbers are numbers of f64, so that an element is rounded once.
trait Number {
    const SIZE: usize;
    fn get(bytes: &[u8]) -> f64;
    fn put(number: f64, to: &mut [u8]);
}

/// A type's [`Number`]: how its value becomes one of f64, and how one of f64 becomes its.
macro_rules! number {
    ($name:ident, $type:ty, $widen:expr, $narrow:expr) => {
        struct $name;

        impl Number for $name {
            const SIZE: usize = size_of::<$type>();

            fn get(bytes: &[u8]) -> f64 {
                // Slices are cut to the type's size.
                bytes.try_into().map_or(0.0, |bytes| $widen(<$type>::from_le_bytes(bytes)))
            }

            fn put(number: f64, to: &mut [u8]) {
                to.copy_from_slice(&$narrow(number).to_le_bytes());
            }
        }
    };
}

number!(Double, f64, |n| n, |n| n);
number!(Single, f32, f64::from, |n| n as f32);
number!(Brain, half::bf16, |n: half::bf16| f64::from(n.to_f32()), |n| half::bf16::from_f32(odd(n)));
number!(Half, half::f16, |n: half::f16| f64::from(n.to_f32()), |n| half::f16::from_f32(odd(n)));
number!(Whole, u32, f64::from, |n| n as u32);
number!(Byte, u8, f64::from, |n| n as u8);

/// A number of f32 from which a narrower one is rounded as from `number` itself: exact, or between two narrower ones on the
/// same side (rounding to odd, Boldo & Melquiond 2008). For a number of f32 it is that number.
fn odd(number: f64) -> f32 {
    let near = number as f32;
    let back = f64::from(near);
    if back == number || number.is_nan() || near.is_infinite() {
        return near;
    }
    let below = near.to_bits() - u32::from(back.abs() > number.abs());
    f32::from_bits(below | 1)
}

/// Converts elements that lie `stride` apart.
fn run(from: &[u8], source: DType, first: usize, stride: usize, to: &mut [u8], target: DType) {
    if source == target && stride == 1 {
        return to.copy_from_slice(&from[first * source.size()..][..to.len()]);
    }
    let from = &from[first * source.size()..];
    match source {
        DType::F64 => into::<Double>(from, stride, to, target),
        DType::F32 => into::<Single>(from, stride, to, target),
        DType::Bf16 => into::<Brain>(from, stride, to, target),
        DType::F16 => into::<Half>(from, stride, to, target),
        DType::U32 => into::<Whole>(from, stride, to, target),
        DType::U8 => into::<Byte>(from, stride, to, target),
    }
}

fn into<S: Number>(from: &[u8], stride: usize, to: &mut [u8], target: DType) {
    match target {
        DType::F64 => each::<S, Double>(from, stride, to),
        DType::F32 => each::<S, Single>(from, stride, to),
        DType::Bf16 => each::<S, Brain>(from, stride, to),
        DType::F16 => each::<S, Half>(from, stride, to),
        DType::U32 => each::<S, Whole>(from, stride, to),
        DType::U8 => each::<S, Byte>(from, stride, to),
    }
}

fn each<S: Number, T: Number>(from: &[u8], stride: usize, to: &mut [u8]) {
    for (to, from) in to.chunks_exact_mut(T::SIZE).zip(from.chunks(stride * S::SIZE)) {
        T::put(S::get(&from[..S::SIZE]), to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("a whole element")
    }

    fn bytes(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
        numbers.into_iter().flat_map(f32::to_le_bytes).collect()
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(4).map(|e| f32::from_le_bytes(fixed(e))).collect()
    }

    #[test]
    fn what_is_written_reads_back_in_parts_of_any_size() {
        for (layout, here) in [
            (Layout::Same, vec![3, 5]),
            (Layout::Transposed, vec![3, 5]),
            (Layout::Convolution, vec![4, 3, 2, 5]),
            (Layout::Depthwise, vec![3, 2, 5]),
            (Layout::Led, vec![7]),
        ] {
            let count: usize = here.iter().product();
            let own = bytes((0..count).map(|i| i as f32));
            let mut there = vec![0; own.len()];
            layout.writing(&here, 0).convert(&own, DType::F32, 0, &mut there, DType::F32);
            assert_eq!(layout.there(&here).iter().product::<usize>(), count);
            for part in [1, 3, count] {
                let mut back = Vec::new();
                for at in (0..count).step_by(part) {
                    let mut some = vec![0; 4 * part.min(count - at)];
                    layout.reading(&here).convert(&there, DType::F32, at, &mut some, DType::F32);
                    back.extend(some);
                }
                assert_eq!(floats(&back), floats(&own), "{layout:?} in parts of {part}");
            }
        }
        let there = Layout::Convolution.there(&[4, 3, 2, 5]);
        assert_eq!((there, Layout::Depthwise.there(&[3, 2, 5])), (vec![4, 5, 3, 2], vec![5, 1, 3, 2]));
    }

    #[test]
    fn what_was_passed_is_read_no_more() {
        for layout in [Layout::Same, Layout::Transposed, Layout::Convolution, Layout::Depthwise, Layout::Led] {
            for here in [vec![4, 3, 2, 5], vec![1, 3, 2, 5], vec![3, 5], vec![1, 5], vec![7], vec![1]] {
                let (view, count) = (layout.reading(&here), here.iter().product());
                for at in 0..=count {
                    let to_come = (at..count).map(|number| view.place(number)).min().unwrap_or(count);
                    assert!(view.passed(at) <= to_come, "{layout:?} {here:?}: {at}");
                }
                if layout == Layout::Same {
                    assert_eq!(view.passed(count), count, "{here:?}");
                }
            }
        }
    }

    #[test]
    fn a_transposed_element_lies_where_its_row_and_column_change_places() {
        let view = Layout::Transposed.reading(&[2, 3]);
        let mut to = [0; 24];
        view.convert(&bytes([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), DType::F32, 0, &mut to, DType::F32);
        assert_eq!(floats(&to), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    }

    #[test]
    fn types_are_converted_and_rounded_once() {
        let view = Layout::Same.reading(&[2]);
        let mut to = [0; 4];
        // Halfway between two numbers of bf16, and a little above: rounding to f32 first would hide it.
        let numbers = [1.0 + 2f64.powi(-8) + 2f64.powi(-40), -0.5];
        let from: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        view.convert(&from, DType::F64, 0, &mut to, DType::Bf16);
        let found: Vec<f32> = to.chunks(2).map(|e| half::bf16::from_le_bytes(fixed(e)).to_f32()).collect();
        assert_eq!(found, [1.0 + 2f32.powi(-7), -0.5]);
        let mut wide = [0; 8];
        view.convert(&to, DType::Bf16, 0, &mut wide, DType::F32);
        assert_eq!(floats(&wide), found);
    }
}

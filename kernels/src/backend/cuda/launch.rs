//! A launch: its grid of threads, and its arguments.

use std::ffi::c_void;

use crate::backend::DType;

/// Threads of a block by default.
pub(super) const THREADS: u32 = 256;
/// The most blocks of a launch whose threads step over the rest: enough to fill any device several times.
const BLOCKS: usize = 1 << 16;
/// Blocks and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    blocks: [u32; 3],
    threads: [u32; 3],
}

impl Grid {
    /// A grid with a thread for each element, for kernels that step over the rest (`EACH`).
    pub(super) fn elements(elements: usize) -> Self {
        Self::blocks(elements.div_ceil(THREADS as usize).clamp(1, BLOCKS), THREADS)
    }

    /// A grid of this many blocks of this many threads each.
    pub(super) fn blocks(blocks: usize, threads: u32) -> Self {
        Self { blocks: [clamp(blocks), 1, 1], threads: [threads, 1, 1] }
    }

    /// A grid in two dimensions: `[x, y]`. There are at most 65535 blocks along y.
    pub(super) fn plane(blocks: [usize; 2], threads: [u32; 2]) -> Self {
        let [x, y] = blocks.map(clamp);
        Self { blocks: [x, y, 1], threads: [threads[0], threads[1], 1] }
    }

    /// A grid with rows of threads for the rows of a matrix, neighbours along its columns, for kernels that step over the rest:
    /// x counts columns in a block and rows among blocks, y the other way round.
    pub(super) fn matrix(rows: usize, columns: usize) -> Self {
        let across = columns.next_power_of_two().clamp(8, THREADS as usize);
        let down = THREADS as usize / across;
        let blocks = [rows.div_ceil(down).min(BLOCKS), columns.div_ceil(across).min(1 << 10)];
        Self::plane(blocks, [clamp(across), clamp(down)])
    }

    /// A grid in three dimensions: `[x, y, z]`. There are at most 65535 blocks along y, and along z.
    pub(super) fn space(blocks: [usize; 3], threads: u32) -> Self {
        Self { blocks: blocks.map(clamp), threads: [threads, 1, 1] }
    }

    /// Blocks and threads along each axis, as the driver takes them.
    pub(super) fn extents(self) -> [(u32, u32, u32); 2] {
        [self.blocks, self.threads].map(|[x, y, z]| (x, y, z))
    }
}

/// The arguments of a launch, as the driver reads them: each at a place of its own, as many as the kernel declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    /// A table, if there is one, and the other arguments behind it. Each of those is at most eight bytes.
    words: Vec<u64>,
    of_table: usize,
}

impl Packed {
    /// Lays arguments out, behind a table if the kernel takes one.
    pub(super) fn new(table: Option<Table>, args: &[Arg]) -> Self {
        let mut words = table.map_or_else(Vec::new, |table| table.words);
        let of_table = words.len();
        words.extend(args.iter().map(|arg| arg.0));
        Self { words, of_table }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.words.len() - self.of_table + usize::from(self.of_table > 0)
    }

    /// Where each of them lies, for as long as this does. The driver only reads there.
    pub(super) fn places(&self) -> Vec<*mut c_void> {
        let (table, args) = self.words.split_at(self.of_table);
        let places = table.first().into_iter().chain(args);
        places.map(|word| std::ptr::from_ref(word).cast_mut().cast()).collect()
    }
}

/// Tensors of a launch that works on several, as `tables.cuh` has them: what is told of each, and the block behind its last one.
/// It lies among the arguments, so it takes no memory of the device.
#[derive(Clone)]
pub(super) struct Table {
    words: Vec<u64>,
    blocks: usize,
}

impl Table {
    /// Rows of `N` numbers, each with its number of blocks; `most` is the table's length, an even number.
    pub(super) fn new<const N: usize>(most: usize, rows: &[([u64; N], usize)]) -> Self {
        assert!(rows.len() <= most && most.is_multiple_of(2), "{} rows of {most}", rows.len());
        let mut words: Vec<u64> = rows.iter().flat_map(|(row, _)| *row).collect();
        words.resize(most * N, 0);
        let ends = rows.iter().scan(0, |end, (_, blocks)| {
            *end += blocks;
            Some(*end)
        });
        let mut ends: Vec<usize> = ends.collect();
        let blocks = ends.last().copied().unwrap_or_default();
        ends.resize(most, blocks);
        words.extend(
            ends.as_chunks().0.iter().map(|[low, high]| u64::from(clamp(*high)) << 32 | u64::from(clamp(*low))),
        );
        Self { words, blocks }
    }

    /// A grid with the blocks of all of them.
    pub(super) fn grid(&self, threads: u32) -> Grid {
        Grid::blocks(self.blocks, threads)
    }
}

fn clamp(extent: usize) -> u32 {
    u32::try_from(extent.max(1)).unwrap_or(u32::MAX).min(i32::MAX as u32)
}

/// An argument: the bits of a pointer, an `i64`, a `u64`, an `int`, a `double` or a `float`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arg(u64);

impl Arg {
    /// A number in the type that a kernel computes in (`A`), for a kernel that uses it so often that it should not be narrowed
    /// on the device.
    pub(super) fn real(value: f64, arithmetic: DType) -> Self {
        match arithmetic {
            DType::F64 => value.into(),
            DType::F32 | DType::Bf16 | DType::F16 | DType::U32 | DType::U8 => Self(u64::from((value as f32).to_bits())),
        }
    }
}

/// An address on the device; 0 where nothing is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pointer(pub(super) u64);

impl From<Pointer> for Arg {
    fn from(pointer: Pointer) -> Self {
        Self(pointer.0)
    }
}

impl From<usize> for Arg {
    /// Passes the number as an `i64`.
    fn from(value: usize) -> Self {
        Self(value as u64)
    }
}

impl From<u64> for Arg {
    fn from(value: u64) -> Self {
        Self(value)
    }
}

impl From<bool> for Arg {
    /// Passes the flag as an `int`.
    fn from(value: bool) -> Self {
        Self(u64::from(value))
    }
}

impl From<f64> for Arg {
    fn from(value: f64) -> Self {
        Self(value.to_bits())
    }
}

/// The arguments of a launch, each by [`Arg::from`].
macro_rules! args {
    ($($arg:expr),* $(,)?) => { &[$($crate::backend::cuda::launch::Arg::from($arg)),*] };
}
pub(super) use args;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_a_thread_until_the_device_is_full() {
        assert_eq!(Grid::elements(0), Grid::blocks(1, THREADS));
        assert_eq!(Grid::elements(257), Grid::blocks(2, THREADS));
        assert_eq!(Grid::elements(usize::MAX), Grid::blocks(BLOCKS, THREADS));
    }

    #[test]
    fn a_table_tells_of_each_tensor_and_the_block_behind_it() {
        let table = Table::new(4, &[([7, 8], 1), ([9, 10], 5)]);
        assert_eq!(table.words, [7, 8, 9, 10, 0, 0, 0, 0, 6 << 32 | 1, 6 << 32 | 6]);
        assert_eq!(table.grid(THREADS), Grid::blocks(6, THREADS));
    }

    #[test]
    fn arguments_keep_their_bits() {
        let args: &[Arg] = args![Pointer(7), 3usize, true, -1.5f64];
        let bits = [7, 3, 1, (-1.5f64).to_bits()];
        assert_eq!(args.iter().map(|arg| arg.0).collect::<Vec<_>>(), bits);
        assert_eq!(Packed::new(None, args).words, bits);
        let (behind, args) = (Packed::new(Some(Table::new(2, &[([7], 1)])), args), Packed::new(None, args));
        assert_eq!((behind.count(), args.count()), (5, 4));
        let words = |packed: &Packed| packed.places().iter().map(|place| place.addr() / 8).collect::<Vec<_>>();
        assert_eq!(words(&behind)[1] - words(&behind)[0], 3, "two rows of a number, and the ends of both in one");
        assert_eq!(Arg::real(-1.5, DType::F32).0, u64::from((-1.5f32).to_bits()));
        assert_eq!(Arg::real(-1.5, DType::F64), Arg::from(-1.5f64));
    }
}

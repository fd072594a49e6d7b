//! Pruning by magnitude: which weights are smallest, the mask that says which stay, and how the mask changes a weight.
//!
//! The magnitude of a weight is compared by its bits as an f32 without the sign: an integer of 31 bits, in the order of the
//! magnitudes. The threshold below which the wanted number lies is found exactly, 11 bits at a time, by counting (a radix
//! select): no weight is sorted or copied, and any number of tensors can be counted together.

use super::{Contract, OperandBytes};
use crate::{
    backend::{Backend, DType, Executor, Tensor},
    device::Processor,
    error::Result,
};

/// Some neighbouring bits of a magnitude's integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBits {
    /// Bits below them.
    pub shift: u32,
    /// How many there are.
    pub count: u32,
}

impl KeyBits {
    /// All 31 bits, the highest first.
    pub const ALL: [Self; 3] =
        [Self { shift: 20, count: 11 }, Self { shift: 9, count: 11 }, Self { shift: 0, count: 9 }];

    /// The most bits that are counted at once.
    const MOST: u32 = 11;

    /// Whether nothing stands above them.
    pub fn are_highest(self) -> bool {
        self.shift + self.count == 31
    }
}

/// Kernels of pruning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prune {
    /// in: `weight`, `bound [2]` (u32); out: `counts [2048]` (u32), updated: adds how many magnitudes have each value in these
    /// bits, of those whose higher bits are the first number of `bound`.
    Count(KeyBits),
    /// out: `counts [2048]` (u32), which become zeros, and `bound [2]` (u32), updated: its first number gets the value at
    /// which the counts reach the second one as its lowest bits, and the second is reduced by the earlier counts. At the
    /// highest bits it begins from 0 and `rank`.
    Pick {
        /// The key bits that were counted.
        bits: KeyBits,
        /// How many magnitudes the threshold is to reach, itself included.
        rank: u32,
    },
    /// in: `weight [n]`, `bound [2]` (u32); out: `mask [n / 8, rounded up]` (u8), a bit an element from the lowest on: whether
    /// its magnitude is above the first number of `bound`.
    Mask,
    /// in: `weight [rows, columns]`; out: `mask`, as of [`Prune::Mask`]: the bits of the `kept` largest of every `of`
    /// elements of a row; of equal ones the first (Mishra et al. 2021, "Accelerating sparse deep neural networks"). The rest
    /// at a row's end is a group as well.
    Groups {
        /// Elements of a row.
        columns: usize,
        /// How many stay.
        kept: usize,
        /// The size of a group.
        of: usize,
    },
    /// in: `mask`; out: `weight`, updated, and, when given, its narrower `copy`, updated: zeros where the mask has no bit.
    Apply,
}

impl Prune {
    /// Numbers that are counted at once.
    pub const BUCKETS: usize = 1 << KeyBits::MOST;

    /// The most elements of a group.
    pub const LARGEST_GROUP: usize = 32;

    /// Bytes of the mask of a weight.
    pub const fn mask_bytes(elements: usize) -> usize {
        elements.div_ceil(8)
    }

    /// The mask is whole bytes, a bit an element.
    fn covers(mask: usize, elements: usize) -> bool {
        elements > 0 && mask == Self::mask_bytes(elements)
    }
}

impl Contract for Prune {
    fn name(&self) -> &'static str {
        match self {
            Self::Count(_) => "count magnitudes",
            Self::Pick { .. } => "pick the threshold",
            Self::Mask => "mask by magnitude",
            Self::Groups { .. } => "mask in groups",
            Self::Apply => "apply the mask",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        match (self, inputs, outputs) {
            (Self::Count(_), [weight, 2], [counts]) => *weight > 0 && *counts == Self::BUCKETS,
            (Self::Pick { .. }, [], [counts, 2]) => *counts == Self::BUCKETS,
            (Self::Mask, [weight, 2], [mask]) => Self::covers(*mask, *weight),
            (Self::Groups { columns, kept, of }, [weight], [mask]) => {
                let holds = *columns > 0 && weight.is_multiple_of(*columns) && *kept > 0 && kept < of;
                holds && *of <= Self::LARGEST_GROUP && Self::covers(*mask, *weight)
            }
            (Self::Apply, [mask], [weight]) => Self::covers(*mask, *weight),
            (Self::Apply, [mask], [weight, copy]) => Self::covers(*mask, *weight) && weight == copy,
            (Self::Count(_) | Self::Pick { .. } | Self::Mask | Self::Groups { .. } | Self::Apply, _, _) => false,
        }
    }

    fn flops(&self) -> u64 {
        0
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, _: Processor) -> usize {
        0
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        0
    }
}

impl<B: Backend> Executor<B> {
    /// Counts the magnitudes of `weight` for the bits that come next: see [`Prune::Count`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, and when the device fails.
    pub fn count_magnitudes(
        &self,
        weight: &Tensor<B>,
        bits: KeyBits,
        bound: &Tensor<B>,
        counts: &Tensor<B>,
    ) -> Result<()> {
        self.launch(Prune::Count(bits), &[weight, bound], &[counts])
    }

    /// Picks the next bits of the threshold: see [`Prune::Pick`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, and when the device fails.
    pub fn pick_threshold(&self, bits: KeyBits, rank: u32, counts: &Tensor<B>, bound: &Tensor<B>) -> Result<()> {
        self.launch(Prune::Pick { bits, rank }, &[], &[counts, bound])
    }

    /// Masks the elements of `weight` that are not above the threshold: see [`Prune::Mask`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, and when the device fails.
    pub fn mask_by_magnitude(&self, weight: &Tensor<B>, bound: &Tensor<B>, mask: &Tensor<B>) -> Result<()> {
        self.launch(Prune::Mask, &[weight, bound], &[mask])
    }

    /// Masks all but the `kept` largest of every `of` elements of a row of `weight [.., columns]`: see [`Prune::Groups`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, and when the device fails.
    pub fn mask_in_groups(&self, weight: &Tensor<B>, [kept, of]: [usize; 2], mask: &Tensor<B>) -> Result<()> {
        self.launch(Prune::Groups { columns: weight.shape().last(), kept, of }, &[weight], &[mask])
    }

    /// Sets the elements of `weight`, and of its narrower `copy`, to zero that `mask` has no bit for.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, and when the device fails.
    pub fn apply_mask(&self, mask: &Tensor<B>, weight: &Tensor<B>, copy: Option<&Tensor<B>>) -> Result<()> {
        let outputs: Vec<&Tensor<B>> = [weight].into_iter().chain(copy).collect();
        self.launch(Prune::Apply, &[mask], &outputs)
    }
}

//! The tensors that an optimizer keeps for a parameter.

use std::ops::Deref;

use crate::{
    memory::Category,
    tensor::{DType, Shape},
};

/// A tensor of an optimizer's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSpec {
    /// The tensor's name in timelines.
    pub name: &'static str,
    /// The tensor's shape.
    pub shape: Shape,
    /// Type of its elements.
    pub dtype: DType,
    /// The values it can have.
    pub values: StateValues,
}

impl StateSpec {
    /// The category of the state. A correction counts as a master weight, because it stands in place of one.
    pub fn category(&self) -> Category {
        match self.values {
            StateValues::Corrections => Category::MasterWeights,
            StateValues::Signed
            | StateValues::NonNegative
            | StateValues::Positive
            | StateValues::Codes
            | StateValues::Pairs
            | StateValues::Scales
            | StateValues::ScaleRoots => Category::OptimizerState,
        }
    }
}

/// The values that a tensor of state can have, for the selftest that draws some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateValues {
    /// Any number.
    Signed,
    /// A mean of squares.
    NonNegative,
    /// A mean of squares that the rule divides by.
    Positive,
    /// An 8-bit code.
    Codes,
    /// Two 4-bit codes a byte; the last byte of an odd number of elements has zeros in its lower half.
    Pairs,
    /// The largest magnitude of a block, a row, a column or a group of codes; always f32.
    Scales,
    /// The root of the largest magnitude of a group of codes, with a factor; always f16.
    ScaleRoots,
    /// The difference of a weight of 16 bits from its exact value, in 127ths of half the gap to its neighbour.
    Corrections,
}

/// The tensors of state of one parameter: a list that takes no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateLayout {
    specs: [StateSpec; Self::MOST],
    count: usize,
}

impl StateLayout {
    /// The most tensors of state that a rule has.
    const MOST: usize = 5;

    pub(super) fn new(specs: &[StateSpec]) -> Self {
        let blank = StateSpec { name: "", shape: [0].into(), dtype: DType::F32, values: StateValues::Signed };
        let mut all = [blank; Self::MOST];
        all[..specs.len()].copy_from_slice(specs);
        Self { specs: all, count: specs.len() }
    }
}

impl Deref for StateLayout {
    type Target = [StateSpec];

    fn deref(&self) -> &[StateSpec] {
        &self.specs[..self.count]
    }
}

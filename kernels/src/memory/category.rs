//! The purpose of memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

/// The purpose of a block of memory. The order is the order of the stack on screen, from the ground up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Driver and library state; on the CPU, the engine's bookkeeping.
    Context,
    /// The weights the forward pass reads.
    Parameters,
    /// The f32 copy that the optimizer updates when the forward pass reads a narrower one.
    MasterWeights,
    /// Moments and momentum.
    OptimizerState,
    /// Running statistics; the keys and values of a text that is written on.
    Buffers,
    /// The inputs and labels of one micro-batch; on a GPU, of the next one as well.
    Batch,
    /// Gradients of parameters.
    Gradients,
    /// Outputs of layers kept for the backward pass, and the gradients that flow between layers.
    Activations,
    /// The memory that one op needs while it runs.
    Scratch,
    /// The memory that the allocator holds beyond what is alive.
    Slack,
}

impl Category {
    /// Every category, in stacking order.
    pub const ALL: [Self; 10] = [
        Self::Context,
        Self::Parameters,
        Self::MasterWeights,
        Self::OptimizerState,
        Self::Buffers,
        Self::Batch,
        Self::Gradients,
        Self::Activations,
        Self::Scratch,
        Self::Slack,
    ];

    /// The name on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Parameters => "parameters",
            Self::MasterWeights => "master weights",
            Self::OptimizerState => "optimizer state",
            Self::Buffers => "buffers",
            Self::Batch => "batch",
            Self::Gradients => "gradients",
            Self::Activations => "activations",
            Self::Scratch => "scratch",
            Self::Slack => "slack",
        }
    }
}

/// Bytes by category.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Categories([u64; Category::ALL.len()]);

impl Categories {
    /// Bytes of one category.
    pub fn get(&self, category: Category) -> Bytes {
        Bytes(self.0[category as usize])
    }

    /// Adds to one category.
    pub fn add(&mut self, category: Category, bytes: u64) {
        self.0[category as usize] += bytes;
    }

    /// Takes bytes from a category to which they were added before.
    pub fn take(&mut self, category: Category, bytes: u64) {
        self.0[category as usize] -= bytes;
    }

    /// Lifts one category to at least `bytes`.
    pub fn raise(&mut self, category: Category, bytes: Bytes) {
        let value = &mut self.0[category as usize];
        *value = (*value).max(bytes.0);
    }

    /// The sum of all categories.
    pub fn total(&self) -> Bytes {
        Bytes(self.0.iter().sum())
    }

    /// Every category with its bytes, in stacking order.
    pub fn iter(&self) -> impl Iterator<Item = (Category, Bytes)> + '_ {
        Category::ALL.into_iter().map(|c| (c, self.get(c)))
    }
}

impl Serialize for Categories {
    /// An object `{name: bytes}` of all categories, in stacking order.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(category, bytes)| (category, bytes.0)))
    }
}

impl<'de> Deserialize<'de> for Categories {
    /// Reads it as it is written; a category that is left out is zero.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = BTreeMap::<Category, u64>::deserialize(deserializer)?;
        let mut categories = Self::default();
        written.into_iter().for_each(|(category, bytes)| categories.0[category as usize] = bytes);
        Ok(categories)
    }
}

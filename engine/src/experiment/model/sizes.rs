//! Sizes that follow from the chosen ones.

use crate::experiment::{Model, ModelSetting};

impl Model {
    /// Residual blocks in each stage of a resnet.
    pub fn stages(&self) -> [usize; 4] {
        match self.layers {
            ..=18 => [2, 2, 2, 2],
            19..=50 => [3, 4, 6, 3],
            _ => [3, 4, 23, 3],
        }
    }

    /// The term that the norms of rows add to the variance.
    pub fn epsilon(&self) -> f64 {
        let is_chosen = self.norm_epsilon > 0.0 && self.kind.uses(ModelSetting::NormEpsilon);
        if is_chosen { self.norm_epsilon } else { self.kind.published_epsilon() }
    }

    /// The term that the norms of queries and keys add to the variance.
    pub fn query_key_epsilon(&self) -> f64 {
        if self.norm_epsilon > 0.0 { self.norm_epsilon } else { 1e-6 }
    }

    /// Numbers of a head of attention.
    pub fn head_width(&self) -> usize {
        match self.head_dim {
            chosen if chosen > 0 && self.kind.uses(ModelSetting::HeadDim) => chosen,
            _ => self.width / self.heads.max(1),
        }
    }

    /// Blocks that checkpointing can keep or compute again.
    pub fn blocks(&self) -> usize {
        (self.kind.traits().blocks)(self)
    }
}

//! What a GPU's memory pool does with empty memory.

use serde::{Deserialize, Serialize};

/// What the pool that all tensors come from does with memory that nothing lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolPolicy {
    /// It grows as it must and keeps what it has, for the next step takes the same again. Frameworks' default ("caching
    /// allocator", "allow growth").
    Grow,
    /// What is empty goes back to the driver after each step, so that other programs have it meanwhile.
    GiveBack,
    /// The whole budget is taken at the start ("pre-allocation"): nobody else can take it, and nothing has to grow.
    Reserve,
}

impl PoolPolicy {
    /// Every policy, in the order of menus.
    pub const ALL: [Self; 3] = [Self::Grow, Self::GiveBack, Self::Reserve];

    /// The word in presets.
    pub fn key(self) -> &'static str {
        match self {
            Self::Grow => "grow",
            Self::GiveBack => "give-back",
            Self::Reserve => "reserve",
        }
    }
}

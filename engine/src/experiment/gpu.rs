//! How a GPU is used.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

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

/// How a GPU is used. On the processor none of it matters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gpu {
    /// What the pool does with empty memory.
    pub pool: PoolPolicy,
    /// The one buffer that cuBLAS and cuDNN work in, from the pool; 0: none, and algorithms that need none.
    pub workspace: Bytes,
    /// Products of f32 with operands rounded to 10 bits (TF32): faster, less exact.
    pub tf32: bool,
    /// The same run gives the same bits; slower where an algorithm that does not is faster.
    pub deterministic: bool,
}

impl Default for Gpu {
    fn default() -> Self {
        Self { pool: PoolPolicy::Grow, workspace: Bytes::mib(32), tf32: false, deterministic: true }
    }
}

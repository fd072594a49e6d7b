//! How a GPU is used.

use serde::{Deserialize, Serialize};

use crate::{bytes::Bytes, device::PoolPolicy};

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

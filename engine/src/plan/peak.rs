//! The highest memory of a run.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;

/// The highest memory of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes alive: tensors, scratch and, on the processor, the engine's context. On a GPU, the used part of the pool.
    pub live: Bytes,
    /// The bytes that the allocator holds for them. On a GPU, the pool.
    pub reserved: Bytes,
    /// The bytes of the process as the operating system sees them. On a GPU, as the driver does: the context and the pool.
    pub process: Bytes,
}

impl Peak {
    /// The higher of both, each kind of memory for itself.
    pub fn max(self, other: Self) -> Self {
        Self {
            live: self.live.max(other.live),
            reserved: self.reserved.max(other.reserved),
            process: self.process.max(other.process),
        }
    }
}

impl Serialize for Peak {
    /// `{live_bytes, reserved_bytes, process_bytes}`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([
            ("live_bytes", self.live.0),
            ("reserved_bytes", self.reserved.0),
            ("process_bytes", self.process.0),
        ])
    }
}

impl<'de> Deserialize<'de> for Peak {
    /// Reads it as it is written.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            live_bytes: u64,
            reserved_bytes: u64,
            process_bytes: u64,
        }
        let Written { live_bytes, reserved_bytes, process_bytes } = Written::deserialize(deserializer)?;
        Ok(Self { live: Bytes(live_bytes), reserved: Bytes(reserved_bytes), process: Bytes(process_bytes) })
    }
}

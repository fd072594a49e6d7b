//! A driver's description of a GPU.

use serde::Serialize;

/// The driver's description of a GPU before it is opened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// The maker's name for it.
    pub name: String,
    /// The driver's name for this card or part of a card (UUID), without the `GPU-` or `MIG-` of its management library. It is
    /// not written anywhere, because it identifies an owner's card.
    #[serde(skip)]
    pub uuid: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The card's memory, as the driver shows it.
    pub total_bytes: u64,
    /// The clock of its multiprocessors, at most.
    pub clock_hz: f64,
    /// The most bytes that its memory's bus carries in a second.
    pub memory_bytes_per_sec: f64,
    /// The version of CUDA that the driver serves.
    pub driver: String,
    /// Whether the tensors of a run lie in memory that the driver maps into a range of addresses. If not, they lie in blocks of
    /// the driver's pool.
    pub maps_memory: bool,
}

impl Description {
    /// The name of its kind, which it shares with every other such card on this driver.
    pub fn kind(&self) -> String {
        format!("{} on CUDA {}", self.name, self.driver)
    }
}

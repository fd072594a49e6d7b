//! What guarded runs share on every device: the gap behind each block, which nothing may write to.
//!
//! Always holds: a block and its gap are filled before anything uses them, the block with bytes that are NaN in every
//! floating-point type. The devices own the blocks, and look at the gaps: [`arena`](super::arena) on the processor, and
//! `backend/cuda/guard.rs` on a GPU. Gaps count nowhere.

/// Set to 1, every run is guarded.
pub const VARIABLE: &str = "PLIMSOLL_GUARD";

/// The least number of bytes behind a block: as far as an index reaches that is off by a vector or by a row of few elements.
const GAP: u64 = 512;
/// What stands in them.
pub(crate) const MARK: u8 = 0xA5;
/// The byte in a block that was never written.
pub(crate) const UNWRITTEN: u8 = 0xFF;

/// Whether the environment asks for guarded runs.
pub fn is_guarded() -> bool {
    super::probe::uncounted(|| std::env::var_os(VARIABLE).is_some_and(|value| value == "1"))
}

/// What a user should know of a guarded run.
pub fn note() -> String {
    format!(
        "{VARIABLE} is set: each block has a gap behind it, so reserved bytes and the process are larger than predicted, and \
         steps take longer"
    )
}

/// A block's bytes, and what they are rounded up to where they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: u64,
    pub(crate) rounded: u64,
}

impl Extent {
    /// The block's bytes with its gap.
    pub(crate) fn whole(self) -> u64 {
        self.rounded + GAP
    }

    /// The bytes of its gap, which begins where the block ends.
    pub(crate) fn gap(self) -> usize {
        (self.whole() - self.bytes) as usize
    }
}

/// Whether a gap was written to.
pub(crate) fn is_overrun(gap: &[u8]) -> bool {
    // Without an early end, so that many bytes are compared at once: most gaps are whole.
    gap.iter().fold(0, |unlike, byte| unlike | (byte ^ MARK)) != 0
}

/// What a kernel did that wrote to the gap of a block of `bytes`.
pub(crate) fn said(bytes: u64) -> String {
    format!("wrote behind the end of a block of {bytes} bytes")
}

//! Address space set aside, so that a run which the system refuses memory can still end in order.
//!
//! A tensor that is refused is an error. The small blocks around it, of a message or a list, cannot be refused: the
//! language ends the program then. So when a small block is refused, the allocator frees the ballast and asks again.
//! Always holds: the ballast is never touched, so it takes no memory. Only Linux has one.

#[cfg(target_os = "linux")]
use std::sync::{Mutex, PoisonError};

#[cfg(target_os = "linux")]
use memmap2::{MmapMut, MmapOptions};

/// Enough for two thousand blocks of messages and lists: where the C library has no room left in the heap of a thread, it
/// maps a page for each.
pub(super) const BYTES: usize = 8 << 20;

/// The largest block that the ballast is freed for. A larger one is asked for in a way that can fail.
#[cfg(target_os = "linux")]
const SMALL: usize = 256 << 10;

/// A lock of the standard library allocates nothing on Linux, and neither does a mapping that goes.
#[cfg(target_os = "linux")]
static BALLAST: Mutex<Option<MmapMut>> = Mutex::new(None);

/// Sets the ballast aside, unless that was done before. Does nothing when the system refuses it.
pub fn set_aside() {
    #[cfg(target_os = "linux")]
    {
        let mut ballast = BALLAST.lock().unwrap_or_else(PoisonError::into_inner);
        if ballast.is_none() {
            *ballast = MmapOptions::new().len(BYTES).no_reserve_swap().map_anon().ok();
        }
    }
}

/// Frees the ballast when a block of `size` bytes was refused. Returns whether it is worth asking again.
pub(super) fn is_released_for(size: usize) -> bool {
    // A thread that finds the lock held asks in vain: what it waits for may itself wait for a block.
    #[cfg(target_os = "linux")]
    if size <= SMALL
        && let Ok(mut ballast) = BALLAST.try_lock()
    {
        return ballast.take().is_some();
    }
    let _ = size;
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn goes_once_and_only_for_a_small_block() {
        set_aside();
        assert!(!is_released_for(SMALL + 1));
        assert!(is_released_for(SMALL));
        assert!(!is_released_for(1));
    }
}

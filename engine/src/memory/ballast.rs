//! Address space set aside, so that a run which the system refuses memory can still end in order.
//!
//! A tensor that is refused is an error. The small blocks around it, of a message or a list, cannot be refused: the
//! language ends the program then. So when a small block is refused, the allocator frees the ballast and asks again.
//! Always holds: the ballast is never touched, so it takes no memory. Only Linux has one.

#[cfg(target_os = "linux")]
use std::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering::AcqRel},
};

/// Enough for two thousand blocks of messages and lists: where the C library has no room left in the heap of a thread, it
/// maps a page for each.
pub(super) const BYTES: usize = 8 << 20;

/// The largest block that the ballast is freed for. A larger one is asked for in a way that can fail.
#[cfg(target_os = "linux")]
const SMALL: usize = 256 << 10;

#[cfg(target_os = "linux")]
static BALLAST: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// Sets the ballast aside, unless that was done before. Does nothing when the system refuses it.
pub fn set_aside() {
    #[cfg(target_os = "linux")]
    {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at a place of the system's choice touches no memory of ours.
        let new = unsafe { libc::mmap(ptr::null_mut(), BYTES, access, kind, -1, 0) };
        if new == libc::MAP_FAILED {
            return;
        }
        let old = BALLAST.swap(new, AcqRel);
        if !old.is_null() {
            unmap(old);
        }
    }
}

/// Frees the ballast when a block of `size` bytes was refused. Returns whether it is worth asking again.
pub(super) fn is_released_for(size: usize) -> bool {
    #[cfg(target_os = "linux")]
    if size <= SMALL {
        let ballast = BALLAST.swap(ptr::null_mut(), AcqRel);
        if !ballast.is_null() {
            unmap(ballast);
            return true;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = size;
    false
}

#[cfg(target_os = "linux")]
fn unmap(ballast: *mut libc::c_void) {
    // SAFETY: `ballast` is a mapping of `BYTES` that `set_aside` made; it was swapped out, so it is unmapped once, and
    // nothing ever points into it.
    unsafe { libc::munmap(ballast, BYTES) };
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

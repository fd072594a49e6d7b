//! The C library's heap during a run: it keeps freed blocks for reuse, and returns them when the run is over.
//!
//! A step allocates the same blocks as the step before. By default, the GNU C library returns large ones to the system at
//! every free, and gets them zeroed, page by page, at the next use. When it keeps them, the sepcnn step takes half the time
//! (`plimsoll bench sepcnn-cifar-b64`: 16 ms before, 8 ms after, on two cores). Neither the live bytes nor the probe's
//! measurements change. With other C libraries this module does nothing.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use super::probe::uncounted;

/// Lets freed blocks of up to 32 MiB, the most the library allows, stay with the process.
pub fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        set(libc::M_MMAP_THRESHOLD, 32 << 20);
        keep_ends(true);
    }
}

/// Whether a heap keeps its end when that is free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_ends(are_kept: bool) {
    let (from, room) = if are_kept { (i32::MAX, 128 << 10) } else { (0, 0) };
    set(libc::M_TRIM_THRESHOLD, from);
    set(libc::M_TOP_PAD, room);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(option: i32, value: i32) {
    // SAFETY: `mallopt` takes two integers and locks the heap itself; a refused value changes nothing.
    unsafe { libc::mallopt(option, value) };
}

/// Lets all threads share one heap where the address space of the process is limited (`ulimit -v`). To be called before any
/// thread starts. By default, the GNU C library reserves 64 MiB of address space for each of the first threads, which the
/// limit counts although nothing uses it, so that the remaining space would depend on which threads came first.
pub fn share_where_limited() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if super::host::has_own_limit() {
        set(libc::M_ARENA_MAX, 1);
    }
}

/// Hands free memory back to the system, but for the ends of the heaps of other threads.
pub fn give_back() {
    give_back_own();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` touches only free memory and locks the heap itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does `work`. What it frees at the end of a heap goes back to the system at once, of other threads' heaps as well.
pub fn giving_back<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    keep_ends(false);
    let done = work();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    keep_ends(true);
    done
}

/// Hands the free end of this thread's heap back to the system. `malloc_trim` leaves it: the GNU C library cuts it when the
/// thread frees a large block next to it.
pub fn give_back_own() {
    /// A block that is large by the library's measure, and lies on the heap.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    const LARGE: usize = 96 << 10;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // The block is no run's.
        uncounted(|| {
            let block = std::hint::black_box(Vec::<u8>::with_capacity(LARGE));
            giving_back(|| drop(block));
        });
    }
}

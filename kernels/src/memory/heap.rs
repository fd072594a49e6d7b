//! The C library's heap during a run: it keeps freed blocks for reuse, and returns them when the run is over.
//!
//! A step allocates the same blocks as the step before. By default, the GNU C library returns large ones to the system at
//! every free, and gets them zeroed, page by page, at the next use. When it keeps them, the sepcnn step takes half the time
//! (`plimsoll bench sepcnn-cifar-b64`: 16 ms before, 8 ms after, on two cores). Neither the live bytes nor the probe's
//! measurements change. With other C libraries this module does nothing.

/// Lets freed blocks of up to 32 MiB, the most the library allows, stay with the process.
pub fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (option, value) in [(libc::M_MMAP_THRESHOLD, 32 << 20), (libc::M_TRIM_THRESHOLD, i32::MAX)] {
        set(option, value);
    }
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

/// Hands free memory back to the system.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` touches only free memory and locks the heap itself.
    unsafe {
        libc::malloc_trim(0);
    }
}

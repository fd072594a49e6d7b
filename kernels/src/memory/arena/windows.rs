//! Addresses on Windows: a reserved region, whose pages are committed and decommitted.
//!
//! Always holds: a committed page counts as the process's once it is touched, and reads as zero. Pages have 4 KiB on the
//! processors that Windows runs on, as the range's have.

use std::ptr::NonNull;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RESERVE, PAGE_NOACCESS, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};

/// Bytes of the machine's memory; `None` if the system does not report it.
pub(super) fn memory() -> Option<usize> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    usize::try_from(system.total_memory()).ok().filter(|bytes| *bytes > 0)
}

/// So many addresses without memory; `None` if the system refuses.
pub(super) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: a region at a place of the system's choice touches no memory of ours.
    NonNull::new(unsafe { VirtualAlloc(std::ptr::null(), bytes, MEM_RESERVE, PAGE_NOACCESS) }.cast())
}

/// Gives addresses memory: whole pages that have none. False if the system refuses, also because it has promised all it has.
pub(super) fn give(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the pages are the range's own and have no memory yet, so nothing refers to them.
    !unsafe { VirtualAlloc(start.as_ptr().cast(), bytes, MEM_COMMIT, PAGE_READWRITE) }.is_null()
}

/// Takes the memory of addresses back: whole pages without blocks. False if the system refuses.
pub(super) fn take_back(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the pages are the range's own, and nothing in them is alive.
    unsafe { VirtualFree(start.as_ptr().cast(), bytes, MEM_DECOMMIT) != 0 }
}

//! Addresses on Linux: a mapping without access, which gets memory by `mprotect` and loses it by a new mapping over it.
//!
//! Always holds: memory counts as the process's, also if the system promises no more than it has.

use std::ptr::{self, NonNull};

use crate::memory::{
    allocator::range::PAGE,
    host::{has_own_limit, page_size},
};

/// Bytes of the machine's memory; `None` where there can be no range: a limit would count addresses that nothing lies at.
pub(super) fn memory() -> Option<usize> {
    let machine = rustix::system::sysinfo();
    let bytes = (machine.totalram as usize).saturating_mul(machine.mem_unit as usize);
    (page_size() as u64 == PAGE.0 && !has_own_limit()).then_some(bytes)
}

/// So many addresses without memory; `None` if the system refuses.
pub(super) fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    ask(Ask::Map(0), ptr::null_mut(), bytes)
}

/// Gives addresses memory: whole pages that have none. False if the system refuses.
pub(super) fn give(start: NonNull<u8>, bytes: usize) -> bool {
    ask(Ask::Allow, start.as_ptr(), bytes).is_some()
}

/// Takes the memory of addresses back: whole pages without blocks. False if the system refuses.
pub(super) fn take_back(start: NonNull<u8>, bytes: usize) -> bool {
    ask(Ask::Map(libc::MAP_FIXED), start.as_ptr(), bytes).is_some()
}

/// What the system is asked about addresses.
enum Ask {
    /// Addresses without access, where the system likes, or in place of those there are (`MAP_FIXED`).
    Map(libc::c_int),
    /// Access, which they had not.
    Allow,
}

/// Where the addresses are that the system was asked about; none if it refuses.
fn ask(ask: Ask, at: *mut u8, bytes: usize) -> Option<NonNull<u8>> {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a mapping at a place of the system's choice touches no memory of ours. Addresses that are given are whole
    // pages of the range, with nothing alive in those that are mapped, and without access before, so that nothing refers to
    // them, in those that are allowed.
    let start = unsafe {
        match ask {
            Ask::Map(fixed) => libc::mmap(at.cast(), bytes, libc::PROT_NONE, kind | fixed, -1, 0),
            Ask::Allow => match libc::mprotect(at.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) {
                0 => at.cast(),
                _ => libc::MAP_FAILED,
            },
        }
    };
    NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED)
}

//! The number that the driver knows this process by.
//!
//! Owns what is found out of it. The driver numbers processes as the host does; in a container a process has another number
//! for itself, which on the host may be anyone's. Holds: nobody else's number is taken for ours. Refuses to guess: it is
//! then not known, and says why.

use std::sync::{Mutex, PoisonError};

use crate::device::Figure;

/// The number of the namespace of processes that the system starts with (`PROC_PID_INIT_INO` in Linux's `proc_ns.h`).
#[cfg(target_os = "linux")]
const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFC;

/// What was found out.
static FOUND: Mutex<Option<u32>> = Mutex::new(None);

/// The number.
///
/// # Errors
/// Why it is not known.
pub(super) fn number() -> Figure<u32> {
    let found = *FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.or_else(outside_of_containers).ok_or_else(|| {
        "in a container the driver numbers processes as the host does, so this one is not known until it has opened a GPU \
         as the only new one"
            .to_owned()
    })
}

/// This process's own number, where it is the host's as well.
fn outside_of_containers() -> Option<u32> {
    (!in_namespace()).then(std::process::id)
}

/// Whether this process has a number of its own, another than the host's.
#[cfg(target_os = "linux")]
pub(super) fn in_namespace() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != INITIAL_NAMESPACE)
}

/// Whether this process has a number of its own, another than the host's.
#[cfg(not(target_os = "linux"))]
pub(super) fn in_namespace() -> bool {
    false
}

//! The number that the driver knows this process by.
//!
//! Owns the search for it. The driver numbers processes as the host does; in a container a process has another number for
//! itself, which may belong to any other process on the host. Holds: another process's number is never taken for ours.
//! Refuses to guess: if the number is not known, the reason is given.

use crate::{hardware::Figure, sync::Mutex};

/// The number of the namespace of processes that the system starts with (`PROC_PID_INIT_INO` in Linux's `proc_ns.h`).
#[cfg(target_os = "linux")]
const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The number, once it was found. The process has one number whatever is planned in it, and no plan reads it.
static FOUND: Mutex<Option<u32>> = Mutex::new(None);

/// The number.
///
/// # Errors
/// The reason why it is not known.
pub(super) fn number() -> Figure<u32> {
    let found = *FOUND.lock();
    found.or_else(outside_of_containers).ok_or_else(|| {
        "in a container the driver numbers processes as the host does, so this one is not known until it has opened a GPU \
         as the only new one"
            .to_owned()
    })
}

/// Finds the number: it is that of the process which computes on a GPU since this process opened it.
#[cfg(feature = "cuda")]
pub(super) fn find(before: &[u32], now: &[u32]) {
    let mut found = FOUND.lock();
    *found = found.or_else(|| reported(before, now, outside_of_containers()));
}

/// Which of the processes that compute on a GPU now is this one: the one with the number `own`, if that is known, or else the
/// only one that was not there before.
#[cfg(feature = "cuda")]
fn reported(before: &[u32], now: &[u32], own: Option<u32>) -> Option<u32> {
    if let Some(own) = own.filter(|own| now.contains(own)) {
        return Some(own);
    }
    let mut new = now.iter().filter(|number| !before.contains(number));
    match (new.next(), new.next()) {
        (Some(number), None) => Some(*number),
        _ => None,
    }
}

/// This process's own number, where it is the host's as well.
fn outside_of_containers() -> Option<u32> {
    (!in_namespace()).then(std::process::id)
}

/// Whether this process has a number of its own that differs from the host's.
#[cfg(target_os = "linux")]
pub(super) fn in_namespace() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != INITIAL_NAMESPACE)
}

/// Whether this process has a number of its own that differs from the host's.
#[cfg(not(target_os = "linux"))]
pub(super) fn in_namespace() -> bool {
    false
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_or_as_the_only_new_one() {
        assert_eq!(reported(&[], &[7, 9], Some(9)), Some(9));
        // On the host, no process has to have been away.
        assert_eq!(reported(&[7, 9], &[7, 9], Some(9)), Some(9));
        assert_eq!(reported(&[7], &[7, 4321], None), Some(4321));
    }

    #[test]
    fn nobody_elses_number_is_taken_for_ours() {
        // A process of the host's may have the number that this one has in its container.
        assert_eq!(reported(&[12], &[12], None), None);
        assert_eq!(reported(&[], &[], None), None);
        assert_eq!(reported(&[], &[7, 9], None), None, "two came at once");
    }
}

//! How many images are decoded at once.

use crate::sync::{Condvar, Mutex};

/// Lets so many threads through at a time. The loaders of training and test share it, so that a run has no more images in the
/// making than it has workers.
#[derive(Debug)]
pub(super) struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Gate {
    /// A gate for `room` threads at a time.
    pub(super) fn new(room: usize) -> Self {
        Self { free: Mutex::new(room.max(1)), freed: Condvar::default() }
    }

    /// Does `work` once there is room for it.
    pub(super) fn through<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Gate);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                *self.0.free.lock() += 1;
                self.0.freed.notify_all();
            }
        }
        let mut free = self.free.lock();
        while *free == 0 {
            free = self.freed.wait(free);
        }
        *free -= 1;
        drop(free);
        let _leave = Leave(self);
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn no_more_than_its_room_are_inside_and_a_panic_leaves() {
        let (gate, inside, most) = (Gate::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        let panics = std::panic::AssertUnwindSafe(|| gate.through(|| panic!("inside")));
        assert!(std::panic::catch_unwind(panics).is_err());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        gate.through(|| {
                            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                            std::thread::yield_now();
                            inside.fetch_sub(1, SeqCst);
                        });
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.load(SeqCst)), "{most:?}");
        assert_eq!(*gate.free.lock(), 2);
    }
}

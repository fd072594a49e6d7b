//! A mutex that a panic does not poison, and a condition variable for it. The guarded value is valid between any two
//! statements, so the next thread can go on.
//!
//! It is the standard library's, which never allocates. A lock that allocates when it first waits, as `parking_lot`'s does,
//! would show in the memory measured of a run.

use std::sync::{MutexGuard, PoisonError};

/// A mutex that a panic does not poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The guarded value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until another thread says that the value in a [`Mutex`] has changed.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Lets go of the lock until another thread calls [`Condvar::notify_all`], or for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_the_lock_does_not_close_it() {
        let mutex = Mutex::new(1);
        let under_lock = std::panic::AssertUnwindSafe(|| {
            let mut value = mutex.lock();
            *value = 2;
            panic!("under the lock");
        });
        assert!(std::panic::catch_unwind(under_lock).is_err());
        assert_eq!(*mutex.lock(), 2);
        assert_eq!(mutex.into_inner(), 2);
    }
}

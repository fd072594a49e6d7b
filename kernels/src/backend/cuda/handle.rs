//! What NVIDIA's libraries make and take back: streams, events, modules, descriptors.
//!
//! Owns each of them for as long as it is in use. Always holds: what an [`Owned`] has was made for it, nothing else has it, and
//! it goes back once, when it is dropped. A library that does not take it back has failed, and its next call says so.

use std::fmt;

/// A name by which a library knows something that it made.
///
/// # Safety
/// What `make` returns is new, and `TAKE_BACK` ends it. It may be called once, when nothing uses it any more.
pub(super) unsafe trait Handle: Copy {
    /// What it is made from.
    type Asked<'a>;
    /// How the library says that it failed.
    type Error;

    /// Ends it.
    const TAKE_BACK: unsafe fn(Self) -> Result<(), Self::Error>;

    /// Makes a new one.
    ///
    /// # Errors
    /// Fails when the library does.
    fn make(asked: Self::Asked<'_>) -> Result<Self, Self::Error>;
}

/// Something of a library's, until it is dropped.
pub(super) struct Owned<H: Handle>(H);

impl<H: Handle> Owned<H> {
    /// Has the library make it.
    ///
    /// # Errors
    /// Fails when the library does.
    pub(super) fn new(asked: H::Asked<'_>) -> Result<Self, H::Error> {
        H::make(asked).map(Self)
    }

    /// The name, which lives as long as this does.
    pub(super) fn raw(&self) -> H {
        self.0
    }
}

impl<H: Handle> Drop for Owned<H> {
    fn drop(&mut self) {
        // SAFETY: `make` gave it to this alone, and this is its last use.
        let _ = unsafe { H::TAKE_BACK(self.0) };
    }
}

impl<H: Handle + fmt::Debug> fmt::Debug for Owned<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static TAKEN_BACK: Cell<u32> = const { Cell::new(0) };
    }

    #[derive(Clone, Copy)]
    struct Number(u32);

    // SAFETY: a number stands for no memory that could be used after it was given back.
    unsafe impl Handle for Number {
        type Asked<'a> = u32;
        type Error = &'static str;

        const TAKE_BACK: unsafe fn(Self) -> Result<(), Self::Error> = |Number(number)| {
            TAKEN_BACK.set(TAKEN_BACK.get() + number);
            Err("gone")
        };

        fn make(asked: u32) -> Result<Self, Self::Error> {
            if asked == 0 { Err("none") } else { Ok(Self(asked)) }
        }
    }

    #[test]
    fn what_was_made_goes_back_once_and_what_was_not_never_does() {
        assert_eq!(Owned::<Number>::new(0).err(), Some("none"));
        let (three, four) = (Owned::<Number>::new(3), Owned::<Number>::new(4));
        assert_eq!(three.as_ref().map(|three| three.raw().0), Ok(3));
        assert_eq!(TAKEN_BACK.get(), 0);
        drop(three);
        assert_eq!(TAKEN_BACK.get(), 3);
        drop(four);
        assert_eq!(TAKEN_BACK.get(), 7);
    }
}

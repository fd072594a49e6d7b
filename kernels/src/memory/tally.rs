//! A count of the heap that one thread's own structures take, for a prediction of the engine's bookkeeping.
//!
//! A dry run builds the same layers, tapes and tensor handles as the run that trains, and nothing else. The count of its
//! allocations is therefore the bookkeeping of that run. Always holds: the count depends only on the sizes that were asked
//! for, so every machine gets the same figure. Other threads are not counted.

use std::cell::Cell;

use crate::memory::allocator::heap;

/// An amount of heap: the bytes asked for, and the bytes that the heap holds for them by its model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes asked for.
    pub live: u64,
    /// An upper bound of the bytes that the heap holds for them.
    pub reserved: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    live: i64,
    reserved: i64,
    peak: Held,
    least: u64,
}

/// The most and the least that a thread held since a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// The most.
    pub(super) peak: Held,
    /// The fewest bytes asked for.
    pub(super) least: u64,
}

thread_local! {
    static TALLY: Cell<Option<Tally>> = const { Cell::new(None) };
}

impl Tally {
    fn now(&self) -> Held {
        Held { live: self.live.max(0) as u64, reserved: self.reserved.max(0) as u64 }
    }

    fn add(&mut self, sign: i64, size: usize) {
        self.live += sign * size as i64;
        self.reserved += sign * heap::reserved(size as u64) as i64;
        let now = self.now();
        self.peak = Held { live: self.peak.live.max(now.live), reserved: self.peak.reserved.max(now.reserved) };
        self.least = self.least.min(now.live);
    }
}

/// Runs `f` and counts, from zero, the allocations of this thread meanwhile.
pub fn counted<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Tally>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TALLY.set(self.0);
        }
    }
    let _restore = Restore(TALLY.replace(Some(Tally::default())));
    f()
}

/// The most bytes that this thread holds of its allocations during `f`.
pub fn peak_of(f: impl FnOnce()) -> Held {
    counted(|| {
        f();
        take_extent().peak
    })
}

/// Runs `f` without counting this thread's allocations and frees meanwhile.
pub fn suspended<T>(f: impl FnOnce() -> T) -> T {
    let tally = TALLY.replace(None);
    let done = f();
    TALLY.set(tally);
    done
}

/// The most and the least that this thread held since the last call inside [`counted`]; the next start from the bytes that it
/// holds now. Zero outside of it.
pub(super) fn take_extent() -> Extent {
    let Some(mut tally) = TALLY.get() else { return Extent::default() };
    let (extent, now) = (Extent { peak: tally.peak, least: tally.least }, tally.now());
    (tally.peak, tally.least) = (now, now.live);
    TALLY.set(Some(tally));
    extent
}

/// Notes that a block of `size` bytes was allocated (`sign` 1) or freed (-1) by this thread.
pub(super) fn note(sign: i64, size: usize) {
    // A thread that ends has no tally any more, and needs none.
    let _ = TALLY.try_with(|cell| {
        if let Some(mut tally) = cell.get() {
            tally.add(sign, size);
            cell.set(Some(tally));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_bytes_and_their_peak_to_the_byte() {
        counted(|| {
            assert_eq!(take_extent(), Extent::default());
            let kept = vec![0u8; 1000];
            drop(vec![0u8; 500]);
            let own = |size: u64| heap::reserved(size);
            let peak = Held { live: 1500, reserved: own(1000) + own(500) };
            assert_eq!(take_extent(), Extent { peak, least: 0 });
            let peak = Held { live: 1000, reserved: own(1000) };
            assert_eq!(take_extent(), Extent { peak, least: 1000 });
            std::thread::scope(|scope| scope.spawn(|| drop(vec![0u8; 1 << 20])).join().expect("it allocates"));
            assert!(take_extent().peak.live < 10_000);
            suspended(|| drop(vec![0u8; 1 << 20]));
            assert!(take_extent().peak.live < 10_000, "what is suspended is not counted");
            drop(kept);
            drop(vec![0u8; 10]);
            assert!(take_extent().least < 1000, "what was held at the start is freed");
        });
        drop(vec![0u8; 100]);
        assert_eq!(take_extent(), Extent::default());
    }
}

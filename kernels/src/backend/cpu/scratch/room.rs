//! The room of a launch: one block, of as many bytes as the scratch rule of the kernel says, for all its pieces.
//!
//! Always holds: the block is there as long as the kernel runs, however its pieces meet on the threads, so a launch takes the
//! bytes that are booked for it, no more and no fewer. Pieces ask for equal parts, at most one on each thread, so a part fits
//! wherever one was given back.

use std::{cell::RefCell, ptr::NonNull, sync::Arc};

use super::Block;
use crate::sync::Mutex;

thread_local! {
    /// The room of the launch that this thread runs a piece of.
    static CURRENT: RefCell<Option<Arc<Room>>> = const { RefCell::new(None) };
}

/// The room of the launches of a backend, one after the other.
#[derive(Debug)]
pub(in crate::backend::cpu) struct Room(Mutex<Parts>);

/// The block of a launch, and the parts of it that pieces have.
#[derive(Debug)]
struct Parts {
    of: Option<Block>,
    /// Where each part begins and ends, in their order.
    taken: Vec<(usize, usize)>,
}

impl Room {
    /// Room for the launches on so many threads.
    pub(in crate::backend::cpu) fn new(threads: usize) -> Arc<Self> {
        // A part for each thread, and those that all of them share.
        let taken = Vec::with_capacity(threads + 2);
        Arc::new(Self(Mutex::new(Parts { of: None, taken })))
    }

    /// Runs a kernel whose scratch is `block`.
    pub(in crate::backend::cpu) fn during<R>(self: &Arc<Self>, block: Option<Block>, kernel: impl FnOnce() -> R) -> R {
        if block.is_none() {
            return within(None, kernel);
        }
        self.0.lock().of = block;
        let _open = Open(self);
        within(Some(Arc::clone(self)), kernel)
    }

    /// The first part of `bytes` that is free and aligned; `None` if the block has none.
    pub(super) fn take(&self, bytes: usize, alignment: usize) -> Option<NonNull<u8>> {
        let mut parts = self.0.lock();
        let block = parts.of.as_ref()?;
        let ends = std::iter::once(0).chain(parts.taken.iter().map(|(_, end)| *end));
        let starts = parts.taken.iter().map(|(start, _)| *start).chain([block.bytes]);
        let mut gaps = ends.map(|end| end.next_multiple_of(alignment)).zip(starts).enumerate();
        let (at, (from, _)) = gaps.find(|(_, (from, to))| to.saturating_sub(*from) >= bytes)?;
        let part = NonNull::new(block.start.as_ptr().wrapping_add(from))?;
        parts.taken.insert(at, (from, from + bytes));
        Some(part)
    }

    /// Takes the part back that begins there.
    pub(super) fn give_back(&self, part: NonNull<u8>) {
        let mut parts = self.0.lock();
        let Some(block) = &parts.of else { return };
        let from = part.addr().get() - block.start.addr().get();
        parts.taken.retain(|(taken, _)| *taken != from);
    }
}

/// A room whose launch is under way. Its drop gives the block back.
struct Open<'a>(&'a Room);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut parts = self.0.0.lock();
        // All pieces are over. A part that one of them never gave back would be used on, so its block stays.
        let is_free = parts.taken.is_empty();
        parts.taken.clear();
        if !is_free {
            std::mem::forget(parts.of.take());
        }
        parts.of = None;
    }
}

/// The room of the launch that this thread runs a piece of.
pub(in crate::backend::cpu) fn current() -> Option<Arc<Room>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Runs a piece of a launch that has `room`.
pub(in crate::backend::cpu) fn within<R>(room: Option<Arc<Room>>, piece: impl FnOnce() -> R) -> R {
    let _within = enter(room);
    piece()
}

/// Begins a piece of a launch that has `room`. The drop of the value ends it.
pub(in crate::backend::cpu) fn enter(room: Option<Arc<Room>>) -> Within {
    Within(CURRENT.replace(room))
}

/// A piece that this thread runs. It keeps the room of the piece that the thread was at before: a thread that waits takes
/// pieces of other launches.
pub(in crate::backend::cpu) struct Within(Option<Arc<Room>>);

impl Drop for Within {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;
    use crate::{
        backend::cpu::scratch::Scratch,
        memory::probe::{Meter, meter_this_thread},
    };

    #[test]
    fn a_launch_takes_what_is_booked_whatever_its_pieces_ask_for() {
        let (room, meter) = (Room::new(2), Meter::new());
        for asked in [0, 1, 500, 1000] {
            meter_this_thread(Some(meter));
            let before = meter.now().live.0;
            meter.reset_peak();
            room.during(Some(Block::new(8000)), || drop(Scratch::<f64>::new(asked)));
            meter_this_thread(None);
            assert_eq!((meter.peak().live.0 - before, meter.now().live.0), (8000, before));
        }
    }

    #[test]
    fn pieces_on_any_thread_share_the_room_and_no_byte_of_it() {
        let (threads, elements) = (rayon::current_num_threads(), 64);
        let room = Room::new(threads);
        let inside = |part: &mut [u32]| {
            let parts = room.0.lock();
            let block = parts.of.as_ref().expect("a launch");
            let (start, end) = (block.start.addr().get(), part.as_ptr_range());
            start <= end.start.addr() && end.end.addr() <= start + block.bytes
        };
        room.during(Some(Block::new((threads + 1) * elements * 4)), || {
            let mut shared = Scratch::<u32>::new(elements);
            shared.elements().fill(7);
            (0..200u32).into_par_iter().for_each(|piece| {
                within(Some(Arc::clone(&room)), || {
                    let mut own = Scratch::<u32>::new(elements);
                    assert!(inside(own.elements()));
                    own.elements().fill(piece);
                    std::thread::yield_now();
                    assert!(own.elements().iter().all(|element| *element == piece));
                });
            });
            assert!(shared.elements().iter().all(|element| *element == 7));
        });
        assert!(current().is_none() && room.0.lock().of.is_none());
    }
}

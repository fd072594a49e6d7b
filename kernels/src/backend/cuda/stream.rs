//! Queues of work on a GPU, and marks in them.
//!
//! Owns streams and events. Always holds: a [`Queue`] is used while the stream that it names is alive; who waits for a mark
//! sleeps. Refuses what the driver refuses.

use std::marker::PhantomData;

use cudarc::driver::{
    DriverError,
    result::{self, stream::StreamKind},
    sys,
};

use super::{
    arena::Address,
    fault::failed,
    handle::{Handle, Owned},
    virtual_memory::size,
};
use crate::error::Result;

// SAFETY: the driver makes a new stream, and keeps what is queued on it when it is destroyed until that is done.
unsafe impl Handle for sys::CUstream {
    type Asked<'a> = StreamKind;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = result::stream::destroy;

    fn make(kind: StreamKind) -> Result<Self, DriverError> {
        result::stream::create(kind)
    }
}

/// A stream of the current context.
pub(super) struct Stream(Owned<sys::CUstream>);

impl Stream {
    /// A stream that waits for no other.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn new() -> Result<Self, DriverError> {
        Owned::new(StreamKind::NonBlocking).map(Self)
    }

    /// What is queued on it.
    pub(super) fn queue(&self) -> Queue<'_> {
        Queue::of(self.0.raw(), self)
    }
}

/// Where work is queued: a stream that is alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue<'a> {
    raw: sys::CUstream,
    life: PhantomData<&'a ()>,
}

impl<'a> Queue<'a> {
    /// The queue of a stream that lives as long as `_owner`.
    pub(super) fn of<T>(raw: sys::CUstream, _owner: &'a T) -> Self {
        Self { raw, life: PhantomData }
    }

    /// The stream's name.
    pub(super) fn raw(self) -> sys::CUstream {
        self.raw
    }

    /// Waits until everything that was queued is done.
    ///
    /// # Errors
    /// The failure of what was queued.
    pub(super) fn finish(self) -> Result<(), DriverError> {
        match Owned::new(self) {
            Ok(event) => Event(event).ask(Ask::Wait),
            // The driver has no room for a mark, or the context has failed, which is said here. This wait spins.
            // SAFETY: the stream is alive.
            Err(_) => unsafe { result::stream::synchronize(self.raw) },
        }
    }

    /// Fills `bytes` of the device's memory, which are the caller's until what is queued is done.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn fill(self, from: Address, bytes: u64, with: u8) -> Result<(), DriverError> {
        // SAFETY: the stream is alive. The memory is the device's, so no reference of the host's names it.
        unsafe { result::memset_d8_async(from, with, size(bytes), self.raw) }
    }
}

// SAFETY: the driver makes a new event, and keeps one that is destroyed until it is done.
unsafe impl Handle for sys::CUevent {
    /// The stream that it marks.
    type Asked<'a> = Queue<'a>;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = result::event::destroy;

    fn make(queue: Queue<'_>) -> Result<Self, DriverError> {
        let mut event = std::ptr::null_mut();
        // Who waits for it sleeps: a thread that spins would take a core from the loader.
        let flags =
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 | sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        // SAFETY: the place and the stream are alive, and so is the event, until it is destroyed where it marks nothing.
        unsafe {
            sys::cuEventCreate(&mut event, flags).result()?;
            result::event::record(event, queue.raw).inspect_err(|_| _ = result::event::destroy(event))?;
        }
        Ok(event)
    }
}

/// A mark on a stream that another stream or the host can wait for.
#[derive(Debug)]
pub(super) struct Event(Owned<sys::CUevent>);

impl Event {
    /// Marks what is queued on `queue` so far.
    pub(super) fn record(queue: Queue<'_>) -> Result<Self> {
        Owned::new(queue).map(Self).map_err(|error| failed("marking a stream", error))
    }

    /// Lets `queue` wait for the mark before what is queued on it from now on.
    pub(super) fn hold_back(&self, queue: Queue<'_>) -> Result<()> {
        self.ask(Ask::HoldBack(queue)).map_err(|error| failed("ordering two streams", error))
    }

    /// Whether what was marked is done.
    pub(super) fn is_done(&self) -> bool {
        self.ask(Ask::IsDone).is_ok()
    }

    /// Waits until what was marked is done.
    pub(super) fn wait(&self) -> Result<()> {
        self.ask(Ask::Wait).map_err(|error| failed("waiting for the GPU", error))
    }

    fn ask(&self, ask: Ask<'_>) -> Result<(), DriverError> {
        let (event, flags) = (self.0.raw(), sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT);
        // SAFETY: the event and the stream are alive.
        unsafe {
            match ask {
                Ask::HoldBack(queue) => result::stream::wait_event(queue.raw, event, flags),
                Ask::IsDone => result::event::query(event),
                Ask::Wait => result::event::synchronize(event),
            }
        }
    }
}

/// What is asked about a mark.
enum Ask<'a> {
    HoldBack(Queue<'a>),
    IsDone,
    Wait,
}

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
    fault::failed,
    handle::{Handle, Owned},
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
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.raw) }
    }
}

// SAFETY: the driver makes a new event, and keeps one that is destroyed until it is done.
unsafe impl Handle for sys::CUevent {
    /// Flags that go together.
    type Asked<'a> = [sys::CUevent_flags; 2];
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = result::event::destroy;

    fn make(flags: [sys::CUevent_flags; 2]) -> Result<Self, DriverError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the place is alive.
        unsafe { sys::cuEventCreate(&mut event, flags[0] as u32 | flags[1] as u32) }.result()?;
        Ok(event)
    }
}

/// A mark on a stream that another stream or the host can wait for.
#[derive(Debug)]
pub(super) struct Event(Owned<sys::CUevent>);

impl Event {
    /// Marks what is queued on `queue` so far.
    pub(super) fn record(queue: Queue<'_>) -> Result<Self> {
        let marking = |error| failed("marking a stream", error);
        // Who waits for it sleeps: a thread that spins would take a core from the loader.
        let flags = [sys::CUevent_flags::CU_EVENT_DISABLE_TIMING, sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC];
        let event = Self(Owned::new(flags).map_err(marking)?);
        // SAFETY: event and stream are alive.
        unsafe { result::event::record(event.0.raw(), queue.raw) }.map_err(marking)?;
        Ok(event)
    }

    /// Lets `queue` wait for the mark before what is queued on it from now on.
    pub(super) fn hold_back(&self, queue: Queue<'_>) -> Result<()> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: event and stream are alive.
        unsafe { result::stream::wait_event(queue.raw, self.0.raw(), flags) }
            .map_err(|error| failed("ordering two streams", error))
    }

    /// Whether what was marked is done.
    pub(super) fn is_done(&self) -> bool {
        self.ask(result::event::query).is_ok()
    }

    /// Waits until what was marked is done.
    pub(super) fn wait(&self) -> Result<()> {
        self.ask(result::event::synchronize).map_err(|error| failed("waiting for the GPU", error))
    }

    /// Calls what asks for nothing but an event.
    fn ask(&self, call: unsafe fn(sys::CUevent) -> Result<(), DriverError>) -> Result<(), DriverError> {
        // SAFETY: the event is alive.
        unsafe { call(self.0.raw()) }
    }
}

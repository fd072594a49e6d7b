//! Where the trainer sends its events, in order, and the latest of what changes too often to queue.

use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::{
    memory::probe::uncounted,
    sync::Mutex,
    train::event::{Event, Latest},
};

/// Sends events; each wakes the receiver.
pub(super) struct EventSink {
    pub(super) outbox: Sender<Event>,
    pub(super) wake: Box<dyn Fn() + Send + Sync>,
    pub(super) latest: Arc<Mutex<Latest>>,
}

impl EventSink {
    /// Sends an event; waits while the queue is full.
    pub(super) fn send(&self, event: Event) {
        uncounted(|| {
            // A receiver that is gone needs no event.
            let _ = self.outbox.send(event);
            (self.wake)();
        });
    }

    /// Replaces the latest values.
    pub(super) fn set_latest(&self, latest: Latest) {
        uncounted(|| *self.latest.lock() = latest);
    }
}

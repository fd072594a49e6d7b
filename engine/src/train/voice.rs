//! How the trainer speaks: events in order, and the latest of what changes too often to queue.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Sender;

use crate::{
    memory::probe::uncounted,
    train::event::{Event, Latest},
};

/// How the trainer speaks: every event wakes whoever listens.
pub(super) struct Voice {
    pub(super) outbox: Sender<Event>,
    pub(super) wake: Box<dyn Fn() + Send + Sync>,
    pub(super) latest: Arc<Mutex<Latest>>,
}

impl Voice {
    /// Says something; waits while the queue is full.
    pub(super) fn say(&self, event: Event) {
        uncounted(|| {
            // Without a listener there is nobody to tell.
            let _ = self.outbox.send(event);
            (self.wake)();
        });
    }

    /// Replaces the latest values.
    pub(super) fn show(&self, latest: Latest) {
        uncounted(|| *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = latest);
    }
}

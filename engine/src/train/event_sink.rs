//! The sink of the trainer's events: ordered events, and the latest value of figures that change too often to queue.

use std::sync::Arc;

use crossbeam_channel::Sender;

use crate::{
    hardware::Machine,
    memory::probe::uncounted,
    sync::Mutex,
    train::event::{Event, Latest},
};

/// Sends events; each wakes the receiver.
pub(super) struct EventSink {
    pub(super) outbox: Sender<Event>,
    pub(super) wake: Arc<dyn Fn() + Send + Sync>,
    pub(super) latest: Arc<Mutex<Latest>>,
    pub(super) machine: Arc<Mutex<Option<Machine>>>,
}

impl EventSink {
    /// A sink without a listener.
    pub(super) fn unheard() -> Self {
        let (outbox, _) = crossbeam_channel::bounded(1);
        Self { outbox, wake: Arc::new(|| {}), latest: Arc::default(), machine: Arc::default() }
    }

    /// Sends an event; waits while the queue is full.
    pub(super) fn send(&self, event: Event) {
        uncounted(|| {
            // A receiver that is gone needs no event.
            let _ = self.outbox.send(event);
            (self.wake)();
        });
    }

    /// Sends warnings, for as long as it is kept.
    #[cfg(feature = "cuda")]
    pub(super) fn warner(&self) -> impl Fn(String) + use<> {
        let (outbox, wake) = (self.outbox.clone(), Arc::clone(&self.wake));
        move |text| {
            uncounted(|| {
                // A receiver that is gone needs no warning.
                let _ = outbox.send(Event::Warning(text));
                wake();
            });
        }
    }

    /// Replaces the latest values.
    pub(super) fn set_latest(&self, latest: Latest) {
        uncounted(|| *self.latest.lock() = latest);
    }

    /// Sends the machine as it is known now, if that is more than before.
    pub(super) fn set_machine(&self, machine: &Machine) {
        let mut slot = self.machine.lock();
        if slot.as_ref().is_some_and(|known| known.version() == machine.version()) {
            return;
        }
        uncounted(|| *slot = Some(machine.clone()));
        drop(slot);
        self.send(Event::Machine(machine.clone()));
    }
}

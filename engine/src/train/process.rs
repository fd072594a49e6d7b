//! The memory that this process holds of a GPU that it opened.
//!
//! Owns the way of reading it, which is decided once, when the GPU is opened: the driver reports it by process, or the
//! growth of the card's use stands in for it. Always holds: a reading that fails repeats the last one, and no run mixes the
//! two kinds of readings. Refuses to report growth as the driver's own figure.

use std::{cell::Cell, rc::Rc};

use crate::{
    backend::cuda::Device,
    bytes::Bytes,
    device::profile::PoolProfile,
    hardware::{
        Machine, gpu,
        usage::{self, UsageBefore},
    },
};

/// The memory that this process holds of a GPU.
#[derive(Clone)]
pub(super) struct Process {
    read: Rc<dyn Fn() -> Option<Bytes>>,
    is_reported: bool,
    last: Rc<Cell<Bytes>>,
}

impl Process {
    /// Reads it for a GPU that was just opened and warmed up, with a pool that hands out memory in this way; also returns
    /// the updated machine.
    pub(super) fn of(
        device: &Rc<Device>,
        uuid: &str,
        before: &UsageBefore,
        pool: PoolProfile,
        machine: &Machine,
    ) -> (Self, Machine) {
        let reported = usage::reported(uuid, before);
        let name = uuid.to_owned();
        let monitored = move || gpu::used(&name).ok();
        let grown = before.used.clone().ok().zip(monitored()).map(|(before, used)| used.saturating_sub(before));
        let (machine, held) = machine.with_gpu_opened(device.index(), &reported, grown.unwrap_or_default(), pool);
        let is_reported = reported.is_ok();
        let read: Rc<dyn Fn() -> Option<Bytes>> = match (&before.used, is_reported) {
            (_, true) => {
                let (name, before) = (uuid.to_owned(), before.clone());
                Rc::new(move || usage::held(&name, &before).ok())
            }
            (&Ok(others), false) => Rc::new(move || monitored().map(|used| used.saturating_sub(others))),
            // The use of others is not known: the driver's own count shows the growth since.
            (Err(_), false) => {
                let device = Rc::clone(device);
                let used = move || Some(Bytes(device.total_bytes().saturating_sub(device.free_bytes().ok()?)));
                let at_first = used();
                Rc::new(move || Some(held + used()?.saturating_sub(at_first?)))
            }
        };
        (Self { read, is_reported, last: Rc::new(Cell::new(held)) }, machine)
    }

    /// The bytes; the last reading where they cannot be read now.
    pub(super) fn bytes(&self) -> Bytes {
        if let Some(bytes) = (self.read)() {
            self.last.set(bytes);
        }
        self.last.get()
    }

    /// The bytes that the driver reports now, if it does.
    pub(super) fn reported(&self) -> Option<Bytes> {
        (self.read)().filter(|_| self.is_reported)
    }
}

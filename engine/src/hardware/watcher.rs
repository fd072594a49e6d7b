//! The thread that looks at the devices once a second.
//!
//! Owns the thread and the slot with the latest look. Always holds: a reader never waits for the driver. Without a driver it
//! looks once, says why there is no GPU, and ends.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use crossbeam_channel::{RecvTimeoutError, Sender};

use crate::{
    hardware::{
        Devices, cpu, describe,
        gpu::{self, Driver},
    },
    sync::Mutex,
};

const PERIOD: Duration = Duration::from_secs(1);

/// The latest look at the devices. Dropping it ends the thread.
#[derive(Debug)]
pub struct Watcher {
    slot: Arc<Mutex<Option<Arc<Devices>>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts to look. `wake` is called after every look, from the watcher's thread; it must not block.
    pub fn new(wake: impl Fn() + Send + 'static) -> Self {
        let slot = Arc::<Mutex<Option<Arc<Devices>>>>::default();
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let looks = Arc::clone(&slot);
        let watch = move || {
            let (driver, described) = (Driver::open(), describe());
            loop {
                let look = Arc::new(Devices { cpu: cpu::look(), gpus: gpu::look(&driver, &described) });
                *looks.lock() = Some(look);
                wake();
                if driver.is_err() || stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        };
        // A system without room for one more thread has no figures to show either; the slot then stays empty.
        let thread = std::thread::Builder::new().name("devices".to_owned()).spawn(watch).ok();
        Self { slot, stop: Some(stop), thread }
    }

    /// The latest look; `None` before the first.
    pub fn latest(&self) -> Option<Arc<Devices>> {
        self.slot.lock().clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has nothing left to end.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_wakes_and_dropping_ends_the_thread() {
        let (woken, waking) = crossbeam_channel::unbounded();
        let watcher = Watcher::new(move || {
            let _ = woken.send(());
        });
        waking.recv_timeout(Duration::from_secs(30)).expect("a look");
        assert!(watcher.latest().is_some());
        drop(watcher);
        // The thread owned the sender: it is gone.
        while waking.try_recv().is_ok() {}
        assert_eq!(waking.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected));
    }
}

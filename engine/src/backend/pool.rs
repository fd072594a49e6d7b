//! The engine's threads: a rayon pool of its own, metered from birth, so that what its threads allocate can be measured.

use std::thread::available_parallelism;

use crate::{
    backend::candle,
    error::{Error, Result},
    memory::{
        heap,
        probe::{Meter, meter_this_thread, uncounted},
    },
};

/// Threads that run kernels, and the meter that counts what they allocate.
pub struct Pool {
    threads: rayon::ThreadPool,
    meter: &'static Meter,
}

/// How far the threads of a pool stand back for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As any program's.
    Equal,
    /// Behind whoever else wants the processor: a window that is drawn beside the run stays smooth, and a run that is
    /// alone loses nothing.
    Back,
}

/// How many threads the CPU's kernels run on.
pub fn threads() -> usize {
    available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Pool {
    /// A pool of [`threads`], its libraries' per-thread buffers already made: they belong to the idle level.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(standing: Standing) -> Result<Self> {
        heap::keep();
        let meter = Meter::new();
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(threads())
            .thread_name(|i| format!("engine-{i}"))
            .start_handler(move |_| {
                if standing == Standing::Back {
                    stand_back();
                }
                meter_this_thread(Some(meter));
            })
            .build()
            .map_err(|error| Error::Device(format!("no threads for the engine: {error}")))?;
        let pool = Self { threads, meter };
        pool.run(candle::warm_up);
        Ok(pool)
    }

    /// What the pool's threads have allocated.
    pub fn meter(&self) -> &'static Meter {
        self.meter
    }

    /// Runs `f` on one of the pool's threads, kernels inside it on all of them, and waits for its result. The result was
    /// allocated by a metered thread and leaves it: `f` makes it inside [`uncounted`] where that matters.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        uncounted(|| self.threads.install(f))
    }
}

/// Lowers the priority of the calling thread.
fn stand_back() {
    // On Linux a niceness belongs to a thread; elsewhere it would be the whole program's, the window's too.
    #[cfg(target_os = "linux")]
    {
        const NICENESS: libc::c_int = 5;
        // SAFETY: takes plain numbers and touches no memory of ours; 0 is the calling thread. When it fails, the thread
        // keeps its priority, which is no fault.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS);
        }
    }
}

//! The engine's threads: a rayon pool of its own, whose threads are metered while they work, so that their allocations can be
//! measured.

use crate::{
    backend::cpu,
    device::cpu_threads,
    error::{Error, Result},
    memory::{
        heap,
        host::FreeMemory,
        probe::{Meter, counted_on, uncounted},
    },
};

/// Threads that run kernels, and the meter that counts their allocations.
pub struct ThreadPool {
    threads: rayon::ThreadPool,
    count: usize,
    meter: &'static Meter,
    has_mapped_code: bool,
}

/// How a pool's threads compete with those of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadPriority {
    /// Like any other program.
    Normal,
    /// Behind every other program, so that the window stays smooth while a run is under way. A run that is alone on the
    /// machine loses nothing.
    Background,
}

impl ThreadPool {
    /// A pool of [`cpu_threads`].
    ///
    /// # Errors
    /// The errors of [`ThreadPool::of`].
    pub fn new(priority: ThreadPriority) -> Result<Self> {
        Self::of(cpu_threads(), priority)
    }

    /// A pool of `count` threads, its libraries' per-thread buffers already made: they belong to the idle level.
    ///
    /// # Errors
    /// Fails when the system gives no threads, or when a limit of the process leaves less memory than they map.
    pub fn of(count: usize, priority: ThreadPriority) -> Result<Self> {
        if let Some((FreeMemory { bytes, limited_by }, needed)) = FreeMemory::too_little_for(count) {
            let [needed, bytes] = needed.beside(bytes);
            let reason = format!("{count} of them map {needed}, and {} is {bytes}", limited_by.source());
            return Err(Error::NoThread { purpose: "computing", reason });
        }
        heap::keep();
        let meter = Meter::new();
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|i| format!("engine-{i}"))
            .start_handler(move |_| {
                if priority == ThreadPriority::Background {
                    lower_priority();
                }
            })
            .build()
            .map_err(|error| Error::NoThread { purpose: "computing", reason: error.to_string() })?;
        let has_mapped_code = threads.install(cpu::warm_up);
        Ok(Self { threads, count, meter, has_mapped_code })
    }

    /// Hands the free memory of all heaps back to the system, those of the pool's threads included.
    pub fn give_back(&self) {
        self.threads.broadcast(|_| heap::give_back_own());
        heap::give_back();
    }

    /// Whether the code of kernels was mapped when the pool was made. Otherwise the first run maps it as it calls it.
    pub fn has_mapped_code(&self) -> bool {
        self.has_mapped_code
    }

    /// How many threads it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The meter that counts the allocations of the pool's threads.
    pub fn meter(&self) -> &'static Meter {
        self.meter
    }

    /// Runs `f` on one of the pool's threads, kernels inside it on all of them, and waits for its result. What `f` allocates is
    /// counted on [`ThreadPool::meter`], its result as well, which leaves the pool: `f` makes it inside [`uncounted`] where
    /// that matters.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        uncounted(|| self.threads.install(|| counted_on(Some(self.meter), f)))
    }
}

/// Lowers the priority of the calling thread.
fn lower_priority() {
    // On Linux a niceness belongs to a thread; elsewhere it would be the whole program's, the window's too.
    #[cfg(target_os = "linux")]
    {
        const NICENESS: i32 = 5;
        // No number is the calling thread. When it fails, the thread keeps its priority, which is not an error.
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
}

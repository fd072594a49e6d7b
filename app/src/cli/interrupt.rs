//! Signals that end a run: an interrupt, a request to terminate, a terminal that hangs up.
//!
//! Always holds: the first signal asks the run to stop, so that its events and its summary are still written; a second one,
//! of any kind, ends the program at once.

use std::{
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

#[cfg(unix)]
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// A program that was ended by a signal exits with this and the signal's number.
const ENDED: i32 = 128;

/// Whether a signal has come, and which.
#[derive(Debug, Clone)]
pub(super) struct Interrupt {
    has_come: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// A system that does not let signals be handled.
    pub(super) fn listen() -> io::Result<Self> {
        let (has_come, signal) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        for number in SIGNALS {
            // In this order: the flag is not yet set when the first signal asks whether to end the program.
            flag::register_conditional_shutdown(number, ENDED + number, Arc::clone(&has_come))?;
            flag::register_usize(number, Arc::clone(&signal), number as usize)?;
            flag::register(number, Arc::clone(&has_come))?;
        }
        Ok(Self { has_come, signal })
    }

    /// Whether a signal has come.
    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Relaxed)
    }

    /// The status to exit with after the signal.
    pub(super) fn exit_code(&self) -> ExitCode {
        let status = ENDED as usize + self.signal.load(Relaxed);
        u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

/// Makes a write to a file fail that the system lets grow no further (`ulimit -f`), in place of ending the program.
///
/// # Errors
/// A system that does not let signals be handled.
pub(super) fn outlive_large_files() -> io::Result<()> {
    // The signal is let go by: the write that it is for says the rest.
    #[cfg(unix)]
    flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    Ok(())
}

/// A run that was stopped by a signal.
#[derive(Debug)]
pub(super) struct Stopped(pub(super) String);

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} was stopped", self.0)
    }
}

impl std::error::Error for Stopped {}

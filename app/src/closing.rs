//! Signals that close the window: a request to terminate, an interrupt, a terminal or a session that hangs up.
//!
//! Always holds: the first signal closes the window as its close button does, without a question, so that a run under way is
//! stopped and saved and everything is kept; a second one, of any kind, ends the program at once. A signal wakes an idle
//! window, and no code polls for signals.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

/// The signals that close a window.
#[cfg(unix)]
pub(crate) const SIGNALS: &[i32] = &[SIGTERM, SIGHUP, SIGINT];
/// The signals that close a window.
#[cfg(not(unix))]
pub(crate) const SIGNALS: &[i32] = &[SIGTERM, SIGINT];

/// A program that was ended by a signal exits with this and the signal's number.
const ENDED: i32 = 128;

/// Whether a signal has come.
#[derive(Debug, Clone)]
pub(crate) struct Closing(Arc<AtomicBool>);

impl Closing {
    /// Listens to `signals` from now on; `wake` is called once the first has come.
    ///
    /// # Errors
    /// A system that does not let signals be handled.
    pub(crate) fn listen(signals: &[i32], wake: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let has_come = Arc::<AtomicBool>::default();
        for signal in signals {
            // In this order: the flag is not yet set when the first signal asks whether to end the program.
            flag::register_conditional_shutdown(*signal, ENDED + signal, Arc::clone(&has_come))?;
            flag::register(*signal, Arc::clone(&has_come))?;
        }
        // The waiter is woken last, when the flag is set.
        let wait = waiter(signals, Arc::clone(&has_come))?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            wait();
            wake();
        })?;
        Ok(Self(has_come))
    }

    /// Whether a signal has come.
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// A closure that waits for the first of the signals.
#[cfg(unix)]
fn waiter(signals: &[i32], _: Arc<AtomicBool>) -> io::Result<impl FnOnce() + Send + 'static> {
    use std::{io::Read, os::unix::net::UnixStream};

    let (mut told, tells) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, tells.try_clone()?)?;
    }
    // An end of the stream, which would come with the end of the program alone, wakes as well.
    Ok(move || drop(told.read_exact(&mut [0])))
}

/// A closure that waits for the first of the signals. On this system only a check shows them.
#[cfg(not(unix))]
fn waiter(_: &[i32], has_come: Arc<AtomicBool>) -> io::Result<impl FnOnce() + Send + 'static> {
    /// How often it looks.
    const GLANCE: std::time::Duration = std::time::Duration::from_millis(250);
    Ok(move || {
        while !has_come.load(Relaxed) {
            std::thread::sleep(GLANCE);
        }
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::Command, time::Duration};

    use signal_hook::{consts::SIGUSR2, low_level::raise};

    use super::*;

    /// Set where a test runs itself in a process of its own.
    const CHILD: &str = "PLIMSOLL_TEST_OF_SIGNALS";

    #[test]
    fn the_first_signal_is_told_and_the_second_ends_the_program() {
        if std::env::var_os(CHILD).is_some() {
            let (told, tells) = crossbeam_channel::bounded(1);
            let closing = Closing::listen(&[SIGUSR2], move || told.send(()).expect("waited for")).expect("listens");
            assert!(!closing.has_come());
            raise(SIGUSR2).expect("raised");
            tells.recv_timeout(Duration::from_secs(20)).expect("told");
            assert!(closing.has_come());
            raise(SIGUSR2).expect("raised");
            unreachable!("the second signal ends the program");
        }
        let name = "closing::tests::the_first_signal_is_told_and_the_second_ends_the_program";
        let program = std::env::current_exe().expect("this program");
        let ended = Command::new(program).args(["--exact", name]).env(CHILD, "1").output().expect("starts");
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert_eq!((ended.status.code(), ended.status.signal()), (Some(ENDED + SIGUSR2), None), "{said}");
    }
}

//! A part's process: this program again, whose rows are read as they come.
//!
//! Always holds: a process that is dropped has ended, and so has one whose report was killed: the system then closes its
//! standard input, which it watches. Rows are objects, one a line; anything else that it writes to its standard output is
//! passed over.

use std::{
    env,
    io::{self, BufRead, BufReader, Read},
    process::{self, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use serde_json::Value;
use signal_hook::low_level;

use super::report::Ended;

/// Set for the process of a part.
const PART: &str = "PLIMSOLL_PART_OF_REPORT";
/// The status of one that ended with its report.
const ENDED: i32 = 1;
/// How long nothing is waited for at a time.
const GLANCE: Duration = Duration::from_millis(200);
/// The characters that are kept of its complaints: their end.
const SAID: usize = 4000;

/// Ends this process with its report, if it is a part of one. The report writes nothing to its standard input and keeps it open
/// as long as it lives.
pub(in crate::cli) fn end_with_report() {
    if env::var_os(PART).is_some() {
        thread::spawn(|| {
            // However the reading ends, there is no report any more.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            // At once: a driver that hangs must not be asked to close.
            low_level::exit(ENDED)
        });
    }
}

/// A process.
pub(super) struct Child {
    process: process::Child,
    rows: Receiver<Value>,
    said: Option<JoinHandle<String>>,
}

/// The next message of the child process.
pub(super) enum Next {
    Row(Value),
    Nothing,
    End(Ended),
}

impl Child {
    /// Starts this program with these arguments.
    ///
    /// # Errors
    /// The system does not start it.
    pub(super) fn start(arguments: &[String]) -> io::Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(arguments)
            .env(PART, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (send, rows) = crossbeam_channel::unbounded();
        let stdout = process.stdout.take();
        thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
            let rows = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str::<Value>(&line).ok());
            for row in rows.filter(Value::is_object) {
                if send.send(row).is_err() {
                    break;
                }
            }
        });
        let stderr = process.stderr.take();
        let said = thread::spawn(move || stderr.map(tail).unwrap_or_default());
        Ok(Self { process, rows, said: Some(said) })
    }

    /// The process's next row, or how it ended once there are no more.
    pub(super) fn next(&mut self) -> Next {
        match self.rows.recv_timeout(GLANCE) {
            Ok(row) => Next::Row(row),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => match self.process.try_wait() {
                Ok(Some(status)) => Next::End(ended(status)),
                Ok(None) => {
                    thread::sleep(GLANCE);
                    Next::Nothing
                }
                Err(error) => Next::End(Ended::NotStarted(error.to_string())),
            },
        }
    }

    /// Ends the process, for this reason.
    pub(super) fn stop(&mut self, why: Ended) -> Ended {
        self.end();
        why
    }

    fn end(&mut self) {
        // One that has ended by itself cannot be ended, which is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Its complaints, once it has ended.
    pub(super) fn said(&mut self) -> String {
        self.end();
        self.said.take().and_then(|said| said.join().ok()).unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// The end of a stream.
fn tail(mut from: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let over = kept.len().saturating_sub(SAID);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

fn ended(status: ExitStatus) -> Ended {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Ended::Signal(signal);
    }
    match status.code() {
        Some(0) => Ended::Well,
        code => Ended::Status(code.unwrap_or(-1)),
    }
}

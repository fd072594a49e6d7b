//! The log: the events of a session, in words.
//!
//! Owns its entries. Always holds: the newest comes last. Refuses to grow without end: past [`LENGTH`] the oldest are forgotten.

use std::{borrow::Cow, time::Instant};

use crate::session::{RunKey, Session};

/// Entries that are kept.
const LENGTH: usize = 500;

/// How much an entry of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Good to know.
    Note,
    /// Worth the eye.
    Warning,
    /// Something failed.
    Error,
}

/// A line of the log.
#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    /// Seconds since the window opened.
    pub(crate) at_secs: f64,
    /// How much it matters.
    pub(crate) level: Level,
    /// The event in words.
    pub(crate) text: String,
    /// What more there is to know of it, on hover and in what is copied.
    pub(crate) about: Option<String>,
    /// The run that it begins with, and what that was called then.
    pub(crate) run: Option<(RunKey, String)>,
}

impl LogEntry {
    /// The event in words, with the present name of its run, which its user may have changed since.
    pub(crate) fn told(&self, session: &Session) -> Cow<'_, str> {
        let now = self.run.as_ref().and_then(|(key, then)| {
            let run = session.runs().iter().find(|run| run.key == *key)?;
            Some(run.name() + self.text.strip_prefix(then)?)
        });
        now.map_or(Cow::Borrowed(&self.text), Cow::Owned)
    }
}

/// The events of this session, oldest first.
#[derive(Debug)]
pub(crate) struct Log {
    start: Instant,
    /// The lines.
    pub(crate) entries: Vec<LogEntry>,
}

impl Log {
    /// An empty log, which counts from now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), entries: Vec::new() }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, level: Level, text: impl Into<String>) {
        self.enter(level, text.into(), None, None);
    }

    /// Adds a line that begins with the name of a run.
    pub(crate) fn add_of(&mut self, level: Level, (run, name): (RunKey, String), rest: &str, about: Option<String>) {
        self.enter(level, format!("{name}{rest}"), about, Some((run, name)));
    }

    fn enter(&mut self, level: Level, text: String, about: Option<String>, run: Option<(RunKey, String)>) {
        if self.entries.len() >= LENGTH {
            self.entries.remove(0);
        }
        self.entries.push(LogEntry { at_secs: self.start.elapsed().as_secs_f64(), level, text, about, run });
    }
}

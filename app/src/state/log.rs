//! The log: the events of a session, in words.
//!
//! Owns its entries. Always holds: the newest comes last. Refuses to grow without end: past [`LENGTH`] the oldest are forgotten.

use std::time::Instant;

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
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), entries: Vec::new() }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, level: Level, text: impl Into<String>) {
        self.enter(level, text.into(), None);
    }

    /// Adds a line with more on hover.
    pub(crate) fn add_about(&mut self, level: Level, text: impl Into<String>, about: String) {
        self.enter(level, text.into(), Some(about));
    }

    fn enter(&mut self, level: Level, text: String, about: Option<String>) {
        if self.entries.len() >= LENGTH {
            self.entries.remove(0);
        }
        self.entries.push(LogEntry { at_secs: self.start.elapsed().as_secs_f64(), level, text, about });
    }
}

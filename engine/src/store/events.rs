//! Events of a run in addition to its steps, as they are kept.

use jiff::Timestamp;
use rusqlite::{Connection, Transaction, params};
use serde::Serialize;

use crate::{
    experiment::words::words,
    store::run::{time, word},
};

words! {
    /// The kind of an event.
    pub enum EventKind {
        /// A message for the user.
        Warning = "warning",
        /// The run was paused.
        Paused = "paused",
        /// The run went on.
        Resumed = "resumed",
        /// The run was taken up again from a checkpoint.
        Continued = "continued",
        /// A checkpoint was written.
        Saved = "saved",
        /// Channels were taken out of the model.
        Thinned = "thinned",
        /// The trained model was tested as one of 8-bit integers, or its zeros were counted.
        Compressed = "compressed",
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptEvent {
    /// When it happened.
    #[serde(serialize_with = "text")]
    pub at: Timestamp,
    /// After how many steps.
    pub step: u64,
    /// The kind of the event.
    pub kind: EventKind,
    /// Details in words; empty if the kind says everything.
    pub text: String,
}

fn text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// Writes events from place `first` on, in place of the old ones.
pub(super) fn write(db: &Transaction<'_>, run: i64, first: u64, events: &[KeptEvent]) -> rusqlite::Result<()> {
    let mut statement = db.prepare("INSERT OR REPLACE INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (place, event) in (first..).zip(events) {
        let at = event.at.as_millisecond();
        statement.execute(params![run, place as i64, at, event.step as i64, event.kind.key(), event.text])?;
    }
    Ok(())
}

/// The events of a run, in order.
pub(super) fn read(db: &Connection, run: i64) -> rusqlite::Result<Vec<KeptEvent>> {
    let mut statement = db.prepare("SELECT at, step, kind, text FROM events WHERE run = ?1 ORDER BY place")?;
    let event = |row: &rusqlite::Row<'_>| {
        let step: i64 = row.get(1)?;
        Ok(KeptEvent { at: time(row, 0)?, step: step as u64, kind: word(row, 2)?, text: row.get(3)? })
    };
    statement.query_map([run], event)?.collect()
}

//! Changes of kept runs by the user.
//!
//! Always holds: a change is made to all of the named runs, or to none. Refuses to put away a run that still trains, or is
//! about to go on.

use jiff::Timestamp;
use rusqlite::params;

use crate::{
    error::Result,
    store::{RunKey, Store},
};

impl Store {
    /// Gives a run a name; an empty one takes its name away.
    ///
    /// # Errors
    /// Fails for a name that always means something else ([`Store::check_name`]), for a run that is not there, and where
    /// the database does.
    pub fn rename(&mut self, key: &RunKey, name: &str) -> Result<()> {
        Self::check_name(name)?;
        let name = Some(one_line(name)).filter(|name| !name.is_empty());
        self.set(key, "name", &name)
    }

    /// Replaces the note on a run.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn annotate(&mut self, key: &RunKey, note: &str) -> Result<()> {
        self.set(key, "note", &note.trim())
    }

    /// Replaces the tags of a run; they are put in order, each once.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn tag(&mut self, key: &RunKey, tags: &[String]) -> Result<()> {
        let mut tags: Vec<String> = tags.iter().map(|tag| one_line(tag)).filter(|tag| !tag.is_empty()).collect();
        tags.sort();
        tags.dedup();
        self.set(key, "tags", &tags.join("\n"))
    }

    /// Stars a run, or takes its star.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn star(&mut self, key: &RunKey, is_starred: bool) -> Result<()> {
        self.set(key, "starred", &is_starred)
    }

    /// Puts runs away: lists leave them out, and they can be restored until they are deleted.
    ///
    /// # Errors
    /// Fails for a run that is not there or still trains, and where the database does; then all stay.
    pub fn discard(&mut self, keys: &[RunKey]) -> Result<()> {
        self.none_trains(keys)?;
        let now = Timestamp::now().as_millisecond();
        self.each(keys, "UPDATE runs SET discarded = ?2 WHERE key = ?1", &now)
    }

    /// Brings back runs that were put away.
    ///
    /// # Errors
    /// Fails for a run that is not there, and where the database does.
    pub fn restore(&mut self, keys: &[RunKey]) -> Result<()> {
        self.each(keys, "UPDATE runs SET discarded = ?2 WHERE key = ?1", &None::<i64>)
    }

    fn set(&mut self, key: &RunKey, column: &str, value: &dyn rusqlite::ToSql) -> Result<()> {
        self.each(std::slice::from_ref(key), &format!("UPDATE runs SET {column} = ?2 WHERE key = ?1"), value)
    }

    /// Runs a statement for each of some runs: for all or for none.
    fn each(&mut self, keys: &[RunKey], sql: &str, value: &dyn rusqlite::ToSql) -> Result<()> {
        for key in keys {
            self.number(key)?;
        }
        self.database.write(|transaction| {
            let mut statement = transaction.prepare(sql)?;
            keys.iter().try_for_each(|key| statement.execute(params![key.as_str(), value]).map(drop))
        })
    }
}

/// A text as one line: names and tags stand in tables.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

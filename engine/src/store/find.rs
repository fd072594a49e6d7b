//! The run that a user means by a word.
//!
//! Always holds: one run is meant, or none. The meaning of a word is looked for in this order: `last`, the whole of a key,
//! the beginning of one, a name that a user gave, a title, a shipped preset, which means the runs of its title. A word that
//! means several runs is refused, and the message lists them.

use super::{RunKey, Store, changes::one_line, run};
use crate::{
    error::{Error, Problem, Result},
    experiment::shipped,
};

/// Runs that are listed where several may be meant.
const LISTED: usize = 6;

/// A letter that sorts after every letter, digit and dash: all keys with a prefix lie between the prefix and the prefix with
/// this letter.
const BEHIND: char = '~';

/// The newest run.
const LAST: &str = "last";

impl Store {
    /// The most characters of a name, because names appear in tables.
    pub const LONGEST_NAME: usize = 200;

    /// Whether a run may be called so.
    ///
    /// # Errors
    /// Fails for a word that always means something else: `last`, or the beginning of a key; and for a text of more than
    /// [`Store::LONGEST_NAME`] characters.
    pub fn check_name(name: &str) -> Result<()> {
        let (name, most) = (name.trim(), Self::LONGEST_NAME);
        let length = one_line(name).chars().count();
        if length > most {
            let message = format!("has {length} characters, and a name has {most} at most");
            return Err(Problem::new("name", message, "choose a shorter one, and write the rest as a note").into());
        }
        let means = match name {
            LAST => "the newest run",
            _ if RunKey::may_begin(name) => "the run whose key begins so",
            _ => return Ok(()),
        };
        Err(Problem::new("name", format!("`{name}` always means {means}"), "choose another name").into())
    }

    /// Finds a run by its key, by an unambiguous beginning of it, by its name, title or shipped preset if no other run has it,
    /// or by `last`.
    ///
    /// # Errors
    /// Fails if no run is meant, or several are.
    pub fn find(&self, text: &str) -> Result<RunKey> {
        let text = text.trim();
        if text == LAST {
            let last = self.keys("WHERE discarded IS NULL ORDER BY key DESC LIMIT 1", &[])?;
            return last.into_iter().next().ok_or_else(|| self.no_such(text));
        }
        if RunKey::read(text).is_some() {
            let exact = self.keys("WHERE key = ?1", &[text])?;
            let begins = "WHERE key >= ?1 AND key < ?2 AND discarded IS NULL ORDER BY key DESC";
            let keys = if exact.is_empty() { self.keys(begins, &[text, &format!("{text}{BEHIND}")])? } else { exact };
            if !keys.is_empty() {
                return the_one(text, keys, "have keys that begin so", "write more of the name");
            }
        }
        for column in ["name", "title"] {
            let keys = self.keys(&format!("WHERE {column} = ?1 AND discarded IS NULL ORDER BY key DESC"), &[text])?;
            if !keys.is_empty() && !text.is_empty() {
                return the_one(text, keys, "have this name", "name one by its key, or by the beginning of it");
            }
        }
        if let Some(Ok(preset)) = shipped::find(text) {
            let of_title = "WHERE title = ?1 AND discarded IS NULL ORDER BY key DESC";
            let keys = self.keys(of_title, &[&preset.title])?;
            if !keys.is_empty() {
                return the_one(text, keys, "are of this preset", "name one by its key, or by the beginning of it");
            }
        }
        Err(self.no_such(text))
    }

    /// The other runs with this name, newest first. If there are any, the name finds no run.
    ///
    /// # Errors
    /// Fails if the database does.
    pub fn others_called(&self, name: &str, than: &RunKey) -> Result<Vec<RunKey>> {
        let which = "WHERE name = ?1 AND key <> ?2 AND discarded IS NULL ORDER BY key DESC";
        self.keys(which, &[&one_line(name), than.as_str()])
    }

    pub(super) fn keys(&self, which: &str, parameters: &[&str]) -> Result<Vec<RunKey>> {
        self.database.with(|db| {
            let mut statement = db.prepare(&format!("SELECT key FROM runs {which}"))?;
            let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| run::key(row, 0))?;
            rows.collect()
        })
    }

    pub(super) fn no_such(&self, text: &str) -> Error {
        let message = format!("no run of this name is kept in {}", self.folder.display());
        Problem::new(format!("run {text}"), message, "`plimsoll runs` lists those that are").into()
    }
}

/// The one key, or the error for several.
fn the_one(text: &str, mut keys: Vec<RunKey>, are: &str, mend: &str) -> Result<RunKey> {
    if keys.len() == 1 {
        return Ok(keys.remove(0));
    }
    let message = format!("{} runs {are}: {}", keys.len(), listed(&keys));
    Err(Problem::new(format!("run {text}"), message, mend).into())
}

/// The keys of runs in a row, as many as fit, and how many more there are.
pub fn listed(keys: &[RunKey]) -> String {
    let some: Vec<&str> = keys.iter().take(LISTED).map(RunKey::as_str).collect();
    let more = keys.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", some.join(", "))
}

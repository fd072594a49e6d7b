//! The name of a kept run in the room that a place has for it.
//!
//! Always holds: what tells a run from those next to it stays as long as anything of its name does.

use super::{Row, TOLD_FROM};
use crate::{naming, widgets::text};

impl Row {
    /// A name of settings in the room that it has next to the rows `beside` it: what tells it from them stays.
    pub(crate) fn fitting_settings<'a>(
        &self,
        beside: impl Iterator<Item = &'a Self>,
        fits: impl Fn(&str) -> bool,
    ) -> String {
        let is_other = |row: &&Self| row.run.title == self.run.title && row.run.key != self.run.key;
        let others: Vec<&[String]> = beside
            .filter(|row| row.is_called_by_settings())
            .filter(is_other)
            .take(TOLD_FROM)
            .map(|row| row.parts.0.as_slice())
            .collect();
        naming::fitting_settings(&self.parts.0, self.parts.1, &others, fits)
    }

    /// Its name with its number in the room that it has next to other rows.
    pub(crate) fn fitting_name<'a>(
        &self,
        beside: impl Iterator<Item = &'a Self>,
        fits: impl Fn(&str) -> bool,
    ) -> String {
        let numbered = |name: &str| naming::of_run(self.run.number, name);
        let fits = |name: &str| fits(&numbered(name));
        let name = self.short_name();
        numbered(&match (fits(name), self.is_called_by_settings()) {
            (true, _) => name.to_owned(),
            (false, true) => self.fitting_settings(beside, fits),
            (false, false) => text::shortened(name, fits),
        })
    }
}

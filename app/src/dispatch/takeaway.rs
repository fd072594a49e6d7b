//! Content that is taken out of the window: charts and tables, to files and onto the clipboard.

use std::path::PathBuf;

use plimsoll_engine::store::RunKey;

use super::Dispatcher;
use crate::{
    files::Purpose,
    panels::pane::Pane,
    state::Level,
    takeaway::{Content, Take, content, file_name},
};

impl Dispatcher<'_> {
    /// Takes the content of a pane.
    pub(super) fn take(&mut self, pane: Pane, take: Take) {
        let Some((content, name)) = content(pane, take, self.state, self.view) else {
            self.toasts.info("There is nothing to take yet.");
            return;
        };
        self.take_as(content, take, &name);
    }

    /// Takes the compressed model of a kept run.
    pub(super) fn take_model(&mut self, key: RunKey) {
        let Some((store, row)) = self.services.store.clone().zip(self.state.runs.get(&key)) else { return };
        let name = format!("{}-compressed", file_name(&row.name()));
        self.take_as(Content::Model(store, key), Take::SaveCompressed, &name);
    }

    fn take_as(&mut self, content: Content, take: Take, name: &str) {
        match take.ending() {
            None => self.services.porter.copy(content),
            Some(ending) => {
                let suggestion = self.folder().join(format!("{name}.{ending}"));
                self.state.taken = Some((content, take));
                self.services.files.ask(Purpose::Take(take), suggestion);
            }
        }
    }

    /// Writes the taken content to the chosen place.
    pub(super) fn save_taken(&mut self, path: PathBuf) {
        if let Some((content, take)) = self.state.taken.take() {
            self.services.porter.save(content, take, path);
        }
    }

    /// Reports the results of what was taken out.
    pub(super) fn tell_of_taken(&mut self) {
        for done in self.services.porter.done() {
            match done {
                Ok(text) => {
                    self.toasts.success(text.as_str());
                    self.state.log.add(Level::Note, text);
                }
                Err(text) => {
                    self.toasts.error(text.as_str());
                    self.state.log.add(Level::Error, text);
                }
            }
        }
    }
}

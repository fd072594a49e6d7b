//! Documents: opening, saving, and the question that comes before changes would be lost.

use std::path::{Path, PathBuf};

use eframe::egui;
use plimsoll_engine::{Experiment, experiment::preset, train::Command};

use super::Dispatcher;
use crate::{
    files::Purpose,
    state::{Dialog, Document, Level, Then},
};

/// Recent files that are remembered.
const RECENT: usize = 10;

impl Dispatcher<'_> {
    pub(super) fn path_chosen(&mut self, purpose: Purpose, path: PathBuf) {
        if matches!(self.state.dialog, Some(Dialog::Path(_))) {
            self.state.dialog = None;
        }
        match purpose {
            // The question of unsaved changes was settled before the dialog was shown.
            Purpose::Open => self.open(&path),
            Purpose::Save => self.save_to(&path),
            Purpose::DataFolder => {
                let mut experiment = self.state.document.experiment.clone();
                experiment.data.path = Some(path);
                self.edit("data.path", experiment);
            }
        }
    }

    /// Does `then`, after asking what to do with unsaved changes, if there are any that would be lost.
    pub(super) fn guarded(&mut self, then: Then) {
        if self.state.document.is_changed() {
            self.state.dialog = Some(Dialog::Unsaved(then));
        } else {
            self.then(then);
        }
    }

    pub(super) fn proceed(&mut self, save: bool) {
        match self.state.dialog.take() {
            Some(Dialog::Unsaved(then)) if save => {
                // Done once the file is written; never, if it cannot be.
                self.state.after_saving = Some(then);
                self.save();
            }
            Some(Dialog::Unsaved(then)) => self.then(then),
            Some(Dialog::StopAndQuit) => {
                self.services.trainer.send(Command::Stop);
                self.then(Then::Quit);
            }
            other => self.state.dialog = other,
        }
    }

    fn then(&mut self, then: Then) {
        match then {
            Then::New => self.load(Document::new(Experiment::default(), None)),
            Then::Open => self.services.files.ask(Purpose::Open, String::new()),
            Then::OpenPath => self.state.dialog = Some(Dialog::Path(Purpose::Open)),
            Then::OpenFile(path) => self.open(&path),
            Then::OpenShipped(index) => {
                if let Some(shipped) = self.state.shipped.get(index) {
                    self.load(Document::new(shipped.experiment.clone(), None));
                }
            }
            Then::Quit => {
                self.state.closing = true;
                self.ctx.send_viewport_cmd(egui::ViewportCommand::Close);
            }
        }
    }

    /// Opens a preset by its path, or a shipped one by its name.
    pub(crate) fn open_named(&mut self, path: &Path) {
        let shipped = self.state.shipped.iter().position(|shipped| path.as_os_str() == shipped.name.as_str());
        match shipped {
            Some(index) if !path.is_file() => self.then(Then::OpenShipped(index)),
            _ => self.open(path),
        }
    }

    /// Opens a preset file; what was there stays if the file cannot be used.
    pub(super) fn open(&mut self, path: &Path) {
        match preset::read(path) {
            Ok(experiment) => {
                self.load(Document::new(experiment, Some(path.to_owned())));
                self.remember(path);
            }
            Err(error) => {
                self.state.log.add(Level::Error, error.to_string());
                self.toasts.error(error.to_string()).duration(None);
            }
        }
    }

    fn load(&mut self, document: Document) {
        // The history begins anew: a step back into another file's experiment would be saved over this one's.
        self.state.document = Document { generation: self.state.document.generation, ..document };
        self.changed();
    }

    pub(super) fn save(&mut self) {
        match self.state.document.path.clone() {
            Some(path) => self.save_to(&path),
            None => self.ask_where_to_save(),
        }
    }

    pub(super) fn ask_where_to_save(&mut self) {
        let name = self.state.document.name();
        let plain: String =
            name.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
        self.services.files.ask(Purpose::Save, format!("{}.toml", plain.trim_matches('-')));
    }

    fn save_to(&mut self, path: &Path) {
        let then = self.state.after_saving.take();
        match preset::write(path, &self.state.document.experiment) {
            Ok(()) => {
                self.state.document.saved = self.state.document.experiment.clone();
                self.state.document.path = Some(path.to_owned());
                self.remember(path);
                self.toasts.success(format!("Saved {}", path.display()));
                if let Some(then) = then {
                    self.then(then);
                }
            }
            Err(error) => {
                self.state.log.add(Level::Error, error.to_string());
                self.toasts.error(error.to_string()).duration(None);
            }
        }
    }

    fn remember(&mut self, path: &Path) {
        let recent = &mut self.state.recent;
        recent.retain(|known| known != path);
        recent.insert(0, path.to_owned());
        recent.truncate(RECENT);
    }
}

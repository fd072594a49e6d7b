//! Documents: opening, saving, and the question that comes before changes would be lost.

use std::path::{Path, PathBuf};

use eframe::egui;
use plimsoll_engine::{
    Experiment,
    experiment::preset::{self, Unused},
    train::Command,
};

use super::Dispatcher;
use crate::{
    budgets,
    drafts::Draft,
    files::{self, Purpose},
    format,
    gallery::Gallery,
    state::{Dialog, Document, Level, Notice, State, Then},
};

impl Dispatcher<'_> {
    /// Asks for a typed path.
    pub(super) fn ask_for_path(&mut self, purpose: Purpose, suggestion: &Path) {
        self.state.paths_asked += 1;
        let is_refused = matches!(self.state.notice, Some(Notice::Unsaved(_) | Notice::Unopened(_)));
        let typed = self.state.typed.as_ref().filter(|(of, _)| is_refused && *of == purpose);
        let suggestion = typed.map_or(suggestion, |(_, path)| path);
        let (suggestion, number) = (suggestion.to_string_lossy().into_owned(), self.state.paths_asked);
        self.state.dialog = Some(Dialog::Path { purpose, suggestion, number, trouble: None });
    }

    /// A path was typed. Unlike a desktop's dialog, a field does not ask before a file is replaced. It stays open for a
    /// folder in place of a file: a name is to be added there.
    pub(super) fn path_typed(&mut self, purpose: Purpose, path: PathBuf) {
        self.state.typed = Some((purpose, path.clone()));
        if matches!(purpose, Purpose::Save | Purpose::Take(_)) && path.is_dir() {
            let file = path.join(self.suggested(purpose));
            let text =
                format!("{} is a folder. Add the name of a file to it, such as {}.", path.display(), file.display());
            if let Some(Dialog::Path { trouble, .. }) = &mut self.state.dialog {
                *trouble = Some(text);
            }
        } else if purpose == Purpose::Save && path.exists() && self.state.document.path.as_ref() != Some(&path) {
            self.state.dialog = Some(Dialog::Replace(path));
        } else if matches!(purpose, Purpose::Take(_)) && path.exists() {
            self.state.dialog = Some(Dialog::ReplaceTaken(path));
        } else {
            self.path_chosen(purpose, path);
        }
    }

    pub(super) fn path_chosen(&mut self, purpose: Purpose, path: PathBuf) {
        if matches!(self.state.dialog, Some(Dialog::Path { .. })) {
            self.state.dialog = None;
        }
        match purpose {
            // The question of unsaved changes was settled before the dialog was shown.
            Purpose::Open => self.open(&path),
            Purpose::Save => self.save_to(&path),
            Purpose::Take(_) => self.save_taken(path),
            Purpose::DataFolder | Purpose::DataFile => {
                let mut experiment = self.state.document.experiment.clone();
                experiment.data.path = Some(path);
                self.edit("data.path", experiment);
            }
            Purpose::Tokenizer => {
                let mut experiment = self.state.document.experiment.clone();
                experiment.data.tokenizer = Some(path);
                self.edit("data.tokenizer", experiment);
            }
            Purpose::Cache => {
                let mut experiment = self.state.document.experiment.clone();
                experiment.data.cache_folder = Some(path);
                self.edit("data.cache_folder", experiment);
            }
            Purpose::Weights => {
                let mut experiment = self.state.document.experiment.clone();
                experiment.weights.path = Some(path);
                self.edit("weights.path", experiment);
            }
            Purpose::Teacher => {
                let mut experiment = self.state.document.experiment.clone();
                experiment.distil.teacher = Some(path);
                self.edit("distil.teacher", experiment);
            }
        }
    }

    /// Asks for a path in a dialog that begins where the present one is.
    pub(super) fn browse(&mut self, purpose: Purpose, present: fn(&Experiment) -> Option<PathBuf>) {
        let path = present(&self.state.document.experiment);
        self.services.files.ask(purpose, path.unwrap_or_default());
    }

    /// Does `then`, after asking what to do with unsaved changes, if there are any that would be lost.
    pub(super) fn guarded(&mut self, then: Then) {
        let document = &self.state.document;
        if document.own().is_some() && !document.is_of_shipped() {
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
            Some(Dialog::Unsaved(then)) => {
                if matches!(then, Then::Quit) {
                    // The next start would find them.
                    self.state.document.discard_changes();
                }
                self.then(then);
            }
            Some(Dialog::Replace(path) | Dialog::ReplaceChanged(path)) if save => self.save_to(&path),
            Some(Dialog::ReplaceTaken(path)) if save => self.save_taken(path),
            Some(Dialog::StopAndQuit) if self.state.document.is_changed() && self.state.document.path.is_some() => {
                // The run goes on until that is answered, and is stopped as the window closes.
                self.state.dialog = Some(Dialog::Unsaved(Then::Quit));
            }
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
            Then::Open => self.services.files.ask(Purpose::Open, self.folder().join("")),
            Then::OpenPath => self.ask_for_path(Purpose::Open, &self.folder().join("")),
            Then::OpenFile(path) => self.open(&path),
            Then::OpenNamed(path) => self.open_named(&path),
            Then::OpenShipped(index) => {
                if let Some(shipped) = self.state.shipped.get(index) {
                    self.state.recent.opened_shipped(&shipped.name);
                    self.load(Document::of_shipped(shipped));
                }
            }
            Then::OpenDraft(index) => self.open_draft(index),
            Then::OpenKept(experiment) => self.load(Document::of_kept(*experiment, &self.state.shipped)),
            Then::Quit => {
                self.state.closing = true;
                self.ctx.send_viewport_cmd(egui::ViewportCommand::Close);
            }
        }
    }

    /// Shows every preset, and has the pictures made that are not there yet.
    pub(super) fn show_presets(&mut self) {
        let State { gallery, shipped, drafts, runs, recent, machine, dialog, .. } = &mut *self.state;
        *gallery = Gallery::new(gallery.number + 1, shipped, drafts, runs, recent);
        *dialog = Some(Dialog::Presets);
        self.services.painter.paint(gallery, machine);
    }

    /// Opens a draft with its undo; it is a draft again when it is left.
    fn open_draft(&mut self, index: usize) {
        let Some(Draft { name, experiment, history }) = self.state.drafts.take(index) else { return };
        let Some(shipped) = self.state.shipped.iter().find(|shipped| shipped.name == name) else { return };
        self.load(Document { experiment, history, ..Document::of_shipped(shipped) });
    }

    /// Leaves the document for another one. For a changed shipped preset a draft remains; its title is returned.
    fn leave(&mut self) -> Option<String> {
        let State { document, budgets, drafts, shipped, .. } = &mut *self.state;
        budgets.closing(&document.experiment);
        let draft = document.draft()?;
        let title = shipped.iter().find(|shipped| shipped.name == draft.name).map(|of| of.experiment.title.clone());
        drafts.keep(draft);
        Some(title.unwrap_or_else(|| document.name()))
    }

    /// Where files were last opened or saved; the user's own folder before the first.
    pub(super) fn folder(&self) -> PathBuf {
        let last = self.state.document.path.as_ref().or(self.state.recent.files.first());
        last.and_then(|path| path.parent()).map(Path::to_owned).or_else(std::env::home_dir).unwrap_or_default()
    }

    /// Opens the subject that the command line names, after the question of changes that were left unsaved when the window
    /// was closed.
    pub(crate) fn open_at_start(&mut self, path: &Path) {
        self.guarded(Then::OpenNamed(path.to_path_buf()));
    }

    /// Opens a preset by its path, or a shipped one by its name.
    fn open_named(&mut self, path: &Path) {
        let shipped = self.state.shipped.iter().position(|shipped| path.as_os_str() == shipped.name.as_str());
        match shipped {
            Some(index) if !path.is_file() => self.then(Then::OpenShipped(index)),
            _ => self.open(path),
        }
    }

    /// Opens a preset file, or a model's configuration; the present document stays if the file cannot be used.
    pub(super) fn open(&mut self, path: &Path) {
        match preset::open(path) {
            Ok(preset::Opened { mut experiment, is_preset, places, notes, .. }) => {
                self.file_trouble_is_over();
                for note in notes {
                    let text = format!("{}: {note}", path.display());
                    self.toasts.info(text.as_str());
                    self.state.log.add(Level::Note, text);
                }
                self.say_what_is_not_used(path, &places.unused(&experiment, &experiment));
                // Without a budget, the line is drawn where the card ends.
                let card = self.state.machine.profile(&experiment.device);
                if let Some(card) = card.filter(|_| is_preset && places.of("budget").is_none()) {
                    experiment.budget = card.usable_memory();
                }
                // A preset opens as it was written: without a device it is for the processor. A configuration says nothing of
                // where it runs.
                let experiment = if is_preset { experiment } else { self.on_chosen_device(experiment) };
                // A configuration is not saved over: it is not a preset.
                self.load(Document::new(experiment, is_preset.then(|| path.to_owned())));
                self.state.recent.opened_file(path);
            }
            Err(error) => self.file_trouble(Notice::Unopened, error.to_string()),
        }
    }

    /// Reports settings of a file that nothing uses; all of them in the log.
    fn say_what_is_not_used(&mut self, path: &Path, unused: &[Unused<'_>]) {
        let lines = unused.iter().map(|unused| format!("{} ({}): {}", path.display(), unused.place, unused.words));
        let lines: Vec<String> = lines.collect();
        match &lines[..] {
            [] => {}
            [line] => self.toasts.info(line.as_str()),
            [first, others @ ..] => {
                let more = format::counted(others.len() as u64, "more setting");
                self.toasts
                    .info(format!("{first}. The log names {more} that {} not used", format::are(others.len() as u64)));
            }
        }
        lines.into_iter().for_each(|line| self.state.log.add(Level::Note, line));
    }

    /// A model's configuration on the device that is chosen; a message says so if that is not the processor.
    fn on_chosen_device(&mut self, experiment: Experiment) -> Experiment {
        let chosen = &self.state.document.experiment;
        if chosen.is_on_cpu() {
            return experiment;
        }
        let budget = budgets::of_configuration(&experiment, chosen, &self.state.machine);
        let with = if budget == experiment.budget { String::new() } else { format!(", with a budget of {budget}") };
        let text = format!("The model is planned for {}, as before{with}", format::device(&chosen.device));
        let (device, gpu) = (chosen.device.clone(), chosen.gpu.clone());
        self.toasts.info(text.as_str());
        self.state.log.add(Level::Note, text);
        Experiment { device, gpu, budget, ..experiment }
    }

    /// A file could not be used: said until it is read, and in the log.
    fn file_trouble(&mut self, notice: fn(String) -> Notice, text: String) {
        self.state.log.add(Level::Error, text.clone());
        self.state.notice = Some(notice(text));
    }

    /// Drops the message about a file, which is out of date.
    fn file_trouble_is_over(&mut self) {
        self.state.notice.take_if(|notice| matches!(notice, Notice::Unsaved(_) | Notice::Unopened(_)));
    }

    fn load(&mut self, document: Document) {
        self.toasts.settings_changed();
        // The history starts over: a step back into another file's experiment would be saved over this one's. Before its
        // first step comes the document that was left, with its own file and its own history.
        if let Some(name) = self.leave() {
            self.toasts.info(format!("Your changes to “{name}” are kept as a draft: the gallery has it."));
        }
        self.takes_the_pin_along();
        self.state.document.open(document);
        self.state.opened += 1;
        self.changed();
    }

    /// The pin stays for what is opened now, as long as both fit into one picture.
    fn takes_the_pin_along(&mut self) {
        let State { pin, pin_asked, pin_at_rest, .. } = &*self.state;
        self.state.pin_is_of_another = pin.is_some() || pin_asked.is_some() || pin_at_rest.is_some();
        self.view.show_before = false;
    }

    /// Puts a pin that was set in another document aside, if one of the two would be too small in a picture of both; one that was
    /// put aside before is back where it compares.
    pub(super) fn rest_a_pin_that_does_not_compare(&mut self) {
        const MOST: f64 = 10.0;
        let state = &mut *self.state;
        let pinned = state.pin.as_ref().or(state.pin_at_rest.as_ref());
        // The newest plan may still be that of the document before.
        let (Some(pinned), Some(plan), true) = (pinned, state.plan(), state.pin_is_of_another) else { return };
        let [was, own] = [pinned.load(), plan.load()];
        let ratio = was.0.max(1) as f64 / own.0.max(1) as f64;
        let compares = (1.0 / MOST..=MOST).contains(&ratio);
        state.pin_is_of_another = false;
        if compares && state.pin.is_none() {
            state.pin = state.pin_at_rest.take();
            self.toasts.followed("The pin is back.");
        } else if !compares && state.pin.is_some() {
            (state.pin_at_rest, self.view.show_before) = (state.pin.take(), false);
            let told = format!("The pin is put aside here: {was} and {own} do not fit into one picture.");
            self.toasts.followed(told);
        }
    }

    /// One step back from an opened document to the one that it replaced, or forward again.
    pub(super) fn travel_between_documents(&mut self, back: bool) {
        let document = &self.state.document;
        if !(if back { document.can_undo() } else { document.can_redo() }) {
            return;
        }
        self.leave();
        self.takes_the_pin_along();
        let State { document, drafts, opened, .. } = &mut *self.state;
        if back {
            document.go_back()
        } else {
            document.go_forth()
        }
        if let Some(draft) = document.draft() {
            drafts.forget(&draft.name, &draft.experiment);
        }
        *opened += 1;
        let name = document.name();
        self.toasts.settings_changed();
        self.toasts.followed(if back { format!("Back to {name}") } else { format!("Opened again: {name}") });
        self.changed();
    }

    pub(super) fn save(&mut self) {
        match self.state.document.path.clone() {
            Some(path) if self.is_changed_by_another(&path) => self.state.dialog = Some(Dialog::ReplaceChanged(path)),
            Some(path) => self.save_to(&path),
            None => self.ask_where_to_save(),
        }
    }

    /// Whether the document's file holds another preset than when it was opened or saved. One that cannot be read is
    /// replaced: nothing could be opened from it.
    fn is_changed_by_another(&self, path: &Path) -> bool {
        let Ok(preset::Opened { mut experiment, places, .. }) = preset::open(path) else { return false };
        let saved = &self.state.document.saved;
        if places.of("budget").is_none() {
            // It was opened with the card's.
            experiment.budget = saved.budget;
        }
        experiment != *saved
    }

    pub(super) fn ask_where_to_save(&mut self) {
        let document = &self.state.document;
        let suggestion = document.path.clone().unwrap_or_else(|| self.folder().join(file_name(&document.name())));
        self.services.files.ask(Purpose::Save, suggestion);
    }

    /// A name for the file of this purpose.
    fn suggested(&self, purpose: Purpose) -> String {
        match purpose {
            Purpose::Take(take) => format!("plimsoll.{}", take.ending().unwrap_or("txt")),
            _ => file_name(&self.state.document.name()),
        }
    }

    fn save_to(&mut self, path: &Path) {
        let then = self.state.after_saving.take();
        let written = files::is_outside_stores(path).and_then(|()| {
            let experiment = &self.state.document.experiment;
            Ok(preset::write(path, experiment)?)
        });
        match written {
            Ok(()) => {
                self.state.document.saved = self.state.document.experiment.clone();
                self.state.document.path = Some(path.to_owned());
                self.state.recent.opened_file(path);
                self.file_trouble_is_over();
                self.toasts.success(format!("Saved {}", path.display()));
                if let Some(then) = then {
                    self.then(then);
                }
            }
            Err(error) => self.file_trouble(Notice::Unsaved, error.to_string()),
        }
    }
}

/// A file name made from a title: `a-large-batch-in-small-pieces.toml`.
fn file_name(title: &str) -> String {
    let words: Vec<String> =
        title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    format!("{}.toml", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_makes_a_plain_file_name() {
        assert_eq!(file_name("Accumulation: a large batch"), "accumulation-a-large-batch.toml");
        assert_eq!(file_name("GPT-2 XL, planned"), "gpt-2-xl-planned.toml");
    }
}

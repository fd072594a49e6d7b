//! File dialogs, on threads of their own: the desktop's dialog where there is one, a typed path where there is none.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender};
use eframe::egui;

/// A dialog that comes back with nothing sooner than this was never shown: no service answered.
const TOO_QUICK: Duration = Duration::from_millis(400);

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// A preset to open.
    Open,
    /// A file to save to.
    Save,
    /// The folder of a data set.
    DataFolder,
}

/// What came of a dialog.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// A path.
    Path(Purpose, PathBuf),
    /// The user closed the dialog.
    Nothing,
    /// There is no dialog here: ask for a typed path.
    NoDialog(Purpose),
}

/// Asks for paths.
#[derive(Debug)]
pub(crate) struct FileDialogs {
    ctx: egui::Context,
    sender: Sender<Chosen>,
    chosen: Receiver<Chosen>,
}

impl FileDialogs {
    /// Dialogs that wake `ctx` when they close.
    pub(crate) fn new(ctx: egui::Context) -> Self {
        let (sender, chosen) = crossbeam_channel::unbounded();
        Self { ctx, sender, chosen }
    }

    /// Opens a dialog; the answer comes through [`FileDialogs::chosen`].
    pub(crate) fn ask(&self, purpose: Purpose, suggestion: String) {
        let (sender, ctx) = (self.sender.clone(), self.ctx.clone());
        let ask = move || {
            let start = Instant::now();
            let path = show(purpose, &suggestion);
            let chosen = match path {
                Some(path) => Chosen::Path(purpose, path),
                None if start.elapsed() < TOO_QUICK => Chosen::NoDialog(purpose),
                None => Chosen::Nothing,
            };
            // The window may have closed meanwhile.
            let _ = sender.send(chosen);
            ctx.request_repaint();
        };
        if std::thread::Builder::new().name("file dialog".to_owned()).spawn(ask).is_err() {
            let _ = self.sender.send(Chosen::NoDialog(purpose));
        }
    }

    /// What came of the dialogs so far.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = Chosen> + '_ {
        self.chosen.try_iter()
    }
}

fn show(purpose: Purpose, suggestion: &str) -> Option<PathBuf> {
    let dialog = rfd::FileDialog::new();
    match purpose {
        Purpose::Open => dialog.set_title("Open a preset").add_filter("Preset", &["toml"]).pick_file(),
        Purpose::Save => {
            dialog.set_title("Save the preset").add_filter("Preset", &["toml"]).set_file_name(suggestion).save_file()
        }
        Purpose::DataFolder => dialog.set_title("The folder of the data").pick_folder(),
    }
}

//! File dialogs, on threads of their own: the desktop's dialog if there is one, a typed path if there is none.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender};
use eframe::egui;
use plimsoll_engine::store;

use crate::takeaway::Take;

/// A dialog that comes back with nothing sooner than this was never shown: no service answered.
const TOO_QUICK: Duration = Duration::from_millis(400);

/// The purpose of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// A preset to open.
    Open,
    /// A file to save to.
    Save,
    /// The folder of a data set.
    DataFolder,
    /// A file of data.
    DataFile,
    /// The folder of weights to begin with.
    Weights,
    /// The folder of a model that teaches.
    Teacher,
    /// The folder of a tokenizer.
    Tokenizer,
    /// The folder that streamed samples are kept in.
    Cache,
    /// A file for a chart or its data.
    Take(Take),
}

/// The outcome of a dialog.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// A path.
    Path(Purpose, PathBuf),
    /// The user closed the dialog.
    Nothing,
    /// There is no dialog here: ask for a typed path, beginning with the suggestion.
    NoDialog(Purpose, PathBuf),
}

/// Shows a dialog for a purpose, beginning at a path, and waits for its answer.
type Show = fn(Purpose, &Path) -> Option<PathBuf>;

/// Refuses a place that a store of runs owns: kept runs would be gone.
///
/// # Errors
/// Fails for a store's database, SQLite's files next to it, and the folder of its runs' files.
pub(crate) fn is_outside_stores(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        !store::would_take(path),
        "{}: belongs to the store of kept runs, where nothing is overwritten; name another file",
        path.display()
    );
    Ok(())
}

/// Asks for paths, one at a time.
#[derive(Debug)]
pub(crate) struct FileDialogs {
    ctx: egui::Context,
    show: Show,
    is_open: Arc<AtomicBool>,
    sender: Sender<Chosen>,
    chosen: Receiver<Chosen>,
}

impl FileDialogs {
    /// The desktop's dialogs. They wake `ctx` when they close.
    pub(crate) fn desktop(ctx: egui::Context) -> Self {
        Self::new(ctx, desktop)
    }

    /// No dialog: every path is typed.
    #[cfg(test)]
    pub(crate) fn none(ctx: egui::Context) -> Self {
        Self::new(ctx, |_, _| None)
    }

    fn new(ctx: egui::Context, show: Show) -> Self {
        let (sender, chosen) = crossbeam_channel::unbounded();
        Self { ctx, show, is_open: Arc::default(), sender, chosen }
    }

    /// Opens a dialog that begins at `suggestion`, unless one is open; the answer comes through [`FileDialogs::chosen`].
    pub(crate) fn ask(&self, purpose: Purpose, suggestion: PathBuf) {
        if self.is_open.swap(true, Ordering::AcqRel) {
            return;
        }
        let (sender, ctx, show, is_open) =
            (self.sender.clone(), self.ctx.clone(), self.show, Arc::clone(&self.is_open));
        let begin = suggestion.clone();
        let ask = move || {
            let start = Instant::now();
            let path = show(purpose, &begin);
            let chosen = match path {
                Some(path) => Chosen::Path(purpose, path),
                None if start.elapsed() < TOO_QUICK => Chosen::NoDialog(purpose, begin),
                None => Chosen::Nothing,
            };
            is_open.store(false, Ordering::Release);
            // The window may have closed meanwhile.
            let _ = sender.send(chosen);
            ctx.request_repaint();
        };
        if std::thread::Builder::new().name("file dialog".to_owned()).spawn(ask).is_err() {
            self.is_open.store(false, Ordering::Release);
            let _ = self.sender.send(Chosen::NoDialog(purpose, suggestion));
        }
    }

    /// The outcomes of dialogs that closed since the last call.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = Chosen> + '_ {
        self.chosen.try_iter()
    }
}

fn desktop(purpose: Purpose, suggestion: &Path) -> Option<PathBuf> {
    let mut dialog = rfd::FileDialog::new();
    if let Some(folder) = suggestion.parent().filter(|folder| folder.is_dir()) {
        dialog = dialog.set_directory(folder);
    }
    match purpose {
        Purpose::Open => dialog
            .set_title("Open a preset, or the config.json of a model")
            .add_filter("Preset or config.json", &["toml", "json"])
            .pick_file(),
        Purpose::Save => {
            let name = suggestion.file_name().unwrap_or_default().to_string_lossy();
            dialog.set_title("Save the preset").add_filter("Preset", &["toml"]).set_file_name(name).save_file()
        }
        Purpose::DataFile => dialog.set_title("A file to learn").pick_file(),
        Purpose::Take(take) => {
            let (name, ending) = (suggestion.file_name().unwrap_or_default(), take.ending().unwrap_or_default());
            let dialog = dialog.set_title(take.label().trim_end_matches('…')).set_file_name(name.to_string_lossy());
            dialog.add_filter(ending.to_uppercase(), &[ending]).save_file()
        }
        Purpose::DataFolder => dialog.set_title("The folder of the data").pick_folder(),
        Purpose::Tokenizer => dialog.set_title("The folder of the tokenizer").pick_folder(),
        Purpose::Cache => dialog.set_title("A folder to keep samples in").pick_folder(),
        Purpose::Weights => dialog.set_title("The folder of the weights").pick_folder(),
        Purpose::Teacher => dialog.set_title("The folder of the teacher").pick_folder(),
    }
}

/// The text that was typed or pasted, without the folder before it, if it is a whole path itself: `/home/me//a/b.toml` is
/// `/a/b.toml`, and `/home/me/~/b.toml` is `~/b.toml`.
pub(crate) fn without_prefix(text: &str) -> &str {
    if cfg!(windows) {
        return &text[drive(text).unwrap_or(0)..];
    }
    let start = [text.rfind("//").map(|at| at + 1), text.rfind("/~/").map(|at| at + 1)].into_iter().flatten().max();
    &text[start.unwrap_or(0)..]
}

/// Where the last drive of a Windows path is named: `C:\\` or `C:/`, at the beginning or behind a separator.
fn drive(text: &str) -> Option<usize> {
    let is_separator = |byte: u8| matches!(byte, b'\\' | b'/');
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(2)).rev().find(|&at| {
        let is_drive = bytes[at].is_ascii_alphabetic() && bytes[at + 1] == b':' && is_separator(bytes[at + 2]);
        is_drive && (at == 0 || is_separator(bytes[at - 1]))
    })
}

/// A typed path as it was meant: `~/` is the user's own folder.
pub(crate) fn typed(text: &str) -> PathBuf {
    // Windows copies a path with quotes around it.
    let text = without_prefix(text.trim().trim_matches('"').trim_start_matches("file://"));
    match (text.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_path_may_begin_at_home_and_have_spaces_around_it() {
        assert_eq!(typed(" /tmp/a b.toml "), PathBuf::from("/tmp/a b.toml"));
        let home = std::env::home_dir().expect("a home");
        assert_eq!(typed("~/a.toml"), home.join("a.toml"));
        assert_eq!(typed("~a.toml"), PathBuf::from("~a.toml"));
    }

    #[test]
    fn a_drive_is_found_behind_a_folder_and_nowhere_else() {
        assert_eq!(drive(r"C:\me\D:\a.toml"), Some(6));
        assert_eq!(drive("/C:/a.toml"), Some(1));
        assert_eq!(drive(r"C:\me\a.toml"), Some(0));
        assert!([r"C:", r"me\ab:\c", "a:b", "", r"\\server\share"].iter().all(|text| drive(text).is_none()));
        assert_eq!(typed("\"/tmp/a.toml\""), PathBuf::from("/tmp/a.toml"));
    }

    #[cfg(not(windows))]
    #[test]
    fn a_whole_path_pasted_behind_a_folder_counts_alone() {
        assert_eq!(typed("/home/me//absolute/path.toml"), PathBuf::from("/absolute/path.toml"));
        assert_eq!(typed("/home/me/ /a.toml"), PathBuf::from("/home/me/ /a.toml"));
        assert_eq!(typed("file:///a/b.toml"), PathBuf::from("/a/b.toml"));
        assert_eq!(without_prefix("/home/me/~/b.toml"), "~/b.toml");
        assert_eq!(without_prefix("/home/me/b.toml"), "/home/me/b.toml");
    }
}

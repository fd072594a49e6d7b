//! State that is kept between sessions: the view, the layout, the experiment in hand and the drafts, in a file of its own.
//!
//! Always holds: the file is written whole or not at all, soon after a change, so that a kill or a full disk costs seconds at
//! the most. What cannot be read, an entry or the whole file, is put aside and reported; it is never written over.

mod experiments;
mod salvage;
mod windows;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use plimsoll_engine::whole_file;
use serde_json::{Map, Value};

pub(crate) use self::windows::InHand;
use self::{salvage::Lost, windows::Others};
use crate::app::PersistedState;

const FILE: &str = "session.json";
/// What cannot be read is put here, next to its place, or under the next free name with a number.
const DAMAGED: &str = "session.damaged.json";
/// Places for what cannot be read; past them the last one is written over.
const MOST_DAMAGED: usize = 100;
/// A change is written this much later at most.
const DELAY: Duration = Duration::from_secs(2);

/// Writes the state that is kept.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The file; `None` if this user has no folder for it.
    place: Option<PathBuf>,
    /// The state of this window as it last read or wrote it. Another window may have written another one since, which only a
    /// change writes over.
    own: Value,
    /// The file as this window last read or wrote it.
    written: Value,
    /// Whether this window wrote it.
    has_written: bool,
    /// What other windows have.
    others: Others,
    /// When the next look is due.
    due: Option<Instant>,
    /// Why the last writing failed.
    failure: Option<String>,
    /// Whether the user was told of a failure.
    has_told: bool,
}

impl Keeper {
    /// Reads the state that was kept in `folder`; also returns a message for the user if it could not be read.
    pub(crate) fn open(folder: Option<&Path>) -> (Self, Option<PersistedState>, Option<String>) {
        let place = folder.map(|folder| folder.join(FILE));
        let failure = place.is_none().then(|| "this user has no folder for it".to_owned());
        let mut keeper = Self {
            place,
            own: Value::Null,
            written: Value::Null,
            has_written: false,
            others: Others::new(),
            due: None,
            failure,
            has_told: false,
        };
        let text = match keeper.place.as_deref().map(read) {
            None => return (keeper, None, None),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => return (keeper, None, None),
            Some(text) => text.map_err(|error| error.to_string()),
        };
        match text.and_then(|text| Ok((salvage::read(&text)?, text))) {
            Ok(((mut state, lost), text)) => {
                keeper.written = serde_json::from_str(&text).unwrap_or_default();
                state.take_in_others();
                keeper.own = serde_json::to_value(&state).unwrap_or_default();
                let told = (!lost.is_empty()).then(|| keeper.put_entries_aside(lost));
                (keeper, Some(state), told)
            }
            Err(why) => {
                let told = keeper.put_aside(&why);
                (keeper, None, Some(told))
            }
        }
    }

    /// Puts a file that cannot be read where nothing writes over it.
    fn put_aside(&mut self, why: &str) -> String {
        let place = self.place.clone().unwrap_or_default();
        let aside = aside(&place);
        match fs::rename(&place, &aside) {
            Ok(()) => format!("The last session could not be read ({why}). Its file is now {}.", aside.display()),
            Err(error) => {
                // Nothing may be written over it.
                self.place = None;
                self.failure = Some(error.to_string());
                format!("The last session could not be read: {}: {why}.", place.display())
            }
        }
    }

    /// Puts entries that cannot be read where nothing writes over them.
    fn put_entries_aside(&mut self, lost: Vec<Lost>) -> String {
        let aside = aside(&self.place.clone().unwrap_or_default());
        let listed: Vec<String> = lost.iter().map(|lost| format!("`{}` ({})", lost.name, lost.why)).collect();
        let listed = listed.join(", ");
        let entries = Value::Object(lost.into_iter().map(|lost| (lost.name, lost.value)).collect::<Map<_, _>>());
        match write(&aside, &entries.to_string()) {
            Ok(()) => {
                // What is left is written soon, so that the next start has nothing to tell.
                self.own = Value::Null;
                self.due = Some(Instant::now() + DELAY);
                format!("Put aside from the last session: {listed}. It is now in {}.", aside.display())
            }
            Err(error) => {
                // Nothing may be written over it.
                self.place = None;
                self.failure = Some(error.to_string());
                format!("Of the last session this cannot be read: {listed}.")
            }
        }
    }

    /// Looks whether something is to be written now: `is_touched` says that something may have changed. Gives how long until
    /// the next look.
    pub(crate) fn look(&mut self, is_touched: bool, state: impl FnOnce() -> PersistedState) -> Option<Duration> {
        if is_touched && self.due.is_none() {
            self.due = Some(Instant::now() + DELAY);
        }
        let left = self.due?.saturating_duration_since(Instant::now());
        if left > Duration::ZERO {
            return Some(left);
        }
        self.keep(&state());
        None
    }

    /// Writes the state, if it is another than this window last read or wrote.
    pub(crate) fn keep(&mut self, state: &PersistedState) {
        self.due = None;
        // Values are compared, and not their text: the order of entries in a text may be another in each session.
        let Some(own) = serde_json::to_value(state).ok().filter(|own| *own != self.own) else { return };
        self.write(own);
    }

    /// Writes the state as the window closes, also where another window wrote over it since.
    pub(crate) fn close(&mut self, state: &PersistedState) {
        let is_written_over = || self.has_written && self.theirs().is_some();
        let Some(own) = serde_json::to_value(state).ok().filter(|own| *own != self.own || is_written_over()) else {
            return;
        };
        self.write(own);
    }

    /// Writes the state of this window, and with it what others wrote since.
    fn write(&mut self, own: Value) {
        let Some(place) = &self.place else { return };
        if let Some(theirs) = self.theirs() {
            self.others.note(&theirs, &self.written, &own);
        }
        let content = self.others.with(&own);
        self.failure = write(place, &content.to_string()).err().map(|error| format!("{}: {error}", place.display()));
        if self.failure.is_none() {
            (self.own, self.written, self.has_written) = (own, content, true);
        }
    }

    /// What another window wrote since this one last read or wrote the file.
    fn theirs(&self) -> Option<Value> {
        let content: Value = serde_json::from_str(&read(self.place.as_deref()?).ok()?).ok()?;
        (content.is_object() && content != self.written).then_some(content)
    }

    /// Whether a look is due.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Whether the next session will find this state.
    pub(crate) fn is_kept(&self) -> bool {
        self.failure.is_none()
    }

    /// Why nothing is kept, to be reported once.
    pub(crate) fn untold(&mut self) -> Option<String> {
        let failure = self.failure.as_ref().filter(|_| !self.has_told)?;
        self.has_told = true;
        Some(format!("Nothing is kept for the next start: {failure}. Save the experiment as a preset."))
    }
}

/// A place next to `place` that nothing was put aside in before.
fn aside(place: &Path) -> PathBuf {
    let numbered = (2..=MOST_DAMAGED).map(|number| DAMAGED.replacen(".json", &format!("-{number}.json"), 1));
    let mut places = std::iter::once(DAMAGED.to_owned()).chain(numbered).map(|name| place.with_file_name(name));
    let last = place.with_file_name(DAMAGED.replacen(".json", &format!("-{MOST_DAMAGED}.json"), 1));
    places.find(|place| fs::symlink_metadata(place).is_err()).unwrap_or(last)
}

/// The text of a file. Something else, such as a pipe, might never end.
fn read(place: &Path) -> io::Result<String> {
    if !fs::metadata(place)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    fs::read_to_string(place)
}

fn write(place: &Path, text: &str) -> io::Result<()> {
    place.parent().map_or(Ok(()), fs::create_dir_all)?;
    whole_file::write(place, text.as_bytes())
}

/// Puts the toolkit's own file (the window's place, unfolded groups) aside if its zoom is one that no window can have, or if
/// it is not a file: the toolkit would end the program at every start, or wait for ever.
pub(crate) fn guard_zoom(folder: Option<&Path>) {
    let Some(file) = folder.map(|folder| folder.join("app.ron")) else { return };
    let is_sound = match read(&file) {
        Ok(text) => has_sound_zoom(&text),
        Err(error) => error.kind() != io::ErrorKind::InvalidInput,
    };
    if !is_sound {
        let _ = fs::rename(&file, file.with_file_name("app.damaged.ron"));
    }
}

fn has_sound_zoom(text: &str) -> bool {
    text.split("zoom_factor:").skip(1).all(|rest| {
        let value = rest.trim_start().split([',', ')', '\n']).next().unwrap_or_default();
        value.trim().parse::<f32>().is_ok_and(|zoom| (0.2..=5.0).contains(&zoom))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again_and_a_damaged_file_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join(FILE);
        let (mut keeper, none, told) = Keeper::open(Some(folder.path()));
        assert!(none.is_none() && told.is_none());
        keeper.keep(&PersistedState::default());
        assert!(keeper.is_kept() && keeper.untold().is_none() && place.is_file());
        assert!(Keeper::open(Some(folder.path())).1.is_some());
        let whole = fs::read_to_string(&place).expect("written");
        fs::write(&place, &whole[..whole.len() / 2]).expect("cut");
        let (mut keeper, none, told) = Keeper::open(Some(folder.path()));
        assert!(none.is_none() && told.is_some_and(|told| told.contains(DAMAGED)));
        keeper.keep(&PersistedState::default());
        let aside = fs::read_to_string(folder.path().join(DAMAGED)).expect("put aside");
        assert_eq!(aside, whole[..whole.len() / 2]);
        fs::write(&place, "{").expect("cut again");
        assert!(Keeper::open(Some(folder.path())).2.is_some_and(|told| told.contains("session.damaged-2.json")));
        assert_eq!(fs::read_to_string(folder.path().join(DAMAGED)).expect("still there"), aside);
        fs::write(&place, "[]").expect("a list");
        assert!(Keeper::open(Some(folder.path())).2.is_some_and(|told| told.contains("session.damaged-3.json")));
    }

    #[test]
    fn a_window_without_changes_writes_over_no_other_windows_session() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join(FILE);
        let (mut first, ..) = Keeper::open(Some(folder.path()));
        first.keep(&PersistedState::default());
        let (mut idle, state, _) = Keeper::open(Some(folder.path()));
        fs::write(&place, "of another window").expect("writes");
        idle.keep(&state.expect("kept"));
        first.keep(&PersistedState::default());
        assert_eq!(fs::read_to_string(&place).expect("there"), "of another window");
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_put_aside_by_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join(FILE);
        let (mut keeper, ..) = Keeper::open(Some(folder.path()));
        keeper.keep(&PersistedState::default());
        let whole: Value = serde_json::from_str(&fs::read_to_string(&place).expect("written")).expect("plain data");
        let opened = |damage: &dyn Fn(&mut Value)| {
            let mut damaged = whole.clone();
            damaged["recent"] = serde_json::json!(["/a.toml", 5, "/b.toml"]);
            damaged["view"]["smoothing"] = 0.25.into();
            damage(&mut damaged);
            fs::write(&place, damaged.to_string()).expect("writes");
            let (keeper, state, told) = Keeper::open(Some(folder.path()));
            let aside = fs::read_to_string(folder.path().join(DAMAGED)).expect("put aside");
            fs::remove_file(folder.path().join(DAMAGED)).expect("looked at");
            let aside: Value = serde_json::from_str(&aside).expect("plain data");
            let state = serde_json::to_value(state.expect("the rest of it")).expect("plain data");
            assert!(keeper.is_due() && keeper.is_kept());
            assert_eq!(state["recent"], serde_json::json!(["/a.toml", "/b.toml"]));
            assert_eq!((&state["view"]["smoothing"], &aside["recent[1]"]), (&0.25.into(), &5.into()));
            (state, aside, told.expect("said"))
        };
        let (state, aside, told) = opened(&|damaged| damaged["view"]["axis"] = "Nonesuch".into());
        assert_eq!((&state["view"]["axis"], &aside["view.axis"]), (&"Step".into(), &"Nonesuch".into()));
        assert!(told.contains("`view.axis` (") && told.contains("`recent[1]` (") && told.contains(DAMAGED), "{told}");
        let (state, aside, told) = opened(&|damaged| damaged["layout"] = serde_json::json!({ "root": 1 }));
        assert!(state["layout"].is_null() && aside["layout"]["root"] == 1 && told.contains("`layout` ("), "{told}");
        for entry in ["saved", "path", "experiment", "layout", "loaded"] {
            for value in [serde_json::json!([]), serde_json::json!([1])] {
                let (state, aside, _) = opened(&|damaged| damaged[entry] = value.clone());
                assert!(state[entry].is_null() && aside[entry] == value, "{entry}: {aside}");
            }
        }
        let (_, aside, told) = opened(&|damaged| damaged["of a later version"] = 3.into());
        assert!(aside["of a later version"] == 3 && told.contains("`of a later version` (not known "), "{told}");
        let (state, aside, told) = opened(&|damaged| damaged["experiment"] = "version = [".into());
        assert!(state["experiment"].is_string() && aside["experiment"] == "version = [", "{aside}");
        assert!(told.contains("`experiment` ("), "{told}");
        let (mut keeper, state, _) = Keeper::open(Some(folder.path()));
        keeper.keep(&state.expect("the rest of it"));
        assert!(Keeper::open(Some(folder.path())).2.is_none(), "the next start has nothing to tell");
        fs::remove_file(folder.path().join(DAMAGED)).expect("put aside");
        let (state, aside, told) = opened(&|damaged| damaged["pin"] = "\0\0".into());
        assert!(state["pin"].is_null() && aside["pin"] == "\0\0" && told.contains("`pin` ("), "{state}, {told}");
    }

    #[test]
    fn what_is_no_file_is_put_aside_and_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [FILE, "app.ron"] {
            fs::create_dir(folder.path().join(name)).expect("a folder in its place");
        }
        guard_zoom(Some(folder.path()));
        assert!(folder.path().join("app.damaged.ron").is_dir());
        let (mut keeper, none, told) = Keeper::open(Some(folder.path()));
        assert!(none.is_none() && told.is_some_and(|told| told.contains("not a regular file")));
        keeper.keep(&PersistedState::default());
        assert!(keeper.is_kept() && folder.path().join(FILE).is_file());
    }

    #[test]
    fn a_change_is_written_once_its_delay_is_over_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut keeper, ..) = Keeper::open(Some(folder.path()));
        assert!(keeper.look(false, PersistedState::default).is_none());
        assert!(keeper.look(true, PersistedState::default).is_some_and(|left| left <= DELAY));
        assert!(!folder.path().join(FILE).exists());
        keeper.due = Some(Instant::now());
        assert!(keeper.look(false, PersistedState::default).is_none());
        assert!(folder.path().join(FILE).exists());
    }

    #[test]
    fn without_a_folder_nothing_is_kept_and_there_is_a_reason() {
        let (mut keeper, ..) = Keeper::open(None);
        keeper.keep(&PersistedState::default());
        assert!(!keeper.is_kept());
        assert!(keeper.untold().is_some_and(|told| told.contains("no folder")));
        assert!(keeper.untold().is_none(), "once is enough");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let (mut keeper, ..) = Keeper::open(Some(&file.path().join("below")));
        keeper.keep(&PersistedState::default());
        assert!(!keeper.is_kept(), "a file is not a folder");
    }

    #[test]
    fn a_zoom_that_no_window_can_have_is_seen() {
        assert!(has_sound_zoom("(zoom_factor:1.0,x:2)") && has_sound_zoom("{}") && has_sound_zoom("zoom_factor: 1.5)"));
        for value in ["0.0", "NaN", "inf", "-1.0", "1000.0", "1e-9", "", "text"] {
            assert!(!has_sound_zoom(&format!("(options:(zoom_factor:{value},theme:Dark))")), "{value}");
        }
    }
}

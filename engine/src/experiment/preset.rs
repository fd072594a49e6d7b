//! The preset format: TOML text to [`Experiment`] and back.
//!
//! Owns reading, writing and setting one key from text. Always holds: an experiment without problems reads back equal, for the
//! settings its kinds use. Refuses files over 1 MiB, files without a key, unknown keys, wrong types, newer versions and
//! everything that [`check`] calls impossible. A key that is missing has its default, `optimizer.beta2` the rule's default, and
//! `budget` what a process may use of the card that `device` names. Keys and words of an earlier version are read, with a note
//! of their new name.

mod file;
mod reader;
mod remembered;
mod unused;

use std::{
    collections::HashMap,
    io::Read,
    path::{Path, PathBuf},
};

use toml_edit::{Document, Value};

pub(crate) use self::file::folder;
pub use self::file::{MAX_BYTES, write};
use self::reader::{Reader, list, newer, unknown};
pub use self::unused::{Unused, unused};
use crate::{
    device::profile::named,
    error::{Error, Problem, Result},
    experiment::{
        Experiment, VERSION,
        check::check,
        hugging_face,
        settings::{self, find, from_text, is_group, names_in},
        weights,
    },
    suggest::nearest,
};

/// A file that was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The experiment that the file describes.
    pub experiment: Experiment,
    /// Whether it is a preset, over which changes may be saved: a model's `config.json` is not.
    pub is_preset: bool,
    /// Where the text gives each of its keys.
    pub places: Places,
    /// Notes for the user, such as a key that has a new name.
    pub notes: Vec<String>,
    /// The pickled file that the weights of its folder are in, which is not read.
    pub pickled: Option<PathBuf>,
}

impl Opened {
    /// Refuses to begin a run of `experiment`, which was opened so and changed since, with random weights that the user did not
    /// ask for.
    ///
    /// # Errors
    /// Names the pickled file, and how to fix it.
    pub fn refuse_pickled(pickled: Option<&Path>, experiment: &Experiment) -> Result<()> {
        // An empty path is a choice.
        let Some(pickled) = pickled.filter(|_| experiment.weights.path.is_none()) else { return Ok(()) };
        let message = format!(
            "{}; or choose others (weights.path=FILE), or begin with random weights (--set weights.path=)",
            weights::PICKLED_IS_REFUSED
        );
        Err(Error::file(pickled, message))
    }
}

/// Where a text gives each of its keys, such as `line 3, column 1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(HashMap<String, String>);

impl Places {
    /// Where the text gives this key; `None` if it leaves the key out.
    pub fn of(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// Reads an experiment from a file.
///
/// # Errors
/// Fails if [`open`] does.
pub fn read(path: impl AsRef<Path>) -> Result<Experiment> {
    open(path).map(|opened| opened.experiment)
}

/// Opens a preset, or a model's `config.json`, which begins with a brace. A folder with such a file is opened by it; if weights
/// lie next to it, the experiment begins with them.
///
/// # Errors
/// Fails for a file that cannot be read, and where [`parse`] or [`hugging_face::parse`] does.
pub fn open(path: impl AsRef<Path>) -> Result<Opened> {
    let path = path.as_ref();
    let config = path.join(weights::CONFIG);
    // If something other than a file has this name, reading it fails with its path.
    if !path.is_dir() || config.symlink_metadata().is_err() {
        return opened_either(&file::text_of(path)?, path);
    }
    let (mut experiment, mut notes) = hugging_face::opened(&file::text_of_config(&config)?, &config)?;
    let mut pickled = None;
    if weights::has_tokenizer(path) {
        experiment.data.tokenizer = Some(path.to_owned());
    }
    if weights::are_in(path) {
        experiment.weights.path = Some(path.to_owned());
        experiment.description.push_str(" The model begins with the weights of the folder.");
    } else if let Some(found) = weights::pickled_in(path) {
        let name = found.file_name().unwrap_or_default().to_string_lossy();
        notes.push(format!(
            "has its weights in {name}, which is pickled and not read: the model has random ones; save it as {}",
            weights::WHOLE
        ));
        pickled = Some(found);
    }
    Ok(Opened { experiment, is_preset: false, places: Places::default(), notes, pickled })
}

/// Opens the text of a reader, as [`open`] does a file; `path` is for messages.
///
/// # Errors
/// Fails if [`open`] does.
pub fn from_reader(reader: impl Read, path: impl AsRef<Path>) -> Result<Opened> {
    let path = path.as_ref();
    opened_either(&file::text_from(reader, path)?, path)
}

fn opened_either(text: &str, path: &Path) -> Result<Opened> {
    if !hugging_face::is_config(text) {
        return opened(text, path);
    }
    let (experiment, notes) = hugging_face::opened(text, path)?;
    Ok(Opened { experiment, is_preset: false, places: Places::default(), notes, pickled: None })
}

/// Reads a preset from text; `path` is for messages.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Bytes, experiment::{ModelKind, preset}};
///
/// let text = "version = 2\nbudget = \"8 MiB\"\n[model]\nkind = \"cnn\"\n";
/// let experiment = preset::parse(text, "mine.toml")?;
/// assert_eq!(experiment.budget, Bytes::mib(8));
/// assert_eq!(experiment.model.kind, ModelKind::Cnn);
///
/// // A mistake is an error with the file, the place and what would be valid.
/// let error = preset::parse("version = 2\n[batch]\nmicro = 0\n", "mine.toml").unwrap_err();
/// assert!(error.to_string().starts_with("mine.toml (line 3, column 1): batch.micro: "));
/// # Ok::<(), plimsoll_engine::Error>(())
/// ```
///
/// # Errors
/// [`Error::File`] with the place of the first mistake; the others follow in the message, a line each.
pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Experiment> {
    opened(text, path).map(|opened| opened.experiment)
}

/// Reads a preset from text, with notes; `path` is for messages.
///
/// # Errors
/// Fails if [`parse`] does.
pub fn opened(text: &str, path: impl AsRef<Path>) -> Result<Opened> {
    let path = path.as_ref();
    if text.len() as u64 > MAX_BYTES {
        return Err(file::too_large(path));
    }
    let document = Document::parse(text).map_err(|error| reader::broken(&error, text, path))?;
    if document.as_table().is_empty() {
        let mend = format!("a preset begins with `version = {VERSION}`, and a model's config.json with a brace");
        return Err(Error::file(path, format!("gives no key; {mend}")));
    }
    let mut reader = Reader::default();
    reader.read(document.as_table());
    if !reader.has("optimizer.beta2") {
        reader.experiment.optimizer.beta2 = reader.experiment.optimizer.kind.usual_beta2();
    }
    if !reader.has("optimizer.momentum") {
        reader.experiment.optimizer.momentum = reader.experiment.optimizer.kind.usual_momentum();
    }
    // Without a budget, the line is drawn where the card ends.
    if let Some(profile) = named(&reader.experiment.device)
        && !reader.has("budget")
    {
        reader.experiment.budget = profile.usable_memory();
    }
    if reader.problems.is_empty() {
        for problem in check(&reader.experiment, None) {
            reader.problem(problem);
        }
    }
    if !reader.problems.is_empty() {
        return Err(reader.error(text, path));
    }
    let places = Places(reader.places(text));
    Ok(Opened { experiment: reader.experiment, is_preset: true, places, notes: reader.notes, pickled: None })
}

/// The preset as text: the top keys, then the groups, each in a fixed order; keys that the chosen kinds do not use are
/// left out.
pub fn to_text(experiment: &Experiment) -> String {
    text_with(|setting| setting.line(experiment))
}

/// The lines of all settings that `value` gives a value.
fn text_with(value: impl Fn(&settings::Setting) -> Option<String>) -> String {
    let mut text = String::new();
    let mut group = "";
    for setting in settings::all() {
        let Some(value) = value(setting) else { continue };
        if setting.group() != group {
            group = setting.group();
            text.push_str(&format!("\n[{group}]\n"));
        }
        text.push_str(&format!("{} = {value}\n", setting.name()));
    }
    text
}

/// Assignments for [`set`] that turn `from` into `to`: `key=value` for each setting that differs and that `to` uses.
pub fn changes(from: &Experiment, to: &Experiment) -> Vec<String> {
    let used = settings::all().filter(|setting| setting.is_used(to));
    let differing = used.filter_map(|setting| {
        let value = setting.write(to)?;
        (setting.write(from).as_ref() != Some(&value)).then(|| format!("{}={value}", setting.key))
    });
    differing.collect()
}

/// The value of the setting `key` as [`set`] takes it: `batch.micro=16`; `None` without such a setting, and of one that is not
/// there.
pub fn assignment(experiment: &Experiment, key: &str) -> Option<String> {
    Some(format!("{key}={}", find(key)?.write(experiment)?))
}

/// A setting's key, with its value in each of some experiments; `None` if their kinds do not use it.
pub type Row = (&'static str, Vec<Option<String>>);

/// The settings that are not the same in all of `experiments`. Titles and descriptions do not count.
pub fn differing(experiments: &[&Experiment]) -> Vec<Row> {
    const NO_SETTINGS: [&str; 3] = ["version", "title", "description"];
    let settings = settings::all().filter(|setting| !NO_SETTINGS.contains(&setting.key));
    let value = |setting: &settings::Setting, e: &Experiment| setting.is_used(e).then(|| setting.write(e)).flatten();
    let rows = settings.map(|setting| (setting.key, experiments.iter().map(|e| value(setting, e)).collect()));
    rows.filter(|(_, values): &Row| values.windows(2).any(|pair| pair[0] != pair[1])).collect()
}

/// Sets one key from `dotted.key=value`. The value is TOML; a bare word is text. Setting `run.steps` takes `run.epochs` away,
/// and the other way round; a rule brings its usual `optimizer.beta2` where the one before had its own. A key or word that has
/// a new name comes back as a note.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, experiment::preset};
///
/// let mut experiment = Experiment::default();
/// preset::set(&mut experiment, "batch.micro=16")?;
/// assert_eq!(experiment.batch.micro, 16);
/// assert!(preset::set(&mut experiment, "batch.micor=16").is_err());
/// # Ok::<(), plimsoll_engine::error::Problem>(())
/// ```
///
/// # Errors
/// Fails without a `=`, for an unknown key and for a value of the wrong type. [`check`] says whether the experiment makes
/// sense.
pub fn set(experiment: &mut Experiment, assignment: &str) -> Result<Option<String>, Problem> {
    let Some((key, text)) = assignment.split_once('=') else {
        return Err(Problem::new(assignment, "has no value", "write key=value, such as batch.micro=32"));
    };
    let (key, text) = (key.trim(), text.trim());
    let rule_before = experiment.optimizer.kind;
    let Some(setting) = find(key) else { return Err(no_such_key(key)) };
    // `title=1` and `device=true` are text, no matter what they look like.
    let value = match from_text(text) {
        value if (setting.get)(experiment).is_text() && !value.is_str() => Value::from(text),
        value => value,
    };
    let note = setting.read(experiment, key, &value).map_err(|(message, mend)| Problem::new(key, message, mend))?;
    match setting.key {
        "optimizer.kind" => {
            let chosen = std::mem::replace(&mut experiment.optimizer.kind, rule_before);
            experiment.optimizer.choose(chosen);
        }
        "run.steps" => experiment.run.epochs = None,
        "run.epochs" => experiment.run.steps = None,
        "version" if experiment.version > VERSION => return Err(newer(experiment.version.into())),
        "version" if experiment.version > 0 => experiment.version = VERSION,
        _ => {}
    }
    Ok(note)
}

/// Sets several keys, in order; the notes of [`set`] come back.
///
/// # Errors
/// Fails at the first assignment that [`set`] refuses, and for a length in both steps and epochs.
pub fn set_all<'a>(
    experiment: &mut Experiment,
    assignments: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<String>, (&'a str, Problem)> {
    let mut notes = Vec::new();
    let mut length: Option<&str> = None;
    for assignment in assignments {
        notes.extend(set(experiment, assignment).map_err(|problem| (assignment, problem))?);
        let key = assignment.split('=').next().unwrap_or_default().trim();
        if !["run.steps", "run.epochs"].contains(&key) {
            continue;
        }
        if let Some(before) = length.filter(|before| *before != key) {
            let message = format!("it and {before} both give the length of the run");
            return Err((assignment, Problem::new(key, message, "give one of the two")));
        }
        length = Some(key);
    }
    Ok(notes)
}

fn no_such_key(key: &str) -> Problem {
    if is_group(key) {
        let mend = format!("name one of its keys: {}", list(&names_in(key)));
        return Problem::new(key, "is a group, not a key", mend);
    }
    let groups = || settings::all().map(|setting| setting.group()).filter(|group| !group.is_empty());
    match key.rsplit_once('.') {
        Some((group, name)) if is_group(group) => unknown(key, group, name),
        Some((group, name)) if let Some(group) = nearest(group, groups()) => {
            let mend = match nearest(name, names_in(group)) {
                Some(name) => format!("did you mean {group}.{name}?"),
                None => format!("did you mean one of [{group}]? Its keys are {}", list(&names_in(group))),
            };
            Problem::new(key, "there is no such key", mend)
        }
        _ => {
            let keys = || settings::all().map(|setting| setting.key);
            let of_this_name = settings::all().find(|setting| setting.name() == key).map(|setting| setting.key);
            let mend = match of_this_name.or_else(|| nearest(key, keys())) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("the keys are {}", list(&keys().collect::<Vec<_>>())),
            };
            Problem::new(key, "there is no such key", mend)
        }
    }
}

#[cfg(test)]
mod tests;

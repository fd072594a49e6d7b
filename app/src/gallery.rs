//! The gallery's entries and their pictures: every preset that can be opened, each with the timeline of its prediction.
//!
//! Owns the thread that reads files and makes predictions, and the pictures that it made. Always holds: a picture comes
//! from a dry run of its preset; an answer belongs to the gallery that asked for it, or is dropped.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use crossbeam_channel::{Receiver, Sender};
use plimsoll_engine::{Bytes, Experiment, experiment::preset, hardware::Machine, memory::Categories, plan::Plan};

use crate::{
    drafts::Drafts,
    limit::Limit,
    presets::{Group, Shipped},
    recent::Recent,
    runs::Runs,
};

/// Columns of a picture.
const COLUMNS: usize = 96;
/// Pictures that are remembered.
const CACHE: usize = 128;
/// Headings of a search's results.
const IN_TITLE: &str = "By title";
const ELSEWHERE: &str = "By description and model";

/// Where an entry comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// A shipped preset, by its index.
    Shipped(usize),
    /// A draft, by its index.
    Draft(usize),
    /// A file.
    File(PathBuf),
}

/// The timeline of a preset's step, small.
#[derive(Debug, PartialEq)]
pub(crate) struct Picture {
    /// The memory that was alive, column by column, each at its highest.
    pub(crate) columns: Vec<Categories>,
    /// The predicted peak of the bytes that the budget counts.
    pub(crate) load: Bytes,
    /// The line: the budget, or what the machine or the card can give if that is less.
    pub(crate) budget: Bytes,
    /// Whether the run fits.
    pub(crate) fits: bool,
}

impl Picture {
    fn of(plan: &Plan) -> Self {
        let points = &plan.timeline(plan.peak_pass).points;
        let count = COLUMNS.min(points.len());
        let edge = |i: usize| points.len() * i / count.max(1);
        let highest = |i: usize| points[edge(i)..edge(i + 1)].iter().max_by_key(|point| point.live);
        let columns = (0..count).filter_map(highest).map(|point| point.categories).collect();
        Self { columns, load: plan.load(), budget: Limit::of(plan).bytes, fits: plan.verdict().fits() }
    }
}

/// A picture, or why there is none.
pub(crate) type Pictured = Result<Arc<Picture>, String>;

/// A preset in the gallery.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Where it comes from.
    pub(crate) source: Source,
    /// Under which heading it stands.
    pub(crate) group: Group,
    /// A description in addition to its title: a short name, the changes of a draft, the path of a file.
    pub(crate) name: String,
    /// The same with the keys of the kept runs in it, by which a command knows them.
    pub(crate) whole: String,
    /// Its experiment; for a file, once it is read.
    pub(crate) experiment: Option<Experiment>,
    /// Its picture, once it is made.
    pub(crate) picture: Option<Pictured>,
}

impl Entry {
    /// The title, or the file's name until it is read.
    pub(crate) fn title(&self) -> String {
        match &self.experiment {
            Some(experiment) if !experiment.title.is_empty() => experiment.title.clone(),
            _ => match &self.source {
                Source::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                _ => self.name.clone(),
            },
        }
    }

    /// Whether every word of `search` is somewhere in it.
    pub(crate) fn matches(&self, search: &str) -> bool {
        let mut text = format!("{} {}", self.title(), self.name);
        if let Some(experiment) = &self.experiment {
            text = format!("{text} {} {}", experiment.description, experiment.model.kind.key());
        }
        has_words(&text, search)
    }

    /// Whether every word of `search` is in its title.
    pub(crate) fn is_called(&self, search: &str) -> bool {
        has_words(&self.title(), search)
    }
}

fn has_words(text: &str, search: &str) -> bool {
    let text = text.to_lowercase();
    search.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// The open gallery.
#[derive(Debug, Default)]
pub(crate) struct Gallery {
    /// Tells one opening from the next.
    pub(crate) number: u64,
    /// Everything that can be opened: own drafts, own files, then shipped presets. Those opened before stand there twice: by
    /// themselves, and among the others.
    pub(crate) entries: Vec<Entry>,
}

impl Gallery {
    /// A gallery of the present entries.
    pub(crate) fn new(number: u64, shipped: &[Shipped], drafts: &Drafts, runs: &Runs, recent: &Recent) -> Self {
        let entry = |source, group, name: &str, experiment: Option<&Experiment>| Entry {
            source,
            group,
            name: name.to_owned(),
            whole: name.to_owned(),
            experiment: experiment.cloned(),
            picture: None,
        };
        let original = |name: &str| shipped.iter().find(|s| s.name == name).map(|s| &s.experiment);
        let mut entries = Vec::new();
        for (at, draft) in drafts.iter().enumerate() {
            let of = original(&draft.name);
            let changes = of.map(|shipped| draft.changes(shipped, |key| runs.called(key))).unwrap_or_default();
            let whole = of.map(|shipped| draft.changes(shipped, |key| runs.called_with_key(key)));
            let entry = entry(Source::Draft(at), Group::Drafts, &changes, Some(&draft.experiment));
            entries.push(Entry { whole: whole.unwrap_or_default(), ..entry });
        }
        for path in &recent.files {
            entries.push(entry(Source::File(path.clone()), Group::Files, &path.display().to_string(), None));
        }
        for name in recent.shipped.iter().filter(|name| drafts.iter().all(|draft| draft.name != **name)) {
            if let Some(at) = shipped.iter().position(|shipped| shipped.name == *name) {
                entries.push(entry(Source::Shipped(at), Group::Recent, name, Some(&shipped[at].experiment)));
            }
        }
        for (at, shipped) in shipped.iter().enumerate() {
            let group = Group::of_shipped(&shipped.name);
            entries.push(entry(Source::Shipped(at), group, &shipped.name, Some(&shipped.experiment)));
        }
        Self { number, entries }
    }

    /// The entries that have all words of `search`, under headings, in the order of the screen. Without a search each entry
    /// stands under its group. With one, presets with the words in their title come first, and presets that have them
    /// elsewhere last. Between them come drafts, under their own heading: a draft has the title of its preset.
    pub(crate) fn found(&self, search: &str) -> Vec<(&'static str, Vec<&Entry>)> {
        let that = |is_one: &dyn Fn(&Entry) -> bool| self.entries.iter().filter(|entry| is_one(entry)).collect();
        let mut found: Vec<(&str, Vec<&Entry>)> = if search.trim().is_empty() {
            Group::ALL.iter().map(|group| (group.title(), that(&|entry| entry.group == *group))).collect()
        } else {
            let is_preset = |entry: &Entry| ![Group::Recent, Group::Drafts].contains(&entry.group);
            vec![
                (IN_TITLE, that(&|entry| is_preset(entry) && entry.is_called(search))),
                (Group::Drafts.title(), that(&|entry| entry.group == Group::Drafts && entry.matches(search))),
                (ELSEWHERE, that(&|entry| is_preset(entry) && entry.matches(search) && !entry.is_called(search))),
            ]
        };
        found.retain(|(_, entries)| !entries.is_empty());
        found
    }

    /// Takes in the findings about an entry.
    pub(crate) fn receive(&mut self, found: Found) {
        if let Some(entry) = self.entries.get_mut(found.entry).filter(|_| found.gallery == self.number) {
            entry.experiment = found.experiment.or(entry.experiment.take());
            entry.picture = Some(found.picture);
        }
    }
}

/// The thread's findings about an entry.
#[derive(Debug)]
pub(crate) struct Found {
    gallery: u64,
    entry: usize,
    experiment: Option<Experiment>,
    picture: Pictured,
}

/// The entry that is wanted, and for which machine.
#[derive(Debug)]
struct Wanted {
    gallery: u64,
    entry: usize,
    content: Result<Experiment, PathBuf>,
    machine: Arc<Machine>,
}

/// The thread's handle.
#[derive(Debug)]
pub(crate) struct Painter {
    wanted: Sender<Wanted>,
    found: Receiver<Found>,
}

impl Painter {
    /// Starts the thread. `wake` is called after every picture.
    pub(crate) fn new(wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (wanted, inbox) = crossbeam_channel::unbounded::<Wanted>();
        let (outbox, found) = crossbeam_channel::unbounded();
        let paint = move || {
            let (mut cache, mut known) = (Cache::new(), None);
            for wanted in &inbox {
                // A plan for another machine has another picture.
                if known.replace(Arc::clone(&wanted.machine)).is_some_and(|known| known != wanted.machine) {
                    cache.clear();
                }
                // The window may have closed, or the gallery may have been opened again.
                if outbox.send(look(wanted, &mut cache)).is_err() {
                    return;
                }
                wake();
            }
        };
        std::thread::Builder::new().name("gallery".to_owned()).spawn(paint)?;
        Ok(Self { wanted, found })
    }

    /// Asks for the picture of every entry, as it is predicted for `machine`.
    pub(crate) fn paint(&self, gallery: &Gallery, machine: &Machine) {
        let machine = Arc::new(machine.clone());
        for (at, entry) in gallery.entries.iter().enumerate() {
            let content = match (&entry.experiment, &entry.source) {
                (Some(experiment), _) => Ok(experiment.clone()),
                (None, Source::File(path)) => Err(path.clone()),
                (None, _) => continue,
            };
            // The thread lives as long as this handle.
            let wanted = Wanted { gallery: gallery.number, entry: at, content, machine: Arc::clone(&machine) };
            let _ = self.wanted.send(wanted);
        }
    }

    /// The pictures made since the last call.
    pub(crate) fn found(&self) -> impl Iterator<Item = Found> + '_ {
        self.found.try_iter()
    }
}

type Cache = VecDeque<(Experiment, Pictured)>;

fn look(wanted: Wanted, cache: &mut Cache) -> Found {
    let Wanted { gallery, entry, content, machine } = wanted;
    let experiment = content.or_else(|path| preset::open(path).map(|opened| opened.experiment));
    let (experiment, picture) = match experiment {
        Ok(experiment) => {
            let picture = picture(&experiment, &machine, cache);
            (Some(experiment), picture)
        }
        Err(error) => (None, Err(error.to_string())),
    };
    Found { gallery, entry, experiment, picture }
}

fn picture(experiment: &Experiment, machine: &Machine, cache: &mut Cache) -> Pictured {
    if let Some((_, known)) = cache.iter().rev().find(|(known, _)| known == experiment) {
        return known.clone();
    }
    // A fault in the planning of one preset leaves the others their pictures.
    let plan = || Plan::of(experiment, machine).map(|plan| Arc::new(Picture::of(&plan)));
    let plan = std::panic::catch_unwind(std::panic::AssertUnwindSafe(plan));
    let picture = match plan {
        Ok(Ok(picture)) => Ok(picture),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the planning met a fault in the engine".to_owned()),
    };
    if cache.len() >= CACHE {
        cache.pop_front();
    }
    cache.push_back((experiment.clone(), picture.clone()));
    picture
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn every_shipped_preset_has_an_entry_that_is_found_by_its_words() {
        let shipped = presets::shipped();
        let gallery = Gallery::new(1, &shipped, &Drafts::default(), &Runs::default(), &Recent::default());
        assert_eq!(gallery.entries.len(), shipped.len());
        let found = |words: &str| gallery.entries.iter().filter(|e| e.matches(words)).count();
        assert_eq!((found(""), found("no such words")), (shipped.len(), 0));
        // Lessons are found by their titles, because other lessons name them as the next one to open.
        let called = |words: &str| gallery.entries.iter().filter(|e| e.is_called(words)).count();
        assert_eq!(called("checkpointing instead"), 1);
        assert!((1..shipped.len() / 2).contains(&found("checkpointing instead")));
        assert!(found("GPT") >= 3, "{}", found("GPT"));
    }

    #[test]
    fn titles_with_the_words_come_before_descriptions_with_them() {
        let shipped = presets::shipped();
        let gallery = Gallery::new(1, &shipped, &Drafts::default(), &Runs::default(), &Recent::default());
        let all = gallery.found(" ");
        assert_eq!(all.iter().map(|(_, entries)| entries.len()).sum::<usize>(), shipped.len());
        assert!(all.iter().all(|(heading, _)| Group::ALL.iter().any(|group| group.title() == *heading)));
        let words = "digits";
        let [(first, titled), (second, others)] = gallery.found(words).try_into().expect("under both headings");
        assert_eq!([first, second], [IN_TITLE, ELSEWHERE]);
        assert!(
            titled.iter().all(|entry| entry.is_called(words)) && others.iter().all(|entry| !entry.is_called(words))
        );
        assert_eq!(titled.len() + others.len(), gallery.entries.iter().filter(|entry| entry.matches(words)).count());
    }

    #[test]
    fn a_draft_is_found_under_its_own_heading_and_not_among_presets_of_its_title() {
        let shipped = presets::shipped();
        let mut experiment = shipped[0].experiment.clone();
        experiment.batch.micro *= 2;
        let mut drafts = Drafts::default();
        let (name, history) = (shipped[0].name.clone(), crate::history::History::default());
        drafts.keep(crate::drafts::Draft { name, experiment, history });
        let gallery = Gallery::new(1, &shipped, &drafts, &Runs::default(), &Recent::default());
        let found = gallery.found(&shipped[0].experiment.title);
        let headings: Vec<&str> = found.iter().map(|(heading, _)| *heading).collect();
        assert_eq!(headings[..2], [IN_TITLE, Group::Drafts.title()], "the preset is what Enter opens");
        for (heading, entries) in &found {
            let are_drafts = *heading == Group::Drafts.title();
            assert!(entries.iter().all(|e| matches!(e.source, Source::Draft(_)) == are_drafts), "{heading}");
        }
    }

    #[test]
    fn presets_opened_before_stand_by_themselves_and_are_found_once() {
        let shipped = presets::shipped();
        let mut recent = Recent::default();
        for name in ["gone", "cnn-digits", "mlp-digits"] {
            recent.opened_shipped(name);
        }
        let gallery = Gallery::new(1, &shipped, &Drafts::default(), &Runs::default(), &recent);
        let all = gallery.found("");
        let (_, before) = all.iter().find(|(heading, _)| *heading == Group::Recent.title()).expect("a heading");
        let names: Vec<_> = before.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["mlp-digits", "cnn-digits"], "the newest first, and none that is gone");
        let found: usize = gallery.found("mlp-digits").iter().map(|(_, entries)| entries.len()).sum();
        let shown = shipped.iter().filter(|shipped| shipped.name.contains("mlp-digits")).count();
        assert_eq!(found, shown);
    }

    #[test]
    fn a_picture_is_the_timeline_of_the_prediction() {
        let experiment = Experiment::default();
        let machine = Machine::nominal();
        let plan = Plan::of(&experiment, &machine).expect("a plan");
        let mut cache = Cache::new();
        let picture = picture(&experiment, &machine, &mut cache).expect("a picture");
        let highest = picture.columns.iter().map(Categories::total).max();
        assert_eq!(highest, Some(plan.timeline(plan.peak_pass).peak()));
        assert_eq!((picture.load, picture.budget, picture.fits), (plan.load(), plan.budget, plan.fits()));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_read_says_why() {
        let path = PathBuf::from("/nowhere/at/all.toml");
        let wanted = Wanted { gallery: 1, entry: 0, content: Err(path.clone()), machine: Arc::new(Machine::nominal()) };
        let recent = Recent { files: vec![path], ..Recent::default() };
        let mut gallery = Gallery::new(1, &[], &Drafts::default(), &Runs::default(), &recent);
        gallery.receive(look(wanted, &mut Cache::new()));
        let Some(Err(why)) = &gallery.entries[0].picture else { panic!("it is not there") };
        assert!(why.contains("/nowhere/at/all.toml"), "{why}");
    }
}

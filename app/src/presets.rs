//! Presets as the window uses them: the ones that ship with the program, and the headings under which they stand.

use std::sync::LazyLock;

use plimsoll_engine::{
    Experiment,
    experiment::{
        preset,
        shipped::{self, Subject},
    },
};
use strum::VariantArray;

/// A heading of the gallery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
pub(crate) enum Group {
    /// Shipped presets that were touched.
    Drafts,
    /// Files opened or saved before.
    Files,
    /// Shipped presets opened before.
    Recent,
    /// Shipped presets that teach one thing each.
    Lessons,
    /// Shipped presets that show a family of models.
    Families,
    /// Shipped presets for cards that need not be here.
    Cards,
}

impl Group {
    /// Every heading, in the order of the gallery.
    pub(crate) const ALL: &'static [Self] = Self::VARIANTS;

    /// The heading of a shipped preset.
    pub(crate) fn of_shipped(name: &str) -> Self {
        match shipped::subject(name) {
            Some(Subject::Card) => Self::Cards,
            Some(Subject::Family) => Self::Families,
            Some(Subject::Lesson) | None => Self::Lessons,
        }
    }

    /// The heading in words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Drafts => "Your drafts",
            Self::Files => "Your files",
            Self::Recent => "Opened before",
            Self::Lessons => "Lessons",
            Self::Families => "Model families",
            Self::Cards => "Plans for cards",
        }
    }
}

/// A preset that ships with the program.
#[derive(Debug, Clone)]
pub(crate) struct Shipped {
    /// The preset's short name, such as `mlp-digits`.
    pub(crate) name: String,
    /// Its experiment.
    pub(crate) experiment: Experiment,
}

/// They are read once, when the window opens: reading them all takes as long as a frame.
static SHIPPED: LazyLock<Vec<Shipped>> = LazyLock::new(|| {
    let parsed = shipped::shipped().iter().filter_map(|(name, text)| {
        // The engine's tests hold every shipped preset to be readable.
        let experiment = preset::parse(text, format!("{name}.toml")).ok()?;
        Some(Shipped { name: (*name).to_owned(), experiment })
    });
    parsed.collect()
});

/// The shipped preset of a title.
pub(crate) fn titled(title: &str) -> Option<&'static Experiment> {
    SHIPPED.iter().map(|shipped| &shipped.experiment).find(|experiment| experiment.title == title)
}

/// The presets that ship with the program, in the order of its list.
pub(crate) fn shipped() -> Vec<Shipped> {
    SHIPPED.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesson_speaks_the_words_of_the_screen_and_names_no_key_of_a_file() {
        for Shipped { name, experiment } in shipped() {
            let is_key = |word: &&str| {
                let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
                let between = |sign: char| {
                    let parts = word.split_once(sign);
                    parts.is_some_and(|(a, b)| [a, b].iter().all(|part| part.starts_with(|c: char| c.is_lowercase())))
                };
                between('.') || between('_') || between('=')
            };
            let key = experiment.description.split_whitespace().find(is_key);
            assert_eq!(key, None, "{name}");
        }
    }

    #[test]
    fn every_heading_of_shipped_presets_has_some() {
        let shipped = shipped();
        for group in [Group::Lessons, Group::Families, Group::Cards] {
            assert!(shipped.iter().any(|s| Group::of_shipped(&s.name) == group), "{group:?}");
        }
    }
}

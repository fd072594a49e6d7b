//! The facts of a run in a file of weights that this program wrote.
//!
//! Owns [`Own`]. Always holds: only headers are read. Facts that earlier versions did not write follow from the experiment
//! of the run, as far as they can.

use std::{collections::HashMap, fs::File, path::Path};

use super::files;
use crate::{
    experiment::words::Word as _,
    experiment::{Experiment, Normalise, preset},
    header::{self, WEIGHTS},
};

/// The text that says how pixels were scaled.
pub(crate) const PIXELS: &str = "pixels";
/// The text with the names of the classes: a name a line, each in double quotes.
pub(crate) const CLASS_NAMES: &str = "class_names";
/// The prefix of the names of texts in a file of weights alone.
pub(crate) const PREFIX: &str = "plimsoll_";
/// The most runs that are followed, each of which began with the weights of the next.
const MOST_RUNS: usize = 16;

/// The run that saved some weights.
#[derive(Debug)]
pub(crate) struct Own {
    experiment: Experiment,
    facts: HashMap<String, String>,
}

impl Own {
    /// The facts of the weights at `path`; `None` for weights from other programs, and if nothing can be read.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let found = files::found(path).ok()?;
        let first = found.paths.first()?;
        let facts = header::read(first, &File::open(first).ok()?, WEIGHTS).ok()?.facts;
        let experiment = preset::parse(fact(&facts, "experiment")?, first).ok()?;
        Some(Self { experiment, facts })
    }

    /// How the pixels of its images were scaled; `None` if they had no colours, and if it is not known.
    pub(crate) fn normalise(&self) -> Option<Normalise> {
        let mut before: Option<Self> = None;
        for _ in 0..MOST_RUNS {
            let own = before.as_ref().unwrap_or(self);
            if let Some(known) = fact(&own.facts, PIXELS) {
                return Normalise::of_word(known);
            }
            let Experiment { data, weights, model, .. } = &own.experiment;
            if !data.kind.has_colours() {
                return None;
            }
            match (data.normalise, weights.chosen()) {
                (Normalise::Auto, None) => return Some(Normalise::Dataset),
                (Normalise::Auto, Some(path)) => match Self::at(path) {
                    Some(run) => before = Some(run),
                    None => return Normalise::published(path, model.kind),
                },
                (chosen, _) => return Some(chosen),
            }
        }
        None
    }
}

/// A text in a file of this program: in a checkpoint, or in its weights alone.
pub(crate) fn fact<'a>(facts: &'a HashMap<String, String>, name: &str) -> Option<&'a str> {
    facts.get(name).or_else(|| facts.get(&format!("{PREFIX}{name}"))).map(String::as_str)
}

/// Names of classes as a text of a file.
pub(crate) fn to_lines(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
    quoted.join("\n")
}

/// Names of classes by the texts of a file.
pub(crate) fn class_names(facts: &HashMap<String, String>) -> Option<Vec<String>> {
    fact(facts, CLASS_NAMES)?.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::experiment::{DataKind, Model, ModelKind};

    #[test]
    fn how_pixels_were_scaled_follows_from_a_run_and_the_weights_that_it_began_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, facts: serde_json::Value| {
            let head = serde_json::json!({ "__metadata__": facts }).to_string();
            fs::write(at(name), [&(head.len() as u64).to_le_bytes()[..], head.as_bytes()].concat()).expect("writable");
        };
        let run = |normalise, weights: Option<&str>| {
            let model = Model { kind: ModelKind::Vit, ..Model::default() };
            let mut experiment = Experiment { model, ..Experiment::default() };
            (experiment.data.kind, experiment.data.normalise) = (DataKind::Shapes, normalise);
            experiment.weights.path = weights.map(at);
            preset::to_text(&experiment)
        };
        let of = |name: &str| Normalise::of_weights(&at(name), ModelKind::Vit);
        write("chosen.safetensors", serde_json::json!({ "experiment": run(Normalise::Imagenet, None) }));
        write("drawn.safetensors", serde_json::json!({ "plimsoll_experiment": run(Normalise::Auto, None) }));
        write("published.safetensors", serde_json::json!({ "format": "pt" }));
        assert_eq!(
            [of("chosen.safetensors"), of("drawn.safetensors")],
            [Some(Normalise::Imagenet), Some(Normalise::Dataset)]
        );
        // A run that began with others, and one that began with that.
        write(
            "b.safetensors",
            serde_json::json!({ "experiment": run(Normalise::Auto, Some("published.safetensors")) }),
        );
        write("c.safetensors", serde_json::json!({ "experiment": run(Normalise::Auto, Some("b.safetensors")) }));
        assert_eq!([of("b.safetensors"), of("c.safetensors")], [Some(Normalise::Half); 2]);
        // Files that were written at the time need none of them.
        let gone = run(Normalise::Auto, Some("gone.safetensors"));
        write("d.safetensors", serde_json::json!({ "plimsoll_experiment": gone, "plimsoll_pixels": "half" }));
        write("e.safetensors", serde_json::json!({ "experiment": gone }));
        assert_eq!([of("d.safetensors"), of("e.safetensors")], [Some(Normalise::Half), None]);
        write("f.safetensors", serde_json::json!({ "experiment": run(Normalise::Auto, Some("f.safetensors")) }));
        assert_eq!(of("f.safetensors"), None, "which began with itself");
    }

    #[test]
    fn names_of_classes_come_back_whatever_is_in_them() {
        let names = ["blue", "", "a \"b\"\n\\", "ä\u{2028}€"].map(str::to_owned);
        for name in [CLASS_NAMES.to_owned(), format!("{PREFIX}{CLASS_NAMES}")] {
            let facts = HashMap::from([(name, to_lines(&names))]);
            assert_eq!(class_names(&facts).as_deref(), Some(&names[..]));
        }
        assert_eq!(class_names(&HashMap::new()), None);
    }
}

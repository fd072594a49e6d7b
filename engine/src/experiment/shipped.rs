//! The presets that ship inside the program, so that the binary runs alone.

use crate::{
    error::{Error, Result},
    experiment::{
        Experiment,
        preset::{self, Opened},
        weights,
    },
    suggest::some_near,
};

/// The subject of a shipped preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// One thing about memory or training.
    Lesson,
    /// A family of models.
    Family,
    /// A plan for a card that need not be here.
    Card,
}

macro_rules! presets {
    ($($name:literal => $subject:ident),* $(,)?) => {
        /// Name and text of each.
        const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../presets/", $name, ".toml")))),*];
        /// The subject of each.
        const SUBJECTS: &[Subject] = &[$(Subject::$subject),*];
    };
}

// In the order of the menu: first the tour, then the lessons.
presets! {
    "mlp-digits" => Lesson,
    "cnn-digits" => Lesson,
    "cnn-shapes" => Lesson,
    "sepcnn-shapes" => Family,
    "cnn-shapes-accumulate" => Lesson,
    "cnn-shapes-checkpoint" => Lesson,
    "cnn-shapes-bf16" => Lesson,
    "cnn-shapes-f16" => Lesson,
    "cnn-shapes-over-budget" => Lesson,
    "cnn-shapes-evaluate-whole" => Lesson,
    "cnn-digits-pruned" => Lesson,
    "cnn-digits-channels" => Lesson,
    "cnn-digits-int8" => Lesson,
    "cnn-digits-low-rank" => Lesson,
    "shapes-input-pipeline" => Lesson,
    "shapes-kept-variants" => Lesson,
    "shapes-resized-late" => Lesson,
    "cnn-digits-teacher" => Lesson,
    "mlp-digits-student" => Lesson,
    "modular-student" => Lesson,
    "mlp-digits-sgd" => Lesson,
    "mlp-digits-too-fast" => Lesson,
    "mlp-table" => Lesson,
    "mlp-table-value" => Lesson,
    "mlp-deep-checkpoint" => Lesson,
    "shapes-tensorflow-guide" => Family,
    "cifar10-tensorflow-guide" => Family,
    "mobilenetv2-shapes" => Family,
    "resnet18-shapes" => Family,
    "resnet50-beside-mobilenetv2" => Lesson,
    "mobilenetv2-beside-resnet50" => Lesson,
    "vit-digits" => Family,
    "unet-masks" => Family,
    "sort-llama" => Family,
    "brackets-gpt" => Family,
    "modular-grokking" => Family,
    "gpt-long" => Lesson,
    "gpt-vocabulary" => Lesson,
    "resnet18-retain-graph" => Lesson,
    "gpt2-rtx4060-plan" => Card,
    "gpt2-xl-plan" => Card,
    "llama-7b-lora-plan" => Card,
    "qwen2.5-0.5b-qlora-plan" => Card,
    "llama-3.2-1b-qlora-plan" => Card,
    "llama-3.2-3b-qlora-plan" => Card,
    "llama-2-7b-qlora-plan" => Card,
    "mistral-7b-qlora-plan" => Card,
    "qwen2.5-7b-qlora-plan" => Card,
}

/// Names that presets had before, each with the name it has now.
const FORMER: &[(&str, &str)] = &[("resnet18-held-tape", "resnet18-retain-graph")];

/// Name and text of every shipped preset.
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    SHIPPED
}

/// The subject of the shipped preset of this name; `None` when there is none.
pub fn subject(name: &str) -> Option<Subject> {
    SHIPPED.iter().zip(SUBJECTS).find(|((known, _), _)| *known == name).map(|(_, subject)| *subject)
}

/// The shipped preset of this name, or of an earlier name of it; `None` when there is none.
pub fn find(name: &str) -> Option<Result<Experiment>> {
    let name = renamed(name).unwrap_or(name);
    let (name, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
    Some(preset::parse(text, format!("presets/{name}.toml")))
}

/// The present name of the shipped preset that had this name earlier.
fn renamed(name: &str) -> Option<&'static str> {
    FORMER.iter().find(|(former, _)| *former == name).map(|(_, now)| *now)
}

/// Opens a preset by path or by the name of a shipped one. A file goes before a shipped preset of the same name.
///
/// # Errors
/// Fails for a file that cannot be read, and for a name that is neither a file nor a shipped preset.
pub fn open(path_or_name: &str) -> Result<Opened> {
    let looks_like_path =
        path_or_name.contains(['/', '\\']) || path_or_name.ends_with(".toml") || path_or_name.ends_with(".json");
    let path = std::path::Path::new(path_or_name);
    // Also where it is a pipe or a folder, which opening it then says.
    let is_model = || path.join(weights::CONFIG).symlink_metadata().is_ok();
    if looks_like_path || (path.exists() && !path.is_dir()) || is_model() {
        return preset::open(path_or_name);
    }
    let name = renamed(path_or_name).unwrap_or(path_or_name);
    let Some((name, text)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
        if path.is_dir() {
            return Err(preset::folder(path));
        }
        let meant = near(path_or_name).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        let message =
            format!("is neither a file nor a shipped preset; {meant}`plimsoll presets` lists the shipped ones");
        return Err(Error::file(path_or_name, message));
    };
    let mut opened = preset::opened(text, format!("presets/{name}.toml"))?;
    opened.notes.extend(renamed(path_or_name).map(|now| format!("is called {now} now")));
    Ok(opened)
}

/// The shipped presets that a name was probably meant to be, in words.
pub fn near(name: &str) -> Option<String> {
    some_near(name, SHIPPED.iter().map(|(known, _)| *known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_for_cards_are_those_for_a_device_that_is_none_of_this_machine() {
        for (name, _) in shipped() {
            let device = find(name).expect("it ships").expect("it is readable").device;
            let is_card = subject(name) == Some(Subject::Card);
            assert_eq!(is_card, crate::device::profile::named(&device).is_some(), "{name} on {device}");
        }
        assert_eq!(subject("no such preset"), None);
    }

    #[test]
    fn every_shipped_preset_is_read_and_explains_itself() {
        for (name, _) in SHIPPED {
            let experiment = find(name).expect("known").unwrap_or_else(|error| panic!("{error}"));
            assert!(experiment.title.len() > 5, "{name}");
            assert!(experiment.description.len() > 200, "{name}: say what to look at");
            assert!(!experiment.description.contains('\n'), "{name}: one paragraph");
            let words = |word: &str| experiment.description.split([' ', ',', '.', ':', ';']).any(|said| said == word);
            let named = SHIPPED.iter().find(|(other, _)| words(other));
            assert_eq!(named.map(|(other, _)| *other), None, "{name}: name it by its title");
        }
    }

    #[test]
    fn every_shipped_preset_is_written_as_the_program_would() {
        let written = |name: &str| preset::to_text(&find(name).expect("known").unwrap_or_else(|e| panic!("{e}")));
        let other = SHIPPED.iter().filter(|(name, text)| written(name) != *text);
        let told: String = other.map(|(name, _)| format!("{name} would be\n{}\n", written(name))).collect();
        assert!(told.is_empty(), "{told}");
    }

    #[test]
    fn a_former_name_opens_what_it_named() {
        for (former, now) in FORMER {
            let opened = open(former).expect("known");
            assert_eq!(Some(Ok(opened.experiment)), find(now), "{former}");
            assert_eq!(opened.notes, [format!("is called {now} now")]);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = open("mlp-digit").expect_err("unknown").to_string();
        assert!(error.contains("did you mean mlp-digits, "), "{error}");
        assert!(open("nowhere/x.toml").expect_err("no file").to_string().contains("no such file"));
    }
}

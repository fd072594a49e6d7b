//! Errors of data and of a device as problems of the settings that chose them.

use std::path::Path;

use crate::{
    error::{Error, Problem},
    experiment::Data,
};

/// The problem of the setting that chose the data.
pub(super) fn of_data(error: Error, data: &Data) -> Problem {
    let is_tokenizers = |path: &Path| {
        let own = data.chosen_tokenizer().filter(|_| data.path.as_deref() != Some(path));
        own.is_some_and(|own| path.starts_with(own) || !own.is_dir() && path.parent() == own.parent())
    };
    match error {
        Error::Experiment(problem) => problem,
        Error::File { ref path, .. } if data.is_tokenized() && is_tokenizers(path) => {
            Problem::new("data.tokenizer", error.to_string(), "or choose another tokenizer")
        }
        error => {
            let text = error.to_string();
            let is_file = data.kind.traits().path.is_some_and(|path| path.is_file);
            let mend =
                if is_file { "choose another file" } else { "choose a folder that holds the files, or another source" };
            match text.rsplit_once("; ") {
                Some((message, "choose another")) => Problem::new("data.path", message, mend),
                // It says what to choose.
                Some((message, own)) if own.starts_with("choose ") => Problem::new("data.path", message, own),
                Some(_) | None if is_file => Problem::new("data.path", text, format!("or {mend}")),
                Some(_) | None => Problem::new("data.path", text, mend),
            }
        }
    }
}

/// The problem of the device.
pub(super) fn of_device(error: Error) -> Problem {
    match error {
        Error::Experiment(problem) => problem,
        error => Problem::new("device", error.to_string(), "choose cpu, or a card to plan for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::DataKind;

    #[test]
    fn an_error_that_says_what_to_choose_is_not_given_another_mend() {
        let problem =
            |kind: DataKind, message: &str| of_data(Error::file("x", message), &Data { kind, ..Data::default() });
        let pipe = problem(DataKind::Text, "this is a pipe; choose a file, such as a text");
        assert_eq!((&*pipe.message, &*pipe.mend), ("x: this is a pipe", "choose a file, such as a text"));
        let gone = problem(DataKind::Idx, "is not there; choose another");
        assert_eq!((&*gone.message, gone.mend.starts_with("choose a folder")), ("x: is not there", true));
    }

    #[test]
    fn what_is_wrong_with_a_path_is_mended_by_another_of_its_kind() {
        let mend = |kind: DataKind| of_data(Error::file("x", "is a pipe"), &Data { kind, ..Data::default() }).mend;
        for kind in [DataKind::Text, DataKind::Jsonl, DataKind::Table] {
            assert_eq!(mend(kind), "or choose another file", "{kind:?}");
        }
        for kind in [DataKind::Idx, DataKind::Cifar10, DataKind::Images] {
            assert!(mend(kind).contains("a folder that holds the files"), "{kind:?}");
        }
    }
}

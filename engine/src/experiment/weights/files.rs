//! Files of weights: which ones a path stands for.
//!
//! Owns [`found`]. Always holds: every file of the result is a safetensors file in the folder that was chosen. Refuses pickled
//! files, because reading one runs the program in it; and an index that names files elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{CONFIG, INDEX, PICKLED_IS_REFUSED, WHOLE, is_pickled};
use crate::{
    bytes::Bytes,
    error::{Error, Result},
    header::unreadable,
    whole_file::reason,
};

/// The last checkpoint of a run.
const LAST: &str = "last.safetensors";
/// The longest index that is read.
const MOST: u64 = 64 << 20;

/// The fault of a pipe or a device in the place of a file.
pub(crate) const NO_FILE: &str = "is a pipe or a device";
pub(crate) const CHOOSE: &str = "choose a .safetensors file, or a folder with model.safetensors";

/// The files of a model.
#[derive(Debug, PartialEq)]
pub(crate) struct Files {
    pub(crate) paths: Vec<PathBuf>,
    /// The tensors that an index promises, each with the number of its file.
    pub(crate) promised: BTreeMap<String, usize>,
    /// The index itself.
    pub(crate) index: Option<PathBuf>,
    /// The configuration next to them.
    pub(crate) config: Option<PathBuf>,
}

/// The files that `path` stands for: itself, or those of a folder.
pub(crate) fn found(path: &Path) -> Result<Files> {
    let about = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    let (file, folder) = if about.is_dir() { (in_folder(path)?, Some(path)) } else { (path.to_owned(), path.parent()) };
    let config = folder.map(|folder| folder.join(CONFIG)).filter(|config| config.is_file());
    if file.to_string_lossy().ends_with(".json") {
        return indexed(file, config);
    }
    refuse_others(&file)?;
    Ok(Files { paths: vec![file], promised: BTreeMap::new(), index: None, config })
}

/// What lies at `path`, or in the folder there, in the place of a file of weights and cannot be one: a pipe or a device. Nothing
/// is opened, and what is not there is no matter.
pub(crate) fn not_a_file(path: &Path) -> Option<PathBuf> {
    let file = if path.is_dir() { in_folder(path).ok()? } else { path.to_owned() };
    let there = fs::metadata(&file).ok()?;
    (!there.is_file() && !there.is_dir()).then_some(file)
}

fn in_folder(folder: &Path) -> Result<PathBuf> {
    for name in [WHOLE, INDEX, LAST] {
        let file = folder.join(name);
        // An entry that is not a file is refused by its name.
        if file.symlink_metadata().is_ok() {
            return Ok(file);
        }
    }
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let (mut all, mut pickled) = (Vec::new(), None);
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => all.push(path),
            Some(_) if is_pickled(&path) => pickled = Some(path),
            _ => {}
        }
    }
    match (all.len(), pickled) {
        (1, _) => Ok(all.remove(0)),
        (0, Some(pickled)) => Err(refused_pickle(&pickled)),
        (0, None) => Err(Error::file(folder, format!("has no weights ({WHOLE} or {INDEX}); {CHOOSE}"))),
        (count, _) => {
            let message = format!("has {count} safetensors files and none is called {WHOLE}; choose one of them");
            Err(Error::file(folder, message))
        }
    }
}

fn refused_pickle(path: &Path) -> Error {
    Error::file(path, PICKLED_IS_REFUSED)
}

fn refuse_others(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(there) if there.is_file() => {}
        Ok(there) if there.is_dir() => {
            return Err(Error::file(path, format!("is a folder, where a file of weights should be; {CHOOSE}")));
        }
        Ok(_) => return Err(Error::file(path, format!("{NO_FILE}; {CHOOSE}"))),
        Err(error) => match fs::read_link(path) {
            Ok(to) => {
                let (to, why) = (to.display(), reason(&error));
                let message =
                    format!("is a link to {to}, which cannot be followed ({why}); fetch the file itself; {CHOOSE}");
                return Err(Error::file(path, message));
            }
            Err(_) => return Err(unreadable(path, &error)),
        },
    }
    if is_pickled(path) {
        return Err(refused_pickle(path));
    }
    if path.extension().is_none_or(|extension| extension != "safetensors") {
        return Err(Error::file(path, format!("is not a safetensors file by its name; {CHOOSE}")));
    }
    Ok(())
}

/// An index as it is written.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that an index names, all in its folder.
fn indexed(path: PathBuf, config: Option<PathBuf>) -> Result<Files> {
    // Opening a pipe would wait for a writer.
    if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return Err(Error::file(path, format!("is a folder, a pipe or a device, where an index should be; {CHOOSE}")));
    }
    let failed = |error: std::io::Error| unreadable(&path, &error);
    let file = File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > MOST {
        return Err(Error::file(&path, format!("has {}, and an index is shorter; {CHOOSE}", Bytes(size))));
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(failed)?;
    let Index { weight_map } = serde_json::from_str(&text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let message = format!("is not an index of weights ({error}); fetch it again, or {CHOOSE}");
        Error::file_at(&path, place, message)
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let names: BTreeSet<&String> = weight_map.values().collect();
    let mut paths = Vec::with_capacity(names.len());
    for name in &names {
        let is_plain = Path::new(name.as_str()).file_name().is_some_and(|own| own == name.as_str());
        if !is_plain {
            let message =
                format!("names the file {name:?}, which does not lie next to it; write names without folders");
            return Err(Error::file_at(&path, "weight_map", message));
        }
        let file = folder.join(name);
        if file.symlink_metadata().is_err() {
            let message = format!("names the file {name}, which is not there; fetch the missing part of the model");
            return Err(Error::file_at(&path, "weight_map", message));
        }
        refuse_others(&file)?;
        paths.push(file);
    }
    if paths.is_empty() {
        return Err(Error::file_at(&path, "weight_map", format!("is empty: it names no file; {CHOOSE}")));
    }
    let number: BTreeMap<&String, usize> = names.iter().enumerate().map(|(i, name)| (*name, i)).collect();
    let promised = weight_map.iter().map(|(tensor, file)| (tensor.clone(), number[file])).collect();
    Ok(Files { paths, promised, index: Some(path), config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_pipe_is_seen_without_opening_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(WHOLE);
        assert_eq!(not_a_file(folder.path()), None, "nothing is there");
        fs::write(&file, "").expect("written");
        assert_eq!([not_a_file(folder.path()), not_a_file(&file)], [None, None]);
        fs::remove_file(&file).expect("ours");
        assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
        assert_eq!([not_a_file(folder.path()), not_a_file(&file)], [Some(file.clone()), Some(file.clone())]);
    }

    #[test]
    #[cfg(unix)]
    fn what_stands_in_the_place_of_weights_is_called_what_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let said = || found(folder.path()).expect_err("no weights").to_string();
        fs::create_dir(at(WHOLE)).expect("made");
        assert!(said().contains("model.safetensors: is a folder, where a file of weights should be"), "{}", said());
        fs::remove_dir(at(WHOLE)).expect("ours");
        std::os::unix::fs::symlink("nowhere.safetensors", at(WHOLE)).expect("made");
        assert!(
            said().contains("is a link to nowhere.safetensors, which cannot be followed (there is no"),
            "{}",
            said()
        );
        fs::remove_file(at(WHOLE)).expect("ours");
        std::os::unix::fs::symlink(WHOLE, at(WHOLE)).expect("made");
        assert!(said().contains("is a link to model.safetensors, which cannot be followed"), "{}", said());
        fs::remove_file(at(WHOLE)).expect("ours");
        fs::write(at(INDEX), r#"{"weight_map": {"a": "part.safetensors"}}"#).expect("writable");
        assert!(said().contains("names the file part.safetensors, which is not there"), "{}", said());
        fs::create_dir(at("part.safetensors")).expect("made");
        assert!(said().contains("part.safetensors: is a folder"), "{}", said());
        fs::remove_file(at(INDEX)).expect("ours");
        fs::create_dir(at(INDEX)).expect("made");
        assert!(said().contains("where an index should be"), "{}", said());
    }
}

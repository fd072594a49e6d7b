//! What was opened before: the user's files, and the presets that ship with the program.
//!
//! Always holds: the newest stands first, and nothing stands there twice.

use std::path::{Path, PathBuf};

/// How many of each kind are remembered.
const FILES: usize = 10;
const SHIPPED: usize = 6;

/// Presets opened before, newest first.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Recent {
    /// Files opened or saved.
    pub(crate) files: Vec<PathBuf>,
    /// Short names of shipped presets.
    pub(crate) shipped: Vec<String>,
}

impl Recent {
    /// What was kept, newest first: as much of it as is remembered, and each once.
    pub(crate) fn kept(files: Vec<PathBuf>, shipped: Vec<String>) -> Self {
        let mut recent = Self::default();
        files.iter().rev().for_each(|path| recent.opened_file(path));
        shipped.iter().rev().for_each(|name| recent.opened_shipped(name));
        recent
    }

    /// Remembers a file.
    pub(crate) fn opened_file(&mut self, path: &Path) {
        to_the_front(&mut self.files, path.to_owned(), FILES);
    }

    /// Remembers a shipped preset by its short name.
    pub(crate) fn opened_shipped(&mut self, name: &str) {
        to_the_front(&mut self.shipped, name.to_owned(), SHIPPED);
    }

    /// Whether nothing was opened yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.shipped.is_empty()
    }
}

fn to_the_front<T: PartialEq>(list: &mut Vec<T>, newest: T, most: usize) {
    list.retain(|known| *known != newest);
    list.insert(0, newest);
    list.truncate(most);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stands_first_and_once() {
        let mut recent = Recent::default();
        assert!(recent.is_empty());
        for i in 0..FILES + 2 {
            recent.opened_file(Path::new(&format!("/{i}.toml")));
        }
        recent.opened_file(Path::new("/5.toml"));
        recent.opened_shipped("cnn-digits");
        assert_eq!((recent.files.len(), recent.files[0].as_path()), (FILES, Path::new("/5.toml")));
        assert_eq!(recent.files.iter().filter(|path| path.ends_with("5.toml")).count(), 1);
        assert_eq!(recent.shipped, ["cnn-digits"]);
        let again = Recent::kept(recent.files.clone(), recent.shipped.clone());
        assert_eq!(again, recent);
        let doubled = Recent::kept(vec!["/a".into(), "/b".into(), "/a".into()], Vec::new());
        assert_eq!(doubled.files, [Path::new("/a"), Path::new("/b")]);
    }
}

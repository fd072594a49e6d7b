//! The cache of streamed images: the kept form and its place, and the text forms of the choices.

use std::{fmt, str::FromStr};

use toml_edit::Value;

use crate::{
    experiment::settings::{Field, quoted},
    experiment::words::words,
};

words! {
    /// Where the kept samples of streamed images are stored.
    pub enum CachePlace {
        /// In host memory.
        Ram = "ram",
        /// In a temporary file, which is deleted with the data set.
        Disk = "disk",
    }
}

/// The form in which streamed images are kept once they were read, decoded or generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataCache {
    /// Keep nothing: every epoch makes the samples again.
    None,
    /// Each sample, before it is varied.
    Decoded,
    /// Keep this many variants of each training sample, from which epochs draw, and each test sample.
    Augmented(usize),
}

impl DataCache {
    /// The most variants of a sample.
    pub const MOST: usize = 1000;
    /// The forms there are.
    const FORMS: &str = "\"none\", \"decoded\", or \"augmented:N\" with N from 1 to 1000";

    /// Whether nothing is kept.
    pub fn is_none(self) -> bool {
        self == Self::None
    }

    /// Variants that are kept of a training sample; `None` if it is kept as it is, or not at all.
    pub fn copies(self) -> Option<usize> {
        match self {
            Self::None | Self::Decoded => None,
            Self::Augmented(copies) => Some(copies),
        }
    }
}

impl fmt::Display for DataCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Decoded => f.pad("decoded"),
            Self::Augmented(copies) => f.pad(&format!("augmented:{copies}")),
        }
    }
}

impl FromStr for DataCache {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let copies = |text: &str| text.parse().ok().filter(|copies| (1..=Self::MOST).contains(copies));
        let parsed = match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            None if text == "decoded" => Some(Self::Decoded),
            Some(("augmented", number)) => copies(number).map(Self::Augmented),
            _ => None,
        };
        parsed.ok_or_else(|| format!("`{text}` keeps nothing of data: write {}", Self::FORMS))
    }
}

impl Field for DataCache {
    fn read(&mut self, value: &Value) -> bool {
        let found = value.as_str().and_then(|text| text.parse().ok());
        found.map(|found| *self = found).is_some()
    }

    fn valid(&self) -> String {
        format!("write {}", Self::FORMS)
    }

    fn write(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_back_and_others_are_refused_with_those_there_are() {
        for cache in [DataCache::None, DataCache::Decoded, DataCache::Augmented(1), DataCache::Augmented(1000)] {
            assert_eq!(cache.to_string().parse(), Ok(cache));
        }
        for text in ["", "augmented", "augmented:0", "augmented:1001", "augmented:x", "Decoded", "decoded:2"] {
            let message = text.parse::<DataCache>().expect_err(text);
            assert!(message.contains("augmented:N"), "{message}");
        }
    }
}

//! All that a module's image is made of, and where it is kept.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use super::{
    Source,
    ahead::Image,
    compiler::{compile, options, text},
};
use crate::{
    backend::{
        DType,
        cuda::{device::Device, library::compiler},
    },
    cache,
    error::Result,
};

/// All that an image is made of.
pub(super) struct Recipe {
    name: &'static str,
    text: String,
    options: Vec<String>,
    place: Option<PathBuf>,
}

impl Recipe {
    pub(super) fn new(device: &Device, folder: Option<&Path>, source: &Source, types: [DType; 2]) -> Result<Self> {
        let text = text(source);
        let options = options(device.capability(), types)?;
        let mut hasher = DefaultHasher::new();
        (&text, &options, device.name(), compiler()).hash(&mut hasher);
        let [t, w] = types;
        let name = format!("{}-{}-{}-{:016x}", source.name, t.name(), w.name(), hasher.finish());
        Ok(Self { name: source.name, text, options, place: folder.map(|folder| folder.join(name)) })
    }

    /// The image as it is on disk.
    pub(super) fn kept(&self) -> Option<Vec<u8>> {
        read(self.place.as_deref()?)
    }

    /// Compiles it, and keeps it.
    pub(super) fn make(&self) -> Result<Image> {
        let image = compile(self.name, &self.text, &self.options)?;
        if let Some(place) = &self.place {
            write(place, &image);
        }
        Ok(image.into())
    }
}

/// The image after its hash, so that a truncated or damaged file is detected.
pub(super) fn read(place: &Path) -> Option<Vec<u8>> {
    let bytes = cache::read(place)?;
    let (hash, image) = bytes.split_first_chunk()?;
    (u64::from_le_bytes(*hash) == hash_of(image)).then(|| image.to_vec())
}

pub(super) fn write(place: &Path, image: &[u8]) {
    cache::write(place, &[&hash_of(image).to_le_bytes(), image].concat());
}

fn hash_of(image: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish()
}

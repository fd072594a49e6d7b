//! The names of layers, by which memory is booked.
//!
//! Always holds: a path has one number, given in the order of first use. The paths are found by their hashes, because a model
//! may have thousands of layers.

use std::{
    borrow::Cow,
    hash::{BuildHasher, RandomState},
    ops::Deref,
    sync::Arc,
};

use hashbrown::HashTable;

use crate::{layer_path, memory::timeline::LayerId};

/// The paths of layers.
#[derive(Debug)]
pub(super) struct Layers {
    paths: Vec<String>,
    /// Their numbers, by the hashes of their paths.
    numbers: HashTable<u32>,
    hasher: RandomState,
    /// All paths, as they were when they were last asked for.
    shared: Option<Arc<[String]>>,
    /// Whether layers that are named now are the teacher's.
    pub(super) are_teachers: bool,
}

impl Layers {
    /// One layer with this path.
    pub(super) fn new(path: &str) -> Self {
        let mut layers = Self {
            paths: Vec::new(),
            numbers: HashTable::new(),
            hasher: RandomState::new(),
            shared: None,
            are_teachers: false,
        };
        layers.id(path);
        layers
    }

    /// The number of a path, given at its first use.
    pub(super) fn id(&mut self, path: &str) -> LayerId {
        let path = if self.are_teachers { Cow::from([layer_path::TEACHER, path].concat()) } else { Cow::from(path) };
        let Self { paths, numbers, hasher, .. } = self;
        let is_it = |number: &u32| paths[*number as usize] == path;
        let hash = |path: &str| hasher.hash_one(path);
        if let Some(number) = numbers.find(hash(&path), is_it) {
            return LayerId(*number);
        }
        let number = paths.len() as u32;
        numbers.insert_unique(hash(&path), number, |number| hash(&paths[*number as usize]));
        paths.push(path.into_owned());
        self.shared = None;
        LayerId(number)
    }

    /// All paths by their numbers, for a recording to keep.
    pub(super) fn shared(&mut self) -> Arc<[String]> {
        Arc::clone(self.shared.get_or_insert_with(|| self.paths.as_slice().into()))
    }
}

impl Deref for Layers {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.paths
    }
}

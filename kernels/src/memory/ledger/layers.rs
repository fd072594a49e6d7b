//! The names of layers, by which memory is booked.
//!
//! Always holds: a path has one number, given in the order of first use. The paths are found by their order, because a model
//! may have thousands of layers.

use std::{ops::Deref, sync::Arc};

use crate::{layer_path, memory::timeline::LayerId};

/// The paths of layers.
#[derive(Debug)]
pub(super) struct Layers {
    paths: Vec<String>,
    /// Their numbers, in the order of their paths.
    order: Vec<u32>,
    /// All paths, as they were when they were last asked for.
    shared: Option<Arc<[String]>>,
    /// Whether layers that are named now are the teacher's.
    pub(super) are_teachers: bool,
}

impl Layers {
    /// The layers with these paths, each once.
    pub(super) fn new(paths: Vec<String>) -> Self {
        let mut order: Vec<u32> = (0..paths.len() as u32).collect();
        order.sort_unstable_by_key(|number| &paths[*number as usize]);
        Self { paths, order, shared: None, are_teachers: false }
    }

    /// The number of a path, given at its first use.
    pub(super) fn id(&mut self, path: &str) -> LayerId {
        let before = if self.are_teachers { layer_path::TEACHER } else { "" };
        let wanted = || before.bytes().chain(path.bytes());
        let found = self.order.binary_search_by(|number| self.paths[*number as usize].bytes().cmp(wanted()));
        let place = match found {
            Ok(place) => place,
            Err(place) => {
                self.order.insert(place, self.paths.len() as u32);
                self.paths.push([before, path].concat());
                self.shared = None;
                place
            }
        };
        LayerId(self.order[place])
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

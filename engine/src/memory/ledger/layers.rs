//! The names of layers, by which memory is booked.
//!
//! Always holds: a path has one number, given in the order of first use. The paths are found by their order, for a model may
//! have thousands of layers.

use std::ops::Deref;

use crate::{layer_path, memory::timeline::LayerId};

/// The paths of layers.
#[derive(Debug)]
pub(super) struct Layers {
    paths: Vec<String>,
    /// Their numbers, in the order of their paths.
    order: Vec<u32>,
    /// Whether layers that are named now are the teacher's.
    pub(super) are_teachers: bool,
}

impl Layers {
    /// Of these paths, each once.
    pub(super) fn new(paths: Vec<String>) -> Self {
        let mut order: Vec<u32> = (0..paths.len() as u32).collect();
        order.sort_unstable_by_key(|number| &paths[*number as usize]);
        Self { paths, order, are_teachers: false }
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
                place
            }
        };
        LayerId(self.order[place])
    }
}

impl Deref for Layers {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.paths
    }
}

//! The recording of a dry run: a point for each op, every allocation and free of a block, and the memory alive at each
//! moment.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    bytes::Bytes,
    memory::{Categories, Category, Phase},
};

/// Index into [`Timeline::layers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LayerId(pub u32);

/// The moment one op ran: memory at its highest since the op before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The operation.
    pub op: &'static str,
    /// The layer it ran for.
    pub layer: LayerId,
    /// The part of the step.
    pub phase: Phase,
    /// Highest bytes alive since the op before, this op's outputs and scratch included.
    pub live: Bytes,
    /// The same bytes, by category.
    pub categories: Categories,
}

/// A block that is alive at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alive {
    /// Its name, such as `weight` or `output`.
    pub name: &'static str,
    /// Path of the layer that owns it.
    pub layer: String,
    /// Its purpose.
    pub category: Category,
    /// Its size.
    pub bytes: u64,
}

/// One recorded pass: the ops in order, with the memory of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The points, one for each op, in the order they run.
    pub points: Vec<Point>,
    /// Layer paths, by [`LayerId`].
    pub layers: Arc<[String]>,
}

impl Timeline {
    /// Index of the highest point (the first, where several are as high); `None` without points.
    pub fn peak_index(&self) -> Option<usize> {
        self.points.iter().enumerate().max_by_key(|(i, p)| (p.live, std::cmp::Reverse(*i))).map(|(i, _)| i)
    }

    /// The highest bytes alive.
    pub fn peak(&self) -> Bytes {
        self.points.iter().map(|p| p.live).max().unwrap_or_default()
    }

    /// Path of a layer.
    pub fn layer(&self, id: LayerId) -> &str {
        self.layers.get(id.0 as usize).map_or("", String::as_str)
    }
}

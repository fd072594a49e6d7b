//! Layer paths: where a layer stands in its model, and its name there.
//!
//! Owns [`Scope`] and [`LayerPath`]. A path is text, such as `block3/conv`, because it is kept, shown and compared as
//! text; only this file writes and reads the part of it that is the scope.

use std::{fmt, ops::Deref};

/// Where a layer stands in its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Before the first block, or outside all blocks: an embedding, a class token.
    Stem,
    /// In the block with this number, counted from 1.
    Block(usize),
    /// After the last block, the classes included.
    Head,
}

const HEAD: &str = "head";
const BLOCK: &str = "block";

impl Scope {
    /// The path of the layer `name` in this scope.
    pub fn at(self, name: &str) -> LayerPath {
        self.path().join(name)
    }

    /// The path of the scope itself; empty for the stem.
    pub fn path(self) -> LayerPath {
        LayerPath(match self {
            Self::Stem => String::new(),
            Self::Block(number) => format!("{BLOCK}{number}"),
            Self::Head => HEAD.to_owned(),
        })
    }

    /// The scope of the layer at `path`.
    pub fn of(path: &str) -> Self {
        let first = path.split('/').next().unwrap_or(path);
        match first.strip_prefix(BLOCK).and_then(|number| number.parse().ok()) {
            Some(number) => Self::Block(number),
            None if first == HEAD => Self::Head,
            None => Self::Stem,
        }
    }
}

/// What the paths of a teacher's layers begin with.
pub const TEACHER: &str = "teacher/";

/// What a path is inside the teacher; `None` of a layer of the model that learns.
pub fn in_teacher(path: &str) -> Option<&str> {
    path.strip_prefix(TEACHER)
}

/// The path of a layer, or of a part of a model with layers in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LayerPath(String);

impl LayerPath {
    /// The path of `name` below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }
}

impl Deref for LayerPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LayerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_where_its_layer_stands() {
        for (scope, name, path) in [
            (Scope::Stem, "embedding", "embedding"),
            (Scope::Block(12), "attention/norm", "block12/attention/norm"),
            (Scope::Head, "classes", "head/classes"),
        ] {
            assert_eq!(&*scope.at(name), path);
            assert_eq!(Scope::of(path), scope);
        }
        assert_eq!(&*Scope::Block(2).path().join("a").join("conv"), "block2/a/conv");
        for stem in ["blocks", "blockade/1", "header/norm", "", "batch"] {
            assert_eq!(Scope::of(stem), Scope::Stem, "{stem}");
        }
    }
}

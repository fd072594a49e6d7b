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
const CLASSES: &str = "classes";
const EMBEDDING: &str = "embedding";

impl Scope {
    /// The path of the layer `name` in this scope.
    pub fn at(self, name: &str) -> LayerPath {
        match self {
            // Without a text in between: a model may have thousands of blocks.
            Self::Block(number) => LayerPath(format!("{BLOCK}{number}/{name}")),
            Self::Stem | Self::Head => self.path().join(name),
        }
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

/// The relation of a layer to the data that its model learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// The last layer: a row for each class.
    Classes,
    /// The first layer of a model that reads tokens: a row for each token.
    Embedding,
    /// Its extents do not follow from classes and tokens.
    Inner,
}

impl LayerRole {
    /// The role of a tensor's layer, by the tensor's name in a file, such as `head.classes.weight`.
    pub fn of_tensor(name: &str) -> Self {
        let mut parts = name.split('.');
        match [parts.next(), parts.next(), parts.next()] {
            [Some(HEAD), Some(CLASSES), Some(_)] => Self::Classes,
            [Some(EMBEDDING), Some(_), _] => Self::Embedding,
            _ => Self::Inner,
        }
    }

    /// Whether other data give its layer another number of rows.
    pub fn has_rows_of_data(self) -> bool {
        match self {
            Self::Classes | Self::Embedding => true,
            Self::Inner => false,
        }
    }
}

/// The prefix of the paths of a teacher's layers.
pub const TEACHER: &str = "teacher/";

/// A path inside the teacher; `None` for a layer of the model that learns.
pub fn in_teacher(path: &str) -> Option<&str> {
    path.strip_prefix(TEACHER)
}

/// The path of a layer, or of a part of a model with layers in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LayerPath(String);

impl LayerPath {
    /// The path of the last layer, which makes classes of features.
    pub fn classes() -> Self {
        Scope::Head.at(CLASSES)
    }

    /// The path of the layer that makes rows of tokens.
    pub fn embedding() -> Self {
        Scope::Stem.at(EMBEDDING)
    }

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
    fn a_tensors_name_says_whether_its_rows_follow_from_the_data() {
        let role = |path: LayerPath| LayerRole::of_tensor(&format!("{}.weight", path.replace('/', ".")));
        assert_eq!(role(LayerPath::classes()), LayerRole::Classes);
        assert_eq!(role(LayerPath::embedding()), LayerRole::Embedding);
        assert_eq!(LayerRole::of_tensor("head.classes.adapter.up"), LayerRole::Classes);
        for inner in
            ["head.norm.weight", "head.classes", "embedding", "embeddings.weight", "block1.head.classes.weight"]
        {
            assert_eq!(LayerRole::of_tensor(inner), LayerRole::Inner, "{inner}");
        }
    }

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

//! Facts about a kind of data before anything is opened: its task, its path, its settings, its images and the question to a
//! model of it. [`DataKind::traits`](super::DataKind::traits) has a row for each kind.

use crate::experiment::{DataSetting, Labelled, Task};

/// The use of [`Data::path`](super::Data::path) for a kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathUse {
    /// Whether it is a file, and not a folder.
    pub is_file: bool,
    /// What to write if it is missing.
    pub mend: &'static str,
    /// The files or folders that have to be there.
    pub holds: &'static str,
}

/// The facts about the height, width and channels of images that are known before one is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageExtents {
    /// All of them.
    Fixed([usize; 3]),
    /// [`Data::side`](super::Data::side) is the height and the width; there are three channels.
    OfSide,
    /// Nothing: the files say it, or the samples are not images.
    Unknown,
}

impl ImageExtents {
    /// Where the side of the images is `side`; `None` if files say it.
    pub fn of_side(self, side: usize) -> Option<[usize; 3]> {
        match self {
            Self::Fixed(extents) => Some(extents),
            Self::OfSide => Some([side, side, 3]),
            Self::Unknown => None,
        }
    }
}

/// The unit of a sequence's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LengthUnit {
    Digits,
    Brackets,
    Tokens,
}

/// The question to a model that learned from a kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// An image.
    Image,
    /// A row of a table.
    Row,
    /// A prompt, which it goes on with.
    Prompt(Prompt),
}

/// The form of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// Text.
    Text,
    /// Brackets, as many as a sample has; whether they are balanced is asked.
    Brackets,
    /// The two terms of a sum.
    Terms,
    /// Numbers, as many as a sample has; they are asked for in order.
    Unsorted,
    /// Numbers that are tokens.
    Numbers,
}

/// The facts about a kind of data before anything is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceTraits {
    /// The task that can be learned from it.
    pub task: Task,
    /// The part of a sample that has a label.
    pub labelled: Labelled,
    /// The file or folder that the user chooses; `None` for data that ship or are generated.
    pub path: Option<PathUse>,
    /// The settings that it uses, in the order in which they are shown.
    pub settings: &'static [DataSetting],
    /// Whether its samples can be read or made one by one. The others are held whatever is chosen.
    pub is_streamable: bool,
    /// Whether its samples are pictures, which can be mirrored, shifted and recoloured.
    pub has_pictures: bool,
    /// The facts about its images.
    pub image: ImageExtents,
    /// The question to a model of it.
    pub asked: Asked,
    /// The unit of its sequences, and how many of those one usually has; `None` if their length is not chosen.
    pub(super) usual_length: Option<(LengthUnit, usize)>,
}

/// Tokens that a sequence usually has.
pub(super) const USUAL_TOKENS: usize = 64;

impl SourceTraits {
    /// Pictures that ship or are generated.
    pub(super) const fn images(
        task: Task,
        labelled: Labelled,
        image: ImageExtents,
        settings: &'static [DataSetting],
    ) -> Self {
        Self {
            task,
            labelled,
            path: None,
            settings,
            is_streamable: true,
            has_pictures: true,
            image,
            asked: Asked::Image,
            usual_length: None,
        }
    }

    /// A class for each image, from a folder.
    pub(super) const fn folder(path: PathUse, image: ImageExtents, settings: &'static [DataSetting]) -> Self {
        Self { path: Some(path), ..Self::images(Task::Class, Labelled::Sample, image, settings) }
    }

    /// Samples that ship or are generated, and are rows of numbers and no pictures.
    pub(super) const fn points(task: Task, labelled: Labelled, settings: &'static [DataSetting]) -> Self {
        Self { has_pictures: false, ..Self::images(task, labelled, ImageExtents::Unknown, settings) }
    }

    /// Generated sequences, whose next token is learned.
    pub(super) const fn sequences(labelled: Labelled, prompt: Prompt, settings: &'static [DataSetting]) -> Self {
        Self { asked: Asked::Prompt(prompt), ..Self::points(Task::Next, labelled, settings) }
    }

    /// The same, of a file or folder that the user chooses.
    pub(super) const fn at(self, path: PathUse) -> Self {
        Self { path: Some(path), ..self }
    }

    /// The same, with samples that are held whatever is chosen.
    pub(super) const fn held(self) -> Self {
        Self { is_streamable: false, ..self }
    }

    /// The same, with sequences that usually have `count` of `unit`.
    pub(super) const fn usually(self, unit: LengthUnit, count: usize) -> Self {
        Self { usual_length: Some((unit, count)), ..self }
    }
}

pub(super) const fn folder(mend: &'static str, holds: &'static str) -> PathUse {
    PathUse { is_file: false, mend, holds }
}

pub(super) const fn file(mend: &'static str, holds: &'static str) -> PathUse {
    PathUse { is_file: true, mend, holds }
}

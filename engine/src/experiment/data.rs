//! The data: where samples come from, and what is learned from them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where samples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataKind {
    /// The 1797 hand-written digits that ship with the program, 8 x 8 x 1, ten classes.
    Digits,
    /// Generated coloured shapes, three channels, any size.
    Shapes,
    /// A folder with MNIST-format IDX files, plain or gzip.
    Idx,
    /// A folder with CIFAR-10 binary batches.
    Cifar10,
    /// A folder with CIFAR-100 in its binary version, by fine label.
    Cifar100,
    /// A folder of JPEG and PNG images, one sub-folder a class, three channels, any size.
    Images,
    /// Generated coloured shapes, several an image, with a class for each pixel; the background is class 0.
    Masks,
    /// Every sum a + b modulo `modulus`; scored is the sum.
    Modular,
    /// Digits, then the same digits sorted; scored is the sorted half.
    Sort,
    /// Brackets of two kinds; scored is the last answer, whether they are balanced.
    Brackets,
    /// The bytes of any file, in windows; every next byte is scored.
    Text,
    /// A generated Markov chain over `vocabulary` tokens; every next token is scored.
    Tokens,
}

/// What is learned. A model learns one of these, and data teach one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// The class of an image.
    Class,
    /// The class of each pixel of an image.
    Mask,
    /// The next token at each place of a sequence.
    Next,
}

impl Task {
    /// What it is called in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Class => "one class for an image",
            Self::Mask => "a class for each pixel of an image",
            Self::Next => "the next token of a sequence",
        }
    }
}

impl DataKind {
    /// Whether the samples come from a file or folder that the user chooses.
    pub fn is_on_disk(self) -> bool {
        matches!(self, Self::Idx | Self::Cifar10 | Self::Cifar100 | Self::Images | Self::Text)
    }

    /// What can be learned from it.
    pub fn task(self) -> Task {
        match self {
            Self::Digits | Self::Shapes | Self::Idx | Self::Cifar10 | Self::Cifar100 | Self::Images => Task::Class,
            Self::Masks => Task::Mask,
            Self::Modular | Self::Sort | Self::Brackets | Self::Text | Self::Tokens => Task::Next,
        }
    }

    /// Whether `data.side` is the side of its images.
    pub fn has_side(self) -> bool {
        matches!(self, Self::Shapes | Self::Images | Self::Masks)
    }

    /// Whether `data.samples` are generated.
    pub fn has_samples(self) -> bool {
        matches!(self, Self::Shapes | Self::Masks | Self::Sort | Self::Brackets | Self::Tokens)
    }

    /// Whether `data.length` is the length of its sequences.
    pub fn has_length(self) -> bool {
        matches!(self, Self::Sort | Self::Brackets | Self::Text | Self::Tokens)
    }

    /// Whether `data.vocabulary` is the number of its tokens.
    pub fn has_vocabulary(self) -> bool {
        matches!(self, Self::Sort | Self::Tokens)
    }

    /// Whether `data.test_fraction` decides what is held out.
    pub fn is_split(self) -> bool {
        !matches!(self, Self::Idx | Self::Cifar10 | Self::Cifar100)
    }
}

/// Where the samples wait until they are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Nowhere: each is read, decoded or generated when it is needed, in every epoch; only the queue of batches is held.
    Streamed,
    /// All in host memory.
    Host,
    /// Those for training all on the device, at their compact type, in the budget; the others are streamed.
    Device,
}

/// The data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// Where samples come from.
    pub kind: DataKind,
    /// The folder (idx, cifar10, cifar100, images), or the file (text).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Height and width of an image (shapes, images, masks).
    pub side: usize,
    /// Classes of shapes, 2 to 10 (shapes, masks).
    pub classes: usize,
    /// Samples generated, training and test together (shapes, masks, sort, brackets, tokens).
    pub samples: usize,
    /// Digits to sort (sort), brackets (brackets), bytes of a window (text), tokens of a sequence (tokens).
    pub length: usize,
    /// Different digits (sort), different tokens (tokens).
    pub vocabulary: usize,
    /// What sums are taken modulo (modular).
    pub modulus: usize,
    /// Share of the samples held out for testing, of a text its last part (all but idx, cifar10 and cifar100).
    pub test_fraction: f64,
    /// Where the samples wait.
    pub placement: Placement,
    /// Half of the training images are mirrored, left for right.
    pub flip: bool,
    /// Pixels of black around a training image, from which one of its size is cut at random; 0 cuts nothing.
    pub crop: usize,
    /// The most that brightness, contrast and saturation of a training image change, as a share; 0 changes nothing.
    pub colour: f64,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            kind: DataKind::Digits,
            path: None,
            side: 32,
            classes: 10,
            samples: 4000,
            length: 64,
            vocabulary: 10,
            modulus: 97,
            test_fraction: 0.2,
            placement: Placement::Host,
            flip: false,
            crop: 0,
            colour: 0.0,
        }
    }
}

//! The facts of its data that a model must know.
//!
//! Owns [`DatasetInfo`] and [`Input`], which a data source finds out from names, headers and sizes.

use crate::{
    error::{Problem, Result},
    experiment::Precision,
    tensor::{DType, Shape},
};

/// The form of one sample, as a model sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// An image `[height, width, channels]`.
    Image {
        /// The image's height in pixels.
        height: usize,
        /// The image's width in pixels.
        width: usize,
        /// Numbers of a pixel.
        channels: usize,
    },
    /// A sequence of tokens.
    Tokens {
        /// Tokens of a sample.
        length: usize,
        /// Tokens there are.
        vocabulary: usize,
    },
}

impl Input {
    /// Numbers in one sample.
    pub const fn elements(self) -> usize {
        match self {
            Self::Image { height, width, channels } => height * width * channels,
            Self::Tokens { length, .. } => length,
        }
    }

    /// Extents of a tensor of `samples`: `[samples, height, width, channels]` or `[samples, length]`.
    pub fn shape(self, samples: usize) -> Shape {
        match self {
            Self::Image { height, width, channels } => [samples, height, width, channels].into(),
            Self::Tokens { length, .. } => [samples, length].into(),
        }
    }

    /// Type of that tensor's elements.
    pub fn dtype(self, precision: Precision) -> DType {
        match self {
            Self::Image { .. } => precision.compute(),
            Self::Tokens { .. } => DType::U32,
        }
    }

    /// The name of that tensor on screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Image { .. } => "images",
            Self::Tokens { .. } => "tokens",
        }
    }
}

/// The kind of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LabelKind {
    /// A class among several, judged by the cross entropy.
    Class,
    /// A value, which the model's one output should be, judged by its squared error.
    Value,
}

/// The facts of its data that a model must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatasetInfo {
    /// The form of a sample.
    pub input: Input,
    /// Labels that a sample has: 1 for its class, one a token of a sequence, one a pixel of a mask.
    pub labels_per_sample: usize,
    /// How many of them may count: the others are the ignore index. In texts, fewer count in some samples than in others.
    pub scored_labels: usize,
    /// The kind of a label.
    pub label: LabelKind,
    /// The number of classes of a label: the width of the logits. For sequences it is the vocabulary; for a value it is 1.
    pub classes: usize,
    /// Samples to train on.
    pub train: usize,
    /// Samples to test on.
    pub test: usize,
}

impl DatasetInfo {
    /// Samples of one label, their class.
    pub const fn one_label(input: Input, classes: usize, train: usize, test: usize) -> Self {
        Self { input, labels_per_sample: 1, scored_labels: 1, label: LabelKind::Class, classes, train, test }
    }

    /// Sequences with a label a token, the token that follows it.
    pub const fn label_each_token(length: usize, vocabulary: usize, train: usize, test: usize) -> Self {
        let one = Self::one_label(Input::Tokens { length, vocabulary }, vocabulary, train, test);
        Self { labels_per_sample: length, scored_labels: length, ..one }
    }

    /// Height, width and channels of an image.
    ///
    /// # Errors
    /// Fails when the samples are sequences.
    pub fn image(&self) -> Result<[usize; 3]> {
        match self.input {
            Input::Image { height, width, channels } => Ok([height, width, channels]),
            Input::Tokens { .. } => {
                let mend = "choose a model for sequences, or data of images such as digits";
                Err(Problem::new("data.kind", "sequences cannot be the input of a model of images", mend).into())
            }
        }
    }

    /// Length and vocabulary of a sequence.
    ///
    /// # Errors
    /// Fails when the samples are images.
    pub fn tokens(&self) -> Result<[usize; 2]> {
        match self.input {
            Input::Tokens { length, vocabulary } => Ok([length, vocabulary]),
            Input::Image { .. } => {
                let mend = "choose a model for images, or data of sequences";
                Err(Problem::new("data.kind", "images cannot be the input of a model of sequences", mend).into())
            }
        }
    }

    /// Optimizer steps in one pass over the training data; the samples left over sit out. 0 when the data is smaller
    /// than one effective batch.
    pub fn steps_per_epoch(&self, effective_batch: usize) -> u64 {
        self.train.checked_div(effective_batch).unwrap_or(0) as u64
    }
}

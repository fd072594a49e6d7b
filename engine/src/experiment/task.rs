//! The task that is learned from data, and the parts of a sample that have labels.

/// The task that is learned. A model learns one of these, and data teach one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// The class of an image.
    Class,
    /// The class of each pixel of an image.
    Mask,
    /// The next token at each place of a sequence.
    Next,
    /// A value of a row. A model that learns classes learns it with one output.
    Value,
}

impl Task {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Class => "one class for an image",
            Self::Mask => "a class for each pixel of an image",
            Self::Next => "the next token of a sequence",
            Self::Value => "a value of a row",
        }
    }
}

/// The part of a sample that has a label, and so the unit that an accuracy is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Labelled {
    /// A whole sample.
    Sample,
    /// One pixel has a label.
    Pixel,
    /// A digit of a sequence.
    Digit,
    /// The next byte of a file.
    Byte,
    /// The next token of a language.
    Token,
    /// The whole sample has a label that is a value: there is no accuracy, but the share of the labels' variance that is
    /// explained.
    Value,
}

//! The kinds of data, and what is known of each before anything is opened: its task, its path, its settings, its images and
//! what a model of it is asked.

use crate::{
    experiment::{DataSetting, Labelled, Task},
    words::words,
};

words! {
    /// Where samples come from.
    pub enum DataKind {
        /// The 1797 hand-written digits that ship with the program, 8 x 8 x 1, ten classes.
        Digits = "digits",
        /// Generated coloured shapes, three channels, any size.
        Shapes = "shapes",
        /// Generated points of a plane along arms that wind about its centre; the class of a point is its arm.
        Spirals = "spirals",
        /// A folder with MNIST-format IDX files, plain or gzip.
        Idx = "idx",
        /// A folder with CIFAR-10 binary batches.
        Cifar10 = "cifar10",
        /// A folder with CIFAR-100 in its binary version, by fine label.
        Cifar100 = "cifar100",
        /// A folder of JPEG, PNG and WebP images, one sub-folder a class, three channels, any size; or one with such folders
        /// `train` and `val`.
        Images = "images",
        /// Generated coloured shapes, several an image, with a class for each pixel; the background is class 0.
        Masks = "masks",
        /// Every sum a + b modulo `modulus`; scored is the sum.
        Modular = "modular",
        /// Digits, then the same digits sorted; scored is the sorted half.
        Sort = "sort",
        /// Brackets of two kinds; scored is the last answer, whether they are balanced.
        Brackets = "brackets",
        /// A file of text; every next token is scored, or the next byte where there is no tokenizer.
        Text = "text",
        /// JSON lines, each a text, a prompt with its completion, or messages; a file or a folder of them.
        Jsonl = "jsonl",
        /// A generated Markov chain over `vocabulary` tokens; every next token is scored.
        Tokens = "tokens",
        /// A file of comma-separated values, a row a sample; one column is the label, a class or a value.
        Table = "table",
    }
}

/// What [`Data::path`](super::Data::path) is for a kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathUse {
    /// Whether it is a file, and not a folder.
    pub is_file: bool,
    /// What to write where it is missing.
    pub mend: &'static str,
    /// What has to be there.
    pub holds: &'static str,
}

/// What is known of the height, width and channels of images before one is looked at.
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
    /// Where the side of the images is `side`; `None` where files say it.
    pub fn of_side(self, side: usize) -> Option<[usize; 3]> {
        match self {
            Self::Fixed(extents) => Some(extents),
            Self::OfSide => Some([side, side, 3]),
            Self::Unknown => None,
        }
    }
}

/// What the length of a sequence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LengthUnit {
    Digits,
    Brackets,
    Tokens,
}

/// What a model is asked that learned from a kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// An image.
    Image,
    /// A row of a table.
    Row,
    /// A prompt, which it goes on with.
    Prompt(Prompt),
}

/// What a prompt is written in.
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

/// What can be said of a kind of data before anything is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceTraits {
    /// What can be learned from it.
    pub task: Task,
    /// What a label is given to.
    pub labelled: Labelled,
    /// The file or folder that the user chooses; `None` for data that ship or are generated.
    pub path: Option<PathUse>,
    /// The settings that it uses, in the order in which they are shown.
    pub settings: &'static [DataSetting],
    /// Whether its samples can be read or made one by one. The others are held whatever is chosen.
    pub is_streamable: bool,
    /// Whether its samples are pictures, which can be mirrored, shifted and recoloured.
    pub has_pictures: bool,
    /// What is known of its images.
    pub image: ImageExtents,
    /// What a model of it is asked.
    pub asked: Asked,
    /// What its sequences are counted in, and how many of those one usually has; `None` where their length is not chosen.
    pub(super) usual_length: Option<(LengthUnit, usize)>,
}

/// Tokens that a sequence usually has.
pub(super) const USUAL_TOKENS: usize = 64;
const IN_TOKENS: Option<(LengthUnit, usize)> = Some((LengthUnit::Tokens, USUAL_TOKENS));

impl SourceTraits {
    /// Pictures that ship or are generated.
    const fn images(task: Task, labelled: Labelled, image: ImageExtents, settings: &'static [DataSetting]) -> Self {
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
    const fn folder(path: PathUse, image: ImageExtents, settings: &'static [DataSetting]) -> Self {
        Self { path: Some(path), ..Self::images(Task::Class, Labelled::Sample, image, settings) }
    }

    /// Sequences that are generated, of which the next token is learned.
    const fn sequences(labelled: Labelled, prompt: Prompt, settings: &'static [DataSetting]) -> Self {
        let (has_pictures, asked) = (false, Asked::Prompt(prompt));
        Self { has_pictures, asked, ..Self::images(Task::Next, labelled, ImageExtents::Unknown, settings) }
    }
}

const fn folder(mend: &'static str, holds: &'static str) -> PathUse {
    PathUse { is_file: false, mend, holds }
}

const fn file(mend: &'static str, holds: &'static str) -> PathUse {
    PathUse { is_file: true, mend, holds }
}

const IDX: PathUse =
    folder("write the folder that holds the IDX files", "train-images-idx3-ubyte and the other three, plain or .gz");
const CIFAR10: PathUse = folder(
    "write the folder that holds the CIFAR-10 batches",
    "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
);
const CIFAR100: PathUse = folder(
    "write the folder that holds train.bin and test.bin of CIFAR-100",
    "train.bin and test.bin; the class is the fine label",
);
const IMAGES: PathUse = folder(
    "write the folder that holds a sub-folder of JPEG, PNG and WebP files for each class",
    "a sub-folder of JPEG, PNG and WebP files for each class, or such folders train and val",
);
const TEXT: PathUse = file(
    "write the file to learn from, a file and not a folder",
    "text in UTF-8; without a tokenizer any file, whose bytes are the tokens",
);
const JSONL: PathUse = file(
    "write a file of JSON lines, or a folder of .jsonl and .txt files",
    "a line a sample: \"text\", \"prompt\" and \"completion\", or \"messages\"; or a folder of .jsonl and .txt files",
);
const TABLE: PathUse = file(
    "write a file of comma-separated values with a line of names, or \"shipped:ships.csv\"",
    "a line of names and a row for each sample, separated by commas, semicolons or tabs; plain or .gz",
);

impl DataKind {
    /// Its row in the table of all kinds: the one place that tells them apart without opening anything.
    pub const fn traits(self) -> &'static SourceTraits {
        use DataSetting::{
            Categorical, Classes, CompletionOnly, Label, LeaveOut, Length, Modulus, Packing, Samples, Side, SkipBroken,
            TableTask, TestFraction, Tokenizer, Vocabulary,
        };
        use ImageExtents::{Fixed, OfSide, Unknown};
        use Labelled::{Byte, Digit, Pixel, Sample, Token};
        use LengthUnit::{Brackets, Digits};
        use SourceTraits as Of;
        use Task::{Class, Mask};
        match self {
            Self::Digits => {
                const { &Of { is_streamable: false, ..Of::images(Class, Sample, Fixed([8, 8, 1]), &[TestFraction]) } }
            }
            Self::Shapes => const { &Of::images(Class, Sample, OfSide, &[Side, Classes, Samples, TestFraction]) },
            Self::Spirals => {
                const {
                    let settings = &[Classes, Samples, TestFraction];
                    &Of { has_pictures: false, ..Of::images(Class, Sample, Unknown, settings) }
                }
            }
            Self::Idx => const { &Of::folder(IDX, Unknown, &[]) },
            Self::Cifar10 => const { &Of::folder(CIFAR10, Fixed([32, 32, 3]), &[]) },
            Self::Cifar100 => const { &Of::folder(CIFAR100, Fixed([32, 32, 3]), &[]) },
            Self::Images => const { &Of::folder(IMAGES, OfSide, &[Side, TestFraction]) },
            Self::Masks => const { &Of::images(Mask, Pixel, OfSide, &[Side, Classes, Samples, TestFraction]) },
            Self::Modular => const { &Of::sequences(Sample, Prompt::Terms, &[Modulus, TestFraction]) },
            Self::Sort => {
                const {
                    let (settings, usual_length) = (&[Length, Vocabulary, Samples, TestFraction], Some((Digits, 8)));
                    &Of { usual_length, ..Of::sequences(Digit, Prompt::Unsorted, settings) }
                }
            }
            Self::Brackets => {
                const {
                    let (settings, usual_length) = (&[Length, Samples, TestFraction], Some((Brackets, 10)));
                    &Of { usual_length, ..Of::sequences(Sample, Prompt::Brackets, settings) }
                }
            }
            Self::Text => {
                const {
                    let (settings, path) = (&[Tokenizer, Length, Vocabulary, TestFraction], Some(TEXT));
                    &Of { path, usual_length: IN_TOKENS, ..Of::sequences(Byte, Prompt::Text, settings) }
                }
            }
            Self::Jsonl => {
                const {
                    let settings = &[Tokenizer, Length, Packing, CompletionOnly, SkipBroken, Vocabulary, TestFraction];
                    &Of { path: Some(JSONL), usual_length: IN_TOKENS, ..Of::sequences(Token, Prompt::Text, settings) }
                }
            }
            Self::Tokens => {
                const {
                    let settings = &[Length, Vocabulary, Samples, TestFraction];
                    &Of { usual_length: IN_TOKENS, ..Of::sequences(Token, Prompt::Numbers, settings) }
                }
            }
            Self::Table => {
                const {
                    let settings = &[Label, TableTask, Categorical, LeaveOut, SkipBroken, TestFraction];
                    let (path, asked) = (Some(TABLE), Asked::Row);
                    let (has_pictures, is_streamable) = (false, false);
                    &Of { path, asked, has_pictures, is_streamable, ..Of::images(Class, Sample, Unknown, settings) }
                }
            }
        }
    }

    /// Whether it uses a setting.
    pub fn uses(self, setting: DataSetting) -> bool {
        self.traits().settings.contains(&setting)
    }

    /// Whether the samples come from a file or folder that the user chooses.
    pub fn is_on_disk(self) -> bool {
        self.traits().path.is_some()
    }

    /// What can be learned from it.
    pub fn task(self) -> Task {
        self.traits().task
    }

    /// Whether `data.side` is the side of its images.
    pub fn has_side(self) -> bool {
        self.uses(DataSetting::Side)
    }

    /// Whether `data.samples` are generated.
    pub fn has_samples(self) -> bool {
        self.uses(DataSetting::Samples)
    }

    /// Whether `data.length` is the length of its sequences.
    pub fn has_length(self) -> bool {
        self.uses(DataSetting::Length)
    }

    /// Whether `data.vocabulary` is the number of its tokens.
    pub fn has_vocabulary(self) -> bool {
        self.uses(DataSetting::Vocabulary)
    }

    /// Whether its samples have red, green and blue, which can be scaled as published weights expect it.
    pub fn has_colours(self) -> bool {
        matches!(self.traits().image, ImageExtents::OfSide | ImageExtents::Fixed([_, _, 3]))
    }

    /// Whether `data.test_fraction` decides what is held out.
    pub fn is_split(self) -> bool {
        self.uses(DataSetting::TestFraction)
    }

    /// Whether its samples are pictures that are read or generated one by one, so that a stream of them can be kept.
    pub fn can_keep(self) -> bool {
        self.traits().has_pictures && self.traits().is_streamable
    }
}

//! The data: where samples come from, and what is learned from them.

use std::path::{Path, PathBuf};

use crate::{
    experiment::{
        Normalise,
        limits::{MAX_SAMPLES, MAX_SIDE, MIN_SIDE},
        settings::{KERNELS, Limits, NOTHING, SIZES, settings},
    },
    words::words,
};

/// The vocabulary where none is chosen. No tokenizer has so few tokens.
const UNCHOSEN: usize = 10;

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
    }
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

/// What a label is given to, and so what an accuracy is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Labelled {
    /// A whole sample.
    Sample,
    /// A pixel.
    Pixel,
    /// A digit of a sequence.
    Digit,
    /// The next byte of a file.
    Byte,
    /// The next token of a language.
    Token,
}

/// A setting that only some kinds of data use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataSetting {
    /// [`Data::side`].
    Side,
    /// [`Data::classes`].
    Classes,
    /// [`Data::samples`].
    Samples,
    /// [`Data::length`].
    Length,
    /// [`Data::vocabulary`].
    Vocabulary,
    /// [`Data::modulus`].
    Modulus,
    /// [`Data::tokenizer`].
    Tokenizer,
    /// [`Data::packing`].
    Packing,
    /// [`Data::completion_only`].
    CompletionOnly,
    /// [`Data::skip_broken`].
    SkipBroken,
    /// [`Data::test_fraction`].
    TestFraction,
}

/// What [`Data::path`] is for a kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathUse {
    /// Whether it is a file, and not a folder.
    pub is_file: bool,
    /// What to write where it is missing.
    pub mend: &'static str,
    /// What has to be there.
    pub holds: &'static str,
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
}

impl SourceTraits {
    /// Samples that ship or are generated.
    const fn made(task: Task, labelled: Labelled, settings: &'static [DataSetting]) -> Self {
        let has_pictures = !matches!(task, Task::Next);
        Self { task, labelled, path: None, settings, is_streamable: true, has_pictures }
    }

    /// A class for each image, from a folder.
    const fn folder(mend: &'static str, holds: &'static str, settings: &'static [DataSetting]) -> Self {
        let path = Some(PathUse { is_file: false, mend, holds });
        Self { path, ..Self::made(Task::Class, Labelled::Sample, settings) }
    }
}

impl DataKind {
    /// Its row in the table of all kinds: the one place that tells them apart without opening anything.
    pub const fn traits(self) -> &'static SourceTraits {
        use DataSetting::{
            Classes, CompletionOnly, Length, Modulus, Packing, Samples, Side, SkipBroken, TestFraction, Tokenizer,
            Vocabulary,
        };
        use Labelled::{Byte, Digit, Pixel, Sample, Token};
        use SourceTraits as Of;
        use Task::{Class, Mask, Next};
        match self {
            Self::Digits => const { &Of { is_streamable: false, ..Of::made(Class, Sample, &[TestFraction]) } },
            Self::Shapes => const { &Of::made(Class, Sample, &[Side, Classes, Samples, TestFraction]) },
            Self::Spirals => {
                const { &Of { has_pictures: false, ..Of::made(Class, Sample, &[Classes, Samples, TestFraction]) } }
            }
            Self::Idx => {
                const {
                    &Of::folder(
                        "write the folder that holds the IDX files",
                        "train-images-idx3-ubyte and the other three, plain or .gz",
                        &[],
                    )
                }
            }
            Self::Cifar10 => {
                const {
                    &Of::folder(
                        "write the folder that holds the CIFAR-10 batches",
                        "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
                        &[],
                    )
                }
            }
            Self::Cifar100 => {
                const {
                    &Of::folder(
                        "write the folder that holds train.bin and test.bin of CIFAR-100",
                        "train.bin and test.bin; the class is the fine label",
                        &[],
                    )
                }
            }
            Self::Images => {
                const {
                    &Of::folder(
                        "write the folder that holds a sub-folder of JPEG, PNG and WebP files for each class",
                        "a sub-folder of JPEG, PNG and WebP files for each class, or such folders train and val",
                        &[Side, TestFraction],
                    )
                }
            }
            Self::Masks => const { &Of::made(Mask, Pixel, &[Side, Classes, Samples, TestFraction]) },
            Self::Modular => const { &Of::made(Next, Sample, &[Modulus, TestFraction]) },
            Self::Sort => const { &Of::made(Next, Digit, &[Length, Vocabulary, Samples, TestFraction]) },
            Self::Brackets => const { &Of::made(Next, Sample, &[Length, Samples, TestFraction]) },
            Self::Text => {
                const {
                    let path = PathUse {
                        is_file: true,
                        mend: "write the file to learn from, a file and not a folder",
                        holds: "text in UTF-8; without a tokenizer any file, whose bytes are the tokens",
                    };
                    &Of { path: Some(path), ..Of::made(Next, Byte, &[Tokenizer, Length, Vocabulary, TestFraction]) }
                }
            }
            Self::Jsonl => {
                const {
                    let path = PathUse {
                        is_file: true,
                        mend: "write a file of JSON lines, or a folder of .jsonl and .txt files",
                        holds: "a line a sample: \"text\", \"prompt\" and \"completion\", or \"messages\"; or a folder of \
                                .jsonl and .txt files",
                    };
                    let settings = &[Tokenizer, Length, Packing, CompletionOnly, SkipBroken, Vocabulary, TestFraction];
                    &Of { path: Some(path), ..Of::made(Next, Token, settings) }
                }
            }
            Self::Tokens => const { &Of::made(Next, Token, &[Length, Vocabulary, Samples, TestFraction]) },
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
        matches!(self, Self::Shapes | Self::Cifar10 | Self::Cifar100 | Self::Images | Self::Masks)
    }

    /// Whether `data.test_fraction` decides what is held out.
    pub fn is_split(self) -> bool {
        self.uses(DataSetting::TestFraction)
    }
}

words! {
    /// Where the samples wait until they are needed.
    pub enum Placement {
        /// Nowhere: each is read, decoded or generated when it is needed, in every epoch; only the queue of batches is held.
        Streamed = "streamed",
        /// All in host memory.
        Host = "host",
        /// Those for training all on the device, at their compact type, in the budget; the others are streamed.
        Device = "device",
    }
}

impl Data {
    /// The tokenizer's file or folder, where one is chosen.
    pub fn chosen_tokenizer(&self) -> Option<&Path> {
        self.tokenizer.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// Whether samples are texts that become tokens: not windows of a file's bytes.
    pub fn is_tokenized(&self) -> bool {
        match self.kind {
            DataKind::Jsonl => true,
            DataKind::Text => self.chosen_tokenizer().is_some(),
            _ => false,
        }
    }

    /// What a label is given to.
    pub fn labelled(&self) -> Labelled {
        if self.is_tokenized() { Labelled::Token } else { self.kind.traits().labelled }
    }

    /// The rows that the model's embedding is to have; `None` where the tokenizer's number decides.
    pub fn chosen_vocabulary(&self) -> Option<usize> {
        Some(self.vocabulary).filter(|count| *count > UNCHOSEN)
    }

    /// Windows of bytes have 256 tokens whatever is chosen.
    fn uses_vocabulary(&self) -> bool {
        let is_open = self.kind != DataKind::Text || self.is_tokenized() || self.chosen_vocabulary().is_some();
        self.kind.uses(DataSetting::Vocabulary) && is_open
    }
}

settings! {
    /// The data.
    pub struct Data in data {
        /// Where samples come from.
        pub kind: DataKind = DataKind::Digits, KERNELS;
        /// The folder (idx, cifar10, cifar100, images), the file (text), or either of the two (jsonl).
        pub path: Option<PathBuf> = None, SIZES.when(|e| e.data.kind.is_on_disk());
        /// A `tokenizer.json`, or a folder that holds one (text, jsonl). Without one it is that of the folder of
        /// `weights.path`, and where that has none, bytes are the tokens.
        pub tokenizer: Option<PathBuf> = None, SIZES.quiet().when(|e| e.data.kind.uses(DataSetting::Tokenizer));
        /// Height and width of an image (shapes, images, masks).
        pub side: usize = 32, SIZES
            .counts(MIN_SIDE as u64, MAX_SIDE as u64, "the side of an image")
            .when(|e| e.data.kind.uses(DataSetting::Side));
        /// Classes of shapes, or arms of spirals, 2 to 10 (shapes, masks, spirals).
        pub classes: usize = 10, SIZES
            .counts(2, 10, "a number of classes")
            .when(|e| e.data.kind.uses(DataSetting::Classes));
        /// Samples generated, training and test together (shapes, masks, spirals, sort, brackets, tokens).
        pub samples: usize = 4000, SIZES
            .counts(10, MAX_SAMPLES as u64, "a number of samples")
            .when(|e| e.data.kind.uses(DataSetting::Samples));
        /// Digits to sort (sort), brackets (brackets), tokens of a sequence (text, jsonl, tokens).
        pub length: usize = 64, SIZES.when(|e| e.data.kind.uses(DataSetting::Length));
        /// Different digits (sort), different tokens (tokens). Of a model that reads text (text, jsonl) the rows of its
        /// embedding: as many as the tokenizer has tokens or more. There 0 to 10 stand for the tokenizer's number.
        pub vocabulary: usize = UNCHOSEN, SIZES.when(|e| e.data.uses_vocabulary());
        /// Whether samples are joined and cut to `length` (jsonl). Otherwise each is a sequence of its own, cut or padded.
        pub packing: bool = false, NOTHING.quiet().when(|e| e.data.kind.uses(DataSetting::Packing));
        /// Whether only completions, and what an assistant says, are scored (jsonl). Otherwise every token is.
        pub completion_only: bool = true, NOTHING.quiet().when(|e| e.data.kind.uses(DataSetting::CompletionOnly));
        /// Whether lines that cannot be read are left out and counted (jsonl). Otherwise the first one is an error.
        pub skip_broken: bool = false, NOTHING.quiet().when(|e| e.data.kind.uses(DataSetting::SkipBroken));
        /// What sums are taken modulo (modular).
        pub modulus: usize = 97, SIZES.when(|e| e.data.kind.uses(DataSetting::Modulus));
        /// Share of the samples held out for testing, of a text its last part (all but idx, cifar10 and cifar100).
        pub test_fraction: f64 = 0.2, SIZES
            .limits(Limits::Share { example: "0.2" })
            .when(|e| e.data.kind.uses(DataSetting::TestFraction));
        /// By which mean and deviation pixels are scaled (images of three channels).
        pub normalise: Normalise = Normalise::Auto, NOTHING.quiet().when(|e| e.data.kind.has_colours());
        /// Where the samples wait.
        pub placement: Placement = Placement::Host, KERNELS.quiet();
        /// Half of the training images are mirrored, left for right.
        pub flip: bool = false, NOTHING.quiet();
        /// Pixels of black around a training image, from which one of its size is cut at random; 0 cuts nothing.
        pub crop_padding: usize = 0, NOTHING.quiet().formerly("data.crop");
        /// The most that brightness, contrast and saturation of a training image change, as a share; 0 changes nothing.
        pub color_jitter: f64 = 0.0, NOTHING.numbers(0.0, 1.0, "a strength").quiet().formerly("data.colour");
    }
}

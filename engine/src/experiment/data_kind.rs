//! What is known of each kind of data before anything is opened: its task, its path, its settings.

use crate::experiment::{DataKind, DataSetting, Labelled, Task};

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
            Categorical, Classes, CompletionOnly, Label, LeaveOut, Length, Modulus, Packing, Samples, Side, SkipBroken,
            TestFraction, Tokenizer, Vocabulary,
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
            Self::Table => {
                const {
                    let path = PathUse {
                        is_file: true,
                        mend: "write a file of comma-separated values with a line of names, or \"shipped:ships.csv\"",
                        holds: "a line of names and a row for each sample, separated by commas, semicolons or tabs; plain or .gz",
                    };
                    let settings = &[Label, DataSetting::TableTask, Categorical, LeaveOut, SkipBroken, TestFraction];
                    let (path, has_pictures, is_streamable) = (Some(path), false, false);
                    &Of { path, has_pictures, is_streamable, ..Of::made(Class, Sample, settings) }
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
        matches!(self, Self::Shapes | Self::Cifar10 | Self::Cifar100 | Self::Images | Self::Masks)
    }

    /// Whether `data.test_fraction` decides what is held out.
    pub fn is_split(self) -> bool {
        self.uses(DataSetting::TestFraction)
    }
}

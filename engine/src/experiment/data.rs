//! The data: where samples come from, and how they get to the model.
//!
//! Owns the kinds of data, with a row for each, and the settings. A setting of some kinds only is a word of [`DataSetting`],
//! which the rows of those kinds list.

mod consequences;

use std::path::PathBuf;

use self::consequences::UNCHOSEN;
use crate::{
    bytes::Bytes,
    experiment::words::words,
    experiment::{
        Asked, CachePlace, DataCache, Experiment, ImageExtents, Labelled, Normalise, NormaliseWhen, PathUse, Prompt,
        SourceTraits, Task,
        limits::{MAX_BUDGET, MAX_PREFETCH, MAX_SAMPLES, MAX_SIDE, MAX_WORKERS, MIN_SIDE},
        settings::{Bears, KERNELS, Limits, NOTHING, Number, SIZES, settings},
        source_traits::{LengthUnit, USUAL_TOKENS, file, folder},
    },
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
        /// A file of text; every next token is scored, or the next byte if there is no tokenizer.
        Text = "text",
        /// JSON lines, each a text, a prompt with its completion, or messages; a file or a folder of them.
        Jsonl = "jsonl",
        /// A generated Markov chain over `vocabulary` tokens; every next token is scored.
        Tokens = "tokens",
        /// A file of comma-separated values, a row a sample; one column is the label, a class or a value.
        Table = "table",
    }
}

/// A setting that only some kinds of data use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataSetting {
    /// The setting [`Data::side`].
    Side,
    /// The setting [`Data::classes`].
    Classes,
    /// The setting [`Data::samples`].
    Samples,
    /// The setting [`Data::length`].
    Length,
    /// The setting [`Data::vocabulary`].
    Vocabulary,
    /// The setting [`Data::modulus`].
    Modulus,
    /// The setting [`Data::tokenizer`].
    Tokenizer,
    /// The setting [`Data::packing`].
    Packing,
    /// The setting [`Data::completion_only`].
    CompletionOnly,
    /// The setting [`Data::skip_broken`].
    SkipBroken,
    /// The setting [`Data::label`].
    Label,
    /// The setting [`Data::task`].
    TableTask,
    /// The setting [`Data::categorical`].
    Categorical,
    /// The setting [`Data::leave_out`].
    LeaveOut,
    /// The setting [`Data::test_fraction`].
    TestFraction,
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
        use LengthUnit::{Brackets, Digits, Tokens};
        use SourceTraits as Of;
        use Task::{Class, Mask};
        match self {
            Self::Digits => const { &Of::images(Class, Sample, Fixed([8, 8, 1]), &[TestFraction]).held() },
            Self::Shapes => const { &Of::images(Class, Sample, OfSide, &[Side, Classes, Samples, TestFraction]) },
            Self::Spirals => const { &Of::points(Class, Sample, &[Classes, Samples, TestFraction]) },
            Self::Idx => const { &Of::folder(IDX, Unknown, &[]) },
            Self::Cifar10 => const { &Of::folder(CIFAR10, Fixed([32, 32, 3]), &[]) },
            Self::Cifar100 => const { &Of::folder(CIFAR100, Fixed([32, 32, 3]), &[]) },
            Self::Images => const { &Of::folder(IMAGES, OfSide, &[Side, TestFraction]) },
            Self::Masks => const { &Of::images(Mask, Pixel, OfSide, &[Side, Classes, Samples, TestFraction]) },
            Self::Modular => const { &Of::sequences(Sample, Prompt::Terms, &[Modulus, TestFraction]) },
            Self::Sort => {
                const SETTINGS: &[DataSetting] = &[Length, Vocabulary, Samples, TestFraction];
                const { &Of::sequences(Digit, Prompt::Unsorted, SETTINGS).usually(Digits, 8) }
            }
            Self::Brackets => {
                const SETTINGS: &[DataSetting] = &[Length, Samples, TestFraction];
                const { &Of::sequences(Sample, Prompt::Brackets, SETTINGS).usually(Brackets, 10) }
            }
            Self::Text => {
                const SETTINGS: &[DataSetting] = &[Tokenizer, Length, Vocabulary, TestFraction];
                const { &Of::sequences(Byte, Prompt::Text, SETTINGS).usually(Tokens, USUAL_TOKENS).at(TEXT) }
            }
            Self::Jsonl => {
                const SETTINGS: &[DataSetting] =
                    &[Tokenizer, Length, Packing, CompletionOnly, SkipBroken, Vocabulary, TestFraction];
                const { &Of::sequences(Token, Prompt::Text, SETTINGS).usually(Tokens, USUAL_TOKENS).at(JSONL) }
            }
            Self::Tokens => {
                const SETTINGS: &[DataSetting] = &[Length, Vocabulary, Samples, TestFraction];
                const { &Of::sequences(Token, Prompt::Numbers, SETTINGS).usually(Tokens, USUAL_TOKENS) }
            }
            Self::Table => {
                const SETTINGS: &[DataSetting] = &[Label, TableTask, Categorical, LeaveOut, SkipBroken, TestFraction];
                const { &Of { asked: Asked::Row, ..Of::points(Class, Sample, SETTINGS).held().at(TABLE) } }
            }
        }
    }
}

words! {
    /// The task that is learned from a table.
    pub enum TableTask {
        /// A class where the label is text or few whole numbers, and a value otherwise.
        Auto = "auto",
        /// A class for each different label.
        Classification = "classification",
        /// A value is learned.
        Regression = "regression",
    }
}

words! {
    /// Where the samples wait until they are needed.
    pub enum Placement {
        /// Nowhere: each is read, decoded or generated when it is needed, in every epoch; only the queue of batches is held.
        Streamed = "streamed",
        /// All samples wait in host memory.
        Host = "host",
        /// The training samples are all on the device, at their compact type, in the budget; the others are streamed.
        Device = "device",
    }
}

settings! {
    /// The data.
    pub struct Data in data {
        /// Where samples come from.
        pub kind: DataKind = DataKind::Digits, KERNELS;
        /// The folder (idx, cifar10, cifar100, images), the file (text, table), or either of the two (jsonl).
        pub path: Option<PathBuf> = None, SIZES.when(|e| e.data.kind.is_on_disk());
        /// A `tokenizer.json`, or a folder that holds one (text, jsonl; with tokens, for prompts). Without one, the tokenizer
        /// in the folder of `weights.path` is used; if there is none, bytes are the tokens.
        pub tokenizer: Option<PathBuf> = None, SIZES
            .quiet()
            .bears(Bears::Reading)
            .when(|e| e.data.uses_tokenizer());
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
        pub length: usize = USUAL_TOKENS, SIZES.when(|e| e.data.kind.uses(DataSetting::Length));
        /// Different digits (sort), different tokens (tokens). For a model that reads text (text, jsonl) the rows of its
        /// embedding: at least the tokenizer's tokens. There 0 to 10 stand for the tokenizer's number.
        pub vocabulary: usize = UNCHOSEN, SIZES.when(|e| e.data.uses_vocabulary());
        /// The column of the label (table); without a name the last one.
        pub label: String = String::new(), SIZES.quiet().when(|e| e.data.kind.uses(DataSetting::Label));
        /// The task that is learned from it (table).
        pub task: TableTask = TableTask::Auto, KERNELS.quiet().when(|e| e.data.kind.uses(DataSetting::TableTask));
        /// Columns of numbers that are categories, by their names with commas between them (table).
        pub categorical: String = String::new(), SIZES.quiet().when(|e| e.data.kind.uses(DataSetting::Categorical));
        /// Columns that nothing is learned from, such as numbers of rows, by their names with commas between them (table).
        pub leave_out: String = String::new(), SIZES.quiet().when(|e| e.data.kind.uses(DataSetting::LeaveOut));
        /// Whether samples are joined and cut to `length` (jsonl). Otherwise each is a sequence of its own, cut or padded.
        pub packing: bool = false, NOTHING.quiet().when(|e| e.data.kind.uses(DataSetting::Packing));
        /// Whether only completions and an assistant's words are scored (jsonl). Otherwise every token is.
        pub completion_only: bool = true, NOTHING
            .quiet()
            .bears(Bears::Reading)
            .when(|e| e.data.kind.uses(DataSetting::CompletionOnly));
        /// Whether lines that cannot be read are left out and counted (jsonl, table). Otherwise the first one is an error.
        pub skip_broken: bool = false, NOTHING
            .quiet()
            .bears(Bears::Reading)
            .when(|e| e.data.kind.uses(DataSetting::SkipBroken));
        /// The modulus of the sums (modular).
        pub modulus: usize = 97, SIZES.when(|e| e.data.kind.uses(DataSetting::Modulus));
        /// Share of the samples held out for testing, of a text its last part (all but idx, cifar10 and cifar100).
        pub test_fraction: f64 = 0.2, SIZES
            .limits(Limits::Share { example: "0.2" })
            .when(|e| e.data.kind.uses(DataSetting::TestFraction));
        /// The mean and the deviation by which pixels are scaled (images of three channels).
        pub normalise: Normalise = Normalise::Auto, NOTHING
            .quiet()
            .bears(Bears::Scale)
            .when(|e| e.data.kind.has_colours());
        /// When pixels that wait in host memory, or are kept, are scaled. The batches are the same either way.
        pub normalise_when: NormaliseWhen = NormaliseWhen::OnTheFly, NOTHING
            .quiet()
            .bears(Bears::Feeding)
            .when(|e| e.data.has_waiting_images());
        /// Height and width at which images wait in host memory, or are kept; each is resized to `side` whenever a batch is made
        /// of it (shapes, images). 0: they are resized before they wait.
        pub load_side: usize = 0, SIZES
            .quiet()
            .counts(0, MAX_SIDE as u64, "the side of an image that waits")
            .when(|e| e.data.can_wait_as_loaded());
        /// Where the samples wait.
        pub placement: Placement = Placement::Host, KERNELS.quiet().bears(Bears::Feeding);
        /// The form in which streamed images are kept: each is read, decoded or generated once, in the first epoch. Kept
        /// variants are fewer than new ones in every epoch would be, so a run with them learns from other images than
        /// without.
        pub cache: DataCache = DataCache::None, NOTHING
            .quiet()
            .bears(Bears::Variation)
            .when(|e| e.data.kind.can_keep());
        /// Where the kept samples are stored, and the answers of a teacher that is asked once.
        pub cache_in: CachePlace = CachePlace::Ram, NOTHING
            .quiet()
            .bears(Bears::Feeding)
            .when(|e| !e.data.kept().is_none() || e.distil.is_asked_before());
        /// The folder of the file that is kept on disk; without one it is the program's cache folder.
        pub cache_folder: Option<PathBuf> = None, NOTHING
            .quiet()
            .bears(Bears::Feeding)
            .when(Experiment::keeps_on_disk);
        /// The most that data, batches and their threads may take of host memory, outside `budget`; 0: all that the machine
        /// has.
        pub host_budget: Bytes = Bytes::ZERO, NOTHING.quiet().bears(Bears::Feeding).limits(Limits::Within {
            low: Number::Size(Bytes::ZERO),
            high: Number::Size(MAX_BUDGET),
            what: "a budget",
        });
        /// Threads that decode or generate the samples of a batch together; 0: half of the processor's, 2 to 8. A batch holds
        /// the same samples for any number.
        pub workers: usize = 0, NOTHING
            .quiet()
            .bears(Bears::Feeding)
            .counts(0, MAX_WORKERS, "a number of threads")
            .when(|e| e.data.is_work());
        /// Batches that are ready or being filled while the model learns from another one.
        pub prefetch: usize = 2, NOTHING
            .quiet()
            .bears(Bears::Feeding)
            .counts(0, MAX_PREFETCH, "a number of batches");
        /// Half of the training images are mirrored, left for right.
        pub flip: bool = false, NOTHING.quiet().bears(Bears::Variation);
        /// Pixels of black around a training image, from which one of its size is cut at random; 0 cuts nothing.
        pub crop_padding: usize = 0, NOTHING.quiet().bears(Bears::Variation).formerly("data.crop");
        /// The most that brightness, contrast and saturation of a training image change, as a share; 0 changes nothing.
        pub color_jitter: f64 = 0.0, NOTHING
            .numbers(0.0, 1.0, "a strength")
            .quiet()
            .bears(Bears::Variation)
            .formerly("data.colour");
    }
}

//! The data: where samples come from, and what is learned from them.

use std::path::{Path, PathBuf};

use crate::{
    bytes::Bytes,
    experiment::{
        CachePlace, DataCache, DataKind, Experiment, ImageExtents, Normalise,
        data_kind::USUAL_TOKENS,
        limits::{MAX_BUDGET, MAX_PREFETCH, MAX_SAMPLES, MAX_SIDE, MAX_WORKERS, MIN_SIDE},
        settings::{KERNELS, Limits, NOTHING, Number, SIZES, settings},
    },
    words::words,
};

/// The vocabulary if none is chosen. No tokenizer has so few tokens.
const UNCHOSEN: usize = 10;

words! {
    /// What is learned from a table.
    pub enum TableTask {
        /// A class where the label is text or few whole numbers, and a value otherwise.
        Auto = "auto",
        /// A class for each different label.
        Classification = "classification",
        /// A value is learned.
        Regression = "regression",
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
    /// A value of a row. A model that learns classes learns it with one output.
    Value,
}

impl Task {
    /// What it is called in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Class => "one class for an image",
            Self::Mask => "a class for each pixel of an image",
            Self::Next => "the next token of a sequence",
            Self::Value => "a value of a row",
        }
    }
}

/// What a label is given to, and so what an accuracy is a share of.
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

impl Data {
    /// Chooses a source. A length that counts something else than the new source's was not chosen for it, and becomes the
    /// usual one there.
    pub fn choose(&mut self, kind: DataKind) {
        let before = std::mem::replace(&mut self.kind, kind);
        if let Some((unit, usual)) = kind.traits().usual_length
            && before.traits().usual_length.is_none_or(|(own, _)| own != unit)
        {
            self.length = usual;
        }
    }

    /// What stands in a path before the name of data that ship with the program.
    pub(crate) const SHIPPED: &str = "shipped:";

    /// The file or folder of the data, where it is not there.
    pub fn missing_path(&self) -> Option<&Path> {
        let is_shipped = |path: &&Path| path.to_str().is_some_and(|path| path.starts_with(Self::SHIPPED));
        self.path.as_deref().filter(|path| !is_shipped(path) && !path.exists())
    }

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

    /// Settings that decide how samples get to the model, and not what they are.
    pub(crate) const HOW_FED: [&str; 6] =
        ["data.placement", "data.workers", "data.prefetch", "data.cache_in", "data.cache_folder", "data.host_budget"];

    /// What is kept of the samples that are streamed; nothing of others.
    pub(crate) fn kept(&self) -> DataCache {
        let is_kept = self.placement == Placement::Streamed && self.kind.can_keep();
        if is_kept { self.cache } else { DataCache::None }
    }

    /// Whether a file keeps them.
    pub fn is_kept_on_disk(&self) -> bool {
        !self.kept().is_none() && self.cache_in == CachePlace::Disk
    }

    /// Whether training images are varied.
    pub(crate) fn is_varied(&self) -> bool {
        self.flip || self.crop_padding > 0 || self.color_jitter != 0.0
    }

    /// The line of host memory; `None` where it is what the machine has.
    pub fn host_line(&self) -> Option<Bytes> {
        Some(self.host_budget).filter(|line| *line > Bytes::ZERO)
    }

    /// Whether samples are decoded or generated as they are needed, which several threads do in less time.
    pub fn is_work(&self) -> bool {
        self.kind.traits().image == ImageExtents::OfSide
            && (self.kind.is_on_disk() || self.placement != Placement::Host)
    }

    /// Whether both choices have the same samples: how they are fed to the model may differ.
    pub(crate) fn has_samples_of(&self, other: &Self) -> bool {
        let Self { workers, prefetch, host_budget, .. } = *self;
        *self == Self { workers, prefetch, host_budget, ..other.clone() }
    }

    /// What a label is given to.
    pub fn labelled(&self) -> Labelled {
        match self.task() {
            Task::Value => Labelled::Value,
            _ if self.is_tokenized() => Labelled::Token,
            _ => self.kind.traits().labelled,
        }
    }

    /// What is learned. Of a table whose task is not decided yet, a class.
    pub fn task(&self) -> Task {
        let is_value = self.kind == DataKind::Table && self.task == TableTask::Regression;
        if is_value { Task::Value } else { self.kind.task() }
    }

    /// The rows that the model's embedding is to have; `None` where the tokenizer's number decides.
    pub fn chosen_vocabulary(&self) -> Option<usize> {
        Some(self.vocabulary).filter(|count| *count > UNCHOSEN)
    }

    /// Whether it uses a tokenizer. A model of generated tokens is prompted by it, if it is known.
    fn uses_tokenizer(&self) -> bool {
        self.kind.uses(DataSetting::Tokenizer) || self.kind == DataKind::Tokens && self.chosen_tokenizer().is_some()
    }

    /// Windows of bytes have 256 tokens for any choice.
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
        /// The folder (idx, cifar10, cifar100, images), the file (text, table), or either of the two (jsonl).
        pub path: Option<PathBuf> = None, SIZES.when(|e| e.data.kind.is_on_disk());
        /// A `tokenizer.json`, or a folder that holds one (text, jsonl; with tokens, for prompts). Without one, the tokenizer
        /// in the folder of `weights.path` is used; if there is none, bytes are the tokens.
        pub tokenizer: Option<PathBuf> = None, SIZES.quiet().when(|e| e.data.uses_tokenizer());
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
        /// Different digits (sort), different tokens (tokens). Of a model that reads text (text, jsonl) the rows of its
        /// embedding: as many as the tokenizer has tokens or more. There 0 to 10 stand for the tokenizer's number.
        pub vocabulary: usize = UNCHOSEN, SIZES.when(|e| e.data.uses_vocabulary());
        /// The column of the label (table); without a name the last one.
        pub label: String = String::new(), SIZES.quiet().when(|e| e.data.kind.uses(DataSetting::Label));
        /// What is learned of it (table).
        pub task: TableTask = TableTask::Auto, KERNELS.quiet().when(|e| e.data.kind.uses(DataSetting::TableTask));
        /// Columns of numbers that are categories, by their names with commas between them (table).
        pub categorical: String = String::new(), SIZES.quiet().when(|e| e.data.kind.uses(DataSetting::Categorical));
        /// Columns that nothing is learned from, such as numbers of rows, by their names with commas between them (table).
        pub leave_out: String = String::new(), SIZES.quiet().when(|e| e.data.kind.uses(DataSetting::LeaveOut));
        /// Whether samples are joined and cut to `length` (jsonl). Otherwise each is a sequence of its own, cut or padded.
        pub packing: bool = false, NOTHING.quiet().when(|e| e.data.kind.uses(DataSetting::Packing));
        /// Whether only completions, and what an assistant says, are scored (jsonl). Otherwise every token is.
        pub completion_only: bool = true, NOTHING.quiet().when(|e| e.data.kind.uses(DataSetting::CompletionOnly));
        /// Whether lines that cannot be read are left out and counted (jsonl, table). Otherwise the first one is an error.
        pub skip_broken: bool = false, NOTHING.quiet().when(|e| e.data.kind.uses(DataSetting::SkipBroken));
        /// What sums are taken modulo (modular).
        pub modulus: usize = 97, SIZES.when(|e| e.data.kind.uses(DataSetting::Modulus));
        /// Share of the samples held out for testing, of a text its last part (all but idx, cifar10 and cifar100).
        pub test_fraction: f64 = 0.2, SIZES
            .limits(Limits::Share { example: "0.2" })
            .when(|e| e.data.kind.uses(DataSetting::TestFraction));
        /// The mean and the deviation by which pixels are scaled (images of three channels).
        pub normalise: Normalise = Normalise::Auto, NOTHING.quiet().when(|e| e.data.kind.has_colours());
        /// Where the samples wait.
        pub placement: Placement = Placement::Host, KERNELS.quiet();
        /// What is kept of streamed images: each is read, decoded or generated once, in the first epoch. Variants are fewer than
        /// an epoch after the other makes anew, so a run learns from other images than without.
        pub cache: DataCache = DataCache::None, NOTHING.quiet().when(|e| e.data.kind.can_keep());
        /// Where the kept samples are stored, and what a teacher said that is asked once.
        pub cache_in: CachePlace = CachePlace::Ram, NOTHING
            .quiet()
            .when(|e| !e.data.kept().is_none() || e.distil.is_asked_before());
        /// The folder of the file that is kept on disk; without one it is the program's own for what can be made again.
        pub cache_folder: Option<PathBuf> = None, NOTHING.quiet().when(Experiment::keeps_on_disk);
        /// The most that data, batches and their threads may take of host memory, outside `budget`; 0: what the machine has.
        pub host_budget: Bytes = Bytes::ZERO, NOTHING.quiet().limits(Limits::Within {
            low: Number::Size(Bytes::ZERO),
            high: Number::Size(MAX_BUDGET),
            what: "a budget",
        });
        /// Threads that decode or generate the samples of a batch together; 0: half of the processor's, 2 to 8. A batch holds
        /// the same samples for any number.
        pub workers: usize = 0, NOTHING.quiet().counts(0, MAX_WORKERS, "a number of threads").when(|e| e.data.is_work());
        /// Batches that are ready or being filled while the model learns from another one.
        pub prefetch: usize = 2, NOTHING.quiet().counts(0, MAX_PREFETCH, "a number of batches");
        /// Half of the training images are mirrored, left for right.
        pub flip: bool = false, NOTHING.quiet();
        /// Pixels of black around a training image, from which one of its size is cut at random; 0 cuts nothing.
        pub crop_padding: usize = 0, NOTHING.quiet().formerly("data.crop");
        /// The most that brightness, contrast and saturation of a training image change, as a share; 0 changes nothing.
        pub color_jitter: f64 = 0.0, NOTHING.numbers(0.0, 1.0, "a strength").quiet().formerly("data.colour");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_another_unit_becomes_the_usual_one_and_one_of_tokens_stays_with_tokens() {
        let chosen = |from, length, to| {
            let mut data = Data { kind: from, length, ..Data::default() };
            data.choose(to);
            assert_eq!(data.kind, to);
            data.length
        };
        assert_eq!(chosen(DataKind::Tokens, 1024, DataKind::Sort), 8);
        assert_eq!(chosen(DataKind::Sort, 12, DataKind::Brackets), 10);
        assert_eq!(chosen(DataKind::Brackets, 20, DataKind::Text), 64);
        assert_eq!(chosen(DataKind::Tokens, 1024, DataKind::Jsonl), 1024);
        assert_eq!(chosen(DataKind::Digits, 64, DataKind::Sort), 8, "no length was chosen for images");
        assert_eq!(chosen(DataKind::Sort, 12, DataKind::Sort), 12, "the same source is not a change");
        assert_eq!(chosen(DataKind::Sort, 12, DataKind::Digits), 12, "where nothing reads it, it waits");
    }
}

//! The data.

use plimsoll_engine::{
    Experiment,
    experiment::{CachePlace, Data, DataCache, DataKind, DataSetting, Normalise, NormaliseWhen, Placement, TableTask},
};

use super::{COMPLETION_ONLY, EMBEDDING_ROWS, MODULUS, Numeric, PACKING, Row, VOCABULARY, source, table};
use crate::{
    format,
    widgets::control::{Choice, Number, Place, Spec},
};

pub(in crate::panels::experiment) const DATA: (Spec, Choice<DataKind>) = (
    Spec {
        key: "data.kind",
        name: "Source",
        help: "The size of an image decides the batch and the activations of the first layers, from 8 x 8 grey digits upward. \
                Large images take more time in every convolution.",
    },
    Choice {
        options: &[
            (DataKind::Digits, "digits, 8 x 8"),
            (DataKind::Idx, "IDX files (MNIST)"),
            (DataKind::Shapes, "coloured shapes"),
            (DataKind::Spirals, "spirals in a plane"),
            (DataKind::Cifar10, "CIFAR-10 folder"),
            (DataKind::Cifar100, "CIFAR-100 folder"),
            (DataKind::Images, "folder of images"),
            (DataKind::Masks, "shapes with masks"),
            (DataKind::Modular, "sums modulo n"),
            (DataKind::Sort, "digits to sort"),
            (DataKind::Brackets, "balanced brackets"),
            (DataKind::Text, "a text file"),
            (DataKind::Jsonl, "JSON lines"),
            (DataKind::Tokens, "a Markov chain"),
            (DataKind::Table, "table (CSV)"),
        ],
        place: Place::Own {
            get: |e| e.data.kind,
            set: |e, v| {
                e.data.choose(v);
                super::task::suit_model(e);
                super::task::suit_vocabulary(e);
            },
        },
    },
);

pub(in crate::panels::experiment) const SIDE: Numeric = (
    Spec {
        key: "data.side",
        name: "Image side",
        help: "Height and width of an image: batch and convolutional activations grow with its square, and so do the weights of \
                a dense layer that reads the whole image. So does the time of every convolution.",
    },
    Number {
        stops: &[16., 24., 32., 48., 64., 96., 128., 160., 192., 224., 256., 384., 512.],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const CLASSES: Numeric = (
    Spec {
        key: "data.classes",
        name: "Classes",
        help: "Kinds of shapes to tell apart; only the last layer grows with them, by very little. More classes are harder: \
                the same accuracy needs more steps or a larger model.",
    },
    Number { stops: &[2., 3., 4., 5., 6., 7., 8., 9., 10.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const SAMPLES: Numeric = (
    Spec {
        key: "data.samples",
        name: "Samples",
        help: "Samples generated, training and test together; they are held in host memory, outside the budget. More make an \
                epoch longer and the test accuracy better.",
    },
    Number {
        stops: &[500., 1000., 2000., 4000., 8000., 16000., 32000., 64000., 100_000.],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const SAMPLE_LENGTH: Numeric = (
    Spec {
        key: "data.length",
        name: "Length",
        help: "Tokens of a sample: one more token is one more row in every activation, and with plain attention the \
                probabilities grow with the square. Time grows as memory does.",
    },
    Number {
        stops: &[4., 8., 16., 32., 64., 128., 256., 512., 1024., 2048., 4096., 8192.],
        zero: None,
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const TEST_FRACTION: Numeric = (
    Spec {
        key: "data.test_fraction",
        name: "Test share",
        help: "Share of the samples held out for testing; it takes no memory of the budget. A larger share makes evaluation \
                longer and its accuracy more certain, and leaves less to learn from.",
    },
    Number { stops: &[0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const SKIP_BROKEN: (Spec, Choice<bool>) = (
    Spec {
        key: "data.skip_broken",
        name: "Broken lines",
        help: "A line that is not JSON, or has none of the fields, either stops the run before it begins, with the line's \
            number, or is left out and counted. Memory and time of a step stay the same.",
    },
    Choice { options: &[(false, "stop"), (true, "left out")], place: Place::Setting },
);

pub(in crate::panels::experiment) const PLACEMENT: (Spec, Choice<Placement>) = (
    Spec {
        key: "data.placement",
        name: "Data placement",
        help: "The place of the samples. Streamed samples take no memory beyond a queue of batches, and are read, decoded \
                or generated again in every epoch. In host memory (RAM) they lie outside the budget. On the device the \
                training set is part of the budget, a byte for each pixel and channel, and a batch needs no transfer.",
    },
    Choice {
        options: &[
            (Placement::Streamed, "streamed"),
            (Placement::Host, "in host memory"),
            (Placement::Device, "on the device"),
        ],
        place: Place::Setting,
    },
);

/// The form in which streamed images are kept, without its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::panels::experiment) enum CacheMode {
    /// Nothing is kept.
    None,
    /// Each sample is kept.
    Decoded,
    /// Some variants of each training sample.
    Augmented,
}

pub(in crate::panels::experiment) const CACHE: (Spec, Choice<CacheMode>) = (
    Spec {
        key: "data.cache",
        name: "Kept of it",
        help: "The form in which streamed images are kept; the first epoch fills the cache. A decoded sample takes a byte \
                for each pixel and channel, and later epochs only vary it: the batches stay the same. N variants take N \
                times as much and need not be made again, and a run learns from fewer different images.",
    },
    Choice {
        options: &[
            (CacheMode::None, "nothing"),
            (CacheMode::Decoded, "each sample"),
            (CacheMode::Augmented, "variants of each"),
        ],
        place: Place::Own {
            get: |e| match e.data.cache {
                DataCache::None => CacheMode::None,
                DataCache::Decoded => CacheMode::Decoded,
                DataCache::Augmented(_) => CacheMode::Augmented,
            },
            set: |e, v| {
                e.data.cache = match v {
                    CacheMode::None => DataCache::None,
                    CacheMode::Decoded => DataCache::Decoded,
                    CacheMode::Augmented => DataCache::Augmented(4),
                }
            },
        },
    },
);

pub(in crate::panels::experiment) const COPIES: Numeric = (
    Spec {
        key: "data.cache.copies",
        name: "Variants each",
        help: "How many variants of each training sample are kept. An epoch draws among them, and memory grows in proportion. \
                Without this, every epoch gets new variants; with it, a long run sees each one several times. No step takes longer.",
    },
    Number {
        stops: &[1., 2., 3., 4., 6., 8., 16., 32., 64.],
        zero: None,
        place: Place::Own {
            get: |e| e.data.cache.copies().unwrap_or(1) as f64,
            set: |e, v| e.data.cache = DataCache::Augmented((v as usize).clamp(1, DataCache::MOST)),
        },
    },
);

pub(in crate::panels::experiment) const CACHE_PLACE: (Spec, Choice<CachePlace>) = (
    Spec {
        key: "data.cache_in",
        name: "Kept in",
        help: "Where kept samples and a teacher's answers lie: in host memory (RAM), or in a temporary file that is deleted after \
                the run. The file takes no host memory beyond a sample for each worker. Reading from it takes less time than \
                decoding, and more than memory.",
    },
    Choice {
        options: &[(CachePlace::Ram, "host memory"), (CachePlace::Disk, "a file on disk")],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const HOST_BUDGET: Numeric = (
    Spec {
        key: "data.host_budget",
        name: "Host budget, MiB",
        help: "The most that data, kept samples, batches and the threads that make them may take of host memory (RAM), which is \
                outside the budget of the run. A run past it is refused before it begins. No step takes longer for it. 0 is no \
                budget: they may take all that the machine has.",
    },
    Number {
        stops: &[0., 16., 64., 256., 1024., 4096., 16_384., 65_536.],
        zero: Some("what there is"),
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const NORMALISE: (Spec, Choice<Normalise>) = (
    Spec {
        key: "data.normalise",
        name: "Pixel scale",
        help: "The mean and the deviation by which pixels become numbers. Published weights work well only with those they \
                were trained with: by default they decide where there are some, and the data set itself where there are none. \
                Memory and time stay the same.",
    },
    Choice {
        options: &[
            (Normalise::Auto, "as the weights"),
            (Normalise::Dataset, "of the data set"),
            (Normalise::Imagenet, "ImageNet"),
            (Normalise::Half, "-1 to 1"),
            (Normalise::None, "0 to 1"),
        ],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const NORMALISE_WHEN: (Spec, Choice<NormaliseWhen>) = (
    Spec {
        key: "data.normalise_when",
        name: "Normalised",
        help: "When the pixels of images that wait are normalised. For each batch: they wait as bytes. Beforehand: they wait as floats \
                of four bytes, so the images take four times the host memory, and a batch is a little less work. The batches are \
                the same.",
    },
    Choice {
        options: &[(NormaliseWhen::OnTheFly, "for each batch"), (NormaliseWhen::Beforehand, "beforehand, as floats")],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const LOAD_SIDE: Numeric = (
    Spec {
        key: "data.load_side",
        name: "Loaded at",
        help: "Height and width at which images wait; each is made smaller whenever a batch is made of it. Images of 224 wait in \
                49 times the memory of images of 32, and every epoch resizes them again, to slightly other pixels. 0: they are \
                resized before they wait.",
    },
    Number {
        stops: &[0., 32., 48., 64., 96., 128., 160., 192., 224., 256., 384.],
        zero: Some("their side"),
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const FLIP: (Spec, Choice<bool>) = (
    Spec {
        key: "data.flip",
        name: "Horizontal flip",
        help: "The loader mirrors half of the training images, others in every epoch, while the model trains. This takes no memory \
            of the budget and next to no time. It helps where left and right mean the same, and harms digits and letters.",
    },
    Choice { options: &[(false, "off"), (true, "half of the images")], place: Place::Setting },
);

pub(in crate::panels::experiment) const PREFETCH: Numeric = (
    Spec {
        key: "data.prefetch",
        name: "Batches ahead",
        help: "Batches that are made while the model learns from another one. Each takes its samples as numbers of four \
                bytes in host memory (RAM), outside the budget. With none, the model waits for every batch; many even out \
                samples that take different times, but do not make slow samples faster.",
    },
    Number { stops: &[0., 1., 2., 3., 4., 8., 16., 32., 64.], zero: Some("none"), place: Place::Setting },
);

pub(in crate::panels::experiment) const WORKERS: Numeric = (
    Spec {
        key: "data.workers",
        name: "Workers",
        help: "Threads that decode or generate the samples of a batch together; the batches are the same for any number. 0 is \
                automatic: half of the processor's threads, at the least 2 and at the most 8. \
                Each works in host memory of its own: an image at its full size, before it is made smaller. On a processor they \
                take their time from the training.",
    },
    Number { stops: &[0., 1., 2., 3., 4., 6., 8., 12., 16., 32.], zero: Some("automatic"), place: Place::Setting },
);

pub(in crate::panels::experiment) const CROP: Numeric = (
    Spec {
        key: "data.crop_padding",
        name: "Random crop",
        help: "Pixels of black around a training image, from which one of the old size is cut at random: the image stays as \
                large, so memory and step time stay too. More variants are harder to learn by heart, so training takes more epochs.",
    },
    Number { stops: &[0., 1., 2., 3., 4., 6., 8., 12., 16., 28.], zero: Some("off"), place: Place::Setting },
);

pub(in crate::panels::experiment) const COLOUR: Numeric = (
    Spec {
        key: "data.color_jitter",
        name: "Colour jitter",
        help: "The most that brightness, contrast and saturation of a training image change, as a share; it takes no \
                memory of the budget. The loader's thread does this a batch ahead, so it delays a step only with large \
                images.",
    },
    Number { stops: &[0., 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.], zero: Some("off"), place: Place::Setting },
);

/// The row of a setting that only some sources use.
pub(in crate::panels::experiment) fn source_row(setting: DataSetting, data: &Data) -> Row {
    match setting {
        DataSetting::Tokenizer => Row::drawn(&[source::TOKENIZER], source::tokenizer),
        DataSetting::Label => Row::drawn(&[table::LABEL], table::label),
        DataSetting::TableTask => Row::of(&table::TASK),
        DataSetting::Categorical => Row::drawn(&[table::CATEGORICAL], table::categorical),
        DataSetting::LeaveOut => Row::drawn(&[table::LEAVE_OUT], table::left_out),
        DataSetting::Packing => Row::of(&PACKING),
        DataSetting::CompletionOnly => Row::of(&COMPLETION_ONLY),
        DataSetting::SkipBroken => Row::of(&SKIP_BROKEN),
        // Bytes have a number of their own.
        DataSetting::Vocabulary if data.kind == DataKind::Text && !data.is_tokenized() => Row::drawn(&[], |_, _, _| {}),
        DataSetting::Vocabulary if data.kind.is_on_disk() => Row::of(&EMBEDDING_ROWS),
        DataSetting::Vocabulary => Row::of(&VOCABULARY),
        DataSetting::Side => Row::of(&SIDE),
        DataSetting::Classes => Row::of(&CLASSES),
        DataSetting::Samples => Row::of(&SAMPLES),
        DataSetting::Length => Row::of(&SAMPLE_LENGTH),
        DataSetting::Modulus => Row::of(&MODULUS),
        DataSetting::TestFraction => Row::of(&TEST_FRACTION),
    }
}

/// The words of a setting that distinguish data from other data of the same source; `None` for a setting that does not.
pub(in crate::panels) fn source_words(setting: DataSetting, data: &Data) -> Option<String> {
    match setting {
        DataSetting::Side => Some(format!("{0} x {0}", data.side)),
        DataSetting::Classes => Some(format::counted(data.classes as u64, "class")),
        DataSetting::Samples => Some(format::counted(data.samples as u64, "sample")),
        DataSetting::Length => Some(format!("length {}", data.length)),
        DataSetting::Vocabulary if data.kind.is_on_disk() => {
            data.chosen_vocabulary().map(|count| format::counted(count as u64, "token"))
        }
        DataSetting::Vocabulary => Some(format::counted(data.vocabulary as u64, "token")),
        DataSetting::Modulus => Some(format!("modulo {}", data.modulus)),
        DataSetting::Tokenizer => data.chosen_tokenizer().map(|path| format!("tokenizer {}", path.display())),
        DataSetting::Packing => data.packing.then(|| "packed".to_owned()),
        DataSetting::CompletionOnly => (!data.completion_only).then(|| "all scored".to_owned()),
        DataSetting::Label => Some(format!("label {}", data.label)).filter(|_| !data.label.is_empty()),
        DataSetting::TableTask => Some(data.task.key().to_owned()).filter(|_| data.task != TableTask::Auto),
        DataSetting::LeaveOut => {
            Some(format!("without {}", format::spaced(&data.leave_out))).filter(|_| !data.leave_out.is_empty())
        }
        DataSetting::Categorical | DataSetting::SkipBroken | DataSetting::TestFraction => None,
    }
}

/// The advanced settings of data: where the data lie, and how training images of any source are varied.
pub(in crate::panels::experiment) const DATA_REST: &[Row] = &[
    Row::of(&PLACEMENT),
    Row::drawn(&[CACHE.0, CACHE_PLACE.0, source::CACHE_FOLDER], source::kept),
    Row::of(&LOAD_SIDE),
    Row::of(&NORMALISE_WHEN),
    Row::of(&HOST_BUDGET).alone("host budget"),
    Row::of(&PREFETCH),
    Row::of(&WORKERS),
    Row::of(&NORMALISE),
    Row::of(&FLIP).when(has_pictures),
    Row::of(&CROP).when(has_pictures),
    Row::of(&COLOUR).when(has_pictures),
];

fn has_pictures(e: &Experiment) -> bool {
    e.data.kind.traits().has_pictures
}

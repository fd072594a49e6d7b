//! The cost of feeding a model: threads, batches made ahead, and their host memory.
//!
//! Owns [`Feed`], the choices by which a loader works, and [`HostMemory`], the host memory of loaders and their data. Always
//! holds: these choices change memory and time, and never what a model sees.

use std::sync::atomic::AtomicBool;

use crate::{
    bytes::Bytes,
    data::{
        AnswerSizes, DeviceDatasetLayout, Input, Split,
        batch::BatchLayout,
        image_set::Waiting,
        images,
        inspection::Inspection,
        kept::KeptSizes,
        loader::{IN_QUEUES, SEARCHED_FOR},
        order::Order,
    },
    device::Target,
    experiment::{Data, Experiment, Placement},
    tensor::DType,
};

/// How batches are made for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feed {
    /// Threads that make the samples of a batch together; 1 where samples are not worth more.
    pub workers: usize,
    /// Batches that exist at once: one with the model, the others ready or being filled.
    pub batches: usize,
    /// The type of 16 bits that images are rounded to before a batch is handed over. The thread of a GPU then copies them and
    /// converts nothing. `None` leaves them f32: the upload rounds them.
    pub rounded: Option<DType>,
}

/// How a batch is filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling<'a> {
    /// Threads that make its samples together.
    pub(super) workers: usize,
    /// The type of [`Feed::rounded`].
    pub(super) rounded: Option<DType>,
    /// Set once the samples are no longer wanted.
    pub(super) over: &'a AtomicBool,
}

impl<'a> Filling<'a> {
    /// By one thread, of f32.
    pub(super) fn alone(over: &'a AtomicBool) -> Self {
        Self { workers: 1, rounded: None, over }
    }
}

impl Feed {
    /// The feed that `data` chooses.
    pub fn of(data: &Data) -> Self {
        let workers = match data.workers {
            _ if !data.is_work() => 1,
            0 => images::threads(),
            chosen => chosen,
        };
        Self { workers, batches: data.prefetch + 1, rounded: None }
    }

    /// The feed that `experiment` chooses on a target. Images for a model in 16 bits on a GPU are rounded by the loader. On the
    /// processor all threads compute, and the upload rounds them in one pass.
    pub(crate) fn on(target: &Target, experiment: &Experiment) -> Self {
        let compute = experiment.precision.compute();
        let rounded = (target.is_gpu() && compute.is_half()).then_some(compute);
        Self { rounded, ..Self::of(&experiment.data) }
    }

    /// How each of its batches is filled, until `over`.
    pub(super) fn filling(self, over: &AtomicBool) -> Filling<'_> {
        Filling { workers: self.workers, rounded: self.rounded, over }
    }

    /// The same for a model that takes no more than so many batches: none is made that nobody takes.
    #[must_use]
    pub(crate) fn at_most(self, taken: u64) -> Self {
        let taken = usize::try_from(taken.max(1)).unwrap_or(usize::MAX);
        Self { batches: self.batches.min(taken), ..self }
    }
}

/// The host memory that data and loaders take while a model is trained. It is outside the budget of a run on a GPU, and does
/// not count as a run's own on the processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// The data set: its samples if they are held, and the lists for finding them.
    pub data: Bytes,
    /// Kept samples that are streamed ([`DataCache`](crate::experiment::DataCache)), once all of them are there.
    pub cache: Bytes,
    /// The teacher's answers to the training samples, if it is asked about each of them once.
    pub answers: Bytes,
    /// Batches for training, those for a test, and the order of the samples.
    pub batches: Bytes,
    /// The room that the threads work in. For images in files, as the largest of each kind took.
    pub workers: Bytes,
    /// Room on a disk for samples that are kept there; it takes no memory.
    pub disk: Bytes,
    /// The room to factor the largest layer as its weights are loaded, before the first batch.
    pub factors: Bytes,
    /// The room to normalise samples that are held, next to their bytes, before anything else.
    pub normalising: Bytes,
    /// Whether a teacher is asked before that about every training sample, which leaves all kept samples there.
    pub is_asked_before: bool,
}

/// Bytes of a loader's thread in addition to its batches: its queues and its names.
const LOADER_BOOKKEEPING: usize = 16 << 10;
/// Bytes of each thread that helps it.
const WORKER_BOOKKEEPING: usize = 2 << 10;

impl HostMemory {
    /// The memory of batches of `micro` samples for training, made as `feed` says, and of `test` for a test.
    pub(crate) fn new(data: &Data, found: &Inspection, feed: Feed, [micro, test]: [usize; 2]) -> Self {
        let (for_test, info) = (Feed::of(data), found.info());
        let kept = KeptSizes::of(data, info);
        let batch = |split, samples| samples * BatchLayout::new(data, info, split).sample_bytes();
        let order = if is_shuffled(data) { Order::bytes(info.train) } else { 0 };
        // A test may be over before every batch was filled once.
        let tested = for_test.batches.min(info.test.div_ceil(test.max(1)));
        let batches = feed.batches * batch(Split::Train, micro) + tested * batch(Split::Test, test) + order;
        let queues = (feed.batches + for_test.batches) * IN_QUEUES;
        // When a test begins, the last batches for training are still being made.
        let scratch = scratch(data, found) + kept.map_or(0, |kept| kept.scratch());
        let own = 2 * feed.workers * (scratch + WORKER_BOOKKEEPING) + decoding(data, found);
        Self {
            data: found.host_bytes(),
            cache: kept.map_or(Bytes::ZERO, |kept| kept.host()),
            disk: kept.map_or(Bytes::ZERO, |kept| kept.disk()),
            batches: Bytes((batches + queues) as u64),
            workers: Bytes((own + 2 * LOADER_BOOKKEEPING) as u64),
            factors: Bytes::ZERO,
            answers: Bytes::ZERO,
            normalising: Bytes(normalising(data, found) as u64),
            is_asked_before: false,
        }
    }

    /// The same, with a teacher's answers to all training samples, and to those of each batch of `micro`.
    pub(crate) fn with_answers(self, feed: Feed, sizes: &AnswerSizes, micro: usize) -> Self {
        let in_batches = feed.batches * micro * sizes.each();
        Self {
            answers: sizes.host(),
            is_asked_before: true,
            disk: self.disk + sizes.disk(),
            batches: self.batches + Bytes(in_batches as u64),
            ..self
        }
    }

    /// All of it that is host memory.
    pub fn total(&self) -> Bytes {
        self.data + self.fed()
    }

    /// All of it without the room to factor a layer.
    pub fn without_factors(&self) -> Bytes {
        Self { factors: Bytes::ZERO, ..*self }.total()
    }

    /// The most bytes in addition to the data set. Layers are factored after a teacher has answered, while the first batches are
    /// made with the samples that they keep; the other kept samples come while the model is trained, unless the teacher was asked
    /// about them.
    pub fn fed(&self) -> Bytes {
        self.normalising.max(self.fed_later())
    }

    /// The same once held samples are normalised.
    pub fn fed_later(&self) -> Bytes {
        let kept = if self.is_asked_before { self.cache } else { self.cache.min(self.batches) };
        self.answers + self.batches + self.workers + self.cache.max(self.factors + kept)
    }
}

/// Bytes of [`HostMemory`] that a run of `taken` training samples does not write to. These are the kept samples that it does not
/// come to (its loader is the batches of `feed` ahead, of `micro` each), and the rest of the last batch for a test, or all of them and the test
/// samples that would be kept for a run that is not tested.
pub(crate) fn untouched(
    data: &Data,
    found: &Inspection,
    taken: u64,
    feed: Feed,
    [micro, test]: [usize; 2],
    is_tested: bool,
) -> Bytes {
    let (for_test, info) = (Feed::of(data), found.info());
    let ahead = feed.batches.saturating_mul(micro) as u64;
    let kept = KeptSizes::of(data, info);
    let kept = kept.map_or(Bytes::ZERO, |kept| kept.unfilled(taken.saturating_add(ahead), is_tested));
    let tested = for_test.batches.min(info.test.div_ceil(test.max(1)));
    let written = if is_tested { info.test } else { 0 };
    let rest = (tested * test).saturating_sub(written) * BatchLayout::new(data, info, Split::Test).sample_bytes();
    kept + Bytes(rest as u64)
}

/// Bytes of the first batch of a test, which go back to the system before the model answers to it. Zero if the loader fills
/// its buffers again, and if so few bytes may stay in a heap.
pub(crate) fn given_back(data: &Data, found: &Inspection, test: usize) -> Bytes {
    let info = found.info();
    let bytes = test * BatchLayout::new(data, info, Split::Test).sample_bytes();
    let is_refilled = info.test.div_ceil(test.max(1)) > Feed::of(data).batches;
    // Labels take no more than inputs do.
    Bytes(if is_refilled || bytes < 2 * SEARCHED_FOR { 0 } else { bytes as u64 })
}

/// What makes a training set that lies on the device, before the first step: threads, and the bytes of a chunk that may be in
/// the peak.
pub(crate) fn uploading(data: &Data, found: &Inspection) -> (usize, Bytes) {
    if data.placement != Placement::Device {
        return (0, Bytes::ZERO);
    }
    let threads = if data.kind.traits().has_pictures { images::threads() } else { 0 };
    (threads, DeviceDatasetLayout::new(data, found.info()).chunk())
}

/// Bytes that the heaps of threads keep of files that they decoded, in addition to those that are decoded at once: a loader for a
/// test has threads of its own, and each keeps what its largest file took.
pub(crate) fn kept_by_decoders(data: &Data, found: &Inspection) -> Bytes {
    Bytes(if data.placement == Placement::Device { 0 } else { decoding(data, found) as u64 })
}

/// The most bytes in which files are decoded at once.
fn decoding(data: &Data, found: &Inspection) -> usize {
    found.listing().map_or(0, |listing| images::decoding_bytes(listing, data.loaded_side(), images::at_once(data)))
}

/// The bytes that normalising held samples takes in addition to them. Samples that are kept are normalised one by one.
fn normalising(data: &Data, found: &Inspection) -> usize {
    let info = found.info();
    if data.kept().is_none() && found.listing().is_none() {
        Waiting::of(data, info).normalising_bytes(info.train, info.test)
    } else {
        0
    }
}

/// Whether the samples have an order that is shuffled as a whole, which a stream of texts does not have.
fn is_shuffled(data: &Data) -> bool {
    !(data.is_tokenized() && data.placement == Placement::Streamed)
}

/// The most bytes that one thread works in, without those in which it decodes a file.
fn scratch(data: &Data, found: &Inspection) -> usize {
    let info = found.info();
    let Input::Image { height, width, channels } = info.input else { return 0 };
    if !data.kind.traits().has_pictures {
        return 0;
    }
    let waiting = Waiting::of(data, info);
    let (size, targets) = (waiting.elements(), info.labels_per_sample);
    // The image as it is varied, and as it was read if nothing holds it.
    let varied = if data.is_varied() { 2 * info.input.elements() * waiting.element_bytes() } else { 0 };
    let read = match found.listing() {
        Some(_) => size,
        None if data.placement == Placement::Host => 0,
        None => size + targets + 4 * size,
    };
    varied + read + waiting.resizing_bytes([height, width, channels])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_a_teacher_was_asked_about_are_kept_while_layers_are_factored() {
        let [cache, batches, factors] = [9, 1, 4].map(Bytes::mib);
        let host = HostMemory { cache, batches, factors, ..HostMemory::default() };
        assert_eq!(host.fed(), batches + cache);
        assert_eq!(HostMemory { is_asked_before: true, ..host }.fed(), batches + cache + factors);
    }
}

//! The loader: a thread that fills batches ahead of the trainer, in a few buffers that are reused.
//!
//! Owns the thread, its queue and the buffers. Always holds: batches arrive in order; no more of them exist than
//! [`Feed::batches`], so the thread runs at most that far ahead; its allocations are counted by the meter of its data and
//! not as the trainer's memory, on any thread. A fault in it reaches the trainer as an error; dropping the [`Loader`] ends
//! the thread and waits for it. Refuses: batches larger than the data.

use std::{
    convert::Infallible,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use crossbeam_channel::{Receiver, SendError, Sender, bounded, select_biased};

use crate::{
    bytes::Bytes,
    data::{
        Answers, Dataset, Feed, Split,
        batch::{BatchLayout, HostBatch},
        order::Order,
    },
    error::{Error, MemoryRefused, Problem, Result, panic_text},
    memory::{
        heap,
        probe::{Meter, counted_on, meter_this_thread, uncounted},
    },
};

/// Bytes of batches that all heaps are searched for when a loader ends, and of a batch whose buffers it needs no more.
pub(super) const SEARCHED_FOR: usize = 256 << 10;

/// Where training stands in its data: between two steps, or two micro-batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Passes over the training data before this one; the order of the samples follows from it.
    pub epoch: u64,
    /// Samples of this pass, in its order, that were trained on.
    pub place: usize,
}

impl Position {
    /// The position after `steps` steps of `effective` samples, out of `samples`.
    pub fn after(steps: u64, effective: usize, samples: usize) -> Self {
        let per_epoch = (samples / effective.max(1)).max(1) as u64;
        Self { epoch: steps / per_epoch, place: (steps % per_epoch) as usize * effective }
    }
}

/// Bytes of a batch in the queues of a loader, which have room for all of its batches, filled and free.
pub(super) const IN_QUEUES: usize = size_of::<Result<HostBatch>>() + size_of::<HostBatch>() + 2 * size_of::<usize>();

/// A filled batch, lent by the loader: dropping it hands the buffers back to be filled again.
#[derive(Debug)]
pub struct Batch {
    batch: HostBatch,
    /// `None` only while it is dropped. Its owners are the loader and the batches that are lent.
    home: Option<Arc<Sender<HostBatch>>>,
    /// Whether the loader fills its buffers again.
    is_needed: bool,
    meter: &'static Meter,
}

impl Deref for Batch {
    type Target = HostBatch;

    fn deref(&self) -> &HostBatch {
        &self.batch
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        counted_on(Some(self.meter), || {
            // When the thread has ended, nothing takes the buffers.
            let lost = match self.home.take().filter(|_| self.is_needed) {
                Some(home) => home.send(batch).err().map(SendError::into_inner),
                None => Some(batch),
            };
            let bytes = lost.as_ref().map_or(0, |lost| lost.inputs.slice().len() * size_of::<f32>());
            heap::giving_back(|| drop(lost));
            // The model answers to the last batches of a test without their buffers.
            if bytes >= SEARCHED_FOR {
                heap::give_back();
            }
        });
    }
}

/// The consumer's end of the loader thread.
#[derive(Debug)]
pub struct Loader {
    /// `None` once it has ended.
    queue: Option<Queue>,
    failed: Option<Error>,
}

#[derive(Debug)]
struct Queue {
    batches: usize,
    /// How often it is still to fill the buffers of a batch that was lent; `None` if there is no end of batches.
    refills: Option<usize>,
    /// Bytes of files that had been read when it began.
    read_before: Bytes,
    meter: &'static Meter,
    /// A sender whose disconnection is the signal to stop. Nothing is ever sent.
    stop: Option<Sender<Infallible>>,
    /// Tells a batch that is being filled to stop as well.
    over: Arc<AtomicBool>,
    ready: Receiver<Result<HostBatch>>,
    spare: Arc<Sender<HostBatch>>,
    thread: Option<JoinHandle<()>>,
    /// Numbers, of four bytes, in the inputs of the largest batch so far.
    largest: usize,
}

impl Loader {
    /// Endless micro-batches for training: `accumulation` of `micro` samples make a step. Each epoch has a new order of the
    /// samples, and leaves out those at its end that do not fill a step.
    ///
    /// # Errors
    /// Fails when `micro` x `accumulation` is zero or more than the training samples, or when the system gives no thread.
    pub fn train(dataset: Arc<Dataset>, seed: u64, micro: usize, accumulation: usize) -> Result<Self> {
        let feed = Feed::of(dataset.chosen());
        Self::train_from(Position::default(), dataset, seed, [micro, accumulation], feed)
    }

    /// Starts a loader that goes on from where a run stood, with `micro` x `accumulation` samples a step, made as `feed` says.
    ///
    /// # Errors
    /// Fails if [`Loader::train`] does, and for a position that does not lie between two steps.
    pub fn train_from(from: Position, dataset: Arc<Dataset>, seed: u64, batch: [usize; 2], feed: Feed) -> Result<Self> {
        Self::train_taught(from, dataset, seed, batch, feed, None)
    }

    /// Starts the same loader, whose batches also hold a teacher's answers to their samples.
    ///
    /// # Errors
    /// Fails if [`Loader::train_from`] does, and if the answers cannot be read.
    pub fn train_taught(
        from: Position,
        dataset: Arc<Dataset>,
        seed: u64,
        [micro, accumulation]: [usize; 2],
        feed: Feed,
        answers: Option<Arc<Answers>>,
    ) -> Result<Self> {
        let samples = dataset.count(Split::Train);
        let effective = micro.checked_mul(accumulation).filter(|n| (1..=samples).contains(n)).ok_or_else(|| {
            let message = format!("{accumulation} x {micro} samples make no step: there are {samples} to train on");
            Problem::new("batch.micro", message, format!("make micro-batch x accumulation 1 to {samples}"))
        })?;
        let Position { mut epoch, mut place } = from;
        if place > samples || !place.is_multiple_of(effective) {
            return Err(Error::Misused(format!(
                "{place} is not a place between two steps of {effective} of {samples} samples"
            )));
        }
        let (layout, is_stream) = (dataset.batch_layout(Split::Train), dataset.is_stream());
        let meter = dataset.meter();
        counted_on(Some(meter), || {
            let mut order = Order::new(if is_stream { 0 } else { samples });
            let per_epoch = samples / effective * effective;
            Self::start(feed.batches, None, meter, move |batch, over| {
                let filling = feed.filling(over);
                if place + effective > samples && place.is_multiple_of(effective) {
                    (epoch, place) = (epoch + 1, 0);
                    order.end();
                }
                reserve(batch, micro, &layout)?;
                if is_stream {
                    let first = epoch as usize * per_epoch + place;
                    dataset.fill(Split::Train, epoch, first..first + micro, batch, filling)?;
                    place += micro;
                    return Ok(());
                }
                order.begin(seed, epoch);
                let indices = (place..place + micro).map(|place| order.at(place));
                if let Some(answers) = &answers {
                    reserve_answers(batch, micro * answers.each())?;
                    answers.fill(indices.clone(), &mut batch.answers)?;
                }
                dataset.fill(Split::Train, epoch, indices, batch, filling)?;
                place += micro;
                Ok(())
            })
        })
    }

    /// All training samples at least once, in order, as they are before the first epoch: `micro` at a time, from where
    /// [`Loader::lesson_from`] says.
    ///
    /// # Errors
    /// Fails when `micro` is zero or more than the training samples, or when the system gives no thread.
    pub fn lessons(dataset: Arc<Dataset>, micro: usize, feed: Feed) -> Result<Self> {
        let samples = dataset.count(Split::Train);
        if !(1..=samples).contains(&micro) {
            let message = format!("{micro} samples make no micro-batch: there are {samples} to train on");
            return Err(Problem::new("batch.micro", message, format!("write 1 to {samples}")).into());
        }
        let mut number = 0;
        let (layout, meter) = (dataset.batch_layout(Split::Train), dataset.meter());
        counted_on(Some(meter), || {
            Self::start(feed.batches, Some(samples.div_ceil(micro.max(1))), meter, move |batch, over| {
                let place = Self::lesson_from(number, micro, samples)
                    .ok_or_else(|| Error::Misused("no training sample is left to ask about".to_owned()))?;
                number += 1;
                reserve(batch, micro, &layout)?;
                dataset.fill(Split::Train, 0, place..place + micro, batch, feed.filling(over))
            })
        })
    }

    /// The first sample of the micro-batch of this number, of those that a teacher is asked about; `None` after the last. The
    /// last one begins earlier if it would have fewer samples than the others: kernels may compute fewer rows otherwise.
    pub fn lesson_from(number: usize, micro: usize, samples: usize) -> Option<usize> {
        let from = number * micro;
        (from < samples).then(|| from.min(samples - micro))
    }

    /// All test samples once, in order, `micro` at a time; the last batch has the rest.
    ///
    /// # Errors
    /// Fails when `micro` is zero, or when the system gives no thread.
    pub fn test(dataset: Arc<Dataset>, micro: usize) -> Result<Self> {
        let feed = Feed::of(dataset.chosen());
        Self::test_fed(dataset, micro, feed)
    }

    /// Starts the same loader, with batches made as `feed` says.
    ///
    /// # Errors
    /// The errors of [`Loader::test`].
    pub fn test_fed(dataset: Arc<Dataset>, micro: usize, feed: Feed) -> Result<Self> {
        if micro == 0 {
            return Err(Problem::new("batch.micro", "a batch of no samples", "use at least 1").into());
        }
        let samples = dataset.count(Split::Test);
        let micro = micro.min(samples);
        let mut place = 0;
        let (layout, meter) = (dataset.batch_layout(Split::Test), dataset.meter());
        counted_on(Some(meter), || {
            Self::start(feed.batches, Some(samples.div_ceil(micro.max(1))), meter, move |batch, over| {
                let end = (place + micro).min(samples);
                reserve(batch, micro, &layout)?;
                dataset.fill(Split::Test, 0, place..end, batch, feed.filling(over))?;
                place = end;
                Ok(())
            })
        })
    }

    /// Waits for the next batch; `None` after the last.
    ///
    /// # Errors
    /// Fails when the loader failed, then and at every later call, and when the caller holds every batch there is, because it
    /// would wait for ever.
    pub fn recv(&mut self) -> Result<Option<Batch>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Some(queue) = &mut self.queue else { return Ok(None) };
        let Queue { batches, meter, .. } = *queue;
        if Arc::strong_count(&queue.spare) > batches {
            return Err(Error::Misused(format!("the loader lends {batches} batches at most: hand one back first")));
        }
        match uncounted(|| queue.ready.recv()) {
            Ok(Ok(batch)) => {
                queue.largest = queue.largest.max(batch.inputs.slice().len());
                let is_needed = queue.refills != Some(0);
                queue.refills = queue.refills.map(|refills| refills.saturating_sub(1));
                Ok(Some(Batch { batch, home: Some(Arc::clone(&queue.spare)), is_needed, meter }))
            }
            Ok(Err(error)) => {
                self.failed = Some(error.clone());
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }

    /// Batches that are ready now, of how many there can be while the model has one.
    pub fn ready(&self) -> (usize, usize) {
        self.queue.as_ref().map_or((0, 0), |queue| (queue.ready.len().min(queue.batches), queue.batches - 1))
    }

    /// Bytes of files that were read for these data since it began, by any loader.
    pub fn bytes_read(&self) -> Bytes {
        self.queue.as_ref().map_or(Bytes::ZERO, |queue| queue.meter.bytes_read().saturating_sub(queue.read_before))
    }

    /// Ends the thread, and gives its buffers back to the system: the next loader may have another heap. There are no batches
    /// after that.
    pub fn end(&mut self) {
        counted_on(self.queue.as_ref().map(|queue| queue.meter), || {
            if let Some(mut queue) = self.queue.take() {
                queue.over.store(true, Relaxed);
                drop(queue.stop.take());
                // The thread reports its own panics; here it only has to be over.
                queue.thread.take().map(JoinHandle::join);
                let bytes = queue.largest * size_of::<f32>() * queue.batches;
                heap::giving_back(|| drop(queue));
                // Buffers may lie before smaller blocks of their heap. A search of all heaps takes longer than the test of a
                // small model.
                if bytes >= SEARCHED_FOR {
                    heap::give_back();
                }
            }
        });
    }

    /// Starts the thread, with this many batches at a time and `all` of them together, and the meter that counts them. `fill` fills
    /// a batch, and gives up when the flag is set.
    fn start(
        batches: usize,
        all: Option<usize>,
        meter: &'static Meter,
        fill: impl FnMut(&mut HostBatch, &AtomicBool) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let read_before = meter.bytes_read();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let (stop, stopped) = bounded(0);
        // One place more than there are buffers, so that a last error never waits.
        let (fills, ready) = bounded(batches + 1);
        let (spare, spares) = bounded(batches + 1);
        for _ in 0..batches {
            let _ = spare.send(HostBatch::default());
        }
        let thread = std::thread::Builder::new()
            .name("loader".to_owned())
            .spawn(move || {
                meter_this_thread(Some(meter));
                work(fill, all.unwrap_or(usize::MAX), &is_over, &stopped, &spares, &fills);
                heap::give_back_own();
            })
            .map_err(|error| Error::NoThread { purpose: "loading data", reason: error.to_string() })?;
        Ok(Self {
            queue: Some(Queue {
                batches,
                refills: all.map(|all| all.saturating_sub(batches)),
                read_before,
                meter,
                stop: Some(stop),
                over,
                ready,
                spare: Arc::new(spare),
                thread: Some(thread),
                largest: 0,
            }),
            failed: None,
        })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes the buffers at their full size, once; an error instead of an abort when the system has no room.
fn reserve(batch: &mut HostBatch, samples: usize, layout: &BatchLayout) -> Result<()> {
    layout.prepare(batch, samples).map_err(|_| {
        let asked = Bytes((samples * layout.sample_bytes()) as u64);
        MemoryRefused { label: "a batch", ..MemoryRefused::of(asked) }.into()
    })
}

/// Empties the answers of a batch and makes room for exactly `bytes`.
fn reserve_answers(batch: &mut HostBatch, bytes: usize) -> Result<()> {
    batch.answers.clear();
    batch
        .answers
        .try_reserve_exact(bytes)
        .map_err(|_| MemoryRefused { label: "the teacher's answers", ..MemoryRefused::of(Bytes(bytes as u64)) }.into())
}

/// The thread: takes a spare batch, fills it, queues it; until stopped or failed, or until `all` are queued. It does not wait for
/// another spare then: the buffers of the last batches do not come back.
fn work(
    mut fill: impl FnMut(&mut HostBatch, &AtomicBool) -> Result<()>,
    all: usize,
    over: &AtomicBool,
    stopped: &Receiver<Infallible>,
    spares: &Receiver<HostBatch>,
    fills: &Sender<Result<HostBatch>>,
) {
    for _ in 0..all {
        let spare = select_biased! {
            recv(stopped) -> _ => return,
            recv(spares) -> spare => spare,
        };
        let Ok(mut batch) = spare else { return };
        let filled = catch_unwind(AssertUnwindSafe(|| fill(&mut batch, over)))
            .unwrap_or_else(|panic| Err(Error::Panic(format!("the loader thread: {}", panic_text(&*panic)))));
        let has_failed = filled.is_err();
        if fills.send(filled.map(|()| batch)).is_err() || has_failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests;

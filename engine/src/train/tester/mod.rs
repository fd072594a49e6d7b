//! Trying a model: evaluating its test set, answering a picture, continuing a prompt.
//!
//! Owns [`Tester`], which has threads and a budget of its own, apart from a run's. Always holds: the forward pass is the one
//! that a run tests with, so the figures of a checkpoint are those that its run reported, to the last bit; its memory is
//! predicted by a dry run, measured by the counting allocator, and refused if it would cross the line; only the data stay
//! alive between two calls. Refuses weights of another model, files that are not images, and prompts that the data have no
//! tokens for.

mod answers;
mod evaluation;
mod known;
mod one_sample;
mod refused;
mod reply;
mod rows;
mod tried;
mod writing;

use std::{borrow::Cow, sync::Arc};

pub use self::{
    answers::{Answer, Answers, Likely, OfClass},
    evaluation::Evaluation,
    reply::{Reply, Shown},
    tried::{Took, Tried, WeightsFrom},
    writing::{Sampling, Say, Written},
};
use self::{
    answers::{Counting, probabilities},
    one_sample::OneSample,
    rows::Rows,
    tried::Weights,
};
pub use crate::autograd::Cached;
use crate::{
    backend::{Backend, Executor, thread_pool::ThreadPriority},
    bytes::Bytes,
    data::{Dataset, DatasetInfo, Loader, Split},
    error::{BudgetError, Result},
    experiment::{Data, DataCache, Experiment, Task, weights::known::Known},
    hardware::Machine,
    memory::{host::Line, probe::uncounted},
    plan::{self, Forward, Passes, Resolved, answering},
    step::{MicroBatch, Session},
    sync::Mutex,
    tensor::DType,
    train::{
        checkpoint::Checkpoint,
        event_sink::EventSink,
        trainer,
        worker::{Measured, Use, Worker},
    },
};

/// Tries models, one after another.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, train::{Shown, Tester, Tried}};
///
/// let mut tester = Tester::new();
/// let tried = Tried::begun(Experiment::default());
/// let evaluation = tester.evaluate(&tried)?;
/// assert_eq!(evaluation.samples, 359);
/// assert!(evaluation.took.measured <= evaluation.took.predicted);
///
/// let reply = tester.show(&tried, Shown::Sample(0))?;
/// assert_eq!(reply.shares.len(), 10);
/// # Ok::<(), plimsoll_engine::Error>(())
/// ```
pub struct Tester {
    worker: Worker,
    events: EventSink,
    dataset: Option<Arc<Dataset>>,
    /// The choice of data, its facts and the set that pictures go through if the data are not looked at.
    known: Option<(Data, Known, Arc<Dataset>)>,
}

impl Default for Tester {
    fn default() -> Self {
        Self::new()
    }
}

impl Tester {
    /// A tester with threads of its own, and the machine as it is measured now.
    pub fn new() -> Self {
        Self::of(Worker::new(ThreadPriority::Normal))
    }

    /// A tester for a window, next to a run: the machine is known, and the threads have a low priority.
    pub fn in_background(machine: Machine) -> Self {
        Self::of(Worker::knowing(machine, ThreadPriority::Background))
    }

    fn of(worker: Worker) -> Self {
        Self { worker, events: EventSink::unheard(), dataset: None, known: None }
    }

    /// The machine as far as it is known now.
    pub fn machine(&self) -> &Machine {
        self.worker.machine()
    }

    /// Takes over later facts about the machine.
    pub fn learn(&mut self, machine: Machine) {
        self.worker.learn(machine);
    }

    /// Tests a model on its test set.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] if it would cross the budget or the machine's free memory; weights of another model; data
    /// that cannot be read.
    pub fn evaluate(&mut self, tried: &Tried) -> Result<Evaluation> {
        self.evaluate_telling(tried, &mut |_, _| {})
    }

    /// Tests a model on its test set; before each batch `told` is called with the samples that are answered, and all of them.
    ///
    /// # Errors
    /// The errors of [`Tester::evaluate`].
    pub fn evaluate_telling(
        &mut self,
        tried: &Tried,
        told: &mut (dyn FnMut(usize, usize) + Send),
    ) -> Result<Evaluation> {
        let ready = self.ready(tried, Weights::checkpoint(tried)?, Trying::TestSet)?;
        let (dataset, samples) = (self.dataset(&ready.resolved)?, ready.resolved.evaluation_batch());
        ready.weights.answer_for(&dataset, &ready.resolved)?;
        let caution = ready.weights.caution(&dataset, &ready.resolved);
        let (info, task) = (*dataset.facts(), ready.resolved.experiment().data.task());
        let has_classes = matches!(task, Task::Class | Task::Mask);
        let counts = has_classes.then(|| Counting::new(task, info.classes, info.labels_per_sample, info.test));
        let (weights, counts) = (ready.weights.source(tried), Mutex::new(counts));
        let class_names = if has_classes { ready.weights.class_names(&dataset) } else { Vec::new() };
        let mut test = Loader::test_fed(Arc::clone(&dataset), samples, ready.resolved.test_feed())?;
        let mut asked = 0;
        let next = || {
            let batch = test.recv()?;
            uncounted(|| told(info.test.min(asked), info.test));
            asked += samples;
            if let (Some(batch), Some(counting)) = (&batch, &mut *counts.lock()) {
                uncounted(|| counting.begin(&batch.labels));
            }
            Ok(batch)
        };
        let see = |dtype, bytes: &[u8]| {
            uncounted(|| counts.lock().iter_mut().for_each(|counting| counting.take(dtype, bytes)));
            Ok(())
        };
        let (means, took) = self.run(ready, &info, Answering { next, see })?;
        let answers = counts.into_inner().map(Counting::into_answers);
        let (loss, (accuracy, errors)) = (means.0, dataset.score(Split::Test, means));
        Ok(Evaluation {
            weights,
            task,
            loss,
            accuracy,
            errors,
            samples: info.test,
            answers,
            class_names,
            caution,
            took,
        })
    }

    /// Shows a picture, or a row of a table, to a model.
    ///
    /// # Errors
    /// The errors of [`Tester::evaluate`]; a picture that cannot be read, or data without pictures.
    pub fn show(&mut self, tried: &Tried, shown: Shown<'_>) -> Result<Reply> {
        let trying = match shown {
            Shown::Sample(_) => Trying::Sample,
            Shown::File(_) | Shown::Drawing(_) => Trying::Picture,
        };
        let ready = self.ready(tried, Weights::checkpoint(tried)?, trying)?;
        let dataset = match &ready.known {
            Some(known) => self.known_dataset(known, &ready.resolved)?,
            None => self.dataset(&ready.resolved)?,
        };
        ready.weights.answer_for(&dataset, &ready.resolved)?;
        let caution = ready.weights.caution(&dataset, &ready.resolved);
        let row = match shown {
            Shown::Sample(index) => dataset.test_row(index)?,
            Shown::File(_) | Shown::Drawing(_) => None,
        };
        let label = match shown {
            Shown::Sample(index) if tried.task() == Task::Class => dataset.test_sample(index)?.labels.first().copied(),
            _ => None,
        };
        let (picture, batch) = match shown {
            Shown::Sample(index) if row.is_some() => (None, dataset.test_sample(index)?),
            shown => {
                let picture = match shown {
                    Shown::Sample(index) => dataset.test_picture(index),
                    Shown::File(path) => dataset.picture_of(path),
                    Shown::Drawing(ink) => dataset.drawing(ink),
                }?;
                let batch = dataset.batch_of(&picture)?;
                (Some(picture), batch)
            }
        };
        let (info, weights) = (*dataset.facts(), ready.weights.source(tried));
        let class_names = ready.weights.class_names(&dataset);
        let mut batch = Some(OneSample(batch));
        let (is_mask, scale) = (tried.task() == Task::Mask, dataset.value_scale());
        let mut value = None;
        let mut rows = Rows::new(info.classes);
        let (mut shares, mut mask) = (vec![0.0; info.classes], Vec::new());
        let see = |dtype, bytes: &[u8]| {
            uncounted(|| {
                rows.take(dtype, bytes, |row| {
                    if let Some(scale) = scale {
                        value = row.first().map(|output| scale.value(f64::from(*output)));
                        shares.clear();
                    } else if is_mask {
                        let class = answers::answered(row);
                        shares[class as usize] += 1.0 / info.labels_per_sample as f32;
                        mask.push(class);
                    } else {
                        shares = probabilities(row);
                    }
                });
            });
            Ok(())
        };
        let (_, took) = self.run(ready, &info, Answering { next: || Ok(batch.take()), see })?;
        Ok(Reply { weights, picture, row, label, value, shares, mask, class_names, caution, took })
    }

    /// The data of a model, open.
    ///
    /// # Errors
    /// Data that cannot be read.
    pub fn data(&mut self, tried: &Tried) -> Result<Arc<Dataset>> {
        let resolved = Resolved::new(&alone(&tried.experiment), self.worker.machine()).map_err(plan::first)?;
        self.dataset(&resolved)
    }

    /// Plans the memory of a try. Refuses one that is past the line.
    fn ready(&mut self, tried: &Tried, checkpoint: Option<Checkpoint>, trying: Trying) -> Result<Ready> {
        self.worker.prepare(&tried.experiment, &self.events)?;
        let machine = self.worker.machine();
        let own = checkpoint.as_ref().map(Checkpoint::experiment).transpose()?;
        let decided = own.as_ref().map_or(Cow::Borrowed(&tried.experiment), |own| tried.experiment.decided_as(own));
        let known = known::of(tried, checkpoint.as_ref(), trying);
        let resolved = match &known {
            Some(known) => Resolved::knowing(&known.info, &alone(&decided), machine),
            None => Resolved::new(&alone(&decided), machine),
        };
        let resolved = resolved.map_err(plan::first)?;
        let (samples, test) = (resolved.evaluation_batch(), resolved.info().test);
        let of_test_set = [samples, test % samples.max(1)];
        let passes = match trying {
            Trying::TestSet => Passes::Batches(&of_test_set),
            Trying::Sample | Trying::Picture => Passes::Batches(&[1]),
            Trying::Prompt { prompt, count } => Passes::Writing { prompt, count },
        };
        let weights = Weights::of(checkpoint, &resolved)?;
        let begun = weights.begun();
        let forward = Forward::of(&resolved, machine, passes, begun)?;
        let is_open = known.is_some() || self.dataset.as_ref().is_some_and(|own| is_of(own, &tried.experiment));
        let to_read = if is_open { Bytes::ZERO } else { resolved.host().data };
        trainer::has_room_for_data(to_read)?;
        let line = trainer::line(forward.budget, &forward.target, to_read);
        if forward.load() > line.bytes
            && let Some(error) = Forward::refusal(&resolved.held_to(line.bytes), machine, passes, begun)?
        {
            let error = BudgetError { limited_by: line.limited_by, ..error };
            return Err(match trying {
                Trying::TestSet => refused::test(error, &resolved, machine, begun, (&forward, line.bytes))?,
                Trying::Sample | Trying::Picture | Trying::Prompt { .. } => refused::reply(error, &forward),
            }
            .into());
        }
        Ok(Ready { resolved, forward, weights, line, known })
    }

    /// The data of an experiment, kept for the next call.
    fn dataset(&mut self, resolved: &Resolved) -> Result<Arc<Dataset>> {
        let experiment = &**resolved.experiment();
        if let Some(own) = self.dataset.as_ref().filter(|own| is_of(own, experiment)) {
            return Ok(Arc::clone(own));
        }
        // The old data are freed before the new ones are read.
        self.dataset = None;
        let dataset = Dataset::open_inspected(&experiment.whole_data(), &experiment.run, resolved.data())?;
        Ok(Arc::clone(self.dataset.insert(Arc::new(dataset))))
    }

    /// Makes the model, gives it its weights and hands it to `with`.
    fn run<W: With + Send>(&self, ready: Ready, info: &DatasetInfo, with: W) -> Result<(W::Output, Took)>
    where
        W::Output: Send,
    {
        let Ready { resolved, forward, weights, line, .. } = ready;
        let experiment = answering(resolved.experiment());
        let made = Made { experiment: &experiment, info, weights, with };
        let (output, Measured { live }) = self.worker.answer(made, &resolved, &forward, line)?;
        let Forward { budget, live: predicted, cached, .. } = forward;
        Ok((output, Took { budget: line.bytes.min(budget), predicted, measured: live, cached }))
    }
}

/// The input that a model is tried with.
#[derive(Debug, Clone, Copy)]
enum Trying {
    TestSet,
    Sample,
    /// A picture that is not from the data.
    Picture,
    /// Up to `count` tokens are written after `prompt` of them.
    Prompt {
        prompt: usize,
        count: usize,
    },
}

/// A model that is to be tried, with everything that was found out about it.
struct Ready {
    resolved: Resolved,
    forward: Forward,
    weights: Weights,
    line: Line,
    /// The known facts of the data, if the data are not looked at.
    known: Option<Known>,
}

/// Work with a session.
trait With {
    type Output;

    fn with<B: Backend>(self, session: &Session<B>) -> Result<Self::Output>;
}

/// The session that it is done with, made on a device.
struct Made<'a, W> {
    experiment: &'a Experiment,
    info: &'a DatasetInfo,
    weights: Weights,
    with: W,
}

impl<W: With> Use for Made<'_, W> {
    type Output = W::Output;

    fn run<B: Backend>(self, executor: Executor<B>) -> Result<Self::Output> {
        let is_replaced = |name: &str| self.weights.has(name);
        let mut session = Session::replaced(executor, self.experiment, self.info, Some(&is_replaced))?;
        self.weights.load(&mut session)?;
        self.with.with(&session)
    }
}

/// Batches are answered.
struct Answering<N, S> {
    next: N,
    see: S,
}

impl<M, N, S> With for Answering<N, S>
where
    M: MicroBatch,
    N: FnMut() -> Result<Option<M>>,
    S: FnMut(DType, &[u8]) -> Result<()>,
{
    type Output = (f64, f64);

    fn with<B: Backend>(mut self, session: &Session<B>) -> Result<(f64, f64)> {
        session.answer(self.next, Some(&mut self.see))
    }
}

fn is_of(dataset: &Dataset, experiment: &Experiment) -> bool {
    let own = alone(experiment);
    dataset.is_for(&own.whole_data(), &own.run)
}

/// The experiment without a teacher, without kept training samples and without a time of pruning, because all are for training.
fn alone(experiment: &Experiment) -> Experiment {
    let mut own = experiment.untaught();
    own.data.cache = DataCache::None;
    // Where zeros begin decides no answer, and a run of an earlier version may have ended before.
    if own.prune.kind.sets_to_zero() {
        own.prune.begin_step = 0;
    }
    own
}

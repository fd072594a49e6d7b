//! The loop of a run: steps, evaluations, checkpoints and commands, in order.

mod compress;
mod reports;
mod teach;
mod thin;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use self::{reports::ToldWays, thin::TEST_WAITS};
use crate::{
    backend::{Backend, Executor},
    bytes::Bytes,
    data::{Loader, Position, Split},
    error::{Error, Result},
    experiment::Experiment,
    memory::{Ledger, probe::uncounted},
    plan::{Peak, SoFar},
    step::{PendingStep, Session, schedule::learning_rate},
    train::{
        checkpoint::Progress,
        command::{Inbox, Turn},
        event::{Event, Summary},
        fed::{Fed, next},
        keep::SaveReason,
        memory_sampler::MemorySampler,
        run::RunSpec,
        saver::Saver,
    },
};

/// Steps that may be queued on a device beyond the last one whose numbers are here.
const AHEAD: usize = 2;

/// What is done with the account of a run once its kernels are loaded.
pub(super) type Settle<'a> = dyn Fn(&Ledger) -> Result<()> + 'a;

/// A run under way.
pub(super) struct RunLoop<'a, 'j> {
    spec: &'a RunSpec<'j>,
    experiment: &'a Experiment,
    loader: Loader,
    /// The bytes of the teacher's answers on a disk.
    answers_on_disk: Bytes,
    sampler: MemorySampler,
    told_ways: ToldWays,
    settle: Box<Settle<'a>>,
    is_settled: bool,
    waited: Duration,
    began: Instant,
    summary: &'a mut Summary,
    /// The number of steps done.
    step: u64,
    /// The step after which the model was tested last; 0: none.
    tested: u64,
    /// The mean loss of the last test.
    test_loss: Option<f64>,
    /// How long that test took, if it was in this session.
    test_secs: Option<f64>,
    /// Seconds of its steps since it began or went on.
    trained_secs: f64,
    /// Evaluations since it began or went on.
    evaluations: u64,
    /// Seconds before the run went on from a checkpoint.
    before_secs: f64,
    /// The highest memory as measured before that.
    measured_before: Peak,
    saver: Option<Saver<'a>>,
    /// The reason why the last save failed, if it did.
    unsaved_by: Option<String>,
    /// The best accuracy of the tests that count in the end: where weights are pruned, of those after that.
    best_final: Option<f64>,
    /// Images that the user knows are skipped.
    skipped: usize,
    /// Whether a test waits until channels are taken out.
    is_test_asked: bool,
    /// Steps whose numbers are on their way, in order.
    pending: VecDeque<Queued>,
    fed: Fed,
    /// When the numbers of the last step came.
    came: Instant,
}

/// A step whose numbers are on their way.
struct Queued {
    step: u64,
    learning_rate: f64,
    pending: PendingStep,
    began: Instant,
    memory: Peak,
}

impl<'a, 'j> RunLoop<'a, 'j> {
    pub(super) fn new(spec: &'a RunSpec<'j>, loader: Loader, sampler: MemorySampler, summary: &'a mut Summary) -> Self {
        let experiment = &*spec.plan.experiment;
        let (waited, began, pending) = (Duration::ZERO, Instant::now(), VecDeque::with_capacity(AHEAD + 1));
        let mut run = Self {
            spec,
            experiment,
            loader,
            answers_on_disk: Bytes::ZERO,
            sampler,
            told_ways: ToldWays::default(),
            settle: Box::new(|_| Ok(())),
            is_settled: false,
            waited,
            began,
            summary,
            step: 0,
            tested: 0,
            test_loss: None,
            test_secs: None,
            trained_secs: 0.0,
            evaluations: 0,
            before_secs: 0.0,
            measured_before: spec.plan.resolved.resumed().map(|resumed| resumed.so_far.measured).unwrap_or_default(),
            saver: None,
            unsaved_by: None,
            best_final: None,
            skipped: 0,
            is_test_asked: false,
            pending,
            fed: Fed::default(),
            came: began,
        };
        if let Some(from) = &spec.from {
            run.go_on_from(from);
        }
        run.saver = uncounted(|| Saver::new(spec.keep, experiment, &spec.dataset, run.step));
        run
    }

    /// Lets this be done after the first step, and after each test.
    #[cfg(feature = "cuda")]
    pub(super) fn settling(&mut self, settle: Box<Settle<'a>>) {
        self.settle = settle;
    }

    /// Takes over the progress of an earlier run.
    fn go_on_from(&mut self, progress: &Progress) {
        let SoFar { train_loss, tested, test_loss, test_accuracy, best_test_accuracy, .. } = progress.so_far;
        (self.step, self.tested, self.before_secs) = (progress.step, tested, progress.secs);
        self.test_loss = test_loss;
        // Earlier versions counted every test.
        let earlier = best_test_accuracy.filter(|_| self.spec.plan.resolved.masked_after().is_none() && !self.thins());
        self.best_final = progress.best_final.or(earlier);
        *self.summary = Summary {
            steps: progress.step,
            train_loss,
            test_accuracy,
            best_test_accuracy,
            skipped_steps: progress.skipped_steps,
            ..*self.summary
        };
    }

    /// Runs from making the model to the end.
    pub(super) fn run<B: Backend>(&mut self, executor: Executor<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        let host = self.spec.dataset.meter();
        host.reset_peak();
        let result = self.steps(executor, inbox);
        self.summary.measured = self.sampler.finish();
        self.summary.host.measured = self.spec.dataset.host_peak();
        self.summary.host.measured_disk = self.spec.dataset.on_disk() + self.answers_on_disk;
        self.tell_how_fed();
        self.summary.secs = self.secs();
        let saver = self.saver.take();
        uncounted(|| drop(saver));
        result
    }

    /// Seconds since the run began, pauses excluded.
    fn secs(&self) -> f64 {
        self.before_secs + self.began.elapsed().saturating_sub(self.waited).as_secs_f64()
    }

    /// The measured memory, which goes last.
    pub(super) fn into_sampler(self) -> MemorySampler {
        self.sampler
    }

    fn steps<B: Backend>(&mut self, executor: Executor<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        self.ask(&executor, inbox)?;
        let mut session = {
            let weights = self.spec.weights.lock();
            let is_replaced = |name: &str| match &*weights {
                Some(weights) => weights.has(name),
                None => self.spec.from.is_some(),
            };
            Session::replaced(executor, self.experiment, self.spec.plan.resolved.info(), Some(&is_replaced))?
        };
        session.upload_dataset(&self.spec.dataset)?;
        if let Some(checkpoint) = self.spec.checkpoint.lock().take() {
            let restored = checkpoint.restore(&mut session);
            uncounted(|| drop(checkpoint));
            restored?;
            self.sampler.read(Bytes::ZERO);
        }
        if let Some(mut weights) = self.spec.weights.lock().take() {
            weights.count_on(self.spec.dataset.meter());
            let loaded = session.load(&mut weights);
            weights.clear_factors();
            uncounted(|| drop(weights));
            self.sampler.read(Bytes::ZERO);
            loaded?;
        }
        if let Some((mut weights, teacher)) = self.spec.teacher.lock().take().zip(self.spec.plan.resolved.teacher()) {
            let taught = session.teach(teacher, &mut weights);
            uncounted(|| drop(weights));
            self.sampler.read(Bytes::ZERO);
            taught?;
        }
        self.report_skipped();
        self.spec.dataset.notes().iter().for_each(|note| self.warn(|| note.clone()));
        match self.train(&mut session, inbox) {
            Ok(()) => {
                self.save(&mut session, SaveReason::End)?;
                self.compress(&session, inbox)
            }
            Err(Error::Stopped) => {
                self.save(&mut session, SaveReason::Stop)?;
                Err(Error::Stopped)
            }
            Err(error) => Err(error),
        }
    }

    fn train<B: Backend>(&mut self, session: &mut Session<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        let plan = self.spec.plan;
        let every = plan.resolved.tested_every();
        while self.step < plan.total_steps {
            // A run that was stopped in the middle of a test tests again.
            if self.step > 0 && self.step.is_multiple_of(every) && self.tested < self.step {
                self.evaluate(session, inbox)?;
            }
            if self.saver.as_ref().is_some_and(|saver| saver.is_due(self.step)) {
                self.save(session, SaveReason::Interval)?;
            }
            if inbox.is_paused() {
                // A user who goes step by step sees each step before the next.
                self.tell(session, 0)?;
            }
            match inbox.turn(self.spec.events, &mut self.waited)? {
                Turn::Evaluate if self.is_larger_than_tested(session) => {
                    self.is_test_asked = true;
                    self.warn(|| TEST_WAITS.to_owned());
                }
                Turn::Evaluate => self.evaluate(session, inbox)?,
                Turn::Step => {
                    self.step += 1;
                    self.step(session)?;
                    if self.thin(session)? && self.is_test_asked {
                        self.evaluate(session, inbox)?;
                    }
                }
            }
        }
        if self.tested < self.step {
            return self.evaluate(session, inbox);
        }
        // A run that goes on from its last test has the model of that test.
        (self.summary.stripped, self.summary.factored) = (session.stripped()?, session.factored());
        Ok(())
    }

    fn step<B: Backend>(&mut self, session: &mut Session<B>) -> Result<()> {
        let step = self.step;
        let learning_rate = learning_rate(&self.experiment.optimizer, step, self.spec.plan.total_steps);
        // Sampled steps are drawn over the steady step's prediction; the first step has another timeline.
        let is_sampled = step > 1 && self.sampler.is_sample_due();
        if is_sampled {
            let ops = self.spec.plan.timeline(self.spec.plan.pass_of(step)).points.len();
            session.executor().sample(self.sampler.meter(), ops);
        }
        let (start, loader, fed) = (Instant::now(), &mut self.loader, &mut self.fed);
        let pending = session.begin_step(learning_rate, || next(loader, fed));
        self.tell_how_fed();
        self.hold_host_budget()?;
        let sampled = if is_sampled { self.show_sample(session, step) } else { Bytes::ZERO };
        let memory = self.sampler.read(sampled);
        self.pending.push_back(Queued { step, learning_rate, pending: pending?, began: start, memory });
        if !self.is_settled {
            // Numbers that are there are told, however the run goes on.
            self.tell(session, 0)?;
            (self.settle)(session.executor().ledger())?;
            self.is_settled = true;
        }
        self.tell(session, AHEAD)
    }

    /// Tests the model. Commands are obeyed between batches: so a long test does not delay the end of the run.
    fn evaluate<B: Backend>(&mut self, session: &mut Session<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        let (events, step) = (self.spec.events, self.step);
        self.is_test_asked = false;
        self.tell(session, 0)?;
        events.send(Event::Evaluating { step });
        let (dataset, resolved) = (Arc::clone(&self.spec.dataset), &self.spec.plan.resolved);
        let mut test = Loader::test_fed(dataset, resolved.evaluation_batch(), resolved.test_feed())?;
        let begun = Instant::now();
        let means = session.evaluate(|| {
            inbox.listen(events)?;
            test.recv()
        })?;
        self.test_secs = Some(begun.elapsed().as_secs_f64());
        drop(test);
        (self.settle)(session.executor().ledger())?;
        (self.summary.stripped, self.summary.factored) = (session.stripped()?, session.factored());
        self.report_skipped();
        self.sampler.read(Bytes::ZERO);
        let (loss, (accuracy, errors)) = (means.0, self.spec.dataset.score(Split::Test, means));
        let is_best = self.is_pruned(session) && self.best_final.is_none_or(|best| accuracy > best);
        if is_best {
            self.best_final = Some(accuracy);
        }
        (self.tested, self.test_loss, self.evaluations) = (step, Some(loss), self.evaluations + 1);
        self.summary.test_accuracy = Some(accuracy);
        self.summary.test_errors = errors;
        let of_all = self.summary.best_test_accuracy.map_or(accuracy, |best| best.max(accuracy));
        self.summary.best_test_accuracy = Some(self.best_final.unwrap_or(of_all));
        self.spec.events.send(Event::Evaluated { step, at_secs: self.secs(), loss, accuracy, errors });
        if is_best && self.experiment.run.save_best { self.save(session, SaveReason::Best) } else { Ok(()) }
    }

    /// Writes a checkpoint, if the run is kept and has come further than the one before.
    fn save<B: Backend>(&mut self, session: &mut Session<B>, why: SaveReason) -> Result<()> {
        if !self.saver.as_ref().is_some_and(|saver| saver.has_news(why, self.step)) {
            return Ok(());
        }
        // Only numbers that were seen to be finite are saved.
        self.tell(session, 0)?;
        self.sampler.read(Bytes::ZERO);
        let progress = self.progress();
        let Some(saver) = &mut self.saver else { return Ok(()) };
        let saved = saver.save(session, &progress, self.evaluations, why);
        let live = self.sampler.read(Bytes::ZERO).live;
        match saved {
            Ok((path, bytes)) => {
                let path = uncounted(|| path.to_owned());
                uncounted(|| self.unsaved_by = None);
                self.spec.events.send(Event::Saved { step: self.step, path, bytes, live, why });
                Ok(())
            }
            // The run goes on, and tries again when the next one is due.
            Err(error @ Error::File { .. }) if matches!(why, SaveReason::Interval | SaveReason::Best) => {
                let fault = uncounted(|| error.to_string());
                if self.unsaved_by.as_ref() != Some(&fault) {
                    self.warn(|| {
                        format!("{fault}; the run goes on, and each later checkpoint is tried without this message")
                    });
                    self.unsaved_by = Some(fault);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Where the run stands.
    fn progress(&self) -> Progress {
        let samples = self.spec.dataset.facts().train;
        Progress {
            step: self.step,
            total_steps: self.spec.plan.total_steps,
            position: Position::after(self.step, self.experiment.batch.effective(), samples),
            samples: samples as u64,
            data_checksum: self.spec.dataset.checksum(),
            tokenizer_checksum: self.spec.dataset.tokenizer_checksum(),
            teacher_checksum: self.spec.teacher_checksum,
            skipped_steps: self.summary.skipped_steps,
            secs: self.secs(),
            best_final: self.best_final,
            so_far: SoFar {
                measured: self.sampler.peak().max(self.measured_before),
                train_loss: self.summary.train_loss,
                tested: self.tested,
                test_loss: self.test_loss,
                test_accuracy: self.summary.test_accuracy,
                best_test_accuracy: self.summary.best_test_accuracy,
            },
        }
    }
}

//! The memory of forward passes of a model that is tried and not trained: its weights, and one batch after another, or the
//! tokens of a text.
//!
//! Always holds: it is a dry run of the session that answers, with the loaded weights if there are some. Optimizer state,
//! gradients and a training set on the device are not part of it.

use std::{borrow::Cow, sync::Arc};

use crate::{
    autograd::Cached,
    backend::{DryRun, Executor},
    bytes::Bytes,
    device::{PoolPolicy, Target},
    error::{BudgetError, Error, Result},
    experiment::{Experiment, Placement},
    hardware::Machine,
    memory::{
        Bookkeeping, Categories, Ledger, Timeline,
        allocator::{Allocator, Places, Search},
        tally,
    },
    plan::{Resolved, predict::places::are_in_range},
    step::{Blank, Session, load},
};

/// The forward passes of a model that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes<'a> {
    /// Batches of these numbers of samples.
    Batches(&'a [usize]),
    /// Up to `count` tokens written after `prompt` of them.
    Writing {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens that are written.
        count: usize,
    },
}

/// Where the weights of a model come from that is not trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The weights are drawn at random.
    Drawn,
    /// The weights are loaded.
    Loaded,
    /// The weights are loaded into the smaller model that was left when channels were taken out.
    Thinned,
}

/// The memory of the forward passes of one model, apart from any training.
#[derive(Debug, Clone)]
pub struct Forward {
    /// The target that it was planned for.
    pub target: Target,
    /// The line: the experiment's budget, or the whole card if that is less.
    pub budget: Bytes,
    /// The bytes of the engine's own structures in each phase; none on a GPU.
    pub bookkeeping: Bookkeeping,
    /// The most bytes alive.
    pub live: Bytes,
    /// The most that the allocator holds for them.
    pub reserved: Bytes,
    /// The bytes that are alive then, by category.
    pub categories_at_peak: Categories,
    /// The timeline from making the model to the last batch.
    pub timeline: Timeline,
    /// Parameters of the model.
    pub parameters: u64,
    /// The key-value cache of a text that is written on; none otherwise, and none if the prompt fills all places.
    pub cached: Option<Cached>,
    /// Where blocks will lie, if that was found beforehand: always on the processor, and on a GPU where it is asked for and
    /// takes no more than growing.
    pub places: Option<Arc<Places>>,
}

impl Forward {
    /// The dry run of `passes`, on a model whose weights come from where `begun` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use plimsoll_engine::{Experiment, hardware::Machine, plan::{Begun, Forward, Passes, Plan}};
    ///
    /// let plan = Plan::of(&Experiment::default(), &Machine::nominal())?;
    /// let forward = Forward::of(&plan.resolved, &plan.machine, Passes::Batches(&[64]), Begun::Loaded)?;
    /// // To answer takes less than to learn.
    /// assert!(forward.live < plan.peak.live);
    /// # Ok::<(), plimsoll_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails when the model cannot be built.
    pub fn of(resolved: &Resolved, machine: &Machine, passes: Passes<'_>, begun: Begun) -> Result<Self> {
        let Some((places, grown)) = found(resolved, machine, passes, begun)? else {
            return Self::at(None, resolved, machine, passes, begun);
        };
        let forward = Self::at(Some(places), resolved, machine, passes, begun)?;
        if forward.reserved > grown { Self::at(None, resolved, machine, passes, begun) } else { Ok(forward) }
    }

    /// The same passes, with blocks at `places` if there are any.
    fn at(
        places: Option<Arc<Places>>,
        resolved: &Resolved,
        machine: &Machine,
        passes: Passes<'_>,
        begun: Begun,
    ) -> Result<Self> {
        let (target, experiment) = (resolved.target(), answering(resolved.experiment()));
        let is_gpu = target.is_gpu();
        let of_target = || -> Result<_> {
            let ledger = match target {
                Target::Cpu(_) => Ledger::logging(),
                Target::Gpu(_) => Ledger::for_target(target, experiment.gpu.pool, resolved.line(), false, true),
            };
            ledger.follow(places.as_ref());
            let (session, cached) = run(resolved, &experiment, machine, ledger, passes, begun)?;
            let ledger = session.executor().ledger();
            let recording = tally::suspended(|| ledger.take_recording());
            let bookkeeping = ledger.gathered();
            Ok((session, recording, bookkeeping, cached))
        };
        let (session, recording, bookkeeping, cached) = if is_gpu { of_target() } else { tally::counted(of_target) }?;
        let ledger = session.executor().ledger();
        let is_in_range = are_in_range(&experiment);
        let places = places.or_else(|| is_in_range.then(|| ledger.places(target, usize::MAX)).flatten());
        let replayed = ledger.replayed(Allocator::of_processor(is_in_range), places.as_ref()).into_iter().next();
        let recording = if is_gpu { recording } else { replayed.unwrap_or(recording) };
        Ok(Self {
            target: target.clone(),
            budget: resolved.line(),
            bookkeeping,
            live: recording.live_peak,
            reserved: recording.reserved_peak,
            categories_at_peak: recording.categories_at_peak,
            timeline: recording.timeline,
            parameters: session.model().parameters(),
            cached,
            places,
        })
    }

    /// The refusal that the same passes would meet; `None` when they stay inside the budget.
    ///
    /// # Errors
    /// Fails for every other reason than the refusal, which is the value.
    pub fn refusal(
        resolved: &Resolved,
        machine: &Machine,
        passes: Passes<'_>,
        begun: Begun,
    ) -> Result<Option<BudgetError>> {
        let (target, experiment) = (resolved.target(), answering(resolved.experiment()));
        let Self { bookkeeping, places, .. } = Self::of(resolved, machine, passes, begun)?;
        let ledger = Ledger::for_target(target, experiment.gpu.pool, resolved.line(), true, false);
        ledger.follow(places.as_ref());
        if !target.is_gpu() {
            ledger.keep_books(bookkeeping);
        }
        match run(resolved, &experiment, machine, ledger, passes, begun) {
            Ok(_) => Ok(None),
            Err(Error::Budget(refusal)) => Ok(Some(refusal.planned())),
            Err(other) => Err(other),
        }
    }

    /// The bytes that count against the budget at the peak: those alive, or on a GPU the whole process.
    pub fn load(&self) -> Bytes {
        match &self.target {
            Target::Cpu(_) => self.live,
            Target::Gpu(profile) => profile.context + self.reserved,
        }
    }
}

/// The experiment for a session that only answers: without a training set on the device.
pub(crate) fn answering(experiment: &Experiment) -> Cow<'_, Experiment> {
    if experiment.data.placement != Placement::Device {
        return Cow::Borrowed(experiment);
    }
    let mut own = experiment.clone();
    own.data.placement = Placement::Streamed;
    Cow::Owned(own)
}

/// Places for the blocks of `passes`, and the memory that growing would take; `None` if blocks are placed as they come, or if
/// that is better.
fn found(
    resolved: &Resolved,
    machine: &Machine,
    passes: Passes<'_>,
    begun: Begun,
) -> Result<Option<(Arc<Places>, Bytes)>> {
    let (target, experiment) = (resolved.target(), answering(resolved.experiment()));
    let Target::Gpu(profile) = target else { return Ok(None) };
    if experiment.gpu.pool != PoolPolicy::Planned {
        return Ok(None);
    }
    let ledger = Ledger::for_target(target, experiment.gpu.pool, resolved.line(), false, false);
    ledger.keep_requests();
    let (session, _) = run(resolved, &experiment, machine, ledger, passes, begun)?;
    let ledger = session.executor().ledger();
    let (places, grown) = (Places::of(&ledger.take_requests(), &profile.pool, Search::Careful), ledger.reserved());
    Ok((places.segment() <= grown).then(|| (Arc::new(places), grown)))
}

fn run(
    resolved: &Resolved,
    experiment: &Experiment,
    machine: &Machine,
    ledger: Ledger,
    passes: Passes<'_>,
    begun: Begun,
) -> Result<(Session<DryRun>, Option<Cached>)> {
    let target = resolved.target();
    let rates = machine.rates(target, experiment.gpu.tf32);
    let executor = Executor::new(DryRun::new(target.clone(), rates), ledger);
    let mut session = Session::new(executor, experiment, resolved.info())?;
    match begun {
        Begun::Drawn => {}
        Begun::Loaded => session.load(&mut load::Anything)?,
        Begun::Thinned => {
            session.thin()?;
            session.load(&mut load::Anything)?;
        }
    }
    let cached = match passes {
        Passes::Batches(batches) => {
            let mut batches = batches.iter().copied().filter(|samples| *samples > 0).map(Blank);
            session.answer(|| Ok(batches.next()), Some(&mut |_, _| Ok(())))?;
            None
        }
        Passes::Writing { prompt, count } => written(&session, prompt, count)?,
    };
    Ok((session, cached))
}

/// Writes on after a prompt: every later pass of a kind repeats the second.
fn written(session: &Session<DryRun>, prompt: usize, count: usize) -> Result<Option<Cached>> {
    let mut writing = session.writing(prompt, count)?;
    for length in writing.lengths(prompt, count) {
        let tokens = tally::suspended(|| vec![0; length]);
        writing.next(&tokens, &mut |_, _| Ok(()))?;
        tally::suspended(|| drop(tokens));
    }
    Ok(Some(writing.cached()).filter(|cached| cached.positions > 0))
}

//! Planning: the memory of a run, whether it fits, the changes that would fit, and the time that it takes. Nothing here
//! allocates a tensor.

pub mod change;
pub mod fit;
mod forward;
mod full_precision;
mod further;
mod host;
mod layer_row;
mod limit;
mod pass;
mod peak;
pub mod predict;
mod rates;
mod resolved;
mod search;
pub mod time;
mod verdict;

pub use change::Change;
pub use fit::{Found, Nearest, advise, advise_or_tell, fill, fit, largest_batch};
pub(crate) use forward::answering;
pub use forward::{Begun, Forward, Passes};
pub use full_precision::HighPrecisionTensor;
pub use further::further;
pub use host::{HostObstacle, HostOffer};
pub use layer_row::LayerRow;
pub use limit::Limit;
pub use pass::Pass;
pub use peak::Peak;
pub(crate) use predict::process::RECORDED_STEPS;
pub use predict::{Grown, op_secs, predict};
pub use resolved::{Resolved, Resumed, SoFar};
pub use search::Advice;
pub use time::{measured_machine, predict_here, this_machine};
pub use verdict::Verdict;

pub use crate::{nn::Factorable, step::SmallerSize};
use std::sync::Arc;

use crate::{
    bytes::Bytes,
    data::HostMemory,
    device::Target,
    error::{Error, Problem, Result},
    experiment::{Experiment, Precision},
    hardware::Machine,
    memory::{
        Alive, Bookkeeping, Categories, Category, Point, Timeline,
        allocator::Places,
        host::{LimitedBy, Line},
    },
};

/// The prediction for one experiment: the dry run of the very steps that will train.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, hardware::Machine, plan::{Pass, Plan}};
///
/// let plan = Plan::of(&Experiment::default(), &Machine::nominal())?;
///
/// // The peak of the run is the highest point of the pass that reaches it.
/// let timeline = plan.timeline(plan.peak_pass);
/// let highest = &timeline.points[timeline.peak_index().expect("a step has ops")];
/// assert_eq!(highest.live, plan.peak.live);
/// println!("{} at {} in {}", plan.peak.live, highest.op, timeline.layer(highest.layer));
///
/// // An evaluation keeps no activations for a backward pass.
/// assert!(plan.timeline(Pass::Evaluate).peak() < plan.peak.live);
/// # Ok::<(), plimsoll_engine::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    /// The resolved experiment, with everything that was found out about it.
    pub resolved: Resolved,
    /// The machine it was planned on.
    pub machine: Machine,
    /// The experiment that was planned.
    pub experiment: Arc<Experiment>,
    /// The target that it was planned for.
    pub target: Target,
    /// The line: the experiment's budget, or the whole card if that is less.
    pub budget: Bytes,
    /// The bytes of the engine's own structures in each phase; none on a GPU, where they are memory of the host.
    pub bookkeeping: Bookkeeping,
    /// The highest memory of the whole run.
    pub peak: Peak,
    /// The pass that reaches it.
    pub peak_pass: Pass,
    /// Bytes by category at the peak; `slack` is reserved minus live, and on a GPU the context is one of them.
    pub categories_at_peak: Categories,
    /// The blocks alive at the peak, largest first.
    pub alive_at_peak: Vec<Alive>,
    /// The asking of a teacher, one micro-batch as all the others; empty if none is asked before the first step.
    pub teach: Timeline,
    /// The first step.
    pub first: Timeline,
    /// A later step.
    pub steady: Timeline,
    /// The timeline of taking channels out; empty if none are.
    pub prune: Timeline,
    /// The timeline of a step after that; empty if there is none.
    pub pruned: Timeline,
    /// The step after which channels are taken out, where the run has come so far.
    pub thinned_after: Option<u64>,
    /// Evaluation of one batch.
    pub evaluate: Timeline,
    /// The writing of a checkpoint.
    pub save: Timeline,
    /// The making of a model of 8-bit integers, and its test; empty where the trained model stays as it is.
    pub compress: Timeline,
    /// The host memory of the data and of the making of batches, outside the budget.
    pub host: HostMemory,
    /// Other ways to feed the model, if the host cannot feed it this way.
    pub host_offers: Vec<HostOffer>,
    /// Layers in forward order.
    pub layers: Vec<LayerRow>,
    /// Parameters of the model.
    pub parameters: u64,
    /// How many of them are trained.
    pub trained: u64,
    /// Tensors that stay wider than the type that is computed in.
    pub high_precision: Vec<HighPrecisionTensor>,
    /// The form and the size of the trained model, if it gets smaller: as integers, pruned or factored.
    pub smaller: Option<SmallerSize>,
    /// What pruning to zeros holds as long as the run trains, a part of the buffers; zero where no weight becomes zero.
    pub pruning: Bytes,
    /// Optimizer steps of the whole run.
    pub total_steps: u64,
    /// Optimizer steps of one epoch.
    pub steps_per_epoch: u64,
    /// Predicted seconds of one optimizer step, before channels are taken out.
    pub step_secs: f64,
    /// Predicted seconds of one optimizer step after that; zero if there is none.
    pub pruned_step_secs: f64,
    /// Predicted seconds of one test of the model that the run ends with.
    pub test_secs: f64,
    /// Predicted seconds in which a teacher is asked before the first step; zero if there is none.
    pub teach_secs: f64,
    /// Where the blocks of a run will lie, if that was found beforehand: on the processor unless the model changes its size, on a
    /// GPU by [`PoolPolicy::Planned`](crate::device::PoolPolicy::Planned), where it takes no more than growing.
    pub places: Option<Arc<Places>>,
    /// For a kept run, the passes that this program predicts otherwise than was predicted when the run began, and whose
    /// timeline is therefore not the kept one; empty for any other plan.
    pub planned_anew: Vec<Pass>,
    /// What graphs of launches are allowed on a GPU, a part of the context at the peak; zero for a run that launches its work
    /// piece by piece.
    pub graphs: Bytes,
    /// What graphs would be allowed with room for each of them twice; zero for a run that makes none in any room.
    pub most_graphs: Bytes,
    /// What the process grows by for the blocks of the run.
    pub grown: Grown,
    /// Seconds the planning took.
    pub plan_secs: f64,
}

impl Plan {
    /// The plan of `experiment` on `machine`: [`Resolved::new`], then [`predict`](predict::predict()).
    ///
    /// # Errors
    /// The first problem of the experiment, or the error of [`predict`](predict::predict()).
    pub fn of(experiment: &Experiment, machine: &Machine) -> Result<Self> {
        predict(&Resolved::new(experiment, machine).map_err(first)?, machine)
    }

    /// The bytes that count against the budget at the peak: those alive, or on a GPU the whole process, because that is what
    /// the card runs out of.
    pub fn load(&self) -> Bytes {
        match self.target {
            Target::Cpu(_) => self.peak.live,
            Target::Gpu(_) => self.peak.process,
        }
    }

    /// The bytes that count against the budget at the peak, by category. Their sum is [`Plan::load`]: on the processor, heap
    /// beyond what is alive does not count.
    pub fn counted_at_peak(&self) -> Categories {
        let mut counted = self.categories_at_peak;
        if !self.target.is_gpu() {
            counted.take(Category::Slack, counted.get(Category::Slack).0);
        }
        counted
    }

    /// The bytes that the run holds from its first update to its end, for any micro-batch and any checkpointing: weights,
    /// optimizer state and running statistics; on a GPU the context and the graphs as well.
    pub fn held(&self) -> Bytes {
        const HELD: [Category; 4] =
            [Category::Parameters, Category::MasterWeights, Category::OptimizerState, Category::Buffers];
        let alive = self.steady.points.last().map(|point| point.categories).unwrap_or_default();
        let held: u64 = HELD.iter().map(|category| alive.get(*category).0).sum();
        Bytes(held) + self.target.profile().map(|profile| profile.context).unwrap_or_default() + self.graphs
    }

    /// Whether a run may stay below the peak. If channels are taken out, the peak may be a checkpoint of the whole model, which is
    /// written if the run is stopped.
    pub fn may_stay_below(&self) -> bool {
        self.thinned_after.is_some() && self.peak_pass == Pass::Save
    }

    /// The most by which the bookkeeping varies in the phase that has the peak: the figure is the most of it, and memory may peak
    /// at a moment that has less.
    pub fn bookkeeping_varies(&self) -> Bytes {
        let timeline = self.timeline(self.peak_pass);
        let peak = timeline.peak_index().map(|index| timeline.points[index].phase);
        peak.map_or(Bytes::ZERO, |phase| self.bookkeeping.varies(phase))
    }

    /// The peak as long as f16 overflows and every update is skipped: the first update that is made allocates the
    /// optimizer's state. `None` for a precision without a loss scale, which skips no update.
    pub fn peak_without_updates(&self) -> Option<Bytes> {
        if self.experiment.precision != Precision::F16Mixed {
            return None;
        }
        let state = |point: &Point| point.categories.get(Category::OptimizerState);
        let trained = self.first.points.iter().filter(|point| state(point) == Bytes::ZERO).map(|point| point.live);
        let later = self.save.points.iter().chain(&self.compress.points);
        let after = self.evaluate.points.iter().chain(later).map(|point| point.live - state(point));
        let before = self.teach.points.iter().map(|point| point.live);
        before.chain(trained).chain(after).max()
    }

    /// Whether the run stays inside its budget. Whether this machine has the memory as well is for [`Plan::verdict`] to
    /// say.
    pub fn fits(&self) -> bool {
        self.load() <= self.budget
    }

    /// Budget less peak; `None` when the run does not fit.
    pub fn headroom(&self) -> Option<Bytes> {
        self.fits().then(|| self.budget - self.load())
    }

    /// The most that a process may have of the card, if the experiment's budget is more than that.
    pub fn card_below_budget(&self) -> Option<Bytes> {
        (self.experiment.budget > self.budget).then_some(self.budget)
    }

    /// Whether the run fits its budget and this machine.
    pub fn verdict(&self) -> Verdict {
        let (line, free) = (self.line(), self.machine.free_memory());
        match self.host_obstacle(free.map(|free| free.bytes)) {
            _ if !self.fits() => Verdict::OverBudget { by: self.load() - self.budget },
            Some(HostObstacle::Budget { budget }) => Verdict::OverHostBudget { by: self.host.total() - budget },
            Some(HostObstacle::Machine { free }) => Verdict::NoRoomForData { free },
            Some(HostObstacle::Disk { free }) => Verdict::NoRoomOnDisk { free },
            None if self.load() > line.bytes => Verdict::OverMachine { line },
            None => Verdict::Fits { headroom: self.budget - self.load() },
        }
    }

    /// The first line in the way: the budget if the run crosses it, and otherwise the machine if it can give less than the
    /// budget.
    pub fn line(&self) -> Line {
        let machine = self.machine_line().filter(|line| self.fits() && line.bytes < self.budget);
        machine.unwrap_or(Line { bytes: self.budget, limited_by: LimitedBy::Budget })
    }

    /// The most that this machine can give the run in addition to its data; `None` on a GPU, whose memory is not the machine's,
    /// and if the system does not report it.
    pub fn machine_line(&self) -> Option<Line> {
        let free = self.machine.free_memory().filter(|_| !self.target.is_gpu());
        free.map(|free| free.line(self.host.total()))
    }

    /// Predicted seconds of all steps of the run.
    pub fn steps_secs(&self) -> f64 {
        let before = self.thinned_after.filter(|_| !self.pruned.points.is_empty()).unwrap_or(self.total_steps);
        let after = self.total_steps.saturating_sub(before);
        self.step_secs * (self.total_steps - after) as f64 + self.pruned_step_secs * after as f64
    }

    /// The tests of the run: those that are due after some steps, and one at the end.
    pub fn tests(&self) -> u64 {
        self.total_steps.div_ceil(self.resolved.tested_every())
    }

    /// Predicted seconds of all steps and tests of the run, and of a teacher that is asked before them.
    pub fn run_secs(&self) -> f64 {
        self.teach_secs + self.steps_secs() + self.test_secs * self.tests() as f64
    }

    /// The pass that step `step` of the run, counted from 1, is.
    pub fn pass_of(&self, step: u64) -> Pass {
        match self.thinned_after.filter(|_| !self.pruned.points.is_empty()) {
            Some(after) if step > after => Pass::Pruned,
            _ if step == 1 => Pass::First,
            _ => Pass::Steady,
        }
    }

    /// The passes that the run has, in its order.
    pub fn passes(&self) -> impl Iterator<Item = Pass> + '_ {
        // The steady step is planned even for a run of one step, which does not have it.
        let is_run = |pass: &Pass| *pass != Pass::Steady || self.resolved.steps_left() > 1;
        Pass::ALL.into_iter().filter(is_run).filter(|pass| !self.timeline(*pass).points.is_empty())
    }

    /// The timeline of a pass.
    pub fn timeline(&self, pass: Pass) -> &Timeline {
        match pass {
            Pass::Teach => &self.teach,
            Pass::First => &self.first,
            Pass::Steady => &self.steady,
            Pass::Prune => &self.prune,
            Pass::Pruned => &self.pruned,
            Pass::Evaluate => &self.evaluate,
            Pass::Save => &self.save,
            Pass::Compress => &self.compress,
        }
    }

    pub(crate) fn timeline_mut(&mut self, pass: Pass) -> &mut Timeline {
        match pass {
            Pass::Teach => &mut self.teach,
            Pass::First => &mut self.first,
            Pass::Steady => &mut self.steady,
            Pass::Prune => &mut self.prune,
            Pass::Pruned => &mut self.pruned,
            Pass::Evaluate => &mut self.evaluate,
            Pass::Save => &mut self.save,
            Pass::Compress => &mut self.compress,
        }
    }
}

/// The first of some problems.
pub(crate) fn first(problems: Vec<Problem>) -> Error {
    let unknown = || Problem::new("experiment", "cannot be", "change it");
    Error::Experiment(problems.into_iter().next().unwrap_or_else(unknown))
}

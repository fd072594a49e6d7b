//! A run: its settings, its curves, its trail and its end.
//!
//! Owns [`RunRecord`]. Always holds: figures called measured come from the events of the trainer, in this session or in the
//! one that the run was kept in.

mod alike;
mod curves;
mod going_on;
mod measured;
mod status;

use std::{collections::VecDeque, sync::Arc};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::Data,
    plan::Plan,
    store::{self, RunKey as Kept, SmallerModel, StoredRun},
    train::{Feeding, Outcome, StepRecord, Summary},
};

use self::alike::kin;
pub(crate) use self::{
    alike::{is_one_task, tested_on},
    measured::{MeasuredStep, Ways},
    status::Status,
};
use super::RunKey;
use crate::{
    format,
    naming::{self, Differing},
    runs,
    widgets::series::{Series, Smoothed},
};

/// A run that waits for batches for more than this share of its time is held back by its data.
pub(crate) const HELD_BACK: f64 = 0.05;
/// The usual time of a step is the median of so many last ones: the first steps of a run take longer, and so does one that the
/// system interrupts.
pub(crate) const USUAL_OF: usize = 64;

/// Curves with a point a step.
#[derive(Debug, Default)]
pub(crate) struct StepCurves {
    /// Step numbers.
    pub(crate) steps: Vec<f64>,
    /// Seconds since the run began.
    pub(crate) secs: Vec<f64>,
    /// Training loss.
    pub(crate) loss: Smoothed,
    /// Training accuracy.
    pub(crate) accuracy: Smoothed,
    /// Samples, or tokens, per second.
    pub(crate) throughput: Smoothed,
    /// Norm of the whole gradient before clipping; not a number where the step has none.
    pub(crate) gradient_norm: Smoothed,
    /// Learning rate.
    pub(crate) learning_rate: Series,
    /// Measured live bytes, in MiB.
    pub(crate) live: Series,
    /// Measured reserved bytes, in MiB.
    pub(crate) reserved: Series,
    /// Measured bytes of the process, in MiB.
    pub(crate) process: Series,
}

/// Curves with a point an evaluation.
#[derive(Debug, Default)]
pub(crate) struct TestCurves {
    /// Step numbers.
    pub(crate) steps: Vec<f64>,
    /// Seconds since the run began.
    pub(crate) secs: Vec<f64>,
    /// Test loss.
    pub(crate) loss: Series,
    /// Test accuracy.
    pub(crate) accuracy: Series,
}

/// One run.
#[derive(Debug)]
pub(crate) struct RunRecord {
    /// Its number.
    pub(crate) key: RunKey,
    /// Under which name it is kept.
    pub(crate) kept: Option<Kept>,
    /// Which run it is for its user, in this session and in later ones: a run that goes on keeps the number that it had.
    pub(super) shown_as: u64,
    /// When it began, of a run of another session.
    pub(crate) when: Option<String>,
    /// The settings that distinguish it from the runs before it: its name where it is kept, as long as it has no name of its own.
    pub(crate) told: Option<String>,
    /// The name that its user gave it.
    pub(crate) own_name: Option<String>,
    /// Its settings that differ from its shipped preset, or from the first run of its title.
    pub(super) differing: Vec<Differing>,
    /// Its configuration.
    experiment: Arc<Experiment>,
    /// A number that is the same in all runs that differ from it only by their seed.
    pub(crate) kin: u64,
    /// The part of its data that decides the test: runs of one task share it.
    pub(crate) tested_on: Data,
    /// The plan that it was started with.
    pub(crate) plan: Option<Arc<Plan>>,
    /// Its steps from the first to the last.
    pub(crate) total_steps: u64,
    /// It ran on a GPU, where the budget counts the process.
    pub(crate) is_gpu: bool,
    /// The predicted peak of the bytes that the budget counts.
    pub(crate) predicted: Bytes,
    /// The line: its budget, or the whole card if that is less.
    pub(crate) budget: Bytes,
    /// Its status.
    pub(crate) status: Status,
    /// It is being evaluated.
    pub(crate) is_evaluating: bool,
    /// Samples that its teacher was asked about before the first step, of how many, while it is asked.
    pub(crate) asked: Option<(usize, usize)>,
    /// Curves by step.
    pub(crate) train: StepCurves,
    /// Curves by evaluation.
    pub(crate) test: TestCurves,
    /// Its point after each evaluation: measured peak in MiB, best accuracy.
    pub(crate) trail: Vec<[f64; 2]>,
    /// Whether it goes on from a checkpoint and its first step has not come yet: some of its curves may lie after that.
    is_behind: bool,
    /// The step of it that was measured op by op.
    pub(crate) measured_step: Option<MeasuredStep>,
    /// The last step.
    pub(crate) last: Option<StepRecord>,
    /// Seconds of all its steps, without tests.
    steps_secs: f64,
    /// Seconds of each of its last steps, at most [`USUAL_OF`].
    last_secs: VecDeque<f64>,
    /// The share of them in which it waited for batches, and how it is fed; of a run of another session nothing is known.
    pub(crate) fed: Option<(f64, Feeding)>,
    /// Most measured bytes so far that the budget counts.
    pub(crate) peak_load: Bytes,
    /// Best test accuracy so far.
    pub(crate) best_accuracy: Option<f64>,
    /// Whether it has a checkpoint, as far as this session saw it.
    pub(crate) has_checkpoint: bool,
    /// The form of its model in the end, if that is smaller than the trained one.
    pub(crate) smaller: Option<SmallerModel>,
    /// Its summary.
    pub(crate) summary: Option<Summary>,
}

/// The first words of a run's name, by its number: `Run 4`.
pub(crate) fn numbered(number: u64) -> String {
    format!("Run {number}")
}

impl RunRecord {
    pub(super) fn new(key: RunKey, plan: Arc<Plan>) -> Self {
        Self {
            key,
            shown_as: key,
            total_steps: plan.total_steps,
            is_gpu: plan.target.is_gpu(),
            predicted: plan.load(),
            budget: plan.budget,
            status: Status::Running,
            plan: Some(Arc::clone(&plan)),
            ..Self::of(Arc::clone(&plan.experiment))
        }
    }

    /// A kept run, without its curves.
    pub(crate) fn kept(run: &StoredRun, experiment: Experiment) -> Self {
        Self {
            shown_as: run.number,
            kept: Some(run.key.clone()),
            when: Some(runs::when(run.started)),
            own_name: run.name.clone(),
            total_steps: run.total_steps,
            is_gpu: run.is_gpu,
            predicted: run.load(&run.predicted),
            budget: run.budget,
            status: if run.met_its_budget() { Status::KeptOverBudget } else { Status::Kept(run.state) },
            peak_load: run.load(&run.measured),
            best_accuracy: run.best_test_accuracy,
            smaller: run.smaller,
            ..Self::of(Arc::new(experiment))
        }
    }

    /// A run of an experiment of which nothing else is known yet.
    fn of(experiment: Arc<Experiment>) -> Self {
        Self {
            key: 0,
            shown_as: 0,
            kept: None,
            when: None,
            told: None,
            own_name: None,
            differing: Vec::new(),
            kin: kin(&experiment),
            tested_on: tested_on(&experiment.data),
            experiment,
            total_steps: 0,
            is_gpu: false,
            predicted: Bytes::ZERO,
            budget: Bytes::ZERO,
            plan: None,
            status: Status::Running,
            is_evaluating: false,
            asked: None,
            train: StepCurves::default(),
            test: TestCurves::default(),
            trail: Vec::new(),
            is_behind: false,
            measured_step: None,
            last: None,
            steps_secs: 0.0,
            last_secs: VecDeque::new(),
            fed: None,
            peak_load: Bytes::ZERO,
            best_accuracy: None,
            has_checkpoint: false,
            smaller: None,
            summary: None,
        }
    }

    /// Takes the curves of a kept run in, smoothed as strongly as those on screen.
    pub(crate) fn replay(&mut self, series: &store::Series, smoothing: f32) {
        self.set_smoothing(smoothing);
        series.steps.records().for_each(|step| self.step(step));
        for test in series.evaluations.records() {
            self.evaluated(test.step, test.at_secs, test.loss, test.accuracy);
        }
    }

    /// Its label: its number.
    pub(crate) fn label(&self) -> String {
        numbered(self.shown_as)
    }

    /// Its name in every pane: `Run 4: micro-batch 32, every block`.
    pub(crate) fn name(&self) -> String {
        naming::of_run(self.shown_as, &self.short_name())
    }

    /// Its name in the room that it has, where runs of the same title, of those in `others`, keep what tells them apart.
    pub(crate) fn fitting_name<'a>(
        &self,
        others: impl Iterator<Item = &'a Self>,
        fits: impl Fn(&str) -> bool,
    ) -> String {
        let (name, title) = (self.name(), &self.experiment.title);
        if fits(&name) {
            return name;
        }
        let others = others.filter(|run| run.key != self.key && run.experiment.title == *title);
        naming::fitting(&name, others.map(Self::name), fits)
    }

    /// The name without the number: the one that it was given, else the settings that distinguish it from its shipped
    /// preset or the first run of its title, else the title.
    pub(crate) fn short_name(&self) -> String {
        if let Some(name) = self.own_name.as_ref().or(self.told.as_ref()) {
            return name.clone();
        }
        naming::told(&naming::named(&self.differing, naming::NAMED), &self.experiment.title).to_owned()
    }

    /// The number in a letter or two, next to its point.
    pub(crate) fn short_label(&self) -> String {
        self.shown_as.to_string()
    }

    /// Its configuration.
    pub(crate) fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Its point in the picture of memory against accuracy; `None` before the first evaluation.
    pub(crate) fn point(&self) -> Option<[f64; 2]> {
        Some([self.peak_load.as_mib(), self.best_accuracy?])
    }

    /// Its result, to follow the words for its end: the best test, and the measured peak.
    pub(crate) fn result(&self) -> String {
        let data = &self.experiment.data;
        let best =
            self.best_accuracy.map(|best| format!(": best {} {}", format::measure(data), format::score(data, best)));
        let peak = (self.peak_load > Bytes::ZERO).then(|| format!(", peak {} measured", self.peak_load));
        [best, peak].into_iter().flatten().collect()
    }

    /// Sets how strongly its curves are smoothed.
    pub(crate) fn set_smoothing(&mut self, strength: f32) {
        let StepCurves { loss, accuracy, throughput, gradient_norm, .. } = &mut self.train;
        for curve in [loss, accuracy, throughput, gradient_norm] {
            curve.set_strength(strength);
        }
    }

    /// Share of its steps done.
    pub(crate) fn progress(&self) -> f64 {
        let done = self.last.map_or(0, |s| s.step);
        if self.total_steps == 0 { 0.0 } else { (done as f64 / self.total_steps as f64).min(1.0) }
    }

    /// Seconds to go, from the mean pace so far.
    pub(crate) fn secs_left(&self) -> Option<f64> {
        let last = self.last.filter(|s| s.step > 0)?;
        let left = self.total_steps.saturating_sub(last.step);
        Some(last.at_secs / last.step as f64 * left as f64)
    }

    /// Mean seconds of a step so far, without tests.
    pub(crate) fn step_secs(&self) -> Option<f64> {
        let steps = self.train.steps.len();
        (steps > 0).then(|| self.steps_secs / steps as f64)
    }

    /// Seconds that its last steps usually took, without tests: their median.
    pub(crate) fn usual_step_secs(&self) -> Option<f64> {
        let mut secs: Vec<f64> = self.last_secs.iter().copied().collect();
        secs.sort_by(f64::total_cmp);
        secs.get(secs.len() / 2).copied()
    }

    pub(super) fn step(&mut self, step: StepRecord) {
        self.has_caught_up(step.step);
        self.steps_secs += step.secs;
        if self.last_secs.len() == USUAL_OF {
            self.last_secs.pop_front();
        }
        self.last_secs.push_back(step.secs);
        let curves = &mut self.train;
        curves.steps.push(step.step as f64);
        curves.secs.push(step.at_secs);
        curves.loss.push(step.loss as f32);
        curves.accuracy.push(step.accuracy as f32);
        // An update in the backward pass never has the whole gradient, and reports zero.
        curves.gradient_norm.push(if step.gradient_norm > 0.0 { step.gradient_norm as f32 } else { f32::NAN });
        curves.learning_rate.push(step.learning_rate as f32);
        let counted = counted(&self.experiment);
        curves.throughput.push(if step.secs > 0.0 { (counted / step.secs) as f32 } else { f32::NAN });
        curves.live.push(step.live.as_mib() as f32);
        curves.reserved.push(step.reserved.as_mib() as f32);
        curves.process.push(step.process.as_mib() as f32);
        let load = if self.is_gpu { step.process } else { step.live };
        self.peak_load = self.peak_load.max(load);
        self.last = Some(step);
    }

    pub(super) fn evaluated(&mut self, step: u64, at_secs: f64, loss: f64, accuracy: f64) {
        self.has_caught_up(step + 1);
        self.test.steps.push(step as f64);
        self.test.secs.push(at_secs);
        self.test.loss.push(loss as f32);
        self.test.accuracy.push(accuracy as f32);
        self.best_accuracy = Some(self.best_accuracy.map_or(accuracy, |best| best.max(accuracy)));
        self.trail.extend(self.point());
    }

    pub(super) fn ended(&mut self, outcome: &Outcome, summary: Summary) {
        self.status = Status::Ended(outcome.clone());
        self.is_evaluating = false;
        self.asked = None;
        let measured = summary.measured;
        let load = if self.is_gpu { measured.process } else { measured.live };
        self.peak_load = self.peak_load.max(load);
        self.smaller = SmallerModel::of(&summary);
        if summary.stripped.is_some() {
            // Tests before the model was pruned are of another one.
            self.best_accuracy = summary.best_test_accuracy.or(self.best_accuracy);
        }
        self.summary = Some(summary);
    }
}

/// Samples, or tokens, of a step.
fn counted(experiment: &Experiment) -> f64 {
    (experiment.batch.effective() * format::throughput(&experiment.data).1) as f64
}

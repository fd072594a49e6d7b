//! The runs of this session: what each was, its curves, its trail and how it ended.
//!
//! Owns every [`RunRecord`]. Always holds: figures called measured come from the events of the trainer. Nothing here is
//! on disk: a session ends with the window.

use std::sync::Arc;

use plimsoll_engine::{
    Bytes, Experiment,
    plan::Plan,
    train::{Event, Outcome, StepRecord, Summary},
};

use crate::{
    format,
    naming::{self, Differing},
    widgets::series::{Series, Smoothed},
};

/// Numbers the runs of this session.
pub(crate) type RunKey = u64;

/// Settings that a run's name lists at most.
const NAMED: usize = 3;

/// The status of a run.
#[derive(Debug, Clone)]
pub(crate) enum Status {
    /// It trains.
    Running,
    /// It is paused.
    Paused,
    /// It is over.
    Ended(Outcome),
}

impl Status {
    /// Whether it still holds the device.
    pub(crate) fn is_active(&self) -> bool {
        !matches!(self, Self::Ended(_))
    }

    /// In a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ended(Outcome::Finished) => "finished",
            Self::Ended(Outcome::Stopped) => "stopped",
            Self::Ended(Outcome::OverBudget(_)) => "over budget",
            Self::Ended(Outcome::Failed(_)) => "failed",
        }
    }
}

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
    /// The name that its user gave it.
    pub(crate) own_name: Option<String>,
    /// Its settings that are others in another run of the same title.
    differing: Vec<Differing>,
    /// The plan it was started with.
    pub(crate) plan: Arc<Plan>,
    /// Its status.
    pub(crate) status: Status,
    /// It is being evaluated.
    pub(crate) is_evaluating: bool,
    /// Curves by step.
    pub(crate) train: StepCurves,
    /// Curves by evaluation.
    pub(crate) test: TestCurves,
    /// Its point after each evaluation: measured peak in MiB, best accuracy.
    pub(crate) trail: Vec<[f64; 2]>,
    /// The last step.
    pub(crate) last: Option<StepRecord>,
    /// Seconds of all its steps, without tests.
    steps_secs: f64,
    /// Most measured bytes so far of what the budget counts.
    pub(crate) peak_load: Bytes,
    /// Best test accuracy so far.
    pub(crate) best_accuracy: Option<f64>,
    /// Its summary.
    pub(crate) summary: Option<Summary>,
}

impl RunRecord {
    fn new(key: RunKey, plan: Arc<Plan>) -> Self {
        Self {
            key,
            own_name: None,
            differing: Vec::new(),
            plan,
            status: Status::Running,
            is_evaluating: false,
            train: StepCurves::default(),
            test: TestCurves::default(),
            trail: Vec::new(),
            last: None,
            steps_secs: 0.0,
            peak_load: Bytes::ZERO,
            best_accuracy: None,
            summary: None,
        }
    }

    /// Its configuration.
    pub(crate) fn experiment(&self) -> &Experiment {
        &self.plan.experiment
    }

    /// Its point in the picture of memory against accuracy; `None` before the first evaluation.
    pub(crate) fn point(&self) -> Option<[f64; 2]> {
        Some([self.peak_load.as_mib(), self.best_accuracy?])
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
        if self.plan.total_steps == 0 { 0.0 } else { (done as f64 / self.plan.total_steps as f64).min(1.0) }
    }

    /// Seconds to go, from the mean pace so far.
    pub(crate) fn secs_left(&self) -> Option<f64> {
        let last = self.last.filter(|s| s.step > 0)?;
        let left = self.plan.total_steps.saturating_sub(last.step);
        Some(last.at_secs / last.step as f64 * left as f64)
    }

    /// Mean seconds of a step so far, without tests.
    pub(crate) fn step_secs(&self) -> Option<f64> {
        let last = self.last.filter(|s| s.step > 0)?;
        Some(self.steps_secs / last.step as f64)
    }

    fn step(&mut self, step: StepRecord) {
        self.steps_secs += step.secs;
        let curves = &mut self.train;
        curves.steps.push(step.step as f64);
        curves.secs.push(step.at_secs);
        curves.loss.push(step.loss as f32);
        curves.accuracy.push(step.accuracy as f32);
        // An update in the backward pass never has the whole gradient, and reports zero.
        curves.gradient_norm.push(if step.gradient_norm > 0.0 { step.gradient_norm as f32 } else { f32::NAN });
        curves.learning_rate.push(step.learning_rate as f32);
        let experiment = &self.plan.experiment;
        let counted = (experiment.batch.effective() * format::throughput(&experiment.data).1) as f64;
        curves.throughput.push(if step.secs > 0.0 { (counted / step.secs) as f32 } else { f32::NAN });
        curves.live.push(step.live.as_mib() as f32);
        curves.reserved.push(step.reserved.as_mib() as f32);
        curves.process.push(step.process.as_mib() as f32);
        let load = if self.plan.target.is_gpu() { step.process } else { step.live };
        self.peak_load = self.peak_load.max(load);
        self.last = Some(step);
    }

    fn evaluated(&mut self, step: u64, at_secs: f64, loss: f64, accuracy: f64) {
        self.test.steps.push(step as f64);
        self.test.secs.push(at_secs);
        self.test.loss.push(loss as f32);
        self.test.accuracy.push(accuracy as f32);
        self.best_accuracy = Some(self.best_accuracy.map_or(accuracy, |best| best.max(accuracy)));
        self.trail.extend(self.point());
    }
}

/// Every run of this session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Session {
    runs: Vec<RunRecord>,
}

impl Session {
    /// Every run, oldest first.
    pub(crate) fn runs(&self) -> &[RunRecord] {
        &self.runs
    }

    /// Every run, to set how it is drawn.
    pub(crate) fn runs_mut(&mut self) -> &mut [RunRecord] {
        &mut self.runs
    }

    /// A run by its number.
    pub(crate) fn get(&self, key: RunKey) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.key == key)
    }

    /// The newest run.
    pub(crate) fn latest(&self) -> Option<&RunRecord> {
        self.runs.last()
    }

    /// The run that holds the device.
    pub(crate) fn active(&self) -> Option<&RunRecord> {
        self.latest().filter(|run| run.status.is_active())
    }

    /// What a run is called: its number with the name it was given, else with what sets it apart from the other runs.
    pub(crate) fn name(&self, run: &RunRecord) -> String {
        format!("Run {}: {}", run.key, self.short_name(run))
    }

    /// The same without its number.
    pub(crate) fn short_name(&self, run: &RunRecord) -> String {
        if let Some(name) = &run.own_name {
            return name.clone();
        }
        let title = &run.experiment().title;
        let title = if title.is_empty() { "Untitled" } else { title };
        let words: Vec<String> = run.differing.iter().map(Differing::words).collect();
        let words = naming::listed(&words, NAMED);
        let is_only_title = self.runs.iter().all(|other| other.experiment().title == run.experiment().title);
        match (words.is_empty(), is_only_title) {
            (true, _) => title.to_owned(),
            (false, true) => words,
            (false, false) => format!("{title}, {words}"),
        }
    }

    /// Gives a run a name; an empty one takes its name away.
    pub(crate) fn rename(&mut self, key: RunKey, name: &str) {
        let name = name.trim();
        if let Some(run) = self.runs.iter_mut().find(|run| run.key == key) {
            run.own_name = (!name.is_empty()).then(|| name.to_owned());
        }
    }

    /// Adds a run: what sets it apart from those before, and them from it, is noted.
    fn begin(&mut self, mut new: RunRecord) {
        let plan = Arc::clone(&new.plan);
        let experiment = &plan.experiment;
        for old in self.runs.iter_mut().filter(|old| old.experiment().title == experiment.title) {
            naming::merge(&mut new.differing, naming::differing(old.experiment(), experiment));
            let others = naming::differing(experiment, old.experiment());
            naming::merge(&mut old.differing, others);
        }
        self.runs.push(new);
    }

    /// Takes one event in.
    pub(crate) fn receive(&mut self, event: &Event) {
        if let Event::Started { run, plan } = event {
            self.begin(RunRecord::new(*run, Arc::clone(plan)));
            return;
        }
        let Some(record) = self.runs.last_mut() else { return };
        match event {
            Event::Step(step) => record.step(*step),
            Event::Evaluating { .. } => record.is_evaluating = true,
            Event::Evaluated { step, at_secs, loss, accuracy } => {
                record.is_evaluating = false;
                record.evaluated(*step, *at_secs, *loss, *accuracy);
            }
            Event::Paused(paused) => record.status = if *paused { Status::Paused } else { Status::Running },
            Event::Ended { outcome, summary, .. } => {
                record.status = Status::Ended(outcome.clone());
                record.is_evaluating = false;
                let measured = summary.measured;
                let load = if record.plan.target.is_gpu() { measured.process } else { measured.live };
                record.peak_load = record.peak_load.max(load);
                record.summary = Some(*summary);
            }
            Event::Machine(_) | Event::Started { .. } | Event::Saved { .. } | Event::Warning(_) => {}
        }
    }
}

/// The runs that no other beats in both memory and accuracy, by rising memory: indices into `points`.
pub(crate) fn frontier(points: &[[f64; 2]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| points[*a][0].total_cmp(&points[*b][0]).then(points[*b][1].total_cmp(&points[*a][1])));
    let mut best = [0.0, f64::NEG_INFINITY];
    order.retain(|i| {
        // A run repeated is as good as the first.
        let stands = points[*i][1] > best[1] || points[*i] == best;
        if stands {
            best = points[*i];
        }
        stands
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_holds_what_nothing_beats() {
        let points = [[10.0, 0.9], [5.0, 0.8], [7.0, 0.7], [5.0, 0.85], [20.0, 0.9], [30.0, 0.99]];
        assert_eq!(frontier(&points), [3, 0, 5]);
        assert_eq!(frontier(&[[5.0, 0.8], [5.0, 0.8]]), [0, 1]);
        assert!(frontier(&[]).is_empty());
    }
}

//! A valid experiment: its choices, the facts of its data, and its target.
//!
//! Owns [`Resolved`], the only thing that can be predicted and trained. Always holds: everything about it was checked, and
//! its data were looked at once. Refuses an impossible experiment, with every problem at once.

mod fed;
mod first;
mod notes;
mod problems;
mod ranked;
mod taught;

use std::sync::Arc;

use first::First;
use problems::{of_data, of_device};
use taught::teacher_of;

use crate::{
    bytes::Bytes,
    data::{self, AnswerSizes, Inspection, TableFacts},
    device::Target,
    error::Problem,
    experiment::{DatasetInfo, Experiment, Teacher, check::check},
    hardware::Machine,
    interop::{self, Spectra},
    nn::Factorable,
    plan::Peak,
    step::Counters,
};

/// An experiment with the facts of its data and its target, checked.
#[derive(Debug, Clone)]
pub struct Resolved {
    experiment: Arc<Experiment>,
    data: Inspection,
    target: Target,
    teacher: Option<Arc<Teacher>>,
    /// The experiment whose model teaches, as it is built with this one.
    beside: Option<Arc<Experiment>>,
    /// The run that trains the teacher, where a preset describes it.
    first: Option<Arc<First>>,
    /// The spectra from which ranks were found, by this experiment or the one before.
    spectra: Option<Arc<Spectra>>,
    /// The layers of its model that are factored.
    factored: Arc<[Factorable]>,
    /// Room on the disk that a teacher's answers are to be kept on.
    answers_free: Option<Bytes>,
    resumed: Option<Resumed>,
}

/// The point from which a run goes on: the state that the run takes from there, and the measurements until then.
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// Steps that were done before.
    pub step: u64,
    /// The counters of the session.
    pub counters: Counters,
    /// The record of the same run so far; empty if another run goes on from its checkpoint.
    pub so_far: SoFar,
}

/// The record of a run by the time of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SoFar {
    /// The highest memory as measured; zero in the checkpoints of earlier versions.
    pub measured: Peak,
    /// Mean loss of the last step.
    pub train_loss: Option<f64>,
    /// After which step the model was tested last; 0: never.
    pub tested: u64,
    /// The mean loss of that test; `None` in the checkpoints of earlier versions.
    pub test_loss: Option<f64>,
    /// The accuracy of that test.
    pub test_accuracy: Option<f64>,
    /// The best so far.
    pub best_test_accuracy: Option<f64>,
}

impl Resolved {
    /// Looks at the data of `experiment` and at its device by `machine`, and checks everything.
    ///
    /// # Examples
    ///
    /// ```
    /// use plimsoll_engine::{Experiment, hardware::Machine, plan::Resolved};
    ///
    /// let machine = Machine::nominal();
    /// let mut experiment = Experiment::default();
    /// assert!(Resolved::new(&experiment, &machine).is_ok());
    ///
    /// experiment.batch.micro = 0;
    /// experiment.model.width = 0;
    /// let problems = Resolved::new(&experiment, &machine).unwrap_err();
    /// assert_eq!(problems.len(), 2);
    /// assert!(problems.iter().any(|problem| problem.key == "batch.micro"));
    /// ```
    ///
    /// # Errors
    /// Lists every problem, in the order of the preset format. Data that cannot be read are a problem of `data.path`.
    pub fn new(experiment: &Experiment, machine: &Machine) -> Result<Self, Vec<Problem>> {
        Self::after(None, experiment, machine)
    }

    /// Resolves an experiment after a change of another one: files that were listed for that one are listed again only if their
    /// folders changed.
    ///
    /// # Errors
    /// Fails if [`new`](Self::new) does.
    pub fn after(known: Option<&Self>, experiment: &Experiment, machine: &Machine) -> Result<Self, Vec<Problem>> {
        let chosen = experiment.whole_data();
        let found = Inspection::of(&chosen, known.map(|known| &known.data));
        let mut problems = check(experiment, found.as_ref().ok().map(Inspection::info));
        problems.extend(experiment.weights.problem());
        // Generated data have limits of their own, which together allow less than each value alone.
        let own = data::impossible(&chosen).filter(|own| problems.iter().all(|known| known.key != own.key));
        problems.extend(own);
        let data = match found {
            Ok(found) => found,
            Err(error) => {
                let problem = of_data(error, &chosen);
                if problems.iter().all(|known| known.key != problem.key) {
                    problems.push(problem);
                }
                return Err(problems);
            }
        };
        let teacher = teacher_of(experiment, None, data.info(), &mut problems);
        Self::checked(experiment, problems, data, teacher, known, machine)
    }

    /// Resolves the same experiment with `info` as all that is known of its data. No file is looked for.
    ///
    /// # Errors
    /// Fails if [`new`](Self::new) does.
    pub(crate) fn knowing(
        info: &DatasetInfo,
        experiment: &Experiment,
        machine: &Machine,
    ) -> Result<Self, Vec<Problem>> {
        let problems = check(experiment, Some(info));
        let data = Inspection::known(&experiment.whole_data(), *info);
        Self::checked(experiment, problems, data, None, None, machine)
    }

    /// Resolves another experiment: the data are looked at again only if it chooses other data.
    ///
    /// # Errors
    /// Fails if [`new`](Self::new) does.
    pub fn revised(&self, experiment: &Experiment, machine: &Machine) -> Result<Self, Vec<Problem>> {
        if experiment.whole_data() != self.experiment.whole_data() {
            return Self::after(Some(self), experiment, machine);
        }
        let mut problems = check(experiment, Some(self.info()));
        problems.extend(experiment.weights.problem());
        let teacher = teacher_of(experiment, self.teacher.as_ref(), self.info(), &mut problems);
        Self::checked(experiment, problems, self.data.clone(), teacher, Some(self), machine)
    }

    fn checked(
        experiment: &Experiment,
        mut problems: Vec<Problem>,
        data: Inspection,
        teacher: Option<Arc<Teacher>>,
        known: Option<&Self>,
        machine: &Machine,
    ) -> Result<Self, Vec<Problem>> {
        if experiment.keeps_on_disk() {
            problems.extend(data::folder_problem(&experiment.data));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        match machine.target_of(experiment) {
            Ok(target) => {
                let trained = known.and_then(|known| known.first.as_ref());
                let of = |teacher: &Arc<Teacher>| First::of(teacher, experiment, data.info(), trained, machine);
                let first = teacher.as_ref().map(of).transpose().map_err(|problem| vec![problem])?.flatten();
                let known = known.and_then(|known| known.spectra.as_ref());
                let decided = decided(experiment, &data);
                let (experiment, spectra) =
                    ranked::found(decided, data.info(), known).map_err(|problem| vec![problem])?;
                // A model that cannot be built is the plan's to refuse.
                let factored = interop::factored(&experiment, data.info()).unwrap_or_default().into();
                let experiment = Arc::new(experiment);
                let beside = teacher.as_ref().map(|teacher| Arc::new(teacher.beside(&experiment)));
                let answers_free =
                    answers(&experiment, data.info()).and_then(|sizes| sizes.disk_free(&experiment.data));
                let resumed = None;
                Ok(Self { experiment, data, target, teacher, beside, first, spectra, factored, answers_free, resumed })
            }
            Err(error) => {
                problems.push(of_device(error));
                Err(problems)
            }
        }
    }

    /// The same experiment with another budget, which may be any.
    #[must_use]
    pub fn held_to(&self, budget: Bytes) -> Self {
        let experiment = Experiment { budget, ..Experiment::clone(&self.experiment) };
        Self { experiment: Arc::new(experiment), ..self.clone() }
    }

    /// The same experiment as a run that goes on from where another one was saved.
    #[must_use]
    pub fn resuming(self, resumed: Option<Resumed>) -> Self {
        Self { resumed, ..self }
    }

    /// Where the run goes on from, if it does.
    pub fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// Optimizer steps that are still to do; in a run that goes on, the steps that are left.
    pub fn steps_left(&self) -> u64 {
        self.steps().1.saturating_sub(self.steps_done())
    }

    /// The chosen experiment.
    pub fn experiment(&self) -> &Arc<Experiment> {
        &self.experiment
    }

    /// The facts of its data.
    pub fn info(&self) -> &DatasetInfo {
        self.data.info()
    }

    /// The experiment whose model teaches this one's, frozen, if there is one.
    pub fn teacher(&self) -> Option<&Experiment> {
        self.beside.as_deref()
    }

    /// The sizes of the teacher's answers, if it is asked before the first step and not in each.
    pub fn answers(&self) -> Option<AnswerSizes> {
        answers(&self.experiment, self.info())
    }

    /// Room on the disk that samples, or a teacher's answers to them, are to be kept on; `None` if neither are, and if the
    /// system does not tell.
    pub fn disk_free(&self) -> Option<Bytes> {
        self.data.disk_free().or(self.answers_free)
    }

    /// The run that has to train the teacher before this one can begin, where a preset describes the teacher: with the folder
    /// of that run as `distil.teacher`, this one begins.
    pub fn to_train_first(&self) -> Option<&Arc<Experiment>> {
        self.first.as_ref().map(|first| &first.experiment)
    }

    /// The findings about its data.
    pub fn data(&self) -> &Inspection {
        &self.data
    }

    /// How its model is factored, in a line; `None` if nothing is to be.
    pub fn ranks_in_words(&self) -> Option<String> {
        ranked::in_words(&self.experiment, &self.factored)
    }

    /// The layers of its model that are factored, in forward order, each with its ranks.
    pub fn factored(&self) -> &[Factorable] {
        &self.factored
    }

    /// The target that it runs on.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The line that the run is held to: its budget, or the whole card if that is less.
    pub fn line(&self) -> Bytes {
        let budget = self.experiment.budget;
        self.target.profile().map_or(budget, |profile| budget.min(profile.usable_memory()))
    }

    /// The step after which channels are taken out of the model; `None` if none are, and if the run ends before.
    pub fn thinned_after(&self) -> Option<u64> {
        let (_, steps) = self.steps();
        self.experiment.prune.thins_after(steps).filter(|after| *after <= steps)
    }

    /// The update after which masks change no more; `None` if there are none, and if the run ends before.
    pub fn masked_after(&self) -> Option<u64> {
        let (prune, (_, steps)) = (&self.experiment.prune, self.steps());
        prune.kind.sets_to_zero().then(|| prune.span(steps).1).filter(|after| *after <= steps)
    }

    /// Whether the model is tested before channels are taken out of it.
    pub fn tests_whole_model(&self) -> bool {
        let Some(after) = self.thinned_after() else { return true };
        let done = self.steps_done();
        let next = (done + u64::from(self.is_tested())).max(1).next_multiple_of(self.tested_every());
        // A run that should have taken them out before does so after its next step.
        next < after.max(done + 1)
    }

    /// Whether the model that the run goes on from was tested.
    pub(crate) fn is_tested(&self) -> bool {
        self.resumed.as_ref().is_some_and(|resumed| resumed.so_far.tested >= resumed.step)
    }

    /// Steps between tests.
    pub fn tested_every(&self) -> u64 {
        match self.experiment.run.evaluate_every {
            0 => self.steps().0.max(1),
            every => every,
        }
    }

    /// Steps that were done before.
    pub fn steps_done(&self) -> u64 {
        self.resumed.as_ref().map_or(0, |resumed| resumed.step)
    }

    /// Optimizer steps of one epoch and of the whole run.
    pub fn steps(&self) -> (u64, u64) {
        self.experiment.steps(self.info())
    }

    /// Samples of one evaluation batch. By default never more than training takes, so that evaluation never sets the peak by
    /// its size.
    pub fn evaluation_batch(&self) -> usize {
        self.experiment.batch.evaluated(self.info().test)
    }
}

/// The experiment with the choices that it leaves to the data: the label of a table, and whether it is a class.
fn decided(experiment: &Experiment, data: &Inspection) -> Experiment {
    let mut decided = experiment.clone();
    if let Some(TableFacts { label, task, .. }) = data.table_facts() {
        (decided.data.label, decided.data.task) = (label.clone(), *task);
    }
    decided
}

/// The sizes of a teacher's answers, if it is asked before the first step.
fn answers(experiment: &Experiment, info: &DatasetInfo) -> Option<AnswerSizes> {
    let is_kept = experiment.distil.is_asked_before();
    is_kept.then(|| AnswerSizes::new(&experiment.data, info, experiment.precision.compute()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Data, DataKind};

    #[test]
    fn sequences_are_judged_by_their_own_keys() {
        let found = |change: fn(&mut Data)| {
            let mut experiment = Experiment::default();
            change(&mut experiment.data);
            let problems = Resolved::new(&experiment, &Machine::nominal()).expect_err("impossible");
            let keys = problems.into_iter().map(|problem| problem.key);
            keys.filter(|key| key != "model.kind").collect::<Vec<_>>()
        };
        assert_eq!(found(|d| (d.kind, d.modulus) = (DataKind::Modular, 1)), ["data.modulus"]);
        assert_eq!(found(|d| (d.kind, d.length) = (DataKind::Brackets, 9)), ["data.length"]);
        assert_eq!(found(|d| (d.kind, d.length) = (DataKind::Sort, 1)), ["data.length"]);
        assert_eq!(found(|d| (d.kind, d.vocabulary) = (DataKind::Tokens, 3)), ["data.vocabulary"]);
        assert_eq!(found(|d| (d.kind, d.samples) = (DataKind::Tokens, 3)), ["data.samples", "batch.micro"]);
        assert_eq!(found(|d| (d.kind, d.test_fraction) = (DataKind::Modular, 1.0)), ["data.test_fraction"]);
        assert_eq!(found(|d| (d.kind, d.length) = (DataKind::Text, 0)), ["data.path", "data.length"]);
        assert_eq!(found(|d| (d.kind, d.length) = (DataKind::Jsonl, 0)), ["data.path", "data.length"]);
        let none = |d: &mut Data| {
            (d.kind, d.path, d.tokenizer) = (DataKind::Jsonl, Some("none.jsonl".into()), Some("none/here".into()));
        };
        assert_eq!(found(none), ["data.tokenizer"]);
        assert_eq!(
            found(|d| (d.kind, d.flip, d.crop_padding) = (DataKind::Sort, true, 2)),
            ["data.flip", "data.crop_padding"]
        );
    }
}

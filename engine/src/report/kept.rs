//! A kept run as the other formats take it: its curves, its settings, its results.
//!
//! Owns nothing: everything is read from the store. Always holds: the records are here to the last bit; a value that a step
//! does not have is NaN.

use std::{path::PathBuf, sync::Arc};

use crate::{
    error::Result,
    experiment::{Experiment, Labelled, preset},
    plan::{Peak, Plan},
    report::{
        Ran, Subject,
        curves::{Curve, Curves, Group, names},
        tensorboard::About,
    },
    store::{Column, Prediction, RunKey, Series, Store, StoredDetails, StoredRun},
};

/// Everything that is kept of a run.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The run.
    pub run: StoredRun,
    /// The run's preset, prediction and events.
    pub details: StoredDetails,
    /// The chosen experiment.
    pub experiment: Arc<Experiment>,
    /// The run's curves.
    pub curves: Curves,
    /// The folder of its checkpoints.
    pub files: PathBuf,
    /// The part that could not be read, in words.
    pub damage: Option<String>,
}

impl Kept {
    /// Reads a run.
    ///
    /// # Errors
    /// Fails for a run that is not there, one whose preset this version cannot read, and where the database does.
    pub fn read(store: &Store, key: &RunKey) -> Result<Self> {
        let (run, details, series) = (store.get(key)?, store.details(key)?, store.series(key)?);
        let experiment = Arc::new(details.experiment(key)?);
        let began = run.started.as_millisecond() as f64 / 1e3;
        let curves = curves(&series, &experiment, began);
        let damage =
            [&details.damage, &series.damage].into_iter().flatten().cloned().reduce(|a, b| format!("{a}; {b}"));
        Ok(Self { run, details, experiment, curves, files: store.files(key), damage })
    }

    /// The run as a subject for comparisons and pages, with a plan of it if there is one. The predictions of its beginning
    /// replace those of the plan.
    pub fn subject(&self, plan: Option<Plan>) -> Subject {
        let (name, experiment) = (self.run.label().to_owned(), Arc::clone(&self.experiment));
        let recalled = |plan| {
            let mut plan = self.details.recalled(plan);
            // The size of the process was predicted anew before the first step.
            plan.peak.process = self.run.predicted.process;
            Arc::new(plan)
        };
        let plan = plan.map(recalled);
        Subject { name, experiment, plan, ran: Some(Ran::with(&self.run, &self.details.prediction)) }
    }

    /// The measured peak; `None` before the first step.
    pub fn measured(&self) -> Option<Peak> {
        (self.run.steps > 0).then_some(self.run.measured)
    }

    /// The description of the run in an event file, in addition to its curves.
    pub fn about(&self) -> About {
        let values = preset::differing(&[&*self.experiment, &Experiment::default()]);
        let used = values.into_iter().filter_map(|(key, mut values)| Some((key.to_owned(), values.swap_remove(0)?)));
        let mut description = self.experiment.description.trim().to_owned();
        if !self.run.note.is_empty() {
            description.push_str(&format!("\n\n{}", self.run.note));
        }
        About {
            name: self.run.label().to_owned(),
            description: description.trim().to_owned(),
            preset: self.details.preset.trim().to_owned(),
            settings: used.collect(),
        }
    }
}

impl Ran {
    /// The results of a kept run, with the predicted time of a step.
    pub fn with(run: &StoredRun, prediction: &Prediction) -> Self {
        Self { estimated_step_secs: prediction.kept_step_secs(), ..Self::of(run) }
    }

    /// The results of a kept run.
    pub fn of(run: &StoredRun) -> Self {
        Self {
            predicted_bytes: Some(run.load(&run.predicted).0),
            // A run that met its budget in its first step was measured up to there.
            measured_bytes: Some(run.load(&run.measured).0).filter(|bytes| *bytes > 0),
            steps: run.steps,
            estimated_step_secs: None,
            step_secs: run.step_secs,
            train_loss: run.train_loss,
            test_accuracy: run.test_accuracy,
            best_test_accuracy: run.best_test_accuracy,
            smaller: run.smaller,
            met_its_budget: run.met_its_budget(),
        }
    }
}

/// The units of a step that throughput counts: samples, or the tokens of them.
fn counted(experiment: &Experiment) -> f64 {
    let of_sample = match experiment.data.labelled() {
        Labelled::Byte | Labelled::Token => experiment.data.length,
        Labelled::Sample | Labelled::Pixel | Labelled::Digit | Labelled::Value => 1,
    };
    (experiment.batch.effective() * of_sample) as f64
}

/// The curves of a series.
fn curves(series: &Series, experiment: &Experiment, began_secs: f64) -> Curves {
    let (steps, tests) = (&series.steps, &series.evaluations);
    // Zero means none: an update in the backward pass never holds the whole gradient.
    let some = |value: &f64| if *value > 0.0 { *value } else { f64::NAN };
    let counted = counted(experiment);
    let mut of_steps = vec![
        Curve::named(names::TRAIN_LOSS, steps.loss.clone()),
        Curve::named(names::TRAIN_ACCURACY, steps.accuracy.clone()),
        Curve::named(names::LEARNING_RATE, steps.learning_rate.clone()),
        Curve::named(names::GRADIENT_NORM, steps.gradient_norm.iter().map(some).collect()),
        Curve::named(names::LOSS_SCALE, steps.loss_scale.clone()),
        Curve::named(names::STEP_SECS, steps.secs.clone()),
        Curve::named(names::THROUGHPUT, steps.secs.iter().map(|secs| counted / some(secs)).collect()),
        Curve::named(names::LIVE, numbers(Column::Bytes(&steps.live))),
        Curve::named(names::RESERVED, numbers(Column::Bytes(&steps.reserved))),
        Curve::named(names::PROCESS, numbers(Column::Bytes(&steps.process))),
    ];
    of_steps.retain(|curve| curve.values.iter().any(|value| !value.is_nan()));
    let of_tests = vec![
        Curve::named(names::TEST_LOSS, tests.loss.clone()),
        Curve::named(names::TEST_ACCURACY, tests.accuracy.clone()),
    ];
    let groups = vec![
        Group { steps: steps.step.clone(), secs: steps.at_secs.clone(), curves: of_steps },
        Group { steps: tests.step.clone(), secs: tests.at_secs.clone(), curves: of_tests },
    ];
    Curves { groups, began_secs: Some(began_secs) }
}

fn numbers(column: Column<'_>) -> Vec<f64> {
    match column {
        Column::Counts(counts) => counts.iter().map(|count| *count as f64).collect(),
        Column::Bytes(bytes) => bytes.iter().map(|bytes| bytes.0 as f64).collect(),
        Column::Numbers(numbers) => numbers.to_vec(),
        Column::Flags(flags) => flags.iter().map(|flag| f64::from(u8::from(*flag))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bytes::Bytes,
        hardware::Machine,
        report::{tables, tensorboard},
        store::{Evaluation, Evaluations, Origin, Recorder, Recording, Steps},
        train::{Event, Outcome, StepRecord, Summary},
    };

    fn step(step: u64) -> StepRecord {
        StepRecord {
            step,
            loss: 1.0 / step as f64,
            accuracy: 0.5,
            learning_rate: 1e-3,
            gradient_norm: 0.0,
            loss_scale: 1.0,
            skipped: false,
            at_secs: step as f64,
            secs: 0.5,
            live: Bytes(step * 1000),
            reserved: Bytes(7),
            process: Bytes(8),
        }
    }

    #[test]
    fn a_run_of_the_store_is_read_whole_and_told_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let (into, origin) = (folder.path().to_owned(), Origin::CommandLine);
        let recorder = Recorder::new(Recording { folder: into, origin, is_forced: false, continued: None });
        let mut experiment = Experiment { title: "A run".to_owned(), ..Experiment::default() };
        (experiment.batch.micro, experiment.description) = (7, "What it is.".to_owned());
        let plan = Arc::new(Plan::of(&experiment, &Machine::nominal()).expect("a plan"));
        recorder.take(&Event::Started { run: 1, plan: Arc::clone(&plan) });
        (1..=3).for_each(|at| recorder.take(&Event::Step(step(at))));
        recorder.take(&Event::Evaluated { step: 3, at_secs: 3.5, loss: 0.25, accuracy: 0.75, errors: None });
        let measured = Peak { live: Bytes(3000), ..Peak::default() };
        let summary = Summary { steps: 3, measured, ..Summary::default() };
        recorder.take(&Event::Ended { run: 1, outcome: Outcome::Finished, summary: Box::new(summary) });
        let key = recorder.key().clone();
        assert_eq!(recorder.finish(), None);
        let store = Store::open(folder.path()).expect("a store");
        let kept = Kept::read(&store, &key).expect("a run");
        assert_eq!((*kept.experiment == experiment, kept.damage.as_deref()), (true, None));
        // The process and the rates were others then: the prediction that the run began with is reported.
        let mut later = (*plan).clone();
        (later.step_secs, later.peak.process) = (plan.step_secs * 3.0, Bytes(1));
        let subject = kept.subject(Some(later));
        let told = subject.plan.as_ref().expect("a plan");
        // Text of a prediction has fifteen digits of it at the least.
        let is_kept = |secs: f64| (secs / plan.step_secs - 1.0).abs() < 1e-12;
        assert!(told.peak == plan.peak && is_kept(told.step_secs), "{} {}", told.step_secs, plan.step_secs);
        assert!(subject.kept_estimate().is_some_and(is_kept));
        let ran = subject.ran.as_ref().expect("it ran");
        assert_eq!((ran.steps, ran.measured_bytes, ran.best_test_accuracy), (3, Some(3000), Some(0.75)));
        assert_eq!(ran.predicted_bytes, subject.predicted().map(|bytes| bytes.0));
        let told = StoredRun {
            note: "best, so far".to_owned(),
            tags: vec!["wide".to_owned(), "slow".to_owned()],
            is_starred: true,
            ..kept.run.clone()
        };
        let csv = tables::runs([&told]).csv();
        assert!(csv.starts_with("run,title,name,note,tags,starred,state,"), "{csv}");
        assert!(csv.contains(",\"best, so far\",\"wide, slow\",true,finished,"), "{csv}");
        let about = kept.about();
        assert!(about.settings.contains(&("batch.micro".to_owned(), "7".to_owned())), "{about:?}");
        assert!(about.description == "What it is." && about.preset.contains("micro = 7"));
        // Three steps of nine curves, a test of two, and the description.
        let records = tensorboard::events(&kept.curves, &about);
        assert!(records.windows(11).any(|part| part == b"train/loss\x15") && kept.curves.csv().lines().count() == 4);
    }

    #[test]
    fn what_was_recorded_is_in_the_curves_and_what_a_step_lacks_is_not() {
        let steps: Steps = (1..=3).map(step).collect();
        let evaluation = Evaluation { step: 2, at_secs: 2.5, loss: 0.25, accuracy: 0.75 };
        let evaluations: Evaluations = [evaluation].into_iter().collect();
        let experiment = Experiment::default();
        let curves = curves(&Series { steps, evaluations, damage: None }, &experiment, 7.0);
        let values =
            |name: &str| curves.iter().find(|(_, curve)| curve.name == name).map(|(_, curve)| curve.values.clone());
        assert_eq!(values(names::TRAIN_LOSS), Some(vec![1.0, 0.5, 1.0 / 3.0]));
        assert_eq!(values(names::LIVE), Some(vec![1000.0, 2000.0, 3000.0]));
        assert_eq!(values(names::GRADIENT_NORM), None, "there was none");
        assert_eq!(values(names::THROUGHPUT), Some(vec![experiment.batch.effective() as f64 * 2.0; 3]));
        let lines = curves.csv();
        let second = lines.lines().nth(2).expect("a step");
        assert!(second.starts_with("2,2.5,0.5,") && second.ends_with(",0.25,0.75"), "{second}");
        assert!(curves.iter().all(|(_, curve)| !curve.about.is_empty()));
    }
}

//! Two to six runs or plans side by side: the settings that differ, and the results.
//!
//! Owns [`Comparison`], which the command line writes and the window draws. Always holds: there is a row only where the
//! subjects differ, and has one value for each subject, in their order. Refuses fewer than two subjects and more than six.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use crate::{
    bytes::Bytes,
    error::{Error, Problem, Result},
    experiment::{Experiment, preset},
    memory::{Alive, Categories, Category},
    plan::{Pass, Plan},
    store::SmallerModel,
};

/// The fewest subjects.
pub const FEWEST: usize = 2;
/// The most subjects.
pub const MOST: usize = 6;

/// A run, or a plan that was never run.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Its name here.
    pub name: String,
    /// The chosen experiment.
    pub experiment: Arc<Experiment>,
    /// Its prediction; for a kept run, with the peaks and the time that were kept with it. `None` if it cannot be planned any
    /// more, as when its data are gone.
    pub plan: Option<Arc<Plan>>,
    /// The results of the run, if it ran.
    pub ran: Option<Ran>,
}

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ran {
    /// The predicted bytes that its budget counts, as of its beginning.
    pub predicted_bytes: Option<u64>,
    /// The most measured bytes that its budget counts.
    pub measured_bytes: Option<u64>,
    /// Optimizer steps done.
    pub steps: u64,
    /// Predicted seconds of a step, when it began; `None` if that is not kept.
    pub estimated_step_secs: Option<f64>,
    /// Measured mean seconds of a step, without tests.
    pub step_secs: Option<f64>,
    /// Loss of the last step.
    pub train_loss: Option<f64>,
    /// Accuracy of the last test.
    pub test_accuracy: Option<f64>,
    /// Best accuracy of all tests.
    pub best_test_accuracy: Option<f64>,
    /// The form of its model in the end, if that is smaller than the trained one.
    pub smaller: Option<SmallerModel>,
    /// Whether it was ended because it would have crossed its budget.
    pub met_its_budget: bool,
}

impl Subject {
    /// A plan that was never run.
    pub fn of_plan(name: impl Into<String>, plan: Arc<Plan>) -> Self {
        Self { name: name.into(), experiment: Arc::clone(&plan.experiment), plan: Some(plan), ran: None }
    }

    /// The predicted bytes that the budget counts: by this program's plan, or else by the one that ran it.
    pub fn predicted(&self) -> Option<Bytes> {
        let before = || self.ran.as_ref()?.predicted_bytes.map(Bytes);
        self.plan.as_ref().map(|plan| plan.load()).or_else(before)
    }

    /// Predicted seconds of a step: as they were kept with the run, or else by the plan.
    pub fn estimated_step_secs(&self) -> Option<f64> {
        self.kept_estimate().or_else(|| self.plan.as_ref().map(|plan| plan.step_secs))
    }

    /// Predicted seconds of a step as they were kept with the run.
    pub fn kept_estimate(&self) -> Option<f64> {
        self.ran.as_ref()?.estimated_step_secs
    }

    /// The measured bytes that the budget counts.
    pub fn measured(&self) -> Option<Bytes> {
        self.ran.as_ref()?.measured_bytes.map(Bytes)
    }

    fn alive(&self) -> &[Alive] {
        self.plan.as_ref().map_or(&[], |plan| &plan.alive_at_peak)
    }

    fn categories(&self) -> Categories {
        let plan = self.plan.as_ref();
        plan.map(|plan| plan.counted_at_peak()).unwrap_or_default()
    }
}

/// A setting that is not the same in all subjects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingRow {
    /// The setting's key in the preset format.
    pub key: &'static str,
    /// The setting's value in each subject, as in a preset; `None` if the chosen kinds do not use it.
    pub values: Vec<Option<String>>,
}

/// A category that some subject has at its peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CategoryRow {
    /// The purpose of the memory.
    pub category: Category,
    /// Bytes of each at its peak; `None` of a subject without a plan.
    pub bytes: Vec<Option<u64>>,
}

/// Tensors of one name and layer that are not alive with the same size at every peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AliveRow {
    /// Path of the layer.
    pub layer: String,
    /// Their name, such as `weight` or `output`.
    pub name: &'static str,
    /// Their purpose.
    pub category: Category,
    /// Bytes alive at each peak; `None` of a subject without a plan.
    pub bytes: Vec<Option<u64>>,
}

impl AliveRow {
    /// The most of it less the least, of the subjects with a plan.
    pub fn spread(&self) -> u64 {
        let known = || self.bytes.iter().flatten();
        known().max().copied().unwrap_or_default() - known().min().copied().unwrap_or_default()
    }
}

/// Where the peak of a subject is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeakPlace {
    /// The pass that reaches it.
    pub pass: Pass,
    /// Path of the layer.
    pub layer: String,
    /// The op.
    pub op: &'static str,
}

/// Subjects side by side.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The subjects that are compared.
    pub subjects: Vec<Subject>,
    /// The settings that differ, in the order of the preset format.
    pub settings: Vec<SettingRow>,
    /// The bytes of each category at each peak, in stacking order; categories that are empty in every subject are left out.
    pub categories: Vec<CategoryRow>,
    /// The blocks that are alive at one peak and missing, or smaller, at another; the largest difference first.
    pub alive: Vec<AliveRow>,
}

impl Comparison {
    /// Puts subjects side by side.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use plimsoll_engine::{Experiment, hardware::Machine, plan::Plan, report::{Comparison, Subject}};
    ///
    /// let machine = Machine::nominal();
    /// let plain = Experiment::default();
    /// let mut larger = plain.clone();
    /// larger.batch.micro *= 2;
    /// let subject = |name, e| Ok::<_, plimsoll_engine::Error>(Subject::of_plan(name, Arc::new(Plan::of(e, &machine)?)));
    /// let comparison = Comparison::of(vec![subject("plain", &plain)?, subject("larger", &larger)?])?;
    /// assert_eq!(comparison.settings.len(), 1);
    /// assert_eq!(comparison.settings[0].key, "batch.micro");
    /// assert!(comparison.alive.iter().all(|row| row.bytes[0] != row.bytes[1]));
    /// # Ok::<(), plimsoll_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails for fewer than [`FEWEST`] subjects and more than [`MOST`].
    pub fn of(subjects: Vec<Subject>) -> Result<Self> {
        if !(FEWEST..=MOST).contains(&subjects.len()) {
            let message = format!("has {} to compare", subjects.len());
            let mend = format!("name {FEWEST} to {MOST} runs or presets");
            return Err(Error::Experiment(Problem::new("compare", message, mend)));
        }
        let experiments: Vec<&Experiment> = subjects.iter().map(|subject| &*subject.experiment).collect();
        let settings = preset::differing(&experiments);
        let settings = settings.into_iter().map(|(key, values)| SettingRow { key, values }).collect();
        let (categories, alive) = (categories(&subjects), alive(&subjects));
        Ok(Self { subjects, settings, categories, alive })
    }

    /// Where each peak is; `None` for a subject without a plan.
    pub fn places(&self) -> Vec<Option<PeakPlace>> {
        self.subjects.iter().map(|subject| place(subject.plan.as_ref()?)).collect()
    }
}

/// Where the peak of a plan is; `None` for a plan without ops.
pub fn place(plan: &Plan) -> Option<PeakPlace> {
    let timeline = plan.timeline(plan.peak_pass);
    let point = &timeline.points[timeline.peak_index()?];
    Some(PeakPlace { pass: plan.peak_pass, layer: timeline.layer(point.layer).to_owned(), op: point.op })
}

fn categories(subjects: &[Subject]) -> Vec<CategoryRow> {
    let row = |category| CategoryRow {
        category,
        bytes: subjects.iter().map(|s| s.plan.as_ref().map(|_| s.categories().get(category).0)).collect(),
    };
    let rows = Category::ALL.into_iter().map(row);
    rows.filter(|row| row.bytes.iter().flatten().any(|bytes| *bytes > 0)).collect()
}

fn alive(subjects: &[Subject]) -> Vec<AliveRow> {
    let mut rows: BTreeMap<(&str, &'static str, Category), Vec<u64>> = BTreeMap::new();
    for (i, subject) in subjects.iter().enumerate() {
        for block in subject.alive() {
            let bytes = rows.entry((&block.layer, block.name, block.category));
            bytes.or_insert_with(|| vec![0; subjects.len()])[i] += block.bytes;
        }
    }
    let known = |bytes: Vec<u64>| {
        subjects.iter().zip(bytes).map(|(subject, bytes)| subject.plan.as_ref().map(|_| bytes)).collect()
    };
    let row = |((layer, name, category), bytes): ((&str, _, _), _)| AliveRow {
        layer: layer.to_owned(),
        name,
        category,
        bytes: known(bytes),
    };
    let mut rows: Vec<AliveRow> = rows.into_iter().map(row).filter(|row| row.spread() > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.spread()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiment::Checkpointing, hardware::Machine};

    fn subject(name: &str, change: impl FnOnce(&mut Experiment)) -> Subject {
        let mut experiment = Experiment::default();
        change(&mut experiment);
        Subject::of_plan(name, Arc::new(Plan::of(&experiment, &Machine::nominal()).expect("a plan")))
    }

    #[test]
    fn only_what_differs_has_a_row_and_the_rows_add_up_to_the_difference() {
        let deep = |e: &mut Experiment| (e.model.depth, e.batch.micro) = (6, 512);
        let plain = subject("plain", deep);
        let checkpointed = subject("checkpointed", |e| {
            deep(e);
            e.checkpointing = Checkpointing::Blocks;
            e.title = "Another".to_owned();
        });
        let comparison = Comparison::of(vec![plain, checkpointed]).expect("two");
        let [setting] = &comparison.settings[..] else { panic!("{:?}", comparison.settings) };
        assert_eq!(setting.key, "checkpointing");
        assert_eq!(setting.values, [Some("\"none\"".to_owned()), Some("\"blocks\"".to_owned())]);
        let sum = |i: usize| comparison.alive.iter().filter_map(|row| row.bytes[i]).sum::<u64>();
        let loads: Vec<u64> = comparison.subjects.iter().filter_map(|s| s.predicted()).map(|b| b.0).collect();
        assert!(loads[1] < loads[0], "{loads:?}");
        assert_eq!(loads[0] - loads[1], sum(0) - sum(1), "the same tensors are in both");
        let of_categories = |i: usize| comparison.categories.iter().filter_map(|row| row.bytes[i]).sum::<u64>();
        assert_eq!([of_categories(0), of_categories(1)], loads[..]);
        assert!(comparison.alive.windows(2).all(|pair| pair[0].spread() >= pair[1].spread()));
        assert!(comparison.places().iter().all(|place| place.as_ref().is_some_and(|p| !p.layer.is_empty())));
    }

    #[test]
    fn what_cannot_be_planned_any_more_has_no_figures_but_its_settings() {
        let mut gone = subject("gone", |e| e.run.seed = 7);
        gone.plan = None;
        gone.ran = Some(Ran { predicted_bytes: Some(77), measured_bytes: Some(76), ..Ran::default() });
        let comparison = Comparison::of(vec![subject("here", |_| {}), gone]).expect("two");
        assert_eq!(comparison.settings.len(), 1);
        assert!(comparison.categories.iter().all(|row| row.bytes[0].is_some() && row.bytes[1].is_none()));
        assert!(comparison.alive.is_empty(), "one alone differs from nothing");
        assert_eq!(comparison.subjects[1].predicted(), Some(Bytes(77)));
    }

    #[test]
    fn one_or_seven_are_no_comparison() {
        for count in [0, 1, MOST + 1] {
            let subjects = (0..count).map(|i| subject(&i.to_string(), |_| {})).collect();
            let said = Comparison::of(subjects).expect_err("refused").to_string();
            assert!(said.contains("2 to 6"), "{said}");
        }
    }
}

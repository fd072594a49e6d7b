//! Planning one candidate after another against a plan: a candidate that fits is an offer, an impossible one is passed over.

use std::cell::Cell;

use crate::{
    bytes::Bytes,
    error::{Error, Result},
    experiment::{Batch, EvaluationBatch, Experiment},
    plan::{
        Limit, Plan,
        change::{Change, between},
        predict,
    },
};

/// A configuration that fits, and its cost compared with the one asked about.
#[derive(Debug, Clone)]
pub struct Advice {
    /// Its changes; empty for the configuration asked about.
    pub changes: Vec<Change>,
    /// The whole configuration.
    pub experiment: Experiment,
    /// The change's predicted peak.
    pub peak: Bytes,
    /// The host memory that its data take, outside its budget.
    pub host: Bytes,
    /// Predicted seconds for one optimizer step.
    pub step_secs: f64,
    /// Predicted time against the configuration asked about: 1.1 is 10% more.
    pub time_ratio: f64,
}

/// A search for configurations that fit in place of a plan.
pub(super) struct Search<'a> {
    plan: &'a Plan,
    limit: Limit<'a>,
    /// The lowest peak so far.
    least: Cell<Bytes>,
    /// Candidates that were planned.
    tried: Cell<usize>,
    /// Whether something was not tried because the limit was met.
    was_cut: Cell<bool>,
}

impl<'a> Search<'a> {
    pub(super) fn new(plan: &'a Plan, limit: Limit<'a>) -> Self {
        Self { plan, limit, least: Cell::new(plan.load()), tried: Cell::new(0), was_cut: Cell::new(false) }
    }

    /// The plan that is asked about.
    pub(super) fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// The lowest peak of everything that was planned.
    pub(super) fn least(&self) -> Bytes {
        self.least.get()
    }

    /// How many candidates were planned.
    pub(super) fn tried(&self) -> usize {
        self.tried.get()
    }

    /// The line that an offer must fit: `budget`, or what the machine can give if that is less.
    pub(super) fn line(&self, budget: Bytes) -> Bytes {
        self.plan.machine_line().map_or(budget, |line| budget.min(line.bytes))
    }

    /// Whether only what most often helps is to be tried. Then something is left out.
    pub(super) fn is_brief(&self) -> bool {
        let is_brief = self.limit.is_brief();
        self.was_cut.set(self.was_cut.get() || is_brief);
        is_brief
    }

    /// Whether everything that was asked for was tried.
    pub(super) fn is_whole(&self) -> bool {
        !self.was_cut.get()
    }

    /// The candidate's plan; `None` when it cannot be, or when the search must end.
    fn planned(&self, candidate: &Experiment) -> Result<Option<Plan>> {
        if self.limit.is_over() {
            self.was_cut.set(true);
            return Ok(None);
        }
        let machine = &self.plan.machine;
        // A combination that is not possible is passed over.
        let Ok(resolved) = self.plan.resolved.revised(candidate, machine) else { return Ok(None) };
        match predict(&resolved, machine) {
            Ok(plan) => {
                self.least.set(self.least.get().min(plan.load()));
                self.tried.set(self.tried.get() + 1);
                Ok(Some(plan))
            }
            Err(Error::Experiment(_)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The candidate as advice, if it fits its budget and is another configuration than the plan's.
    pub(super) fn fitting(&self, candidate: Experiment) -> Result<Option<Advice>> {
        if candidate == *self.plan.experiment {
            return Ok(None);
        }
        let Some(planned) = self.planned(&candidate)?.filter(|plan| plan.verdict().fits()) else { return Ok(None) };
        Ok(Some(Advice {
            changes: between(&self.plan.experiment, &candidate),
            peak: planned.load(),
            host: planned.host.total(),
            step_secs: planned.step_secs,
            time_ratio: planned.step_secs / self.plan.step_secs.max(f64::MIN_POSITIVE),
            experiment: candidate,
        }))
    }

    /// The first of `batches`, which fall in size, with which the experiment fits. The first and the last are tried before
    /// those between them: if the smallest does not fit, none does.
    pub(super) fn largest(&self, of: &Experiment, batches: &[Batch]) -> Result<Option<Advice>> {
        let candidates = batches.iter().map(|batch| Experiment { batch: batch.clone(), ..of.clone() });
        let candidates: Vec<Experiment> = candidates.filter(|candidate| *candidate != *self.plan.experiment).collect();
        let Some((first, smaller)) = candidates.split_first() else { return Ok(None) };
        if let Some(advice) = self.fitting(first.clone())? {
            return Ok(Some(advice));
        }
        let Some((last, between)) = smaller.split_last() else { return Ok(None) };
        if !self.planned(&shortened(last))?.is_some_and(|plan| plan.verdict().fits()) {
            return Ok(None);
        }
        let (mut found, mut rest) = (None, between);
        while !rest.is_empty() {
            let middle = rest.len() / 2;
            rest = match self.fitting(rest[middle].clone())? {
                Some(advice) => {
                    found = Some(advice);
                    &rest[..middle]
                }
                None => &rest[middle + 1..],
            };
        }
        if found.is_some() { Ok(found) } else { self.fitting(last.clone()) }
    }

    /// The plan's experiment; where its evaluation alone crosses `line`, with the largest evaluation batch that does not, or
    /// else with training's batch: no other change helps then.
    pub(super) fn evaluable(&self, line: Bytes) -> Result<Experiment> {
        let mut asked = (*self.plan.experiment).clone();
        if asked.batch.evaluation == EvaluationBatch::Micro || evaluation(self.plan) <= line {
            return Ok(asked);
        }
        for candidate in self.smaller_evaluations() {
            if self.planned(&candidate)?.is_some_and(|plan| evaluation(&plan) <= line) {
                return Ok(candidate);
            }
        }
        asked.batch.evaluation = EvaluationBatch::Micro;
        Ok(asked)
    }

    /// The plan's experiment with each power of two as its evaluation batch that is smaller than its own, the largest first.
    pub(super) fn smaller_evaluations(&self) -> impl Iterator<Item = Experiment> + use<'a> {
        let (plan, present) = (self.plan, self.plan.resolved.evaluation_batch());
        let powers = (0..usize::BITS).rev().map(|power| 1_usize << power);
        powers.filter(move |samples| *samples < present).map(|samples| {
            let mut candidate = (*plan.experiment).clone();
            candidate.batch.evaluation = EvaluationBatch::Samples(samples);
            candidate
        })
    }

    /// The bytes that the candidate holds for its whole run ([`Plan::held`]), by its smallest micro-batch; `None` when it
    /// cannot be planned, or when the search must end.
    pub(super) fn held(&self, candidate: &Experiment) -> Result<Option<Bytes>> {
        if candidate.precision == self.plan.experiment.precision {
            return Ok(Some(self.plan.held()));
        }
        let batch = Batch { micro: 1, accumulation: candidate.batch.effective(), ..candidate.batch.clone() };
        let smallest = shortened(&Experiment { batch, ..candidate.clone() });
        Ok(self.planned(&smallest)?.map(|plan| plan.held()))
    }
}

/// The least bytes of the budget that evaluation alone takes.
pub(super) fn evaluation(plan: &Plan) -> Bytes {
    plan.evaluate.peak().max(plan.compress.peak())
        + plan.target.profile().map(|profile| profile.context).unwrap_or_default()
}

/// The same experiment with fewer micro-batches and the same peak: each micro-batch after the second repeats it to the byte.
fn shortened(experiment: &Experiment) -> Experiment {
    let mut short = experiment.clone();
    short.batch.accumulation = short.batch.accumulation.min(2);
    short
}

/// Sorts the fastest first. Of several configurations with the same memory and time, one is kept.
pub(super) fn ranked(mut found: Vec<Advice>) -> Vec<Advice> {
    found.sort_by(|a, b| a.step_secs.total_cmp(&b.step_secs).then(a.peak.cmp(&b.peak)));
    found.dedup_by(|b, a| (a.peak, a.step_secs) == (b.peak, b.step_secs));
    found
}

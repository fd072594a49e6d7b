//! How long a step of the present settings takes: as the runs that began in this window tell it, or as predicted. A look at
//! another run changes nothing.
//!
//! Always holds: what was measured comes from a run on the same device, which is named.

use eframe::egui::{self, Id};
use plimsoll_engine::plan::Plan;

use crate::{
    planner::Generation,
    session::{RunRecord, Session},
    state::{RunKey, State},
};

/// A run of fewer steps does not tell how long a step takes: its first ones take longer.
const TELLING: usize = 32;
/// Steps are alike if the prediction of neither is more than so many times that of the other.
const ALIKE: f64 = 3.0;

/// How long a step takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pace {
    /// Seconds of a step.
    pub(super) step_secs: f64,
    /// Where they come from.
    pub(super) source: Source,
}

/// Where the time of a step comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// The prediction.
    Predicted,
    /// The same steps in this run.
    Same(String),
    /// The prediction, corrected by how long the steps of this run took against theirs.
    Like(String),
}

/// What a pace depends on: the settings, the prediction, the runs, and how far the one in progress is.
type Depends = (Generation, u64, usize, Option<(RunKey, Option<u32>)>);

impl Pace {
    /// The predicted pace.
    pub(super) fn predicted(plan: &Plan) -> Self {
        Self { step_secs: plan.step_secs, source: Source::Predicted }
    }

    /// That of the newest run that took such steps, else of the newest with steps like them, else as predicted.
    fn of(plan: &Plan, session: &Session) -> Self {
        let there = &plan.experiment;
        let runs = || {
            let telling =
                |run: &&RunRecord| run.train.steps.len() >= TELLING && run.experiment().device == there.device;
            session.runs().iter().rev().filter(telling)
        };
        let same = runs()
            .find(|run| run.experiment().takes_the_steps_of(there))
            .and_then(|run| Some(Self { step_secs: secs(run)?, source: Source::Same(run.label()) }));
        let like = || {
            runs().filter(|run| run.experiment().model.kind == there.model.kind).find_map(|run| {
                let predicted = run.plan.as_ref()?.step_secs;
                let is_near = (plan.step_secs / ALIKE..=plan.step_secs * ALIKE).contains(&predicted);
                let step_secs = is_near.then_some(plan.step_secs * secs(run)? / predicted)?;
                Some(Self { step_secs, source: Source::Like(run.label()) })
            })
        };
        same.or_else(like).unwrap_or_else(|| Self::predicted(plan))
    }

    /// The pace of a plan, which stays as long as nothing changes that it depends on: to compare the steps of all runs takes a while.
    pub(super) fn known(ctx: &egui::Context, state: &State, plan: &Plan) -> Self {
        let active = state.session.active().map(|run| (run.key, run.train.steps.len().checked_ilog2()));
        let runs = state.session.runs().len();
        let depends: Depends = (state.prediction.plan_generation, plan.step_secs.to_bits(), runs, active);
        let id = Id::unique("pace of the forecast");
        let known: Option<(Depends, Self)> = ctx.data(|data| data.get_temp(id));
        if let Some((_, pace)) = known.filter(|(before, _)| *before == depends) {
            return pace;
        }
        let pace = Self::of(plan, &state.session);
        ctx.data_mut(|data| data.insert_temp(id, (depends, pace.clone())));
        pace
    }

    /// Seconds of the whole run, whose tests are as much slower as its steps.
    pub(super) fn run_secs(&self, plan: &Plan) -> f64 {
        plan.run_secs() * (self.step_secs / plan.step_secs)
    }

    /// What is said after the time of a step.
    pub(super) fn words(&self) -> String {
        match &self.source {
            Source::Predicted => String::new(),
            Source::Same(run) => format!(" as in {}", run.to_lowercase()),
            Source::Like(run) => format!(" by the pace of {}", run.to_lowercase()),
        }
    }
}

/// Seconds of a step of a run: of its last ones while it is in progress, because the first take longer.
fn secs(run: &RunRecord) -> Option<f64> {
    if run.status.is_active() { run.usual_step_secs() } else { run.step_secs() }
}

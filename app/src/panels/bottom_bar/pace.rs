//! How long a step of the present settings takes: as the runs that began in this window tell it, or a kept run that took the
//! same steps, or as predicted. A look at another run changes nothing.
//!
//! Always holds: what was measured comes from a run on the same device, which is named.

use eframe::egui::{self, Id};
use plimsoll_engine::plan::Plan;

use crate::{
    planner::Generation,
    runs::{Row, Runs},
    session::{self, RunRecord, Session, Status},
    state::{RunKey, State},
};

/// A run of fewer steps does not tell how long a step takes: its first ones take longer.
const TELLING: usize = 32;
/// Two steps whose predicted times differ by this factor or more say nothing about each other's pace.
const UNLIKE: f64 = 10.0;

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
    /// The prediction, corrected by how long the steps of this run took against their own prediction. The more the steps
    /// differ, the smaller is the correction.
    Like(String),
}

/// How many kept runs are compared, the newest first: each takes some of the time of a frame.
const COMPARED: usize = 50;

/// What a pace depends on: the settings, the predicted time of a step, the number of runs, how far the run in progress
/// came, and the reading of the kept runs, once their device is known.
type Depends = (Generation, u64, usize, Option<(RunKey, usize)>, Option<u64>);

impl Pace {
    /// The predicted pace.
    pub(super) fn predicted(plan: &Plan) -> Self {
        Self { step_secs: plan.step_secs, source: Source::Predicted }
    }

    /// That of the newest run that took such steps, of this window's first, else of the newest with steps like them, else as
    /// predicted.
    fn of(plan: &Plan, session: &Session, kept: impl FnOnce() -> Option<Self>) -> Self {
        let there = &plan.experiment;
        let runs = || {
            let telling =
                |run: &&RunRecord| run.train.steps.len() >= TELLING && run.experiment().device == there.device;
            session.runs().iter().rev().filter(telling)
        };
        let same = runs()
            .find(|run| run.experiment().takes_the_steps_of(there))
            .and_then(|run| Some(Self { step_secs: run.step_secs()?, source: Source::Same(run.label()) }));
        let like = || {
            runs().filter(|run| run.experiment().model.kind == there.model.kind).find_map(|run| {
                let predicted = run.plan.as_ref()?.step_secs;
                let likeness = likeness(plan.step_secs, predicted);
                let step_secs = plan.step_secs * (run.step_secs()? / predicted).powf(likeness);
                (likeness > 0.0).then(|| Self { step_secs, source: Source::Like(run.label()) })
            })
        };
        same.or_else(kept).or_else(like).unwrap_or_else(|| Self::predicted(plan))
    }

    /// That of the newest kept run that took such steps on this device. The runs of another machine may be kept as well.
    fn of_kept(plan: &Plan, runs: &Runs, device_name: &str) -> Option<Self> {
        let there = &plan.experiment;
        let is_telling = |row: &&Row| {
            let run = &row.run;
            run.steps >= TELLING as u64
                && (&run.device, run.device_name.as_str()) == (&there.device, device_name)
                && row.is_of(there.model.kind)
        };
        let same = |row: &&Row| row.run.experiment().is_some_and(|experiment| experiment.takes_the_steps_of(there));
        let row = runs.rows().iter().filter(is_telling).take(COMPARED).find(same)?;
        Some(Self { step_secs: row.run.step_secs?, source: Source::Same(session::numbered(row.run.number)) })
    }

    /// The pace of a plan, which stays as long as nothing changes that it depends on: to compare the steps of all runs takes
    /// a while.
    pub(super) fn known(ctx: &egui::Context, state: &State, plan: &Plan) -> Self {
        let active = state.session.active().map(|run| (run.key, progress(run)));
        let (runs, device_name) = (state.session.runs().len(), device_name(state, plan));
        let kept = device_name.map(|_| state.runs.version);
        let depends: Depends = (state.prediction.plan_generation, plan.step_secs.to_bits(), runs, active, kept);
        let id = Id::unique("pace of the forecast");
        let known: Option<(Depends, Self)> = ctx.data(|data| data.get_temp(id));
        if let Some((_, pace)) = known.filter(|(before, _)| *before == depends) {
            return pace;
        }
        let pace = Self::of(plan, &state.session, || Self::of_kept(plan, &state.runs, device_name?));
        ctx.data_mut(|data| data.insert_temp(id, (depends, pace.clone())));
        pace
    }

    /// A predicted time of another part of the run, which is as much slower as the steps are.
    pub(super) fn corrected(&self, secs: f64, plan: &Plan) -> f64 {
        secs * (self.step_secs / plan.step_secs)
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

/// The maker's name of the device that a plan is for, as kept runs have it; `None` until it is known.
fn device_name<'a>(state: &'a State, plan: &'a Plan) -> Option<&'a str> {
    match plan.target.profile() {
        Some(card) => Some(&card.title),
        None => state.devices.as_ref()?.cpu.name.as_deref().ok(),
    }
}

/// How far the pace of steps is that of others: 1 where both are predicted to take the same time, and 0 where the one takes
/// [`UNLIKE`] times the other's or more. There is no leap between.
fn likeness(secs: f64, others: f64) -> f64 {
    (1.0 - (secs / others).ln().abs() / UNLIKE.ln()).max(0.0)
}

/// How far a run in progress came. While it goes on that is another number only after a quarter more of its steps, so that
/// a forecast does not change with every frame.
fn progress(run: &RunRecord) -> usize {
    let steps = run.train.steps.len();
    if matches!(run.status, Status::Paused) { steps } else { ((steps as f64).ln() * 4.0) as usize }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{
        Experiment,
        hardware::Machine,
        train::{Event, StepRecord},
    };

    use super::*;
    use crate::session::tests::step;

    #[test]
    fn a_run_tells_the_pace_of_its_steps_and_of_some_like_them() {
        let plan = |width| {
            let mut experiment = Experiment::default();
            experiment.model.width = width;
            Plan::of(&experiment, &Machine::nominal()).expect("a plan")
        };
        fn of(plan: &Plan, session: &Session) -> Pace {
            Pace::of(plan, session, || None)
        }
        let (ran, like, unlike) = (plan(256), plan(320), plan(8192));
        let mut session = Session::default();
        session.receive(&Event::Started { run: 1, plan: Arc::new(ran.clone()) });
        for steps in 1..=TELLING {
            assert_eq!(of(&ran, &session), Pace::predicted(&ran), "{steps} steps say too little");
            session.receive(&Event::Step(StepRecord { step: steps as u64, secs: ran.step_secs * 2.0, ..step() }));
        }
        let Pace { step_secs, source } = of(&ran, &session);
        assert_eq!(source, Source::Same("Run 1".to_owned()));
        assert!((step_secs / ran.step_secs - 2.0).abs() < 1e-9);
        let Pace { step_secs, source } = of(&like, &session);
        assert_eq!(source, Source::Like("Run 1".to_owned()));
        assert!((1.2..2.0).contains(&(step_secs / like.step_secs)), "{step_secs} for {}", like.step_secs);
        assert_eq!(of(&unlike, &session), Pace::predicted(&unlike));
    }

    #[test]
    fn the_less_steps_are_alike_the_less_the_pace_of_others_counts() {
        assert_eq!(likeness(0.004, 0.004), 1.0);
        for (factor, least, most) in [(1.5, 0.8, 0.85), (3.0, 0.5, 0.55), (9.9, 0.0, 0.01), (10.1, 0.0, 0.0)] {
            for likeness in [likeness(0.004 * factor, 0.004), likeness(0.004, 0.004 * factor)] {
                assert!((least..=most).contains(&likeness), "{factor}: {likeness}");
            }
        }
    }
}

//! A step of a run that was measured op by op, in this session or in the one that the run was kept in.
//!
//! Always holds: it is compared with a plan only where the plan has the same ops.

use std::sync::Arc;

use plimsoll_engine::{
    Bytes,
    plan::{Pass, Plan},
    store,
    train::Latest,
};

use super::RunRecord;

/// A step that was measured op by op.
#[derive(Debug, Clone)]
pub(crate) struct MeasuredStep {
    /// Its number.
    pub(crate) step: u64,
    /// The highest bytes during each op.
    pub(crate) bytes: Arc<[Bytes]>,
    /// How each op ran.
    pub(crate) ways: Ways,
}

/// How each op of a step ran, where ops of its kind run in one of several ways; without an entry if there is none such.
#[derive(Debug, Clone)]
pub(crate) enum Ways {
    /// As the trainer tells it.
    Told(Arc<[&'static str]>),
    /// As it is kept.
    Kept(Arc<[String]>),
}

impl Default for Ways {
    fn default() -> Self {
        Self::Told(Arc::default())
    }
}

impl Ways {
    /// The way of an op; `None` where there is one way only.
    pub(crate) fn of(&self, op: usize) -> Option<&str> {
        let way = match self {
            Self::Told(ways) => ways.get(op).copied(),
            Self::Kept(ways) => ways.get(op).map(String::as_str),
        };
        way.filter(|way| !way.is_empty())
    }
}

impl MeasuredStep {
    /// The newest that the trainer tells of; `None` before the first.
    pub(in crate::session) fn told(latest: &Latest) -> Option<Self> {
        let (bytes, ways) = (Arc::clone(&latest.measured_step), Ways::Told(Arc::clone(&latest.ways)));
        (!bytes.is_empty()).then_some(Self { step: latest.measured_in_step, bytes, ways })
    }

    /// That of a kept run; `None` if no step of it was measured so.
    pub(crate) fn kept(kept: store::MeasuredStep) -> Option<Self> {
        let store::MeasuredStep { step, bytes, ways } = kept;
        (!bytes.is_empty()).then(|| Self { step, bytes: bytes.into(), ways: Ways::Kept(ways.into()) })
    }
}

impl RunRecord {
    /// The memory measured op by op in a step of it, if that is the step of a plan's pass.
    pub(crate) fn measured_step_of(&self, plan: &Plan, pass: Pass) -> Option<&MeasuredStep> {
        let measured = self.measured_step.as_ref()?;
        let is_same = pass == plan.pass_of(measured.step) && measured.bytes.len() == plan.timeline(pass).points.len();
        // To compare the steps takes a while, in every frame; mostly, the experiments are one.
        let takes_them = || self.experiment == plan.experiment || self.experiment.takes_the_steps_of(&plan.experiment);
        (is_same && takes_them()).then_some(measured)
    }
}

//! A plan of a kept run with the predictions of its beginning, in place of those that this program makes on this machine
//! now.
//!
//! Always holds: a part is taken over completely or not at all; a timeline that is not kept, or that names an op which this
//! program does not have, stays the new plan's, and if its peak differs, the plan says so.

use std::collections::HashSet;

use super::{EventKind, Prediction, StoredDetails, StoredTimeline};
use crate::{
    bytes::Bytes,
    memory::{Alive, Categories, Point, Timeline, timeline::LayerId},
    plan::{Pass, Plan},
};

/// This program's names of ops and blocks.
struct Names(HashSet<&'static str>);

impl Names {
    fn of(plan: &Plan) -> Self {
        let ops = Pass::ALL.into_iter().flat_map(|pass| &plan.timeline(pass).points).map(|point| point.op);
        Self(ops.chain(plan.alive_at_peak.iter().map(|alive| alive.name)).collect())
    }

    fn find(&self, name: &str) -> Option<&'static str> {
        self.0.get(name).copied()
    }
}

impl Prediction {
    /// A plan of the same run, with the predictions of its beginning, because another program, process or moment may predict
    /// something else. [`Plan::planned_anew`] lists the passes for which it could not be taken over. If nothing is kept, the
    /// plan stays as it is.
    pub fn recalled(&self, plan: Plan) -> Plan {
        let Some(step_secs) = self.kept_step_secs() else { return plan };
        let names = Names::of(&plan);
        let (peak, peak_pass, categories_at_peak) = (self.peak, self.peak_pass, self.categories_at_peak);
        let mut plan = Plan { peak, peak_pass, categories_at_peak, step_secs, ..plan };
        let mut anew: Vec<Pass> = Vec::new();
        for pass in Pass::ALL {
            match self.timeline(pass).and_then(|kept| timeline(kept, &names)) {
                Some(kept) => *plan.timeline_mut(pass) = kept,
                None if self.peak_of(pass) != plan.timeline(pass).peak() => anew.push(pass),
                None => {}
            }
        }
        match self.alive(&names) {
            Some(alive) => plan.alive_at_peak = alive,
            None if !anew.contains(&self.peak_pass) => anew.push(self.peak_pass),
            None => {}
        }
        if !self.layers.is_empty() {
            plan.layers.clone_from(&self.layers);
        }
        Plan { planned_anew: anew, ..plan }
    }

    fn peak_of(&self, pass: Pass) -> Bytes {
        self.passes.iter().find(|kept| kept.pass == pass).map(|kept| Bytes(kept.live_bytes)).unwrap_or_default()
    }

    fn alive(&self, names: &Names) -> Option<Vec<Alive>> {
        let block = |block: &super::Block| {
            let name = names.find(&block.name)?;
            Some(Alive { name, layer: block.layer.clone(), category: block.category, bytes: block.bytes })
        };
        self.alive_at_peak.iter().map(block).collect()
    }
}

impl StoredDetails {
    /// A plan of the run from its first step, with the kept predictions in place of the new ones, as
    /// [`Prediction::recalled`] has it. For a resumed run, the kept predictions belong to the step at which it went on: a
    /// different first step is then not a change of the program, and is not reported.
    pub fn recalled(&self, plan: Plan) -> Plan {
        let mut plan = self.prediction.recalled(plan);
        if self.events.iter().any(|event| event.kind == EventKind::Continued) {
            plan.planned_anew.retain(|pass| *pass != Pass::First);
        }
        plan
    }
}

/// A kept timeline as plans have them; `None` if it is not a timeline, or names something that this program does not know.
fn timeline(kept: &StoredTimeline, names: &Names) -> Option<Timeline> {
    let categories = |at: usize| {
        let mut categories = Categories::default();
        for (category, bytes) in &kept.categories {
            categories.add(*category, *bytes.get(at)?);
        }
        Some(categories)
    };
    let point = |(at, live): (usize, &u64)| {
        let layer = LayerId(*kept.layer.get(at)?);
        kept.layers.get(layer.0 as usize)?;
        let (op, phase) = (names.find(kept.op_name(at))?, *kept.phase.get(at)?);
        Some(Point { op, layer, phase, live: Bytes(*live), categories: categories(at)? })
    };
    let points: Option<Vec<Point>> = kept.live_bytes.iter().enumerate().map(point).collect();
    Some(Timeline { points: points?, layers: kept.layers.clone().into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::Experiment,
        hardware::Machine,
        store::{KeptEvent, MeasuredStep},
    };

    fn plan() -> Plan {
        Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan")
    }

    #[test]
    fn what_was_predicted_is_drawn_and_what_is_not_kept_is_told() {
        let now = plan();
        assert_eq!(Prediction::default().recalled(plan()).steady, now.steady, "nothing is kept");
        let kept = Prediction::of(&now);
        let same = kept.recalled(plan());
        assert_eq!(
            (&same.steady, &same.alive_at_peak, &same.planned_anew[..]),
            (&now.steady, &now.alive_at_peak, &[][..])
        );

        // Another version of the program predicted a little more.
        let mut earlier = kept.clone();
        earlier.timelines.iter_mut().for_each(|timeline| timeline.live_bytes.iter_mut().for_each(|bytes| *bytes += 10));
        earlier.passes.iter_mut().for_each(|pass| pass.live_bytes += 10);
        earlier.alive_at_peak[0].bytes += 10;
        earlier.layers[0].weight_bytes += 10;
        let recalled = earlier.recalled(plan());
        assert_eq!(recalled.steady.peak(), now.steady.peak() + Bytes(10));
        assert_eq!(recalled.timeline(earlier.peak_pass).peak(), now.timeline(earlier.peak_pass).peak() + Bytes(10));
        assert_eq!(recalled.alive_at_peak[0].bytes, now.alive_at_peak[0].bytes + 10);
        assert_eq!(recalled.layers, earlier.layers);
        let is_kept = |pass: &Pass| earlier.timeline(*pass).is_some();
        let anew: Vec<Pass> = now.passes().filter(|pass| !is_kept(pass)).collect();
        assert_eq!(recalled.planned_anew, anew);

        // It had an op that this one does not have, or its columns are damaged.
        earlier.timelines[0].ops[0] = "an op of old".to_owned();
        let recalled = earlier.recalled(plan());
        assert!(recalled.steady == now.steady && recalled.planned_anew.contains(&Pass::Steady));
        let mut damaged = kept;
        damaged.timelines[0].phase.pop();
        damaged.timelines[0].layer[0] = u32::MAX;
        assert_eq!(damaged.recalled(plan()).steady, now.steady);
    }

    #[test]
    fn another_first_step_is_told_unless_the_run_was_taken_up_again() {
        let mut prediction = Prediction::of(&plan());
        assert_ne!(prediction.peak_pass, Pass::First);
        prediction.passes.iter_mut().filter(|kept| kept.pass == Pass::First).for_each(|kept| kept.live_bytes += 10);
        let of_events = |events| StoredDetails {
            preset: String::new(),
            prediction: prediction.clone(),
            damage: None,
            events,
            is_process_sampled: None,
            left_over: None,
            measured_step: MeasuredStep::default(),
        };
        assert_eq!(of_events(Vec::new()).recalled(plan()).planned_anew, [Pass::First]);
        let event =
            KeptEvent { at: jiff::Timestamp::UNIX_EPOCH, step: 2, kind: EventKind::Continued, text: String::new() };
        assert_eq!(of_events(vec![event]).recalled(plan()).planned_anew, []);
    }
}

//! The checkpoints of a run that is planned: how many it will write, and how large each is. How long that takes is not known
//! before something is written: it is the disk's.

use plimsoll_engine::{Bytes, memory::Category, plan::Plan};

use crate::format;

/// The checkpoints that a run will write, apart from those of the best tests, which are not known before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Saves {
    /// How many: one after every so many steps or minutes, and one at the end.
    pub(crate) count: u64,
    /// About the size of one.
    pub(crate) each: Bytes,
}

impl Saves {
    /// The checkpoints of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self { count: count(plan), each: size(plan) }
    }

    /// `44 checkpoints of about 480 MiB`.
    pub(crate) fn words(&self) -> String {
        format!("{} of about {}", format::counted(self.count, "checkpoint"), self.each)
    }
}

fn count(plan: &Plan) -> u64 {
    let run = &plan.experiment.run;
    let by_steps = match run.save_every {
        0 => 0,
        // The last step is saved as the end.
        every => plan.total_steps.saturating_sub(1) / every,
    };
    let period = run.save_minutes * 60.0;
    // The clock restarts with every checkpoint, so it never runs out if checkpoints by steps are more frequent.
    let is_by_clock = period > 0.0 && (by_steps == 0 || run.save_every as f64 * plan.step_secs > period);
    let by_clock = if is_by_clock { (plan.step_secs * plan.total_steps as f64 / period) as u64 } else { 0 };
    by_steps + by_clock + 1
}

/// Weights as they are updated, the optimizer's state, running statistics.
fn size(plan: &Plan) -> Bytes {
    let alive = plan.steady.points.last().map(|point| point.categories).unwrap_or_default();
    let (master, weights) = (alive.get(Category::MasterWeights), alive.get(Category::Parameters));
    // Corrections are saved in addition to the weights, a copy in their place.
    let is_corrected = plan.experiment.optimizer.kind.corrects_weights();
    let weights = if is_corrected || master.0 == 0 { weights + master } else { master };
    // Those of a teacher stay where they came from.
    let teacher = plan.layers.iter().find(|row| row.is_teacher());
    let of_teacher = teacher.map_or(Bytes::ZERO, |row| Bytes(row.weight_bytes));
    weights.saturating_sub(of_teacher) + alive.get(Category::OptimizerState) + alive.get(Category::Buffers)
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

    fn plan(save_every: u64, save_minutes: f64) -> Plan {
        let mut experiment = Experiment::default();
        (experiment.run.save_every, experiment.run.save_minutes) = (save_every, save_minutes);
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        Plan { total_steps: 440, step_secs: 1.0, ..plan }
    }

    #[test]
    fn checkpoints_are_counted_as_a_run_writes_them() {
        let count = |every, minutes| Saves::of(&plan(every, minutes)).count;
        assert_eq!(count(0, 0.0), 1, "that of the end");
        // After the steps 1 to 439, and at the end.
        assert_eq!(count(1, 0.0), 440);
        assert_eq!(count(10, 0.0), 44);
        assert_eq!(count(10, 1.0), 44, "a minute never passes");
        assert_eq!(count(0, 1.0), 8);
        let saves = Saves::of(&plan(10, 0.0));
        assert!(saves.each > Bytes::ZERO, "{saves:?}");
        assert!(saves.words().starts_with("44 checkpoints of about "), "{}", saves.words());
    }
}

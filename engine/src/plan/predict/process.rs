//! The size of the process: an estimate, from the run's requests to the allocator and from the program's copies of its plan.
//!
//! Always holds: the estimate is at least the size that kept runs were seen to have, models of a thousand blocks included.

use crate::{
    bytes::Bytes,
    device::Target,
    hardware::Machine,
    memory::allocator::process_grows,
    plan::{Plan, Resolved, predict::places::are_in_range},
};

/// Bytes of a plan for each point of its timelines: the point, the log that it was replayed from, and the room between.
/// Measured on a decoder of 1,000 blocks, it was 210 bytes.
const PLANNED: u64 = 256;
/// Bytes of a kept run for each point: the prediction as it is written, and the store's copy of it. It was 235 bytes.
const KEPT: u64 = 256;

/// Bytes of each thread's own: its stack, and its part of the heap. With 8 to 32 threads it was 0.5 to 0.9 MiB.
const THREAD: u64 = 1 << 20;

/// The bytes that the operating system, or the driver of a GPU, will see of a process that has not planned yet, when the
/// allocator holds `reserved` and the plan has this many points.
pub(super) fn planned(resolved: &Resolved, machine: &Machine, reserved: Bytes, points: usize) -> Bytes {
    of_run(resolved, machine, reserved, points as u64 * (PLANNED + KEPT))
}

/// The same of a process that has the plan: its base was measured with it.
pub(crate) fn running(plan: &Plan, machine: &Machine) -> Bytes {
    let points: usize = plan.passes().map(|pass| plan.timeline(pass).points.len()).sum();
    of_run(&plan.resolved, machine, plan.peak.reserved, points as u64 * KEPT)
}

fn of_run(resolved: &Resolved, machine: &Machine, reserved: Bytes, of_plan: u64) -> Bytes {
    match resolved.target() {
        Target::Cpu(processor) => {
            let own = Bytes(of_plan + processor.threads as u64 * THREAD);
            let is_in_range = are_in_range(resolved.experiment());
            machine.process_base() + resolved.host().total() + process_grows(reserved, is_in_range) + own
        }
        Target::Gpu(profile) => profile.context + reserved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bytes::Bytes,
        experiment::{DataKind, Experiment, ModelKind},
    };

    /// The process of a plan of a narrow decoder, from nothing.
    fn of_depth(depth: usize) -> Plan {
        let mut experiment = Experiment { budget: Bytes::gib(2), ..Experiment::default() };
        experiment.data.choose(DataKind::Sort);
        experiment.model.kind = ModelKind::Llama;
        (experiment.model.depth, experiment.model.width, experiment.model.hidden) = (depth, 8, 8);
        (experiment.model.heads, experiment.model.kv_heads, experiment.batch.micro) = (1, 1, 1);
        Plan::of(&experiment, &Machine::nominal()).expect("a plan")
    }

    #[test]
    fn what_a_plan_holds_grows_with_the_depth_of_the_model() {
        let (shallow, deep) = (of_depth(10), of_depth(210));
        let beyond =
            |plan: &Plan| plan.peak.process.0 - process_grows(plan.peak.reserved, are_in_range(&plan.experiment)).0;
        let grown = beyond(&deep) - beyond(&shallow);
        // Measured of a kept run: 48 KiB a block more than the blocks of the allocator.
        assert!((200 * 48_000..200 * 110_000).contains(&grown), "{grown}");
    }

    #[test]
    fn a_process_that_has_its_plan_holds_it_already() {
        let plan = of_depth(20);
        let (before, running) = (plan.peak.process, running(&plan, &Machine::nominal()));
        assert!(
            running < before && running.0 > process_grows(plan.peak.reserved, are_in_range(&plan.experiment)).0,
            "{running} {before}"
        );
    }
}

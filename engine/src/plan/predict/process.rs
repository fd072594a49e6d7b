//! The size of the process: an estimate, from the run's requests to the allocator and from the program's copies of its plan.
//!
//! Always holds: the estimate is at least the size that kept runs were seen to have, models of a thousand blocks included.

use crate::{
    bytes::Bytes,
    data,
    device::Target,
    hardware::{Machine, RunKind},
    interop,
    memory::{Phase, Timeline, allocator::process_grows},
    plan::{
        Pass, Plan, Resolved,
        predict::{dry::Apart, places::are_in_range},
    },
};

/// Bytes of a plan for each point of its timelines, for each point of the longest step, from which they were replayed, and for
/// each block that is alive at the peak. Fitted to 520 runs of two builds of the program.
const PLANNED: [u64; 3] = [88, 44, 512];
/// Bytes of a kept run for each point of the timelines that are kept with it, for each point of the longest step, and for each
/// layer: the prediction as it is written, and the store's copy of it. Fitted to 400 runs of another build.
const KEPT: [u64; 3] = [76, 56, 320];
/// Bytes of a kept run, however short, once its store is open: the pages of the recorder's thread. Of 190 small experiments it was
/// 0.2 to 0.6 MB.
const RECORDER: u64 = 384 << 10;
/// Steps that a recorder holds until it begins another block.
pub(crate) const RECORDED_STEPS: usize = 4096;
/// Bytes of a kept run for each of them: the step as it came, in lists that grow, and its columns as they are written. Then the
/// bytes of each step of the second block. Where 300 to 20,000 steps of a small model were kept, they were 330 and 150.
const RECORDED: [u64; 2] = [352, 192];
/// Bytes of a run of more than one step for each point of its longest step that is read op by op: 24 as it is read, and 8 of its highest bytes, in
/// this step and in the one that was read before.
const FOLLOWED: u64 = 32;

/// Bytes of each thread's own: its stack, and the pages that its heap has begun; of a thread that has worked before, what a run
/// adds to them.
const THREAD: [u64; 2] = [144 << 10, 16 << 10];

/// Bytes of a file of weights that are mapped while it is read: a part of a tensor, the pages next to it, and the code that reads.
const READ: u64 = 64 << 10;

/// Bytes that stay in the heaps of threads after layers were factored. A MobileNetV2 in f64 had 100 to 200 kB.
const LEFT: u64 = 128 << 10;

/// The heaps of computing threads grow by one in so many bytes of a run's blocks. It shows with large matrices only: a ResNet-18 in f64
/// on three threads had 0.4 MB with 270 MB of blocks.
const OF_BLOCKS: u64 = 1024;

/// Bytes of the code that reads such a file, and factors layers of it, in a process that has not done so yet. Of 60 runs it was
/// 1.6 to 2.9 MB.
const READER: u64 = 9 << 18;

/// Bytes of what factoring leaves in the heap of such a process, for each layer of the model. Vision transformers, GPT-2 and Llama of
/// 77 to 101 blocks had 250 to 700.
const FACTORED: u64 = 704;

/// The extent of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The points of all timelines.
    points: u64,
    /// The points of the longest step.
    step: u64,
    /// The points that are kept with a run.
    kept: u64,
    /// The blocks that are alive at the peak.
    blocks: u64,
    layers: u64,
}

impl Extent {
    /// That of a plan which peaks in `peak` with so many blocks alive, by how many points each pass has.
    pub(super) fn of(peak: Pass, length: impl Fn(Pass) -> usize, blocks: usize, layers: usize) -> Self {
        let sum = |passes: &mut dyn Iterator<Item = Pass>| passes.map(|pass| length(pass) as u64).sum();
        let step = [Pass::First, Pass::Steady, Pass::Pruned].map(|pass| length(pass) as u64).into_iter().max();
        Self {
            points: sum(&mut Pass::ALL.into_iter()),
            step: step.unwrap_or_default(),
            kept: sum(&mut Pass::kept(peak)),
            blocks: blocks as u64,
            layers: layers as u64,
        }
    }

    fn of_plan(plan: &Plan) -> Self {
        let length = |pass| plan.timeline(pass).points.len();
        Self::of(plan.peak_pass, length, plan.alive_at_peak.len(), plan.layers.len())
    }

    fn planned_bytes(&self) -> u64 {
        sum_of([self.points, self.step, self.blocks], PLANNED)
    }

    fn kept_bytes(&self) -> u64 {
        sum_of([self.kept, self.step, self.layers], KEPT)
    }
}

fn sum_of(counts: [u64; 3], each: [u64; 3]) -> u64 {
    counts.iter().zip(each).map(|(count, each)| count * each).sum()
}

/// The bytes that a process grows by for what its run asks of the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    whole: OfModel,
    /// On the processor, once the model lost its channels and the range became shorter; `None` if that does not happen.
    thinned: Option<OfModel>,
    /// On the processor, what the heap has no more after the first step, and takes again for other things.
    spare: Bytes,
    /// The most bytes that are there while weights are read.
    loading: Bytes,
}

/// That growth while one model is trained and tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OfModel {
    /// All of it: on a GPU what the pool holds, with the graphs; on the processor the pages that the range and the heap came to
    /// have, each at its own moment.
    all: Bytes,
    /// On the processor, what there is once a test has a batch on the device, the last time that it still has it on the host as
    /// well; `None` if there is no test.
    fed: Option<Bytes>,
}

impl Grown {
    /// The growth for a run whose allocator held `reserved` at most, and range and heap `apart`. `first` is the timeline of its
    /// first step.
    pub(super) fn of(resolved: &Resolved, reserved: Bytes, apart: Apart, first: &Timeline) -> Self {
        let loading = first.points.iter().filter(|point| point.phase == Phase::Loading).map(|point| point.live);
        let loading = loading.max().unwrap_or_default();
        match resolved.target() {
            Target::Cpu(_) if are_in_range(resolved.experiment()) => {
                let [range, heap] = apart.all;
                let thinned = apart.thinned.map(|(range, fed)| OfModel { all: range + heap, fed });
                // A set of samples on the device, and the pages of a teacher that was asked before.
                let loading = loading.max(apart.begun);
                Self { whole: OfModel { all: range + heap, fed: apart.fed }, thinned, spare: apart.spare, loading }
            }
            Target::Cpu(_) | Target::Gpu(_) => {
                Self { whole: OfModel { all: reserved, fed: None }, thinned: None, spare: Bytes::ZERO, loading }
            }
        }
    }
}

/// The bytes that the operating system, or the driver of a GPU, will see of a process that has not planned yet and keeps the
/// run, when it grows so, and the plan has this extent.
pub(super) fn planned(resolved: &Resolved, machine: &Machine, grown: Grown, plan: Extent) -> Bytes {
    of_beginning(resolved, machine, grown, plan, true)
}

/// The same of a plan that is made, of a run that may not be kept.
pub(crate) fn beginning(plan: &Plan, is_kept: bool) -> Bytes {
    of_beginning(&plan.resolved, &plan.machine, plan.grown, Extent::of_plan(plan), is_kept)
}

/// The same of a process that has the plan: its base was measured with it.
pub(crate) fn running(plan: &Plan, machine: &Machine, is_kept: bool) -> Bytes {
    of_run(&plan.resolved, machine, plan.grown, while_running(plan, is_kept), is_kept)
}

/// The same machine after a run of `plan` on the processor, whose process came to these bytes: both predictions are better the
/// next time.
pub(crate) fn seen(plan: &Plan, machine: &Machine, is_kept: bool, process: Bytes) -> Machine {
    let kind = kind(&plan.resolved, is_kept);
    let [begun, ran] =
        [from_the_beginning(&plan.resolved, Extent::of_plan(plan), is_kept), while_running(plan, is_kept)]
            .map(|own| taken(&plan.resolved, plan.grown, own));
    machine.with_run_seen(&plan.machine, kind, begun, process).with_run_seen(machine, kind, ran, process)
}

fn of_beginning(resolved: &Resolved, machine: &Machine, grown: Grown, plan: Extent, is_kept: bool) -> Bytes {
    of_run(resolved, machine, grown, from_the_beginning(resolved, plan, is_kept), is_kept)
}

/// What plan, record and threads take of their own in a process that has not planned yet.
fn from_the_beginning(resolved: &Resolved, plan: Extent, is_kept: bool) -> Own {
    let factored = if resolved.factored_in_loading().is_empty() { 0 } else { plan.layers * FACTORED };
    let reader = if reads_weights(resolved) { READER + factored } else { 0 };
    let of_plan = plan.planned_bytes() + record(resolved, plan, is_kept);
    Own { all: of_plan + reader, followed: followed(resolved, plan), of_thread: THREAD[0] }
}

/// The same of a process that has planned.
fn while_running(plan: &Plan, is_kept: bool) -> Own {
    let extent = Extent::of_plan(plan);
    let followed = followed(&plan.resolved, extent);
    Own { all: record(&plan.resolved, extent, is_kept), followed, of_thread: THREAD[1] }
}

/// The bytes in which steps are read op by op. The first step of a run is not.
fn followed(resolved: &Resolved, plan: Extent) -> u64 {
    if resolved.steps_done() + resolved.steps_left() > 1 { plan.step * FOLLOWED } else { 0 }
}

/// What decides how a process grows by a run of this plan.
fn kind(resolved: &Resolved, is_kept: bool) -> RunKind<'_> {
    let (steps, goes_on) = (resolved.steps_left(), resolved.resumed().is_some());
    RunKind { experiment: resolved.experiment(), steps, goes_on, is_kept }
}

/// The bytes of the record of a run, if it is kept. A run that goes on reads what is kept of it: the prediction, and its steps a
/// block at a time.
fn record(resolved: &Resolved, plan: Extent, is_kept: bool) -> u64 {
    if !is_kept {
        return 0;
    }
    let earlier = resolved.resumed().map_or(0, |resumed| plan.kept_bytes() + of_steps(resumed.step));
    RECORDER + plan.kept_bytes() + earlier.max(of_steps(resolved.steps_left()))
}

/// The bytes of so many steps in a recorder, on the way to its first full block, and to its second.
fn of_steps(steps: u64) -> u64 {
    let block = RECORDED_STEPS as u64;
    let blocks = [steps.min(block), steps.saturating_sub(block).min(block)];
    blocks.into_iter().zip(RECORDED).map(|(steps, each)| steps * each).sum()
}

/// The host memory that this run of `resolved` writes to while it trains: samples are kept as the run takes them.
pub(crate) fn host(resolved: &Resolved) -> Bytes {
    written(resolved, resolved.batches_left(), true)
}

/// The host memory that it writes to with so many micro-batches.
fn written(resolved: &Resolved, batches: u64, is_tested: bool) -> Bytes {
    let experiment = resolved.experiment();
    let taken = batches.saturating_mul(experiment.batch.micro as u64);
    let taken = if resolved.answers().is_some() { u64::MAX } else { taken };
    let batches = [experiment.batch.micro, resolved.evaluation_batch()];
    let untouched = data::untouched(&experiment.data, resolved.data(), taken, resolved.feed(), batches, is_tested);
    resolved.host().without_factors().saturating_sub(untouched)
}

/// The bytes that a process grows by for the blocks of a run on the processor, and for its data. A model that loses channels takes
/// the most for its blocks before, and the most for its data at the end.
fn grown_with_data(resolved: &Resolved, grown: Grown) -> Bytes {
    let is_in_range = are_in_range(resolved.experiment());
    let factors = interop::factoring_touched(resolved.factored_in_loading());
    // While weights are read, the loader makes the first batches.
    let loading = written(resolved, 0, false) + grown.loading + factors;
    let with = |host: Bytes, all: Bytes| (host + process_grows(all, is_in_range)).max(loading);
    let tested = |of: OfModel| {
        let host = host(resolved);
        let given_back = data::given_back(&resolved.experiment().data, resolved.data(), resolved.evaluation_batch());
        with(host, of.fed.unwrap_or(of.all).min(of.all)).max(with(host.saturating_sub(given_back), of.all))
    };
    match (grown.thinned, resolved.thinned_after()) {
        (Some(thinned), Some(after)) => {
            // A run that should have taken them out before does so after its next step.
            let before = after.saturating_sub(resolved.steps_done()).max(1);
            let before = before.saturating_mul(resolved.experiment().batch.accumulation as u64);
            let before = written(resolved, before, resolved.tests_whole_model());
            with(before, grown.whole.all).max(tested(thinned))
        }
        _ => tested(grown.whole),
    }
}

/// Whether a file of weights is read.
fn reads_weights(resolved: &Resolved) -> bool {
    let experiment = resolved.experiment();
    experiment.weights.path.is_some() || experiment.distil.chosen().is_some()
}

/// What a process takes of its own for a run, and for each of its threads.
#[derive(Debug, Clone, Copy)]
struct Own {
    all: u64,
    /// In which its steps are read op by op.
    followed: u64,
    of_thread: u64,
}

fn of_run(resolved: &Resolved, machine: &Machine, grown: Grown, own: Own, is_kept: bool) -> Bytes {
    match resolved.target() {
        Target::Cpu(_) => machine.process_in_a_run(kind(resolved, is_kept), taken(resolved, grown, own)),
        Target::Gpu(profile) => profile.context + grown.whole.all,
    }
}

/// The bytes that a process takes for a run on the processor, beside the pages of the program.
fn taken(resolved: &Resolved, grown: Grown, own: Own) -> Bytes {
    let experiment = resolved.experiment();
    let (uploading, chunk) = data::uploading(&experiment.data, resolved.data());
    let computing = if let Target::Cpu(processor) = resolved.target() { processor.threads } else { 0 };
    let threads = computing + uploading;
    let decoded = data::kept_by_decoders(&experiment.data, resolved.data());
    let heaps = threads as u64 * own.of_thread + decoded.0;
    // One is gone before the other comes, and both take what the making of the model left.
    let later = chunk.0.max(own.followed).saturating_sub(grown.spare.0);
    let read = if reads_weights(resolved) { READ } else { 0 };
    let left = if resolved.factored_in_loading().is_empty() { 0 } else { LEFT };
    let heaps = heaps + grown.whole.all.0 / OF_BLOCKS + left;
    grown_with_data(resolved, grown) + Bytes(own.all + heaps + later + read)
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
        // Measured of a kept run: 33 kB a block more than the blocks of the allocator.
        assert!((200 * 33_000..200 * 66_000).contains(&grown), "{grown}");
    }

    #[test]
    fn a_process_that_has_its_plan_holds_it_already() {
        let plan = of_depth(20);
        let (before, running) = (plan.peak.process, running(&plan, &Machine::nominal(), true));
        assert!(
            running < before && running.0 > process_grows(plan.peak.reserved, are_in_range(&plan.experiment)).0,
            "{running} {before}"
        );
    }

    #[test]
    fn the_one_batch_of_a_test_is_gone_when_the_model_answers() {
        let of = |steps: u64| {
            let mut experiment = Experiment { budget: Bytes::gib(2), ..Experiment::default() };
            experiment.data.choose(DataKind::Shapes);
            (experiment.model.kind, experiment.model.width) = (ModelKind::Cnn, 2);
            (experiment.data.side, experiment.data.samples, experiment.batch.micro) = (64, 700, 2);
            (experiment.run.steps, experiment.run.evaluate_every) = (Some(steps), 1);
            experiment.batch.evaluation = crate::experiment::EvaluationBatch::Whole;
            Plan::of(&experiment, &Machine::nominal()).expect("a plan")
        };
        let (once, twice) = (of(1), of(2));
        let batch = data::given_back(&once.experiment.data, once.resolved.data(), once.resolved.evaluation_batch());
        assert!(batch > Bytes::mib(1), "{batch}");
        let grows = |all: Bytes| process_grows(all, are_in_range(&once.experiment));
        // The second test finds all that the first one touched while its batch waits.
        let OfModel { all, fed } = twice.grown.whole;
        let fed = fed.expect("a test");
        assert!(fed <= all && fed + Bytes::kib(64) > all, "{fed} {all}");
        assert_eq!(grown_with_data(&twice.resolved, twice.grown), host(&twice.resolved) + grows(fed));
        let (host, fed) = (host(&once.resolved), once.grown.whole.fed.expect("a test"));
        let (uploaded, answered) = (host + grows(fed), host.saturating_sub(batch) + grows(once.grown.whole.all));
        assert_eq!(grown_with_data(&once.resolved, once.grown), uploaded.max(answered));
        let before = host + grows(once.grown.whole.all);
        assert!(uploaded.max(answered) + Bytes::mib(1) < before, "{uploaded} {answered} {before}");
    }
}

//! Runs that lose channels: what they take before and after, what is saved, and that a saved run goes on.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    time::Duration,
};

use candle_core::{Device, Tensor, safetensors};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{
        Checkpointing, DataKind, EvaluationBatch, ModelKind, OptimizerKind, Precision, Prune, PruneKind, UpdateTime,
    },
    hardware::Machine,
    memory::Category,
    plan::{Pass, Plan, Resolved},
    train::{Command, Event, Keep, Outcome, Start, Summary, Tester, Trainer, Tried},
};

/// What was seen of a run: its losses, what was measured alive after each step, and what it came to.
struct Seen {
    losses: Vec<f64>,
    thinned_at: Option<u64>,
    /// The most bytes that were reserved in each step.
    reserved: Vec<Bytes>,
    summary: Summary,
}

fn run(experiment: &Experiment, keep: Keep) -> Seen {
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(Start { keep, ..Start::new(experiment.clone()) })));
    let (mut losses, mut reserved, mut thinned_at) = (Vec::new(), Vec::new(), None);
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Step(step) => {
                losses.push(step.loss);
                reserved.push(step.reserved);
            }
            Event::Thinned { step, .. } => thinned_at = Some(step),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                return Seen { losses, thinned_at, reserved, summary: *summary };
            }
            _ => {}
        }
    }
}

fn thinned(kind: ModelKind) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    e.model.kind = kind;
    (e.model.width, e.model.depth, e.model.dense, e.model.layers) = (12, 2, 24, 18);
    e.model.multiplier = 0.25;
    (e.data.kind, e.data.side, e.data.samples) = (DataKind::Shapes, 16, 60);
    (e.batch.micro, e.run.steps) = (4, Some(6));
    e.prune = Prune { kind: PruneKind::Channels, final_sparsity: 0.5, begin_step: 3, ..Prune::default() };
    e
}

const KINDS: [ModelKind; 6] = [
    ModelKind::Mlp,
    ModelKind::Cnn,
    ModelKind::Sepcnn,
    ModelKind::Resnet,
    ModelKind::Mobilenetv1,
    ModelKind::Mobilenetv2,
];

#[test]
fn every_family_goes_on_smaller_as_was_predicted() {
    for (at, kind) in KINDS.into_iter().enumerate() {
        let mut experiment = thinned(kind);
        experiment.precision = [Precision::F32, Precision::Bf16Mixed, Precision::Bf16][at % 3];
        experiment.optimizer.kind =
            [OptimizerKind::Adamw, OptimizerKind::Sgd, OptimizerKind::Muon, OptimizerKind::Momentum][at % 4];
        if at % 2 == 0 {
            experiment.checkpointing = Checkpointing::Blocks;
        }
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        assert_eq!((plan.thinned_after, plan.pass_of(3), plan.pass_of(4)), (Some(3), Pass::Steady, Pass::Pruned));
        let (whole, pruned) = (plan.steady.peak(), plan.pruned.peak());
        assert!(pruned < whole, "{kind:?}: {pruned} after {whole}");
        let passes: Vec<Pass> = plan.passes().collect();
        let all = [Pass::First, Pass::Steady, Pass::Prune, Pass::Pruned, Pass::Evaluate, Pass::Save];
        assert_eq!(passes, all, "{kind:?}");
        let seen = run(&experiment, Keep::default());
        assert_eq!(seen.thinned_at, Some(3), "{kind:?}");
        let (predicted, measured) = (seen.summary.predicted.live, seen.summary.measured.live);
        assert!(measured <= predicted, "{kind:?}: {measured} measured, {predicted} predicted");
        assert!(predicted.0 - measured.0 <= measured.0 / 100 + (192 << 10), "{kind:?}: {measured} of {predicted}");
        // Where the tensors lie in a range, it is as long as the plan says, and shorter once the smaller model lies there.
        if cfg!(target_os = "linux") {
            let (held, planned) = (seen.summary.measured.reserved, seen.summary.predicted.reserved);
            assert!(
                held <= planned && planned.0 - held.0 <= held.0 / 100 + (192 << 10),
                "{kind:?}: {held} of {planned}"
            );
            let (before, after) = (seen.reserved[1], seen.reserved[5]);
            assert!(after.0 * 10 <= before.0 * 9, "{kind:?}: {after} reserved, {before} before");
            assert!(after.0 <= pruned.0 + pruned.0 / 50 + (64 << 10), "{kind:?}: {after} reserved for {pruned}");
        }
        let stripped = seen.summary.stripped.expect("channels were taken out");
        assert!(!stripped.are_zeros && stripped.sparsity() > 0.3, "{kind:?}: {stripped}");
        assert!(stripped.bytes < stripped.dense_bytes && seen.losses.iter().all(|loss| loss.is_finite()), "{kind:?}");
    }
}

/// A run whose tests are larger than its steps.
fn widely_tested(evaluate_every: u64) -> Experiment {
    let mut experiment = thinned(ModelKind::Cnn);
    (experiment.model.width, experiment.data.samples) = (48, 400);
    (experiment.batch.evaluation, experiment.run.evaluate_every) = (EvaluationBatch::Whole, evaluate_every);
    experiment
}

#[test]
fn the_prediction_has_the_tests_that_come_and_no_larger_one() {
    let plan = |every| Plan::of(&widely_tested(every), &Machine::nominal()).expect("a plan");
    let (of_whole, of_smaller) = (plan(2), plan(6));
    assert_eq!([of_whole.peak_pass, of_smaller.peak_pass], [Pass::Evaluate; 2]);
    assert!(
        of_smaller.peak.live.0 * 10 < of_whole.peak.live.0 * 8,
        "{} and {}",
        of_smaller.peak.live,
        of_whole.peak.live
    );
    assert!(!of_smaller.may_stay_below() && !of_whole.may_stay_below());
    for (every, plan) in [(2, of_whole), (6, of_smaller)] {
        let seen = run(&Experiment { budget: plan.peak.live, ..widely_tested(every) }, Keep::default());
        let (predicted, measured) = (seen.summary.predicted.live, seen.summary.measured.live);
        let context = plan.categories_at_peak.get(Category::Context);
        assert!(measured <= predicted, "every {every}: {measured} measured, {predicted} predicted");
        assert!(predicted.0 <= measured.0 / 100 * 101 + context.0, "every {every}: {measured} of {predicted}");
    }
}

#[test]
fn updates_that_f16_skips_do_not_delay_the_channels() {
    let mut skipped = 0;
    for kind in KINDS {
        let mut experiment = Experiment { precision: Precision::F16Mixed, ..thinned(kind) };
        (experiment.data.samples, experiment.batch.evaluation) = (400, EvaluationBatch::Whole);
        (experiment.run.evaluate_every, experiment.run.save_best) = (4, true);
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        assert!(!plan.resolved.tests_whole_model(), "{kind:?}");
        let folder = tempfile::tempdir().expect("a folder");
        let seen = run(&Experiment { budget: plan.peak.live, ..experiment }, Keep::in_folder(folder.path()));
        assert_eq!(seen.thinned_at, Some(3), "{kind:?}");
        assert!(seen.summary.measured.live <= seen.summary.predicted.live, "{kind:?}");
        assert!(folder.path().join("best.safetensors").exists(), "{kind:?}: every test is of the smaller model");
        skipped += seen.summary.skipped_steps;
    }
    assert!(skipped > 0, "a loss scale that fits from the first step shows nothing");
}

#[test]
fn a_test_that_is_not_predicted_waits_until_the_channels_are_gone() {
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(Start { paused: true, ..Start::new(widely_tested(6)) })));
    trainer.send(Command::Step);
    trainer.send(Command::Evaluate);
    trainer.send(Command::Resume);
    let (mut warned, mut thinned_at, mut tested) = (false, None, Vec::new());
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Warning(text) => warned |= text.contains("waits until channels are taken out"),
            Event::Thinned { step, .. } => thinned_at = Some(step),
            Event::Evaluated { step, .. } => tested.push((step, thinned_at.is_some())),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                assert!(summary.measured.live <= summary.predicted.live);
                break;
            }
            _ => {}
        }
    }
    assert!(warned);
    assert_eq!((thinned_at, tested), (Some(3), vec![(3, true), (6, true)]));
}

#[test]
fn a_layer_that_is_left_with_one_channel_keeps_the_state_of_its_optimizer() {
    let optimizers = OptimizerKind::ALL.into_iter().filter(|optimizer| optimizer.keeps_state_by_weight());
    // Each optimizer with two of the kinds, and each kind with some optimizers.
    let kinds = KINDS.into_iter().cycle().zip(KINDS.into_iter().cycle().skip(KINDS.len() / 2));
    for (optimizer, (one, other)) in optimizers.zip(kinds) {
        for kind in [one, other] {
            let mut experiment = thinned(kind);
            (experiment.model.width, experiment.model.dense) = (2, 2);
            (experiment.prune.final_sparsity, experiment.optimizer.kind) = (0.9, optimizer);
            let seen = run(&experiment, Keep::default());
            assert_eq!(seen.thinned_at, Some(3), "{kind:?} with {optimizer:?}");
            let (predicted, measured) = (seen.summary.predicted.live, seen.summary.measured.live);
            assert!(measured <= predicted, "{kind:?} with {optimizer:?}: {measured} of {predicted}");
        }
    }
}

fn saved(folder: &Path) -> std::collections::HashMap<String, Tensor> {
    safetensors::load(folder.join("last.safetensors"), &Device::Cpu).expect("a file of tensors")
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().and_then(|all| all.to_vec1()).expect("f32")
}

/// The channels of a tensor `[filters, ...]` by the sums of their magnitudes, the largest half, in order.
fn largest_half(tensor: &Tensor) -> Vec<usize> {
    let filters = tensor.dims()[0];
    let all = numbers(tensor);
    let sums: Vec<f64> =
        all.chunks(all.len() / filters).map(|filter| filter.iter().map(|x| f64::from(x.abs())).sum()).collect();
    let mut order: Vec<usize> = (0..filters).collect();
    order.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]).then(a.cmp(b)));
    order.truncate(filters / 2);
    order.sort_unstable();
    order
}

#[test]
fn the_largest_filters_stay_with_all_that_belongs_to_them() {
    let [before, after] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    // The same three steps; after them, without a rate, nothing changes but what is taken out.
    let mut whole = thinned(ModelKind::Cnn);
    (whole.run.steps, whole.prune.kind) = (Some(3), PruneKind::None);
    run(&whole, Keep::in_folder(before.path()));
    let mut short = thinned(ModelKind::Cnn);
    (short.run.steps, short.prune.begin_step) = (Some(3), 3);
    let seen = run(&short, Keep::in_folder(after.path()));
    assert_eq!(seen.thinned_at, Some(3));
    let [before, after] = [before.path(), after.path()].map(saved);
    let [first, second] = ["block1.conv.weight", "block2.conv.weight"].map(|name| largest_half(&before[name]));
    let pick = |tensor: &Tensor, rows: &[usize], columns: &[usize]| {
        let dims = tensor.dims().to_vec();
        let (width, channels) = (numbers(tensor).len() / dims[0], *dims.last().expect("an extent"));
        let all = numbers(tensor);
        let of_row = |row: &usize| {
            let row = &all[row * width..(row + 1) * width];
            let stays = |(at, _): &(usize, &f32)| columns.contains(&(at % channels));
            row.iter().enumerate().filter(stays).map(|(_, x)| *x).collect::<Vec<_>>()
        };
        rows.iter().flat_map(of_row).collect::<Vec<_>>()
    };
    for prefix in ["", "optimizer."] {
        let states: &[&str] = if prefix.is_empty() { &[""] } else { &[".first_moment", ".second_moment"] };
        for state in states {
            let name = |of: &str| format!("{prefix}block2.conv.{of}{state}");
            let weight = name("weight");
            assert_eq!(numbers(&after[&weight]), pick(&before[&weight], &second, &first), "{weight}");
            let bias = numbers(&before[&name("bias")]);
            let kept: Vec<f32> = second.iter().map(|channel| bias[*channel]).collect();
            assert_eq!(numbers(&after[&name("bias")]), kept);
        }
    }
    let classes = &after["head.classes.weight"];
    assert_eq!(classes.dims(), [before["head.classes.weight"].dims()[0], 12], "every class stays");
}

#[test]
fn a_residual_chain_loses_the_same_channels_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = run(&thinned(ModelKind::Resnet), Keep::in_folder(folder.path()));
    let file = saved(folder.path());
    // What the stem writes is added to by each block of the first stage, and read by all of them.
    for name in ["block1.conv.weight", "block2.b.conv.weight", "block3.b.conv.weight"] {
        assert_eq!(file[name].dims()[0], 32, "{name}");
    }
    for name in ["block2.a.conv.weight", "block3.a.conv.weight", "block4.a.conv.weight"] {
        assert_eq!(file[name].dims()[3], 32, "{name}");
    }
    assert!(seen.losses.iter().all(|loss| loss.is_finite()));
}

/// A checkpoint of a run that was stopped once it had saved after `stop` steps. The run waits after each event until it was
/// dealt with, so that it is never past the command.
fn stopped(experiment: &Experiment, stop: u64, folder: &Path) -> PathBuf {
    let (go_on, waiting) = sync_channel(0);
    let trainer = Trainer::new(move || _ = go_on.send(()));
    // Dropped before the trainer, whose thread would wait for its turn.
    let turns = waiting;
    let start = Start { keep: Keep::in_folder(folder), ..Start::new(experiment.clone()) };
    trainer.send(Command::Start(Box::new(start)));
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Saved { step, .. } if step == stop => trainer.send(Command::Stop),
            Event::Ended { summary, .. } => {
                assert!(summary.steps < experiment.run.steps.expect("a run of some steps"), "it was stopped");
                return folder.join("last.safetensors");
            }
            _ => {}
        }
        turns.recv().expect("the trainer goes on");
    }
}

/// The losses of the same run from a checkpoint on, and what it came to.
fn resumed(experiment: &Experiment, checkpoint: PathBuf) -> (Vec<f64>, Summary) {
    gone_on(experiment, checkpoint, true)
}

/// The losses of a run from a checkpoint on, which may be that of another run, and what it came to.
fn gone_on(experiment: &Experiment, checkpoint: PathBuf, is_same_run: bool) -> (Vec<f64>, Summary) {
    let trainer = Trainer::new(|| {});
    let start = Start { resume: Some(checkpoint), is_same_run, ..Start::new(experiment.clone()) };
    trainer.send(Command::Start(Box::new(start)));
    let mut losses = Vec::new();
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Step(step) => losses.push(step.loss),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                return (losses, *summary);
            }
            _ => {}
        }
    }
}

#[test]
fn a_resumed_run_plans_no_test_that_it_has_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut experiment = widely_tested(2);
    experiment.run.save_every = 2;
    let whole = Plan::of(&experiment, &Machine::nominal()).expect("a plan").peak.live;
    let (losses, summary) = resumed(&experiment, stopped(&experiment, 2, folder.path()));
    assert_eq!(losses.len(), 4, "it went on after the test of the whole model");
    let (predicted, measured) = (summary.predicted.live, summary.measured.live);
    assert!(measured <= predicted && predicted.0 * 10 < whole.0 * 8, "{measured} measured, {predicted} of {whole}");
}

#[test]
fn a_run_that_is_cut_short_plans_the_test_before_its_channels_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut experiment = widely_tested(6);
    (experiment.run.steps, experiment.run.save_every, experiment.prune.begin_step) = (Some(12), 2, 0);
    let checkpoint = stopped(&experiment, 2, folder.path());
    // Its channels were to go after step 2 now, which was done with all of them.
    (experiment.run.steps, experiment.run.evaluate_every) = (Some(4), 2);
    let (losses, summary) = gone_on(&experiment, checkpoint, false);
    assert_eq!(losses.len(), 2);
    let (predicted, measured) = (summary.predicted.live, summary.measured.live);
    assert!(measured <= predicted, "{measured} measured, {predicted} predicted");
}

#[test]
fn weights_whose_channels_were_taken_out_begin_a_model_that_is_as_narrow_and_no_other() {
    for kind in [ModelKind::Cnn, ModelKind::Mlp, ModelKind::Mobilenetv2] {
        let folder = tempfile::tempdir().expect("a folder");
        let experiment = thinned(kind);
        let accuracy = run(&experiment, Keep::in_folder(folder.path())).summary.test_accuracy;
        let mut begun = Experiment { prune: Prune::default(), ..experiment };
        begun.weights.path = Some(folder.path().join("last.safetensors"));
        let said = Tester::new().evaluate(&Tried::begun(begun.clone())).expect_err("refused").to_string();
        assert!(said.contains("channels were taken out") && said.contains("plimsoll resume"), "{kind:?}: {said}");
        if kind == ModelKind::Mobilenetv2 {
            // Its widths are rounded to multiples of 8, and what is left of them is not.
            assert!(!said.contains("model.multiplier"), "{said}");
            continue;
        }
        assert!(said.contains("set model.width=6") && said.contains(", as the weights have it"), "{kind:?}: {said}");
        (begun.model.width, begun.model.dense) = (6, 12);
        let found = Tester::new().evaluate(&Tried::begun(begun)).expect("as narrow");
        assert_eq!(Some(found.accuracy), accuracy, "{kind:?}");
    }
}

#[test]
fn a_run_goes_on_to_the_same_bits_before_and_after_its_channels_went() {
    for (kind, precision, update) in [
        (ModelKind::Cnn, Precision::F32, UpdateTime::InBackward),
        (ModelKind::Mobilenetv2, Precision::Bf16Mixed, UpdateTime::AfterBackward),
    ] {
        let mut experiment = Experiment { precision, ..thinned(kind) };
        experiment.optimizer.update = update;
        let whole = run(&experiment, Keep::default());
        for stop in [2, 5] {
            let folder = tempfile::tempdir().expect("a folder");
            // A run of as many steps, with a checkpoint on the way.
            let mut short = experiment.clone();
            short.run.save_every = stop;
            let last = stopped(&short, stop, folder.path());
            let checkpoint = plimsoll_engine::train::Checkpoint::open(&last).expect("it was saved");
            let done = checkpoint.step() as usize;
            let (losses, summary) = resumed(&short, last);
            assert_eq!(losses, whole.losses[done..], "{kind:?} from step {done}");
            assert_eq!(summary.test_accuracy, whole.summary.test_accuracy, "{kind:?}");
            assert_eq!(summary.stripped, whole.summary.stripped, "{kind:?}");
            assert!(summary.measured.live <= summary.predicted.live, "{kind:?}");
        }
    }
}

#[test]
fn what_has_no_channels_to_take_is_refused_with_a_mend() {
    let problems = |change: fn(&mut Experiment)| {
        let mut experiment = thinned(ModelKind::Cnn);
        change(&mut experiment);
        let problems = Resolved::new(&experiment, &Machine::nominal()).expect_err("it cannot be");
        problems.into_iter().map(|problem| problem.key).collect::<Vec<_>>()
    };
    assert_eq!(problems(|e| e.model.kind = ModelKind::Mixer), ["prune.kind"]);
    assert_eq!(problems(|e| e.optimizer.kind = OptimizerKind::Adafactor), ["optimizer.kind"]);
    assert_eq!(problems(|e| e.lora.rank = 2), ["prune.kind"]);
}

#[test]
fn a_line_between_both_sizes_is_crossed_before_and_not_after() {
    let experiment = thinned(ModelKind::Cnn);
    let machine = Machine::nominal();
    let plan = Plan::of(&experiment, &machine).expect("a plan");
    let tight = Experiment { budget: Bytes(plan.peak.live.0 - 1), ..experiment };
    let resolved = Resolved::new(&tight, &machine).expect("it can be");
    assert!(plimsoll_engine::plan::predict::refusal(&resolved, &machine).expect("a dry run").is_some());
    assert!(plan.steps_secs() < plan.step_secs * plan.total_steps as f64, "smaller steps are faster");
}

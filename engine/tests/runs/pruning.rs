//! Pruned runs: how many weights become zero and which, what it takes, and that a saved run goes on with its masks.

use std::{path::Path, time::Duration};

use candle_core::{Device, safetensors};
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, ModelKind, Precision, Prune, PruneKind, PruneSchedule, PruneScope, UpdateTime},
    hardware::Machine,
    memory::Category,
    plan::{Plan, Resolved},
    train::{Command, Event, Keep, Outcome, Start, Stripped, Summary, Trainer},
};

/// A run to its end; what it came to.
fn run(experiment: Experiment, folder: &Path) -> Summary {
    tested(experiment, folder).0
}

/// A run to its end; what it came to, and the steps and accuracies of its tests.
fn tested(experiment: Experiment, folder: &Path) -> (Summary, Vec<(u64, f64)>) {
    let trainer = Trainer::new(|| {});
    let start = Start { keep: Keep::in_folder(folder), ..Start::new(experiment) };
    trainer.send(Command::Start(Box::new(start)));
    let mut tests = Vec::new();
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Evaluated { step, accuracy, .. } => tests.push((step, accuracy)),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                return (*summary, tests);
            }
            _ => {}
        }
    }
}

fn small(kind: ModelKind) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    e.model.kind = kind;
    (e.model.width, e.model.depth, e.model.dense, e.model.heads, e.model.hidden) = (16, 2, 24, 2, 40);
    (e.data.side, e.data.samples, e.data.length) = (16, 60, 12);
    e.data.kind = match kind {
        ModelKind::Gpt2 => DataKind::Sort,
        ModelKind::Unet => DataKind::Masks,
        _ => DataKind::Shapes,
    };
    (e.batch.micro, e.run.steps) = (4, Some(5));
    e
}

fn pruned(kind: ModelKind, prune: Prune) -> Experiment {
    Experiment { prune: Prune { every: 1, end_step: 4, ..prune }, ..small(kind) }
}

/// Every weight that is pruned, by name, with its shape and numbers: in a file of a run, a mask follows each of these.
fn weights(folder: &Path) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    weights_in(&folder.join("last.safetensors"))
}

fn weights_in(file: &Path) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let file = safetensors::load(file, &Device::Cpu).expect("a file of tensors");
    let masked = file.keys().filter_map(|name| name.strip_prefix("optimizer.")?.strip_suffix(".mask"));
    let of = |name: &str| {
        let tensor = &file[name];
        let numbers = tensor.flatten_all().and_then(|all| all.to_vec1()).expect("f32");
        (name.to_owned(), tensor.dims().to_vec(), numbers)
    };
    let mut found: Vec<_> = masked.map(of).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!found.is_empty());
    found
}

fn share_of_zeros(numbers: &[f32]) -> f64 {
    numbers.iter().filter(|number| **number == 0.0).count() as f64 / numbers.len() as f64
}

const MAGNITUDE: PruneKind = PruneKind::Magnitude;

#[test]
fn each_layer_is_as_sparse_as_was_asked_and_what_is_told_is_what_is_saved() {
    for (kind, precision, update) in [
        (ModelKind::Mlp, Precision::F32, UpdateTime::AfterBackward),
        (ModelKind::Cnn, Precision::Bf16Mixed, UpdateTime::InBackward),
        (ModelKind::Gpt2, Precision::F32, UpdateTime::AfterBackward),
        (ModelKind::Unet, Precision::F32, UpdateTime::AfterBackward),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let prune = Prune { kind: MAGNITUDE, final_sparsity: 0.7, initial_sparsity: 0.2, ..Prune::default() };
        let mut experiment = Experiment { precision, ..pruned(kind, prune) };
        experiment.optimizer.update = update;
        let summary = run(experiment, folder.path());
        let weights = weights(folder.path());
        for (name, shape, numbers) in &weights {
            let one = 1.0 / numbers.len() as f64;
            let share = share_of_zeros(numbers);
            assert!((share - 0.7).abs() <= one, "{kind:?}: {name} {shape:?} has {share}");
        }
        let stripped = summary.stripped.expect("it was pruned");
        let all: usize = weights.iter().map(|(_, _, numbers)| numbers.len()).sum();
        let zeros: usize = weights.iter().map(|(.., numbers)| numbers.iter().filter(|n| **n == 0.0).count()).sum();
        assert_eq!((stripped.weights, stripped.gone), (all as u64, zeros as u64), "{kind:?}");
        let size = if precision == Precision::F32 { 4 } else { 2 };
        let masks: u64 = weights.iter().map(|(.., numbers)| numbers.len().div_ceil(8) as u64).sum();
        let Stripped { bytes, dense_bytes, .. } = stripped;
        assert_eq!(bytes.0, dense_bytes.0 - zeros as u64 * size + masks, "{kind:?}");
        let (predicted, measured) = (summary.predicted.live, summary.measured.live);
        assert!(measured <= predicted, "{kind:?}: {measured} measured, {predicted} predicted");
    }
}

#[test]
fn the_best_model_that_is_saved_is_one_that_was_pruned_to_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    // With so few weights left, every earlier test is better.
    let prune =
        Prune { kind: MAGNITUDE, final_sparsity: 0.99, begin_step: 2, end_step: 8, every: 2, ..Prune::default() };
    let mut experiment = Experiment { prune, ..small(ModelKind::Mlp) };
    (experiment.run.steps, experiment.run.evaluate_every, experiment.run.save_best) = (Some(10), 1, true);
    experiment.optimizer.learning_rate = 1e-2;
    let (summary, tests) = tested(experiment, folder.path());
    let best = |is_pruned: bool| {
        let of = tests.iter().filter(|(step, _)| (*step >= 8) == is_pruned).map(|(_, accuracy)| *accuracy);
        of.reduce(f64::max).expect("tested")
    };
    assert!(best(false) > best(true), "{tests:?}");
    assert_eq!(summary.best_test_accuracy, Some(best(true)));
    for (name, shape, numbers) in weights_in(&folder.path().join("best.safetensors")) {
        let zeros = share_of_zeros(&numbers);
        assert!((zeros - 0.99).abs() < 0.01, "{name} {shape:?}: {zeros}");
    }
}

#[test]
fn all_layers_together_are_as_sparse_as_was_asked_and_not_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let prune = Prune {
        kind: MAGNITUDE,
        scope: PruneScope::Global,
        schedule: PruneSchedule::Constant,
        final_sparsity: 0.6,
        ..Prune::default()
    };
    let summary = run(pruned(ModelKind::Cnn, prune), folder.path());
    let sparsity = summary.stripped.expect("it was pruned").sparsity();
    assert!((sparsity - 0.6).abs() < 1e-3, "{sparsity}");
    let shares: Vec<f64> = weights(folder.path()).iter().map(|(.., numbers)| share_of_zeros(numbers)).collect();
    assert!(shares.iter().any(|share| (share - 0.6).abs() > 0.02), "{shares:?}");
}

#[test]
fn of_every_group_the_largest_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let prune = Prune { kind: PruneKind::Groups, n: 2, m: 4, ..Prune::default() };
    run(pruned(ModelKind::Mlp, prune), folder.path());
    for (name, shape, numbers) in weights(folder.path()) {
        for row in numbers.chunks(*shape.last().expect("a matrix")) {
            for group in row.chunks(4) {
                assert!(group.iter().filter(|number| **number != 0.0).count() <= 2, "{name}: {group:?}");
            }
        }
        assert!(share_of_zeros(&numbers) <= 0.51, "{name}");
    }
}

#[test]
fn masks_are_one_bit_a_weight_and_the_prediction_has_them() {
    let buffers = |experiment: &Experiment| {
        let plan = Plan::of(experiment, &Machine::nominal()).expect("a plan");
        plan.categories_at_peak.get(Category::Buffers)
    };
    for kind in [ModelKind::Mlp, ModelKind::Gpt2] {
        let folder = tempfile::tempdir().expect("a folder");
        let experiment = pruned(kind, Prune { kind: MAGNITUDE, ..Prune::default() });
        run(experiment.clone(), folder.path());
        let masks: usize = weights(folder.path()).iter().map(|(.., numbers)| numbers.len().div_ceil(8)).sum();
        // 2048 counts, and two numbers of the threshold.
        let expected = masks + 4 * (2048 + 2);
        let without = buffers(&small(kind));
        assert_eq!(buffers(&experiment).0 - without.0, expected as u64, "{kind:?}");
    }
}

#[test]
fn what_cannot_be_pruned_is_refused_by_its_key() {
    let problem = |change: fn(&mut Experiment)| {
        let mut e = pruned(ModelKind::Mlp, Prune { kind: MAGNITUDE, ..Prune::default() });
        change(&mut e);
        let problems = Resolved::new(&e, &Machine::nominal()).expect_err("impossible");
        problems.into_iter().map(|problem| problem.key).collect::<Vec<_>>()
    };
    assert_eq!(problem(|e| e.prune.final_sparsity = 1.0), ["prune.final_sparsity"]);
    assert_eq!(
        problem(|e| (e.prune.initial_sparsity, e.prune.final_sparsity) = (0.8, 0.5)),
        ["prune.initial_sparsity"]
    );
    assert_eq!(problem(|e| (e.prune.begin_step, e.prune.end_step) = (9, 4)), ["prune.begin_step"]);
    assert_eq!(problem(|e| (e.prune.kind, e.prune.n, e.prune.m) = (PruneKind::Groups, 4, 4)), ["prune.n"]);
}

//! The promise: random experiments around their budgets, each trained for real, none under-predicted.

use std::time::Duration;

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{Batch, Checkpointing, DataKind, ModelKind, OptimizerKind, Precision, UpdateTime},
    memory::Category,
    plan::predict,
    rng::{Rng, Stream},
    train::{Command, Event, Outcome, Start, Summary, Trainer},
};

const EXPERIMENTS: u64 = 200;

fn seed() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64)
}

/// Draws one experiment; every choice can come out.
fn draw(rng: Rng) -> Experiment {
    let pick = |counter: u64, n: usize| rng.below(counter, n);
    let mut experiment = Experiment::default();
    let model = &mut experiment.model;
    model.kind = [ModelKind::Mlp, ModelKind::Cnn, ModelKind::Sepcnn][pick(0, 3)];
    model.width = 1 + pick(1, if model.kind == ModelKind::Mlp { 300 } else { 24 });
    model.depth = 1 + pick(2, if model.kind == ModelKind::Mlp { 6 } else { 3 });
    model.kernel = [1, 3, 5, 7][pick(3, 4)];
    model.dense = 1 + pick(4, 100);
    if pick(16, 12) == 0 {
        (model.kind, model.multiplier) =
            ([ModelKind::Mobilenetv1, ModelKind::Mobilenetv2][pick(17, 2)], rng.range(18, 0.1, 0.4));
    }
    if pick(14, 20) == 0 {
        // Deep and narrow: mostly bookkeeping.
        (model.kind, model.width, model.depth) = (ModelKind::Mlp, 2, 300 + pick(15, 500));
    }
    experiment.precision = Precision::ALL[pick(5, Precision::ALL.len())];
    experiment.checkpointing = [
        Checkpointing::None,
        Checkpointing::Blocks,
        Checkpointing::Every(2),
        Checkpointing::Sqrt,
        Checkpointing::Percent(rng.below(30, 101) as u8),
        Checkpointing::Pick([1].into_iter().collect()),
    ][pick(6, 6)];
    experiment.batch = Batch { micro: 2 + pick(7, 70), accumulation: 1 + pick(8, 4) };
    experiment.optimizer.kind = OptimizerKind::ALL[pick(9, OptimizerKind::ALL.len())];
    experiment.optimizer.clip_norm = [0.0, 1.0][pick(10, 2)];
    let needs_all = experiment.optimizer.clip_norm > 0.0 || experiment.precision == Precision::F16Mixed;
    if !needs_all && experiment.batch.accumulation == 1 {
        experiment.optimizer.update = UpdateTime::InBackward;
    }
    experiment.data.kind = [DataKind::Digits, DataKind::Shapes][pick(11, 2)];
    (experiment.data.samples, experiment.data.classes) = (700, 2 + pick(12, 9));
    experiment.run.steps = Some(1 + pick(13, 3) as u64);
    experiment.run.seed = 3;
    experiment
}

fn run(trainer: &Trainer, experiment: &Experiment, anyway: bool) -> (Outcome, Summary) {
    let start = Start { experiment: experiment.clone(), anyway, paused: false };
    trainer.send(Command::Start(Box::new(start)));
    loop {
        let event = trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on");
        if let Event::Ended { outcome, summary, .. } = event {
            return (outcome, summary);
        }
    }
}

#[test]
fn no_random_experiment_is_under_predicted_crosses_its_budget_or_leaves_memory_behind() {
    let seed = seed();
    let trainer = Trainer::new(|| {});
    let (mut trained, mut refused) = (0, 0);
    for i in 0..EXPERIMENTS {
        let rng = Rng::new(seed, Stream::Data, i);
        let mut experiment = draw(rng);
        let plan = predict(&experiment).unwrap_or_else(|e| panic!("seed {seed}, {i}: {e}"));
        let (peak, context) = (plan.peak.live, plan.categories_at_peak.get(Category::Context));
        experiment.budget = Bytes((peak.0 as f64 * rng.range(20, 0.8, 1.2)) as u64);
        let case = || format!("seed {seed}, experiment {i}: {experiment:?}");
        let anyway = rng.below(21, 2) == 0;
        let (outcome, summary) = run(&trainer, &experiment, anyway);
        assert_eq!(summary.left_over, Bytes(0), "{}", case());
        assert!(summary.measured.live <= experiment.budget, "{}: {summary:?}, {outcome:?}", case());
        assert!(summary.measured.reserved <= summary.predicted.reserved, "{}: {summary:?}", case());
        match outcome {
            Outcome::Finished => {
                trained += 1;
                assert!(peak <= experiment.budget, "{}", case());
                let (predicted, measured) = (peak.0 as f64, summary.measured.live.0 as f64);
                assert!(measured <= predicted, "{}: {measured} measured, {predicted} predicted", case());
                // Above by 1%, by what is stated for bookkeeping, and by at most 1 MiB of scratch that was not used.
                let allowed = measured * 1.01 + context.0 as f64 + (1 << 20) as f64;
                assert!(predicted <= allowed, "{}: {measured} measured, {predicted} predicted", case());
            }
            Outcome::OverBudget(refusal) => {
                refused += 1;
                assert!(peak > experiment.budget, "{}", case());
                assert_eq!(refusal.error.budget, experiment.budget);
                assert!(refusal.advice.iter().all(|a| a.peak <= experiment.budget));
            }
            other => panic!("{}: {other:?}", case()),
        }
    }
    assert!(trained > 50 && refused > 50, "{trained} trained, {refused} refused");
}

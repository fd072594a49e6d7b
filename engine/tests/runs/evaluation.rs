//! The evaluation batch: what it changes and what it does not, and that one which is too large is known beforehand.

use std::{path::Path, time::Duration};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, EvaluationBatch, ModelKind, Schedule, shipped},
    hardware::Machine,
    plan::{Change, Limit, Pass, Plan, advise, fit, further, predict::refusal},
    train::{Command, Event, Keep, Outcome, Start, Summary, Trainer},
};

const SIZES: [EvaluationBatch; 4] =
    [EvaluationBatch::Micro, EvaluationBatch::Samples(1), EvaluationBatch::Samples(7), EvaluationBatch::Whole];

/// The results of a run.
struct Run {
    losses: Vec<u64>,
    /// Loss and accuracy of each test.
    tests: Vec<(f64, f64)>,
    outcome: Outcome,
    summary: Summary,
}

fn run(trainer: &Trainer, start: Start) -> Run {
    trainer.send(Command::Start(Box::new(start)));
    let (mut losses, mut tests) = (Vec::new(), Vec::new());
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Step(record) => losses.push(record.loss.to_bits()),
            Event::Evaluated { loss, accuracy, .. } => tests.push((loss, accuracy)),
            Event::Ended { outcome, summary, .. } => return Run { losses, tests, outcome, summary: *summary },
            _ => {}
        }
    }
}

/// Small, of each kind of layer that looks at more than a sample at a time, or at some rows only.
fn small(kind: ModelKind) -> Experiment {
    let mut e = Experiment { budget: Bytes::mib(512), ..Experiment::default() };
    e.model.kind = kind;
    (e.model.width, e.model.depth, e.model.dense, e.model.heads, e.model.hidden) = (8, 2, 8, 2, 16);
    (e.data.kind, e.data.side, e.data.samples, e.data.length) = (DataKind::Shapes, 16, 60, 12);
    if kind.is_decoder() {
        (e.data.kind, e.loss_chunk, e.model.dropout) = (DataKind::Sort, 5, 0.1);
    }
    if kind.has_stem() {
        e.model.multiplier = 0.1;
    }
    (e.batch.micro, e.run.steps, e.run.evaluate_every) = (4, Some(4), 2);
    // A run that is cut in two has the same rates.
    e.optimizer.schedule = Schedule::Constant;
    e
}

fn with(e: &Experiment, evaluation: EvaluationBatch) -> Experiment {
    let mut e = e.clone();
    e.batch.evaluation = evaluation;
    e
}

#[test]
fn training_is_the_same_to_the_bit_and_a_test_up_to_rounding_whatever_the_evaluation_batch() {
    let trainer = Trainer::new(|| {});
    for kind in [ModelKind::Mlp, ModelKind::Cnn, ModelKind::Mobilenetv2, ModelKind::Gpt2] {
        let experiment = small(kind);
        let runs = SIZES.map(|size| run(&trainer, Start::new(with(&experiment, size))));
        for (size, one) in SIZES.iter().zip(&runs) {
            assert!(matches!(one.outcome, Outcome::Finished), "{kind:?}, {size}: {:?}", one.outcome);
            assert_eq!(one.losses, runs[0].losses, "{kind:?}, {size}");
            assert_eq!(one.tests.len(), 2);
            for (test, first) in one.tests.iter().zip(&runs[0].tests) {
                assert_eq!(test.1, first.1, "{kind:?}, {size}: the accuracy");
                let off = (test.0 - first.0).abs();
                assert!(off <= 1e-6 * first.0, "{kind:?}, {size}: {} and {}", test.0, first.0);
            }
            let (predicted, measured) = (one.summary.predicted.live, one.summary.measured.live);
            assert!(measured <= predicted, "{kind:?}, {size}: {measured} measured, {predicted} predicted");
        }
    }
}

#[test]
fn a_run_goes_on_with_another_evaluation_batch_and_the_same_losses() {
    let (trainer, experiment) = (Trainer::new(|| {}), small(ModelKind::Cnn));
    let folder = tempfile::tempdir().expect("a folder");
    let start = |e: Experiment, folder: &Path| Start { keep: Keep::in_folder(folder), ..Start::new(e) };
    let all = run(&trainer, Start::new(experiment.clone()));
    let mut short = experiment.clone();
    short.run.steps = Some(2);
    let begun = run(&trainer, start(short, folder.path()));
    let resume = Some(folder.path().join("last.safetensors"));
    let rest = run(&trainer, Start { resume, ..Start::new(with(&experiment, EvaluationBatch::Whole)) });
    assert!(matches!(rest.outcome, Outcome::Finished), "{:?}", rest.outcome);
    assert_eq!([begun.losses, rest.losses].concat(), all.losses);
}

fn lesson() -> Experiment {
    shipped::open("cnn-shapes-evaluate-whole").expect("a preset").experiment
}

#[test]
fn the_whole_test_set_at_once_is_refused_before_it_happens_and_a_smaller_batch_is_offered() {
    let plan = Plan::of(&lesson(), &Machine::nominal()).expect("a plan");
    assert!(!plan.fits() && plan.peak_pass == Pass::Evaluate);
    let met = refusal(&plan.resolved, &plan.machine).expect("a dry run").expect("it is past the line");
    assert!(met.layer.starts_with("block1"), "{met}");
    let offers = advise(&plan, 5, Limit::NONE).expect("offers");
    let smaller = |change: &Change| matches!(change, Change::EvaluationBatch(EvaluationBatch::Samples(_)));
    let offer = offers.iter().find(|offer| offer.changes.len() == 1 && smaller(&offer.changes[0])).expect("offered");
    let EvaluationBatch::Samples(samples) = offer.experiment.batch.evaluation else { panic!("{offer:?}") };
    assert!(samples.is_power_of_two() && offer.peak <= plan.budget);
    let twice = with(&lesson(), EvaluationBatch::Samples(2 * samples));
    assert!(!Plan::of(&twice, &plan.machine).expect("a plan").fits(), "{samples} is not the largest that fits");
    // A search for everything lists it too, though other changes save more.
    let mut digits = with(&shipped::open("cnn-digits").expect("a preset").experiment, EvaluationBatch::Whole);
    digits.budget = Bytes::mib(2);
    let plan = Plan::of(&digits, &Machine::nominal()).expect("a plan");
    let found = fit(&plan, plan.budget, Limit::NONE).expect("a search").offers;
    assert!(found.iter().any(|offer| offer.changes.len() == 1 && smaller(&offer.changes[0])), "{found:?}");
}

#[test]
fn an_evaluation_that_crosses_the_line_keeps_no_search_from_finding_what_fits() {
    // Both the steps and the evaluation are too large.
    let mut experiment = lesson();
    (experiment.batch.micro, experiment.batch.accumulation) = (256, 1);
    let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
    assert!(plan.steady.peak() > plan.budget && plan.peak_pass == Pass::Evaluate);
    let mut all = fit(&plan, plan.budget, Limit::NONE).expect("a search").offers;
    all.extend(advise(&plan, 3, Limit::NONE).expect("offers"));
    all.extend(further(&plan, 3, Limit::NONE).expect("offers"));
    assert!(all.len() >= 3, "{all:?}");
    for offer in all {
        assert_ne!(offer.experiment.batch.evaluation, EvaluationBatch::Whole);
        assert!(Plan::of(&offer.experiment, &plan.machine).expect("a plan").fits(), "{offer:?}");
    }
}

#[test]
fn a_run_that_begins_all_the_same_ends_at_its_first_test() {
    let mut experiment = lesson();
    (experiment.run.steps, experiment.run.epochs) = (Some(3), None);
    let ended = run(&Trainer::new(|| {}), Start { anyway: true, ..Start::new(experiment) });
    let Outcome::OverBudget(refusal) = &ended.outcome else { panic!("{:?}", ended.outcome) };
    assert_eq!((ended.losses.len(), ended.tests.len()), (3, 0), "the steps fit");
    assert!(ended.summary.measured.live <= refusal.error.budget && ended.summary.left_over == Bytes::ZERO);
}

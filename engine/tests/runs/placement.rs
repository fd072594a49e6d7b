//! Where samples wait changes memory and time, and nothing else: the same losses to the last bit, and bytes as predicted.

use plimsoll_engine::{
    Bytes, Experiment,
    data::{self, DeviceDatasetLayout},
    experiment::{Data, DataKind, Model, ModelKind, OptimizerKind, Placement, Precision},
    hardware::Machine,
    memory::Category,
    plan::Plan,
    train::{Command, Event, Outcome, Start, Summary, Trainer},
};

/// What a run came to: every loss and accuracy, and its summary.
#[derive(Debug)]
struct Run {
    losses: Vec<[f64; 2]>,
    tests: Vec<[f64; 2]>,
    summary: Summary,
}

fn run(trainer: &Trainer, experiment: &Experiment) -> Run {
    trainer.send(Command::Start(Box::new(Start::new(experiment.clone()))));
    let (mut losses, mut tests) = (Vec::new(), Vec::new());
    loop {
        match trainer.events().recv_timeout(std::time::Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Step(step) => losses.push([step.loss, step.accuracy]),
            Event::Evaluated { loss, accuracy, .. } => tests.push([loss, accuracy]),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}: {experiment:?}");
                return Run { losses, tests, summary: *summary };
            }
            _ => {}
        }
    }
}

fn text() -> tempfile::NamedTempFile {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let words = ["ship ", "line ", "load ", "sea. ", "budget ", "water "];
    for i in 0..2000usize {
        file.write_all(words[(i * i + i / 7) % words.len()].as_bytes()).expect("room on the disk");
    }
    file
}

/// A small experiment for each kind of data that needs no folder.
fn cases(text: &std::path::Path) -> Vec<Experiment> {
    let decoder = |kind| Model { kind, width: 16, depth: 2, heads: 2, kv_heads: 1, hidden: 32, ..Model::default() };
    let data = |kind| Data { kind, samples: 300, length: 12, side: 16, classes: 4, ..Data::default() };
    let cases = [
        (Model { width: 12, ..Model::default() }, data(DataKind::Shapes), Precision::F32),
        (Model { kind: ModelKind::Cnn, width: 4, ..Model::default() }, data(DataKind::Shapes), Precision::Bf16Mixed),
        (
            Model { kind: ModelKind::Unet, width: 4, depth: 2, ..Model::default() },
            data(DataKind::Masks),
            Precision::F64,
        ),
        (decoder(ModelKind::Gpt2), Data { modulus: 23, ..data(DataKind::Modular) }, Precision::F32),
        (decoder(ModelKind::Llama), data(DataKind::Sort), Precision::F32),
        (decoder(ModelKind::Gpt2), data(DataKind::Brackets), Precision::Bf16Mixed),
        (decoder(ModelKind::Gpt2), Data { vocabulary: 700, ..data(DataKind::Tokens) }, Precision::F32),
        (decoder(ModelKind::Llama), Data { path: Some(text.into()), ..data(DataKind::Text) }, Precision::F32),
    ];
    cases
        .map(|(model, data, precision)| {
            let mut experiment = Experiment { model, data, precision, budget: Bytes::mib(64), ..Experiment::default() };
            experiment.batch.micro = 7;
            experiment.batch.accumulation = 2;
            experiment.optimizer.kind = OptimizerKind::Adamw;
            // Into the second epoch, where a text's windows lie elsewhere.
            experiment.run.steps = Some(40);
            experiment.run.evaluate_every = 20;
            experiment
        })
        .into()
}

fn placed(experiment: &Experiment, placement: Placement) -> (Experiment, Plan) {
    let mut experiment = experiment.clone();
    experiment.data.placement = placement;
    let plan = Plan::of(&experiment, &Machine::nominal()).unwrap_or_else(|error| panic!("{error}: {experiment:?}"));
    (experiment, plan)
}

#[test]
fn losses_are_the_same_to_the_last_bit_wherever_the_samples_wait() {
    let (trainer, text) = (Trainer::new(|| {}), text());
    for experiment in cases(text.path()) {
        let (held, _) = placed(&experiment, Placement::Host);
        let expected = run(&trainer, &held);
        assert!(expected.losses.len() == 40 && expected.tests.len() == 2, "{experiment:?}");
        for placement in [Placement::Streamed, Placement::Device] {
            let found = run(&trainer, &placed(&experiment, placement).0);
            assert_eq!(found.losses, expected.losses, "{placement:?}: {experiment:?}");
            assert_eq!(found.tests, expected.tests, "{placement:?}: {experiment:?}");
        }
    }
}

#[test]
fn a_training_set_on_the_device_is_in_the_budget_as_predicted_and_no_longer_on_the_host() {
    let (trainer, text) = (Trainer::new(|| {}), text());
    for mut experiment in cases(text.path()) {
        experiment.run.steps = Some(3);
        let (_, streamed) = placed(&experiment, Placement::Streamed);
        let (experiment, plan) = placed(&experiment, Placement::Device);
        let facts = data::facts(&experiment.data).expect("possible");
        let DeviceDatasetLayout { inputs: (shape, dtype), labels, scaling } =
            DeviceDatasetLayout::new(&experiment.data, &facts);
        let bytes = shape.elements() * dtype.size()
            + labels.map_or(0, |(shape, dtype)| shape.elements() * dtype.size())
            + scaling.map_or(0, |shape| shape.elements() * size_of::<f32>());
        let batch = |plan: &Plan| plan.steady.points.iter().map(|point| point.categories.get(Category::Batch)).min();
        let alive = batch(&plan).expect("points").0 - batch(&streamed).expect("points").0;
        assert_eq!(alive, bytes as u64, "{experiment:?}");
        assert_eq!(plan.host.data, streamed.host.data, "{experiment:?}");
        let summary = run(&trainer, &experiment).summary;
        assert_eq!(summary.left_over, Bytes(0));
        let (predicted, measured) = (plan.peak.live, summary.measured.live);
        assert!(measured <= predicted, "{experiment:?}: {measured} measured, {predicted} predicted");
        assert!(measured.0 > bytes as u64, "{experiment:?}: {measured} measured");
    }
}

#[test]
fn digits_lie_on_the_device_as_well_and_cannot_be_streamed() {
    let trainer = Trainer::new(|| {});
    let mut experiment = Experiment::default();
    experiment.run.steps = Some(30);
    let expected = run(&trainer, &placed(&experiment, Placement::Host).0);
    let found = run(&trainer, &placed(&experiment, Placement::Device).0);
    assert_eq!((found.losses, found.tests), (expected.losses, expected.tests));
    experiment.data.placement = Placement::Streamed;
    let error = Plan::of(&experiment, &Machine::nominal()).map(drop).expect_err("nothing to stream from").to_string();
    assert!(error.starts_with("data.placement: these samples are part of the program"), "{error}");
}

#[test]
fn images_on_the_device_are_not_varied() {
    let data = Data { kind: DataKind::Shapes, flip: true, placement: Placement::Device, ..Data::default() };
    let experiment = Experiment { data, ..Experiment::default() };
    let error = Plan::of(&experiment, &Machine::nominal()).map(drop).expect_err("as they are").to_string();
    assert!(error.starts_with("data.placement: images on the device are gathered as they are"), "{error}");
}

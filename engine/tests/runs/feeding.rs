//! How a model is fed, and on how many threads it computes: memory as predicted, refusals, and the same losses.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use plimsoll_engine::{
    Bytes, Error, Experiment,
    experiment::{CachePlace, Data, DataCache, DataKind, Model, ModelKind, OptimizerKind, Placement},
    hardware::Machine,
    memory::Category,
    plan::{Plan, Resolved, Verdict},
    train::{Command, Event, Outcome, Start, Summary, Trainer},
};

/// The losses of a run, how it ended, and its summary.
fn run(trainer: &Trainer, experiment: &Experiment) -> (Vec<u64>, Outcome, Summary) {
    trainer.send(Command::Start(Box::new(Start::new(experiment.clone()))));
    let mut losses = Vec::new();
    loop {
        match trainer.events().recv_timeout(std::time::Duration::from_secs(300)).expect("the trainer goes on") {
            Event::Step(step) => losses.push(step.loss.to_bits()),
            Event::Evaluated { loss, .. } => losses.push(loss.to_bits()),
            Event::Ended { outcome, summary, .. } => return (losses, outcome, *summary),
            _ => {}
        }
    }
}

fn finished(trainer: &Trainer, experiment: &Experiment) -> (Vec<u64>, Summary) {
    let (losses, outcome, summary) = run(trainer, experiment);
    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}: {experiment:?}");
    let (seen, host) = (summary.measured.live, summary.host);
    assert!(seen <= summary.predicted.live, "{seen} of {}", summary.predicted.live);
    assert!(host.measured <= host.predicted && host.measured_disk <= host.predicted_disk, "{host:?}");
    (losses, summary)
}

fn shapes() -> Experiment {
    let folder = Some(std::env::temp_dir());
    let data =
        Data { kind: DataKind::Shapes, samples: 90, side: 16, flip: true, cache_folder: folder, ..Data::default() };
    let data = Data { placement: Placement::Streamed, ..data };
    let model = Model { kind: ModelKind::Cnn, width: 8, ..Model::default() };
    let mut experiment = Experiment { data, model, budget: Bytes::mib(64), ..Experiment::default() };
    (experiment.batch.micro, experiment.batch.accumulation) = (7, 2);
    (experiment.run.steps, experiment.run.evaluate_every) = (Some(18), 6);
    experiment
}

#[test]
fn a_folder_for_samples_that_is_not_there_is_refused_by_the_plan() {
    let mut experiment = shapes();
    let none = tempfile::tempdir().expect("a folder").path().join("none");
    experiment.data.cache_folder = Some(none);
    (experiment.data.cache, experiment.data.cache_in) = (DataCache::Decoded, CachePlace::Disk);
    let problems = Resolved::new(&experiment, &Machine::nominal()).expect_err("refused");
    let said = problems.iter().map(ToString::to_string).collect::<String>();
    assert!(said.contains("data.cache_folder") && said.contains("there is no such folder"), "{said}");
    experiment.data.cache = DataCache::None;
    assert!(Resolved::new(&experiment, &Machine::nominal()).is_ok(), "nothing is kept there");
}

#[test]
fn losses_are_the_same_with_what_is_kept_and_on_any_number_of_threads() {
    let trainer = Trainer::new(|| {});
    let mut experiment = shapes();
    let (expected, _) = finished(&trainer, &experiment);
    for place in CachePlace::ALL {
        (experiment.data.cache, experiment.data.cache_in) = (DataCache::Decoded, place);
        assert_eq!(finished(&trainer, &experiment).0, expected, "{place:?}");
    }
    experiment.data.cache = DataCache::None;
    for threads in [1, 2, 3, 7] {
        experiment.run.threads = threads;
        assert_eq!(finished(&trainer, &experiment).0, expected, "{threads} threads");
    }
    experiment.data.cache = DataCache::Augmented(2);
    let (varied, _) = finished(&trainer, &experiment);
    assert_ne!(varied, expected, "fewer images are learned from");
    experiment.run.threads = 0;
    assert_eq!(finished(&trainer, &experiment).0, varied);
}

#[test]
fn queues_of_many_batches_are_host_memory() {
    let trainer = Trainer::new(|| {});
    let mut experiment = shapes();
    (experiment.batch.micro, experiment.batch.accumulation, experiment.run.steps) = (1, 1, Some(300));
    let host = |prefetch| {
        experiment.data.prefetch = prefetch;
        finished(&trainer, &experiment).1.host
    };
    let [few, many, most] = [1, 255, 1024].map(host);
    let (more, batch) = (254, (16 * 16 * 3 + 1) * 4);
    let queues = (many.predicted.0 - few.predicted.0).checked_sub(more * batch).expect("more than the batches");
    assert!((more * 100..more * 2000).contains(&queues), "{few:?}, {many:?}");
    // No batches are made ahead that the run does not take: only the room for their names is there.
    assert!(most.predicted.0 - many.predicted.0 < 200 * batch, "{many:?}, {most:?}");
}

#[test]
fn fewer_threads_take_less_scratch_and_more_time() {
    let plan = |threads| {
        let mut experiment = shapes();
        (experiment.data.side, experiment.batch.micro, experiment.batch.accumulation) = (48, 32, 1);
        experiment.run.threads = threads;
        Plan::of(&experiment, &Machine::nominal().with_threads(8)).expect("a plan")
    };
    let (one, four, all) = (plan(1), plan(4), plan(0));
    let scratch = |plan: &Plan| {
        let points = plan.steady.points.iter().map(|point| point.categories.get(Category::Scratch).0);
        points.max().unwrap_or_default()
    };
    let found = [&one, &four, &all].map(scratch);
    assert!(found[0] < found[1] && found[1] < found[2] && one.peak.live <= all.peak.live, "{found:?}");
    assert!(one.step_secs > four.step_secs && four.step_secs > all.step_secs);
    assert_eq!(all.peak, plan(8).peak);
}

#[test]
fn what_stands_past_the_budget_of_the_host_is_refused_with_what_would_fit() {
    let trainer = Trainer::new(|| {});
    let mut experiment = shapes();
    experiment.data.cache = DataCache::Augmented(100);
    experiment.data.host_budget = Bytes::mib(1);
    let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
    assert!(matches!(plan.verdict(), Verdict::OverHostBudget { .. }), "{:?}", plan.verdict());
    let (_, outcome, _) = run(&trainer, &experiment);
    let Outcome::Failed(Error::Experiment(problem)) = outcome else { panic!("{outcome:?}") };
    assert!(problem.key == "data.host_budget" && problem.mend.contains("data.cache_in=\"disk\""), "{problem}");
    assert!(finished(&trainer, &plan.host_offers[0].experiment).1.host.predicted <= Bytes::mib(1));
}

#[test]
fn what_is_kept_is_refused_where_it_says_nothing() {
    let refused = |change: fn(&mut Data)| {
        let mut experiment = shapes();
        change(&mut experiment.data);
        Plan::of(&experiment, &Machine::nominal()).map(drop).expect_err("it says nothing").to_string()
    };
    let host = refused(|data| (data.placement, data.cache) = (Placement::Host, DataCache::Decoded));
    assert!(host.starts_with("data.cache: data.placement = \"host\" keeps each sample"), "{host}");
    let same = refused(|data| (data.flip, data.cache) = (false, DataCache::Augmented(3)));
    assert!(same.contains("nothing is varied, so all of 3 would be the same image"), "{same}");
    let device =
        refused(|data| (data.placement, data.flip, data.cache) = (Placement::Device, false, DataCache::Decoded));
    assert!(device.contains("the training set lies on the device"), "{device}");
}

/// A file that says it holds `bytes` after `header`, and takes no room.
fn sparse(path: &Path, header: &[u8], bytes: u64) {
    let mut file = File::create(path).expect("a writable folder");
    file.write_all(header).and_then(|()| file.set_len(header.len() as u64 + bytes)).expect("files with holes");
}

fn idx(dimensions: &[u32]) -> Vec<u8> {
    let mut header = vec![0, 0, 8, dimensions.len() as u8];
    dimensions.iter().for_each(|size| header.extend(size.to_be_bytes()));
    header
}

#[test]
fn a_set_far_larger_than_memory_streams_in_the_memory_that_was_predicted() {
    const SIDE: u32 = 28;
    const TRAIN: u32 = 90_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for (part, count) in [("train", TRAIN), ("t10k", 64)] {
        let pixels = u64::from(count) * u64::from(SIDE * SIDE);
        sparse(&at(&format!("{part}-images-idx3-ubyte")), &idx(&[count, SIDE, SIDE]), pixels);
        sparse(&at(&format!("{part}-labels-idx1-ubyte")), &idx(&[count]), u64::from(count));
    }
    assert!(fs::metadata(at("train-images-idx3-ubyte")).expect("a file").len() > 64 << 30);
    let mut experiment = Experiment { budget: Bytes::mib(64), ..Experiment::default() };
    experiment.data = Data {
        kind: DataKind::Idx,
        path: Some(folder.path().to_owned()),
        placement: Placement::Streamed,
        host_budget: Bytes::mib(1),
        ..Data::default()
    };
    experiment.batch.micro = 32;
    experiment.run.steps = Some(4);
    let (losses, summary) = finished(&Trainer::new(|| {}), &experiment);
    assert_eq!(losses.len(), 5);
    // The labels alone would be ninety times as much.
    let host = summary.host;
    assert!(host.predicted <= Bytes::mib(1) && host.predicted.0 < 2 * host.measured.0, "{host:?}");
    // Four steps and what was ready behind them, and the test.
    let sample = u64::from(SIDE * SIDE) + 1;
    let (least, most) = ((4 * 32 + 64) * sample, (8 * 32 + 64) * sample);
    assert!((least..=most).contains(&summary.data_bytes.0), "{} read", summary.data_bytes);
    experiment.data.placement = Placement::Host;
    let held = Plan::of(&experiment, &Machine::nominal()).map(drop).expect_err("65 GiB").to_string();
    assert!(held.contains("placement = \"streamed\""), "{held}");
}

#[test]
fn records_of_cifar_stream_past_memory_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    const RECORD: u64 = 3073;
    sparse(&folder.path().join("data_batch_1.bin"), &[], RECORD * 24_000_000);
    sparse(&folder.path().join("test_batch.bin"), &[], RECORD * 40);
    let mut experiment = Experiment { budget: Bytes::mib(64), ..Experiment::default() };
    let path = Some(folder.path().to_owned());
    experiment.data = Data { kind: DataKind::Cifar10, path, placement: Placement::Streamed, ..Data::default() };
    experiment.model.width = 16;
    experiment.batch.micro = 16;
    experiment.run.steps = Some(2);
    let (_, summary) = finished(&Trainer::new(|| {}), &experiment);
    assert!(summary.host.predicted < Bytes::mib(2), "{:?}", summary.host);
}

/// Starts a run, and stops it after this many steps.
fn stopped(trainer: &Trainer, experiment: &Experiment, after: u64) {
    trainer.send(Command::Start(Box::new(Start { paused: true, ..Start::new(experiment.clone()) })));
    (0..after).for_each(|_| trainer.send(Command::Step));
    loop {
        match trainer.events().recv_timeout(std::time::Duration::from_secs(300)).expect("the trainer goes on") {
            Event::Step(step) if step.step == after => trainer.send(Command::Stop),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Stopped), "{outcome:?}");
                assert_eq!(summary.left_over, Bytes::ZERO);
                return;
            }
            _ => {}
        }
    }
}

/// The data of a run stay for the next one, so that what a loader kept would be in each later measurement.
#[test]
fn a_run_keeps_no_batch_of_its_loader_however_it_ends() {
    let trainer = Trainer::new(|| {});
    let mut experiment = shapes();
    (experiment.data.placement, experiment.data.prefetch, experiment.data.workers) = (Placement::Host, 3, 2);
    let before = finished(&trainer, &experiment).1.host.measured;
    let mut diverging = experiment.clone();
    diverging.optimizer.choose(OptimizerKind::Sgd);
    (diverging.optimizer.learning_rate, diverging.optimizer.clip_norm) = (1e4, 0.0);
    for after in 1..=12 {
        stopped(&trainer, &experiment, after);
        let (_, outcome, summary) = run(&trainer, &diverging);
        assert!(matches!(outcome, Outcome::Failed(Error::NotFinite(_))), "{outcome:?}");
        assert_eq!(summary.left_over, Bytes::ZERO);
    }
    let after = finished(&trainer, &experiment).1.host.measured;
    let batch = (7 * 16 * 16 * 3 * size_of::<f32>()) as u64;
    assert!(after.0 <= before.0 + batch, "{after} after 24 runs that did not finish, {before} before");
}

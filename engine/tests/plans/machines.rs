//! A prediction is a function: of a resolved experiment and a machine, and of nothing else.

use std::thread;

use plimsoll_engine::{
    Bytes, Error, Experiment,
    backend::Rates,
    device::Description,
    experiment::{
        AttentionKind, DataKind, ModelKind,
        limits::{MAX_SAMPLES, MAX_WIDTH},
        preset,
    },
    hardware::Machine,
    plan::{Plan, Resolved, predict},
};

fn described(name: &str, gib: u64) -> Description {
    Description {
        name: name.to_owned(),
        uuid: name.to_owned(),
        capability: (8, 9),
        multiprocessors: 20,
        total_bytes: gib << 30,
        clock_hz: 1.5e9,
        memory_bytes_per_sec: 2e11,
        driver: "12.9".to_owned(),
        maps_memory: true,
    }
}

/// Two machines that differ in all that a prediction reads of one.
fn machines() -> [Machine; 2] {
    let of = |speed: f64, base, name, gib| {
        let rates = Rates { launch_secs: Rates::NOMINAL.launch_secs / speed, ..Rates::NOMINAL };
        Machine::nominal().with_rates(rates).with_process_base(base).with_gpus(vec![described(name, gib)])
    };
    [of(1.0, Bytes::mib(10), "Small", 4), of(4.0, Bytes::mib(70), "Large", 24)]
}

fn on(device: &str) -> Experiment {
    let mut experiment = Experiment { device: device.to_owned(), ..Experiment::default() };
    (experiment.model.kind, experiment.model.width, experiment.budget) = (ModelKind::Cnn, 16, Bytes::gib(64));
    experiment
}

fn told(plan: &Plan) -> (String, Bytes, u64, u64, String) {
    (
        format!("{:?}", plan.peak),
        plan.budget,
        plan.step_secs.to_bits(),
        plan.machine.version(),
        plan.layers.len().to_string(),
    )
}

#[test]
fn two_threads_predict_for_two_machines_at_once() {
    let plan = |machine: &Machine, device| Plan::of(&on(device), machine).expect("a plan");
    for device in ["cpu", "cuda:0"] {
        let alone = machines().map(|machine| told(&plan(&machine, device)));
        assert_ne!(alone[0], alone[1], "{device}");
        let both = thread::scope(|scope| {
            let plans = machines()
                .map(|machine| scope.spawn(move || (0..8).map(|_| told(&plan(&machine, device))).collect::<Vec<_>>()));
            plans.map(|plans| plans.join().expect("no panic"))
        });
        for (alone, both) in alone.iter().zip(both) {
            assert!(both.iter().all(|plan| plan == alone), "{device}: {both:?} against {alone:?}");
        }
    }
}

#[test]
fn a_machine_says_what_the_process_comes_to_and_where_the_card_ends() {
    let [small, large] = machines();
    let process = |machine| Plan::of(&on("cpu"), machine).expect("a plan").peak.process;
    assert_eq!(process(&large) - process(&small), Bytes::mib(60));
    let line = |machine| Plan::of(&on("cuda:0"), machine).expect("a plan").budget;
    assert_eq!([line(&small), line(&large)], [Bytes::gib(4), Bytes::gib(24)]);
}

#[test]
fn what_was_resolved_is_predicted_whatever_becomes_of_the_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text.txt");
    std::fs::write(&path, "a line of text, and another one. ".repeat(200)).expect("a file");
    let mut experiment = Experiment::default();
    experiment.model.kind = ModelKind::Gpt2;
    (experiment.model.width, experiment.model.heads, experiment.batch.micro) = (16, 2, 2);
    (experiment.data.kind, experiment.data.length) = (DataKind::Text, 16);
    experiment.data.path = Some(path);
    let machine = Machine::nominal();
    let resolved = Resolved::new(&experiment, &machine).expect("possible");
    let before = told(&predict(&resolved, &machine).expect("a plan"));
    drop(folder);
    assert_eq!(told(&predict(&resolved, &machine).expect("a plan")), before);
    let problems = Resolved::new(&experiment, &machine).expect_err("the file is gone");
    assert_eq!(problems.iter().map(|problem| problem.key.as_str()).collect::<Vec<_>>(), ["data.path"]);
}

#[test]
fn every_problem_is_told_at_once_and_each_at_its_key() {
    let mut experiment = Experiment::default();
    (experiment.batch.micro, experiment.optimizer.learning_rate) = (0, -1.0);
    experiment.device = "toaster".to_owned();
    let problems = Resolved::new(&experiment, &Machine::nominal()).expect_err("three problems");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["device", "batch.micro", "optimizer.learning_rate"]);
    // A GPU that is not here is found only by asking the machine.
    let problems = Resolved::new(&on("cuda:97"), &machines()[0]).expect_err("no such GPU");
    assert_eq!(problems.iter().map(|problem| problem.key.as_str()).collect::<Vec<_>>(), ["device"]);
}

/// The one problem of an experiment whose every value is within its limits.
fn too_large(change: impl FnOnce(&mut Experiment)) -> String {
    let mut experiment = Experiment::default();
    change(&mut experiment);
    match Plan::of(&experiment, &Machine::nominal()) {
        Err(Error::Experiment(problem)) => problem.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_largest_values_together_are_refused_rather_than_overflow() {
    let images = too_large(|e| {
        (e.model.kind, e.model.width, e.model.depth) = (ModelKind::Cnn, MAX_WIDTH, 1);
        (e.model.kernel, e.model.dense, e.data.kind) = (31, MAX_WIDTH, DataKind::Shapes);
        (e.data.samples, e.batch.micro) = (MAX_SAMPLES, 150_000);
    });
    assert!(images.starts_with("model.width: block1/conv: "), "{images}");
    assert!(images.contains("would have more elements than any device holds; lower model.width"), "{images}");
    let tokens = too_large(|e| {
        (e.model.kind, e.model.width, e.model.hidden, e.model.heads) = (ModelKind::Gpt2, 1 << 16, 1 << 16, 1024);
        (e.data.kind, e.model.attention) = (DataKind::Tokens, AttentionKind::Plain);
        (e.data.length, e.data.vocabulary, e.data.samples) = (1 << 16, 1 << 20, 1000);
    });
    assert!(tokens.starts_with("model.width: ") && tokens.contains("than any device holds"), "{tokens}");
}

#[test]
fn a_problem_that_only_the_data_show_has_its_place_in_the_file() {
    let text = "version = 1\nbatch = { micro = 9000 }\n";
    let opened = preset::opened(text, "x.toml").expect("read");
    let problems = Resolved::new(&opened.experiment, &Machine::nominal()).expect_err("more than there are");
    assert!(problems[0].to_string().starts_with("batch.micro: 9000 is more than the 14"), "{problems:?}");
    assert_eq!(opened.places.of(&problems[0].key), Some("line 2, column 11"));
    assert_eq!(opened.places.of("budget"), None);
}

//! The trainer as the program uses it: events in order, the budget held, memory given back, faults survived.

use std::time::Duration;

use plimsoll_engine::{
    Bytes, Error, Experiment,
    experiment::{Checkpointing, DataKind, ModelKind, OptimizerKind, Precision, UpdateTime},
    hardware::Machine,
    plan::Plan,
    train::{Command, Event, Outcome, Start, StepRecord, Summary, Trainer},
};

fn experiment(steps: u64) -> Experiment {
    let mut experiment = Experiment::default();
    experiment.model.width = 32;
    experiment.run.steps = Some(steps);
    experiment
}

fn start(experiment: &Experiment) -> Command {
    Command::Start(Box::new(Start::new(experiment.clone())))
}

fn start_anyway(experiment: &Experiment) -> Command {
    Command::Start(Box::new(Start { anyway: true, ..Start::new(experiment.clone()) }))
}

/// The next event of the run; what is learnt of the machine does not count.
fn next(trainer: &Trainer) -> Event {
    loop {
        let event = trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on");
        if !matches!(event, Event::Machine(_)) {
            return event;
        }
    }
}

/// Events up to and with the end of the run.
fn events(trainer: &Trainer) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let event = next(trainer);
        let ended = matches!(event, Event::Ended { .. });
        events.push(event);
        if ended {
            return events;
        }
    }
}

fn end(events: &[Event]) -> (&Outcome, &Summary) {
    match events.last() {
        Some(Event::Ended { outcome, summary, .. }) => (outcome, summary),
        other => panic!("no end: {other:?}"),
    }
}

fn steps(events: &[Event]) -> Vec<StepRecord> {
    events.iter().filter_map(|e| if let Event::Step(record) = e { Some(*record) } else { None }).collect()
}

#[test]
fn a_window_that_grows_before_its_first_run_is_planned_for_as_large_as_it_is() {
    const GROWN: Bytes = Bytes::mib(256);
    let trainer = Trainer::in_background(|| {});
    let before = trainer.machine().process_base();
    let drawn = vec![1_u8; usize::try_from(GROWN.0).expect("fits")];
    let mut looks = std::iter::from_fn(|| trainer.events().recv_timeout(Duration::from_secs(60)).ok());
    // Other tests of this process have memory as well, which comes and goes.
    let larger = before + Bytes(GROWN.0 / 4 * 3);
    let is_larger = |event| matches!(event, Event::Machine(machine) if machine.process_base() >= larger);
    assert!(looks.any(is_larger), "{before}, and {} more", drawn.len());
}

#[test]
fn every_optimizer_learns_the_digits() {
    let trainer = Trainer::new(|| {});
    for kind in OptimizerKind::ALL {
        let mut experiment = experiment(80);
        experiment.optimizer.choose(kind);
        experiment.optimizer.learning_rate = match kind {
            OptimizerKind::Sgd => 0.3,
            OptimizerKind::Momentum | OptimizerKind::Nesterov => 0.05,
            OptimizerKind::Lion => 1e-3,
            // Its steps have a fifth of the first ones of AdamW.
            OptimizerKind::Muon => 1e-2,
            _ => 3e-3,
        };
        trainer.send(start(&experiment));
        let steps = steps(&events(&trainer));
        let mean = |of: &[StepRecord]| of.iter().map(|s| s.loss).sum::<f64>() / of.len() as f64;
        let (before, after) = (mean(&steps[..5]), mean(&steps[75..]));
        assert!(after < 0.5 * before, "{kind:?}: from {before} to {after}");
    }
}

#[test]
fn a_small_network_learns_the_spirals_and_no_straight_line_does() {
    let trainer = Trainer::new(|| {});
    let accuracy = |width| {
        let mut experiment = experiment(800);
        (experiment.data.kind, experiment.data.classes, experiment.data.samples) = (DataKind::Spirals, 3, 2000);
        (experiment.model.width, experiment.model.depth, experiment.batch.micro) = (width, 2, 64);
        experiment.optimizer.learning_rate = 0.01;
        trainer.send(start(&experiment));
        let events = events(&trainer);
        let (outcome, summary) = end(&events);
        assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
        summary.test_accuracy.expect("it is evaluated at the end")
    };
    assert!(accuracy(32) > 0.95, "{}", accuracy(32));
    // One unit a layer folds the plane along parallel lines alone.
    assert!(accuracy(1) < 0.7, "{}", accuracy(1));
}

#[test]
fn a_run_tells_its_story_in_order_and_learns() {
    let trainer = Trainer::new(|| {});
    trainer.send(start(&experiment(60)));
    let events = events(&trainer);
    assert!(matches!(events[0], Event::Started { run: 1, .. }));
    let (outcome, summary) = end(&events);
    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
    let steps = steps(&events);
    assert_eq!(steps.iter().map(|s| s.step).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
    assert!(steps[59].loss < 0.7 * steps[0].loss, "{} to {}", steps[0].loss, steps[59].loss);
    assert!(summary.test_accuracy.expect("evaluated at the end") > 0.5);
    assert_eq!(summary.left_over, Bytes(0));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut wanted = experiment(12);
    wanted.model.kind = ModelKind::Cnn;
    wanted.model.width = 4;
    let trainer = Trainer::new(|| {});
    let losses = |experiment: &Experiment| {
        trainer.send(start(experiment));
        steps(&events(&trainer)).iter().map(|s| s.loss).collect::<Vec<_>>()
    };
    let first = losses(&wanted);
    assert_eq!(first, losses(&wanted));
    wanted.checkpointing = Checkpointing::Blocks;
    assert_eq!(first, losses(&wanted), "checkpointing computes the same numbers again");
    wanted.run.seed += 1;
    assert_ne!(first, losses(&wanted));
}

#[test]
fn networks_with_batch_norm_compute_the_same_numbers_again() {
    let trainer = Trainer::new(|| {});
    for kind in [ModelKind::Resnet, ModelKind::Mobilenetv2] {
        let mut wanted = experiment(4);
        (wanted.model.kind, wanted.model.multiplier, wanted.batch.micro) = (kind, 0.25, 16);
        wanted.budget = Bytes::gib(4);
        let run = |experiment: &Experiment| {
            trainer.send(start(experiment));
            let events = events(&trainer);
            let (outcome, summary) = end(&events);
            assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
            // The test accuracy comes from the running statistics, which a second forward pass must not move.
            (steps(&events).iter().map(|s| s.loss).collect::<Vec<_>>(), summary.test_accuracy)
        };
        let kept = run(&wanted);
        for checkpointing in [Checkpointing::Blocks, Checkpointing::Sqrt, Checkpointing::Percent(40)] {
            wanted.checkpointing = checkpointing;
            assert_eq!(kept, run(&wanted), "{kind:?} {checkpointing}");
        }
    }
}

#[test]
fn dropout_and_long_skips_compute_the_same_numbers_again() {
    let trainer = Trainer::new(|| {});
    for (model, data) in [
        (ModelKind::Vit, DataKind::Digits),
        (ModelKind::Mixer, DataKind::Digits),
        (ModelKind::Gpt2, DataKind::Sort),
        (ModelKind::Llama, DataKind::Modular),
        (ModelKind::Unet, DataKind::Masks),
    ] {
        let mut wanted = experiment(3);
        (wanted.model.kind, wanted.data.kind, wanted.batch.micro) = (model, data, 4);
        (wanted.model.width, wanted.model.depth, wanted.model.heads, wanted.model.hidden) = (16, 3, 2, 24);
        (wanted.model.kv_heads, wanted.model.dropout) = (1, 0.2);
        (wanted.data.side, wanted.data.length, wanted.data.samples) = (16, 8, 100);
        wanted.budget = Bytes::gib(1);
        let run = |experiment: &Experiment| {
            trainer.send(start(experiment));
            let events = events(&trainer);
            let (outcome, summary) = end(&events);
            assert!(matches!(outcome, Outcome::Finished), "{model:?}: {outcome:?}");
            (steps(&events).iter().map(|s| s.loss).collect::<Vec<_>>(), summary.test_accuracy)
        };
        let kept = run(&wanted);
        for checkpointing in [Checkpointing::Blocks, Checkpointing::Every(2), Checkpointing::Percent(40)] {
            wanted.checkpointing = checkpointing;
            assert_eq!(kept, run(&wanted), "{model:?} {checkpointing}");
        }
    }
}

#[test]
fn updating_in_the_backward_pass_changes_no_number_and_holds_fewer_gradients() {
    let trainer = Trainer::new(|| {});
    let mut wanted = experiment(8);
    // Wide enough for gradients to be more than the scratch of a product.
    (wanted.model.depth, wanted.model.width) = (6, 128);
    let run = |experiment: &Experiment| {
        trainer.send(start(experiment));
        let events = events(&trainer);
        let records: Vec<_> = steps(&events).iter().map(|s| (s.loss, s.accuracy)).collect();
        let (predicted, measured) = (end(&events).1.predicted.live, end(&events).1.measured.live);
        // Measured below it where two threads never had their scratch at once.
        assert!(measured <= predicted, "{measured} is at most {predicted}");
        (records, predicted)
    };
    for checkpointing in [Checkpointing::None, Checkpointing::Every(2)] {
        wanted.checkpointing = checkpointing;
        wanted.optimizer.update = UpdateTime::AfterBackward;
        let (after, most) = run(&wanted);
        wanted.optimizer.update = UpdateTime::InBackward;
        let (during, less) = run(&wanted);
        assert_eq!(after, during);
        assert!(less < most, "{less} is less than {most}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_advice_and_the_next_run_starts() {
    let trainer = Trainer::new(|| {});
    let mut wanted = experiment(5);
    wanted.model.width = 512;
    let needs = Plan::of(&wanted, &Machine::nominal()).expect("plans").peak.live;
    wanted.budget = needs.saturating_sub(Bytes(1));
    trainer.send(start(&wanted));
    let refused = events(&trainer);
    assert!(steps(&refused).is_empty(), "nothing may run");
    let (Outcome::OverBudget(refusal), summary) = end(&refused) else { panic!("{refused:?}") };
    assert!(refusal.error.live + refusal.error.asked > wanted.budget && refusal.error.live <= wanted.budget);
    assert_eq!((refusal.error.budget, summary.left_over), (wanted.budget, Bytes(0)));
    // Nothing was allocated.
    assert!(refusal.error.to_string().ends_with(" would be in use)"), "{}", refusal.error);
    let advice = refusal.advice.first().expect("a smaller micro-batch fits");
    trainer.send(start(&advice.experiment));
    let taken = events(&trainer);
    assert!(matches!(end(&taken).0, Outcome::Finished), "{taken:?}");
    assert!(end(&taken).1.measured.live <= wanted.budget);
}

#[test]
fn training_anyway_stops_at_the_line_and_gives_everything_back() {
    let trainer = Trainer::new(|| {});
    let mut wanted = experiment(5);
    wanted.optimizer.kind = plimsoll_engine::experiment::OptimizerKind::Adamw;
    wanted.budget = Plan::of(&wanted, &Machine::nominal()).expect("plans").peak.live.saturating_sub(Bytes(1));
    trainer.send(start_anyway(&wanted));
    let stopped = events(&trainer);
    let (Outcome::OverBudget(refusal), summary) = end(&stopped) else { panic!("{stopped:?}") };
    assert!(summary.measured.live <= wanted.budget && summary.measured.live > Bytes(0));
    assert!(refusal.error.layer.contains('/'), "names the layer: {}", refusal.error);
    let said = refusal.error.to_string();
    assert!(said.ends_with(" in use)") && !said.contains("would be in use"), "{said}");
    assert_eq!(summary.left_over, Bytes(0));
    trainer.send(start(&experiment(3)));
    assert!(matches!(end(&events(&trainer)).0, Outcome::Finished));
}

#[test]
fn stepping_pausing_and_stopping_do_what_they_say() {
    let trainer = Trainer::new(|| {});
    let wanted = experiment(1_000_000);
    trainer.send(Command::Start(Box::new(Start { paused: true, ..Start::new(wanted) })));
    trainer.send(Command::Step);
    trainer.send(Command::Step);
    trainer.send(Command::Evaluate);
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(Event::Evaluated { .. })) {
        seen.push(next(&trainer));
    }
    assert!(matches!(seen[..2], [Event::Started { .. }, Event::Paused(true)]), "a run that begins paused says so");
    std::thread::sleep(Duration::from_millis(50));
    assert!(trainer.events().len() <= 2, "a paused run does not go on");
    trainer.send(Command::Resume);
    trainer.send(Command::Stop);
    seen.extend(events(&trainer));
    let (outcome, summary) = end(&seen);
    assert!(matches!(outcome, Outcome::Stopped));
    assert!(summary.steps >= 2 && summary.steps < 1_000_000);
    assert_eq!(summary.left_over, Bytes(0));
}

#[test]
fn a_test_of_the_model_does_not_hold_up_the_end_of_the_run() {
    let trainer = Trainer::new(|| {});
    let mut wanted = experiment(1_000_000);
    (wanted.data.kind, wanted.data.samples, wanted.data.test_fraction) = (DataKind::Shapes, 4000, 0.9);
    wanted.batch.micro = 1;
    wanted.run.evaluate_every = 1;
    trainer.send(start(&wanted));
    while !matches!(trainer.events().recv_timeout(Duration::from_secs(60)), Ok(Event::Evaluating { step: 1 })) {}
    trainer.send(Command::Stop);
    let seen = events(&trainer);
    assert!(!seen.iter().any(|event| matches!(event, Event::Evaluated { .. })), "{seen:?}");
    let (outcome, summary) = end(&seen);
    assert!(matches!(outcome, Outcome::Stopped) && summary.left_over == Bytes(0), "{outcome:?}");
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run_and_names_where() {
    let trainer = Trainer::new(|| {});
    let mut wanted = experiment(200);
    wanted.optimizer.kind = plimsoll_engine::experiment::OptimizerKind::Sgd;
    wanted.optimizer.learning_rate = 1e4;
    trainer.send(start(&wanted));
    let events = events(&trainer);
    let (Outcome::Failed(Error::NotFinite(fault)), summary) = end(&events) else { panic!("{:?}", end(&events)) };
    assert_eq!(fault.step, summary.steps);
    let layer = fault.layer.as_ref().expect("the place can be told");
    assert!(layer.contains("block") || layer.contains("head"), "{layer}");
    assert_eq!(summary.left_over, Bytes(0));
}

#[test]
fn a_panic_in_the_thread_ends_the_run_and_not_the_program() {
    let calls = std::sync::atomic::AtomicU64::new(0);
    let trainer = Trainer::new(move || {
        assert!(calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) != 2, "the listener breaks once");
    });
    trainer.send(start(&experiment(10)));
    let broken = events(&trainer);
    assert!(
        matches!(end(&broken).0, Outcome::Failed(Error::Panic(text)) if text.contains("breaks once")),
        "{broken:?}"
    );
    trainer.send(start(&experiment(3)));
    assert!(matches!(end(&events(&trainer)).0, Outcome::Finished));
}

#[test]
fn f16_reports_skipped_steps_and_still_learns() {
    let trainer = Trainer::new(|| {});
    let mut wanted = experiment(120);
    wanted.precision = Precision::F16Mixed;
    trainer.send(start(&wanted));
    let events = events(&trainer);
    let (outcome, summary) = end(&events);
    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
    let warnings = events.iter().filter(|e| matches!(e, Event::Warning(text) if text.contains("loss scale"))).count();
    assert_eq!(summary.skipped_steps, warnings as u64);
    assert_eq!(summary.skipped_steps, steps(&events).iter().filter(|s| s.skipped).count() as u64);
    let steps = steps(&events);
    assert!(steps[119].loss < steps[0].loss);
}

#[test]
fn a_folder_that_is_not_there_ends_the_run_with_its_name() {
    let trainer = Trainer::new(|| {});
    let mut wanted = experiment(3);
    wanted.data.kind = DataKind::Cifar10;
    wanted.data.path = Some("no/such/folder".into());
    trainer.send(start(&wanted));
    let events = events(&trainer);
    let (Outcome::Failed(error), _) = end(&events) else { panic!("{events:?}") };
    assert!(error.to_string().contains("no/such/folder"), "{error}");
}

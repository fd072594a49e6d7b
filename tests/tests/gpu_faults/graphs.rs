//! Steps that are launched as graphs: the same losses, fewer calls of the driver, and a driver that refuses them.

use std::env;

use plimsoll_engine::{
    Bytes, Experiment,
    device::graphs::Captured,
    experiment::preset,
    hardware::Machine,
    plan::Plan,
    train::{Event, Outcome, Summary},
};

use crate::{
    card::{Card, experiment, heard_on_card, on_card},
    launches::gpt2,
};

const REFUSES: &str = "PLIMSOLL_SIM_GRAPH_REFUSES";

/// A run without a fault: its losses, test losses included, its summary, and its warnings about graphs.
fn run(card: &Card, experiment: &Experiment) -> (Vec<f64>, Summary, Vec<String>) {
    let (mut losses, mut warnings) = (Vec::new(), Vec::new());
    card.begin(experiment, false);
    loop {
        match card.next() {
            Event::Step(record) => losses.extend([record.loss, record.gradient_norm]),
            Event::Evaluated { loss, .. } => losses.push(loss),
            Event::Warning(warning) if warning.contains("graph") => warnings.push(warning),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                assert_eq!(summary.left_over, Bytes(0));
                return (losses, *summary, warnings);
            }
            _ => {}
        }
    }
}

/// What became of the graphs of a run that has to come to the losses of one without.
fn captured(card: &Card, plain: &Experiment) -> (Option<Captured>, Vec<String>) {
    let mut fused = plain.clone();
    preset::set(&mut fused, "execution=fused").expect("a setting");
    let mut without = fused.clone();
    preset::set(&mut without, "gpu.pool=give-back").expect("a setting");
    let (losses, summary, warnings) = run(card, &fused);
    let (expected, none, silent) = run(card, &without);
    assert_eq!((none.graphs, silent.len()), (None, 0), "{without:?}");
    assert_eq!(losses, expected, "{fused:?}");
    assert!(summary.measured.process <= summary.predicted.process, "{fused:?}: {summary:?}");
    assert_eq!(summary.measured.live, none.measured.live, "{fused:?}");
    (summary.graphs, warnings)
}

/// Experiments that differ in what changes from step to step.
fn drawn() -> Vec<Experiment> {
    let eight = "run.steps=8";
    let of = |name: &str, changes: &[&str]| experiment(name, &[&[eight, "run.evaluate_every=3"][..], changes].concat());
    let gpt = |changes: &[&str]| gpt2(&[&[eight, "model.depth=2", "run.evaluate_every=3"][..], changes].concat());
    let cnn = ["model.width=8", "model.depth=1", "model.dense=16", "batch.micro=6"];
    let of_cnn = |changes: &[&str]| of("cnn-digits", &[&cnn[..], changes].concat());
    vec![
        of("mlp-digits", &["batch.micro=8", "optimizer.schedule=cosine", "optimizer.warmup_steps=3"]),
        of("mlp-digits", &["batch.micro=8", "model.dropout=0.3", "batch.accumulation=4"]),
        of("mlp-digits", &["batch.micro=8", "precision=f16-mixed", "optimizer.clip_norm=1"]),
        of_cnn(&["precision=bf16-mixed", "model.dropout=0.2", "optimizer.clip_norm=0.5"]),
        of_cnn(&["batch.accumulation=3", "gpu.pool=planned"]),
        gpt(&["model.dropout=0.1", "precision=f32", "optimizer.clip_norm=0.5"]),
        gpt(&["batch.accumulation=2"]),
        gpt(&["optimizer.update=in-backward", "optimizer.clip_norm=0"]),
    ]
}

#[test]
fn steps_launched_as_graphs_come_to_the_same_losses() {
    on_card("graphs::steps_launched_as_graphs_come_to_the_same_losses", &[], |card| {
        for experiment in drawn() {
            let (graphs, warnings) = captured(card, &experiment);
            let graphs = graphs.unwrap_or_else(|| panic!("no graph: {warnings:?}, {experiment:?}"));
            assert!(graphs.times >= 4 && graphs.launches >= 8, "{graphs:?}: {experiment:?}");
            assert!(graphs.took > Bytes::ZERO && graphs.took <= graphs.allowed, "{graphs:?}: {experiment:?}");
            assert_eq!(warnings, Vec::<String>::new(), "{experiment:?}");
        }
    });
}

#[test]
fn a_model_that_loses_channels_is_launched_by_other_graphs_after() {
    on_card("graphs::a_model_that_loses_channels_is_launched_by_other_graphs_after", &[], |card| {
        let cnn = ["model.width=8", "model.depth=1", "model.dense=16", "batch.micro=6", "run.steps=10"];
        let pruned = [&cnn[..], &["prune.kind=channels", "prune.begin_step=5"]].concat();
        let graphs = |changes: &[&str]| captured(card, &experiment("cnn-digits", changes)).0.expect("graphs").graphs;
        assert!(graphs(&pruned) > graphs(&cnn));
    });
}

#[test]
fn a_run_that_a_driver_refuses_graphs_loses_no_step() {
    let name = "graphs::a_run_that_a_driver_refuses_graphs_loses_no_step";
    for what in ["capture", "library", "instantiate", "update", "launch"] {
        on_card(name, &[(REFUSES, what)], |card| {
            let what = env::var(REFUSES).expect("set for this process");
            let dropout = ["model.dropout=0.3", "run.steps=6", "batch.micro=8"];
            let (graphs, warnings) = captured(card, &experiment("mlp-digits", &dropout));
            assert_eq!(warnings.len(), 1, "{what}: {warnings:?}");
            assert!(warnings[0].starts_with("not every step was launched as a graph: "), "{what}: {warnings:?}");
            // One was made before it was to be changed.
            assert_eq!(graphs.is_some(), what == "update", "{what}: {graphs:?}");
        });
    }
}

#[test]
fn a_budget_without_room_for_graphs_is_kept_without_them() {
    on_card("graphs::a_budget_without_room_for_graphs_is_kept_without_them", &[], |card| {
        let of = |budget: Bytes| {
            let changes = ["execution=fused", "batch.micro=8", "run.steps=5", &format!("budget={} B", budget.0)];
            experiment("mlp-digits", &changes)
        };
        // The run before has loaded the kernels.
        card.calm(&of(Bytes::gib(1)));
        let plan = |budget: Bytes| -> Plan {
            let machine: Machine = card.trainer.machine();
            Plan::of(&of(budget), &machine).unwrap_or_else(|error| panic!("{error}"))
        };
        let roomy = plan(Bytes::gib(1));
        assert!(roomy.graphs > Bytes::ZERO);
        assert_eq!((plan(roomy.peak.process).graphs, plan(roomy.peak.process).fits()), (roomy.graphs, true));
        let once = plan(Bytes(roomy.peak.process.0 - 1));
        assert_eq!(once.graphs + once.graphs, roomy.graphs);
        let tight = plan(Bytes(once.peak.process.0 - 1));
        assert_eq!((tight.graphs, tight.peak.process), (Bytes::ZERO, roomy.peak.process - roomy.graphs));
        assert_eq!((tight.peak.live, tight.peak.reserved), (roomy.peak.live, roomy.peak.reserved));
        let (losses, summary, _) = run(card, &of(tight.budget));
        assert_eq!(summary.graphs, None);
        for budget in [Bytes::gib(1), once.budget] {
            let (with, summary, _) = run(card, &of(budget));
            assert!(summary.graphs.is_some(), "{budget}");
            assert_eq!(losses, with, "{budget}");
        }
    });
}

/// What a node of a graph takes of the card, in KiB.
const NODE: &str = "PLIMSOLL_SIM_GRAPH_KIB";

/// Two runs on a card whose graphs take so much for a node, less than is assumed where it `is_less`, and more where it is not.
fn learns(name: &str, kib: &str, is_less: bool) {
    on_card(name, &[(NODE, kib)], |card| {
        let experiment = gpt2(&["execution=fused", "run.steps=6"]);
        let next = |machine: Machine| Plan::of(&experiment, &machine).unwrap_or_else(|error| panic!("{error}"));
        let words = |plan: &Plan| plan.launches_in_words().expect("words");
        let assumed = next(card.trainer.machine());
        assert!(words(&assumed).contains("an assumption of 64.0 KiB a launch"), "{}", words(&assumed));
        let (losses, first, _) = run(card, &experiment);
        let known = next(card.trainer.machine());
        assert!(words(&known).contains("this card took no more than"), "{}", words(&known));
        assert_eq!(
            [known.graphs < assumed.graphs, known.graphs > assumed.graphs],
            [is_less, !is_less],
            "{}",
            words(&known)
        );
        // The next program reads what this one has kept.
        assert_eq!(next(Machine::detect()).graphs, known.graphs);
        let (again, second, _) = run(card, &experiment);
        assert_eq!(again, losses);
        let [before, graphs] = [&first, &second].map(|summary| summary.graphs.expect("graphs"));
        assert_eq!(before.took > before.allowed, !is_less, "{before:?}");
        assert!(graphs.times >= 4 && graphs.took <= graphs.allowed, "{graphs:?}");
        assert!(second.measured.process <= second.predicted.process, "{second:?}");
    });
}

#[test]
fn a_card_whose_graphs_take_less_than_is_assumed_is_allowed_less_next_time() {
    learns("graphs::a_card_whose_graphs_take_less_than_is_assumed_is_allowed_less_next_time", "4", true);
}

#[test]
fn a_card_whose_graphs_take_more_than_is_assumed_is_allowed_more_next_time() {
    learns("graphs::a_card_whose_graphs_take_more_than_is_assumed_is_allowed_more_next_time", "160", false);
}

#[test]
fn kernels_that_take_more_than_was_allowed_are_told_after_the_first_step_and_leave_less_for_graphs() {
    let name =
        "graphs::kernels_that_take_more_than_was_allowed_are_told_after_the_first_step_and_leave_less_for_graphs";
    // About 21 kernels, and 10 MiB less than was allowed for all kernels and graphs, which is less than graphs would take.
    on_card(name, &[("PLIMSOLL_SIM_LAZY_KIB", "12500")], |card| {
        card.begin(&gpt2(&["execution=fused", "precision=f32", "run.steps=8"]), false);
        let (mut steps, mut told) = (0, Vec::new());
        let summary = loop {
            match card.next() {
                Event::Step(_) => steps += 1,
                Event::Warning(words) if words.contains("more than was allowed for") => told.push((steps, words)),
                Event::Ended { outcome, summary, .. } => {
                    assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                    break summary;
                }
                _ => {}
            }
        };
        // The host is up to two steps ahead of what it tells.
        assert!(matches!(&told[..], [(0..=2, words)] if words.contains("graphs have so much less")), "{told:?}");
        assert!(summary.measured.process <= summary.predicted.process, "{summary:?}");
    });
}

/// Set for a process, to its number of steps.
const STEPS: &str = "PLIMSOLL_TEST_STEPS";

/// Calls of the driver that a steady step makes where it refuses this of graphs, from the differences of whole processes.
fn calls_of_a_step(name: &str, refuses: &str) -> Option<u64> {
    let of = |steps: &str| {
        let settings = [("PLIMSOLL_SIM_CALLS", "1"), (STEPS, steps), (REFUSES, refuses)];
        let heard = heard_on_card(name, &settings, |card| {
            let steps = format!("run.steps={}", env::var(STEPS).expect("set for this process"));
            card.calm(&gpt2(&["execution=fused", "model.depth=4", &steps]));
        })?;
        let line = heard.lines().find_map(|line| line.strip_prefix("simulated GPU: ")?.strip_suffix(" calls"));
        line.expect("calls are told").parse::<u64>().ok()
    };
    let six = of("6")?;
    Some((of("10")? - six) / 4)
}

#[test]
fn a_steady_step_of_gpt2_makes_few_calls() {
    let name = "graphs::a_steady_step_of_gpt2_makes_few_calls";
    let Some(with) = calls_of_a_step(name, "none") else { return };
    let without = calls_of_a_step(name, "instantiate").expect("not in that process");
    println!("calls of a step: {without} one by one, {with} by graphs");
    assert!(with * 5 < without * 2, "{with} of {without}");
}

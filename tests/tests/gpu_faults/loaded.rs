//! Kernels that take another amount of the card than a plan allowed for: the line moves when they are loaded, no run crosses
//! its budget, and what kernels leave is for graphs.

use std::env;

use plimsoll_engine::{
    Bytes, Error, Experiment,
    hardware::Machine,
    plan::Plan,
    train::{Command, Event, Outcome, Refusal, Summary},
};
use plimsoll_tests::with_every_manner;

use crate::card::{Card, experiment, heard_on_card, on_card};

/// Memory that the first launch of a kernel takes.
const LAZY: &str = "PLIMSOLL_SIM_LAZY_KIB";
/// So many kernels of cnn-digits take more than is allowed for convolutions.
const LARGE: (&str, &str) = (LAZY, "12000");
/// These take more also than what a pool leaves that goes in steps of 32 MiB.
const HUGE: (&str, &str) = (LAZY, "20000");

/// Set for a process, to the policy of its pool.
const POLICY: &str = "PLIMSOLL_TEST_POLICY";

/// A run that convolves.
fn convolving(changes: &[&str]) -> Experiment {
    experiment("cnn-digits", &[&["run.steps=6", "batch.micro=8"], changes].concat())
}

/// The same with another line.
fn within(experiment: &Experiment, budget: Bytes) -> Experiment {
    Experiment { budget, ..experiment.clone() }
}

/// The plan of a run by what is known of the card now.
fn planned(card: &Card, experiment: &Experiment) -> Plan {
    Plan::of(experiment, &card.trainer.machine()).unwrap_or_else(|error| panic!("{error}"))
}

/// What another program that is started now plans for the driver and the kernels of a run.
fn known_elsewhere(experiment: &Experiment) -> Bytes {
    let plan = Plan::of(experiment, &Machine::detect()).unwrap_or_else(|error| panic!("{error}"));
    plan.target.profile().expect("a GPU").context
}

/// A run to its end: how many steps it took, its warnings about what was allowed, how it ended, and its summary.
fn run(card: &Card, experiment: &Experiment) -> (usize, Vec<String>, Outcome, Summary) {
    let (mut steps, mut told) = (0, Vec::new());
    card.begin(experiment, false);
    loop {
        match card.next() {
            Event::Step(_) => steps += 1,
            Event::Warning(words) if words.contains("than was allowed for") => told.push(words),
            Event::Ended { outcome, summary, .. } => {
                assert_eq!(summary.left_over, Bytes(0));
                return (steps, told, outcome, *summary);
            }
            _ => {}
        }
    }
}

fn refused(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::OverBudget(refusal) => *refusal,
        other => panic!("not at its budget: {other:?}"),
    }
}

/// Opens the card, and loads nothing that a step needs.
fn open(card: &Card) {
    card.begin(&convolving(&[]), true);
    card.until(|event| matches!(event, Event::Paused(true)));
    card.send(Command::Stop);
    assert!(matches!(card.end().outcome, Outcome::Stopped));
}

/// A run of this policy at the very line that its plan asks for, on a card whose kernels are large.
fn tight(card: &Card, policy: &str) -> Experiment {
    open(card);
    let asked = convolving(&[&format!("gpu.pool={policy}")]);
    // One that reserves takes all that it may.
    let line = match policy {
        "reserve" => planned(card, &convolving(&[])).peak.process + Bytes::mib(32),
        _ => planned(card, &asked).peak.process,
    };
    let tight = within(&asked, line);
    assert!(planned(card, &tight).fits(), "{policy}");
    tight
}

/// A run that its kernels leave no room: it ends after its first step, and says why and what would fit.
fn ends(card: &Card, policy: &str) {
    let tight = tight(card, policy);
    let before = known_elsewhere(&tight);
    let (steps, told, outcome, _) = run(card, &tight);
    let refusal = refused(outcome);
    let now = known_elsewhere(&tight);
    assert!(now >= before + refusal.error.asked, "{policy}: {now}, {before} before");
    let words = refusal.error.to_string();
    assert_eq!((steps, told.len()), (1, 0), "{policy}: {words}");
    for part in ["more for kernels would take", &format!("of a budget of {}", tight.budget), "in use"] {
        assert!(words.contains(part), "{policy}: {part:?} is missing: {words}");
    }
    assert!(refusal.error.live <= tight.budget && refusal.error.live + refusal.error.asked > tight.budget, "{words}");
    // Planned by what is known now, nothing crosses its line.
    let (steps, told, outcome, summary) = run(card, &tight);
    match outcome {
        Outcome::Finished => {
            assert!(policy == "reserve" && words.contains("started again") && told.is_empty(), "{words}, {told:?}");
            assert!(summary.measured.process <= tight.budget, "{policy}: {summary:?}");
        }
        outcome => assert_eq!((steps, refused(outcome).error.is_planned), (0, true), "{policy}: {words}"),
    }
    let offered = refusal.advice.iter().map(|advice| &advice.experiment).next();
    let offered = offered.unwrap_or_else(|| panic!("{policy}: nothing would fit: {words}"));
    let (_, _, outcome, summary) = run(card, offered);
    assert!(matches!(outcome, Outcome::Finished), "{policy}: {outcome:?}");
    assert!(summary.measured.process <= offered.budget, "{policy}: {summary:?}");
}

#[test]
fn a_run_whose_kernels_leave_it_no_room_ends_after_its_first_step_and_says_what_would_fit() {
    let name = "loaded::a_run_whose_kernels_leave_it_no_room_ends_after_its_first_step_and_says_what_would_fit";
    for policy in ["planned", "grow", "give-back", "reserve"] {
        let heard = heard_on_card(name, &[LARGE, (POLICY, policy)], |card| {
            ends(card, &env::var(POLICY).expect("set for this process"));
        });
        // This is that process.
        if heard.is_none() {
            return;
        }
    }
}

#[test]
fn a_run_that_reserves_a_whole_card_leaves_kernels_more_room_each_time_that_it_was_too_little() {
    let name = "loaded::a_run_that_reserves_a_whole_card_leaves_kernels_more_room_each_time_that_it_was_too_little";
    on_card(name, &[HUGE, ("PLIMSOLL_SIM_TOTAL_MIB", "2048")], |card| {
        let whole = within(&convolving(&["gpu.pool=reserve"]), Bytes::gib(2));
        open(card);
        // Others that hold a part of the budget are no reason to leave more.
        card.others_hold(300);
        let mut left = known_elsewhere(&whole);
        assert!(matches!(run(card, &whole).2, Outcome::Failed(Error::DeviceFull(_))));
        assert_eq!(known_elsewhere(&whole), left);
        card.others_hold(0);
        let mut ended = 0;
        let summary = loop {
            let planned = planned(card, &whole);
            assert!(planned.fits(), "{ended}");
            let (_, _, outcome, summary) = run(card, &whole);
            match outcome {
                Outcome::Finished => break summary,
                Outcome::Failed(Error::DeviceFull(_)) => {}
                outcome => panic!("{outcome:?}"),
            }
            let now = known_elsewhere(&whole);
            assert!(now > left, "{now}, {left} before");
            (left, ended) = (now, ended + 1);
        };
        assert!((1..=3).contains(&ended), "{ended}");
        // As it was planned, and all that is left of the card.
        assert_eq!(summary.measured.reserved, summary.predicted.reserved);
        assert!(summary.measured.process <= summary.predicted.process, "{summary:?}");
        // Whatever it left too much is reserved from now on.
        let (_, _, outcome, again) = run(card, &whole);
        assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
        assert_eq!(again.measured.reserved, again.predicted.reserved);
        assert!(again.measured.reserved >= summary.measured.reserved, "{again:?}");
    });
}

#[test]
fn a_run_whose_kernels_leave_it_room_goes_on_below_a_line_that_is_lower() {
    let name = "loaded::a_run_whose_kernels_leave_it_room_goes_on_below_a_line_that_is_lower";
    on_card(name, &[LARGE], |card| {
        let tight = tight(card, "planned");
        let roomy = within(&tight, tight.budget + Bytes::mib(128));
        let (steps, told, outcome, summary) = run(card, &roomy);
        assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
        assert_eq!((steps, told.len()), (6, 2), "after the first step, and of the whole run: {told:?}");
        assert!(told[0].contains("the line of the tensors is so much lower"), "{told:?}");
        assert!((tight.budget..=roomy.budget).contains(&summary.measured.process), "{summary:?}");
    });
}

#[test]
fn kernels_that_take_less_than_was_allowed_leave_room_for_graphs() {
    on_card("loaded::kernels_that_take_less_than_was_allowed_leave_room_for_graphs", &[], |card| {
        open(card);
        // Another precision than the run before, so that its kernels are allowed for.
        let fused =
            experiment("mlp-digits", &["execution=fused", "precision=bf16-mixed", "batch.micro=8", "run.steps=6"]);
        let roomy = planned(card, &fused);
        assert!(roomy.graphs > Bytes::ZERO && roomy.graphs == roomy.most_graphs, "{}", roomy.graphs);
        // Not even one of each has room next to all kernels that are allowed for.
        let once = roomy.peak.process - Bytes(roomy.graphs.0 / 2);
        let tight = within(&fused, once - Bytes(1));
        let plan = planned(card, &tight);
        assert_eq!((plan.graphs, plan.fits()), (Bytes::ZERO, true));
        let words = plan.launches_in_words().expect("words");
        assert!(words.contains("unless kernels take less"), "{words}");
        let (steps, told, outcome, summary) = run(card, &tight);
        assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
        let graphs = summary.graphs.unwrap_or_else(|| panic!("no graph, {told:?}"));
        assert!(steps == 6 && graphs.times >= 3, "{graphs:?}");
        assert!(summary.measured.process <= summary.predicted.process, "{summary:?}");
        assert!(summary.measured.process <= tight.budget, "{summary:?}");
    });
}

#[test]
fn what_is_loaded_and_given_back_is_alike_with_every_manner_of_a_driver() {
    with_every_manner(&[
        "loaded::a_run_whose_kernels_leave_it_room_goes_on_below_a_line_that_is_lower",
        "loaded::kernels_that_take_less_than_was_allowed_leave_room_for_graphs",
        "steady::a_run_that_ends_gives_its_page_locked_memory_back_however_it_ends",
    ]);
}

//! No room: an allocation that fails in the middle of a step, and other processes that fill the card while we train.

use plimsoll_engine::{
    Bytes, Error, Experiment,
    train::{Command, Event, Outcome},
};

use plimsoll_tests::with_every_manner;

use crate::card::{Card, Run, experiment, on_card};

/// Parameters nearly fill a segment of the pool, so that the gradients of every step need another. They are few and wide, for
/// a simulated card takes its time by their number, and a test of the model takes few samples, for each of their batches
/// reads all of the parameters.
const LARGE: [&str; 7] = [
    "model.width=1830",
    "model.depth=2",
    "batch.micro=8",
    "precision=f64",
    "optimizer.kind=sgd",
    "run.steps=3",
    "data.test_fraction=0.02",
];

fn large(policy: &str) -> Experiment {
    experiment("mlp-digits", &[&LARGE[..], &[&format!("gpu.pool={policy}")]].concat())
}

/// What others leave of the card.
const LEFT: Bytes = Bytes::mib(5);

/// The words of a run that others left too little: who, how much is free, what would help.
fn says_who_and_what_helps(words: &str, left: Bytes) {
    let whole = format!("of its {}, this run holds", Bytes::gib(8));
    let free = format!("{left} are free");
    for part in ["the card has no room", &whole, &free, "other processes", "close one of those or lower the budget"] {
        assert!(words.contains(part), "{part:?} is missing: {words}");
    }
}

/// A run that others leave too little after `steps` steps.
fn crowded(card: &Card, experiment: &Experiment, steps: usize) -> (Vec<f64>, Run) {
    card.begin(experiment, true);
    // All that a run has from its start is there when it obeys.
    card.send(Command::Evaluate);
    card.until(|event| matches!(event, Event::Evaluated { .. }));
    let before = card.steps(steps);
    // Commands are obeyed between steps: the card is full before the next one begins.
    card.others_leave(LEFT);
    card.send(Command::Resume);
    let run = card.end();
    card.others_hold(0);
    (before, run)
}

#[test]
fn a_pool_that_grows_meets_others_only_where_it_grows() {
    on_card("full::a_pool_that_grows_meets_others_only_where_it_grows", &[], |card| {
        let experiment = large("grow");
        let calm = card.calm(&experiment);
        let idle = card.held();

        let (_, run) = crowded(card, &experiment, 0);
        says_who_and_what_helps(&run.words(), LEFT);
        assert!(matches!(run.outcome, Outcome::Failed(Error::DeviceFull(_))), "{:?}", run.outcome);
        assert_eq!((run.losses.len(), card.held()), (0, idle));
        assert_eq!(card.calm(&experiment), calm);

        // What the first step took is enough for all.
        let (before, run) = crowded(card, &experiment, 1);
        assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
        assert_eq!([before, run.losses].concat(), calm);
        assert_eq!(card.held(), idle);
    });
}

#[test]
fn a_pool_that_gives_back_meets_others_at_its_next_step() {
    on_card("full::a_pool_that_gives_back_meets_others_at_its_next_step", &[], |card| {
        let experiment = large("give-back");
        let calm = card.calm(&experiment);
        let idle = card.held();
        let (before, run) = crowded(card, &experiment, 2);
        says_who_and_what_helps(&run.words(), LEFT);
        assert_eq!(before, calm[..2]);
        assert_eq!((run.losses.len(), card.held()), (0, idle));
        assert_eq!(card.calm(&experiment), calm);
    });
}

#[test]
fn a_pool_reserved_at_the_start_meets_others_there_or_never() {
    on_card("full::a_pool_reserved_at_the_start_meets_others_there_or_never", &[], |card| {
        let mut experiment = large("reserve");
        // No multiple of what pools grow by.
        experiment.budget = Bytes(Bytes::mib(801).0 + 12_345);
        let calm = card.calm(&experiment);
        let idle = card.held();
        let (before, run) = crowded(card, &experiment, 0);
        assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
        assert_eq!((before.len(), run.losses), (0, calm.clone()));

        card.others_leave(LEFT);
        let run = card.run(&experiment);
        says_who_and_what_helps(&run.words(), LEFT);
        card.others_hold(0);
        assert_eq!(card.held(), idle);
        assert_eq!(card.calm(&experiment), calm);
    });
}

#[test]
fn a_run_that_the_card_has_no_room_for_is_told_so_before_it_begins() {
    on_card("full::a_run_that_the_card_has_no_room_for_is_told_so_before_it_begins", &[], |card| {
        let experiment = large("grow");
        card.calm(&experiment);
        card.others_leave(LEFT);
        card.begin(&experiment, false);
        let said = card.until(|event| matches!(event, Event::Warning(_)));
        let free = format!("{LEFT} of the card are free");
        assert!(
            matches!(&said, Event::Warning(said) if said.contains(&free) && said.contains("close other")),
            "{said:?}"
        );
        says_who_and_what_helps(&card.end().words(), LEFT);
    });
}

#[test]
fn a_card_that_is_full_when_it_is_opened_is_said_to_be_full() {
    on_card("full::a_card_that_is_full_when_it_is_opened_is_said_to_be_full", &[], |card| {
        let experiment = experiment("mlp-digits", &[]);
        card.others_leave(LEFT);
        says_who_and_what_helps(&card.run(&experiment).words(), LEFT);
        // Room for the context, and none for the libraries. Candle's device starts them in a build that has it.
        card.others_leave(Bytes::mib(305));
        let (words, first) =
            (card.run(&experiment).words(), if cfg!(feature = "candle-cuda") { "candle" } else { "cuBLAS" });
        assert!(words.contains(&format!("the card has no room for {first}")), "{words}");
        card.others_hold(0);
        card.calm(&experiment);
    });
}

#[test]
fn kernels_that_the_card_has_no_room_for_say_so() {
    let settings = [("PLIMSOLL_SIM_LAZY_KIB", "512")];
    on_card("full::kernels_that_the_card_has_no_room_for_say_so", &settings, |card| {
        let experiment = experiment("cnn-digits", &["run.steps=2"]);
        card.begin(&experiment, true);
        // All that goes forward is loaded then, and nothing of what goes backward.
        card.send(Command::Evaluate);
        card.until(|event| matches!(event, Event::Evaluated { .. }));
        card.others_leave(Bytes(0));
        card.send(Command::Resume);
        let words = card.end().words();
        says_who_and_what_helps(&words, Bytes(0));
        assert!(words.contains("the card has no room for kernels") || words.contains("no room for cu"), "{words}");
        card.others_hold(0);
        card.calm(&experiment);
    });
}

/// Lets the `places`th allocations fail, each in a run of its own, until a run asks for fewer; how many runs that were.
/// After each, the card holds what it held before and the experiment trains as it did.
fn runs_that_fail(card: &Card, experiment: &Experiment, places: impl Iterator<Item = usize>) -> usize {
    let calm = card.calm(experiment);
    let idle = card.held();
    let mut failed = 0;
    for n in places {
        card.fail("allocation", n);
        let run = card.run(experiment);
        if matches!(run.outcome, Outcome::Finished) {
            break;
        }
        assert!(run.words().contains("the card has no room"), "the {n}th: {}", run.words());
        assert_eq!(card.held(), idle, "after the {n}th");
        assert_eq!(card.calm(experiment), calm, "after the {n}th");
        failed += 1;
    }
    failed
}

#[test]
fn whichever_allocation_fails_the_next_run_is_whole() {
    // Guarded, each block is an allocation of the driver's.
    let settings = [("PLIMSOLL_GUARD", "1")];
    on_card("full::whichever_allocation_fails_the_next_run_is_whole", &settings, |card| {
        let experiment = experiment("cnn-digits", &["run.steps=2", "batch.micro=16"]);
        let failed = runs_that_fail(card, &experiment, (1..).step_by(17));
        assert!(failed > 5, "{failed}");
    });
}

#[test]
fn whichever_segment_the_driver_refuses_the_next_run_is_whole() {
    on_card("full::whichever_segment_the_driver_refuses_the_next_run_is_whole", &[], |card| {
        let failed = runs_that_fail(card, &large("give-back"), 1..);
        assert!(failed > 3, "{failed}");
    });
}

#[test]
fn a_step_after_the_first_asks_the_driver_for_no_memory() {
    on_card("full::a_step_after_the_first_asks_the_driver_for_no_memory", &[], |card| {
        for policy in ["planned", "grow", "reserve"] {
            let pool = format!("gpu.pool={policy}");
            let experiment = experiment("cnn-digits", &["run.steps=8", "run.evaluate_every=3", &pool]);
            let calm = card.calm(&experiment);
            card.begin(&experiment, true);
            let before = card.steps(1);
            card.send(Command::Evaluate);
            card.until(|event| matches!(event, Event::Evaluated { .. }));
            // Whatever is asked for now is refused.
            card.fail("allocation", 1);
            card.send(Command::Resume);
            let run = card.end();
            card.fail("allocation", 0);
            assert!(matches!(run.outcome, Outcome::Finished), "{policy}: {:?}", run.outcome);
            assert_eq!([before, run.losses].concat(), calm, "{policy}");
        }
    });
}

#[test]
fn what_others_take_is_not_learnt_as_ours_where_the_driver_does_not_tell_by_process() {
    let settings = [("PLIMSOLL_SIM_UNTOLD", "1")];
    on_card(
        "full::what_others_take_is_not_learnt_as_ours_where_the_driver_does_not_tell_by_process",
        &settings,
        |card| {
            let experiment = experiment("mlp-digits", &[]);
            let calm = card.calm(&experiment);
            card.begin(&experiment, true);
            card.steps(2);
            card.others_hold(4000);
            card.send(Command::Resume);
            card.end();
            card.others_hold(0);
            // The budget is as large as before in addition to what the driver is assumed to hold.
            assert_eq!(card.calm(&experiment), calm);
        },
    );
}

#[test]
fn others_are_met_alike_with_every_manner_of_a_driver() {
    with_every_manner(&[
        "full::a_pool_that_grows_meets_others_only_where_it_grows",
        "full::a_pool_that_gives_back_meets_others_at_its_next_step",
        "full::a_pool_reserved_at_the_start_meets_others_there_or_never",
    ]);
}

//! Commands in the middle of a run on a GPU.

use plimsoll_engine::{
    Bytes,
    train::{Command, Event, Outcome},
};

use crate::card::{Card, experiment, on_card};

/// More steps than a test can wait for.
const ENDLESS: &str = "run.steps=1000000000";

#[test]
fn a_run_that_is_stopped_ends_and_the_next_is_whole() {
    on_card("commands::a_run_that_is_stopped_ends_and_the_next_is_whole", &[], |card| {
        let experiment = experiment("cnn-digits", &["batch.micro=16"]);
        let endless = self::experiment("cnn-digits", &["batch.micro=16", ENDLESS]);
        let calm = card.calm(&experiment);
        let idle = card.held();
        for steps in [1, 2, 5] {
            card.begin(&endless, false);
            for _ in 0..steps {
                card.until(|event| matches!(event, Event::Step(_)));
            }
            card.send(Command::Stop);
            let run = card.end();
            assert!(matches!(run.outcome, Outcome::Stopped), "{:?}", run.outcome);
            assert_eq!(run.summary.left_over, Bytes(0));
            assert_eq!(card.held(), idle);
            assert_eq!(card.calm(&experiment), calm);
        }
    });
}

#[test]
fn a_run_that_is_paused_waits_steps_once_goes_on_and_is_stopped() {
    on_card("commands::a_run_that_is_paused_waits_steps_once_goes_on_and_is_stopped", &[], |card| {
        let constant = ["optimizer.schedule=constant", "run.steps=8"];
        let experiment = experiment("mlp-digits", &constant);
        let endless = self::experiment("mlp-digits", &[constant[0], ENDLESS]);
        let calm = card.calm(&experiment);
        let idle = card.held();

        card.begin(&endless, true);
        let mut losses = card.steps(3);
        card.send(Command::Resume);
        card.until(|event| matches!(event, Event::Paused(false)));
        losses.extend((3..8).map(|_| card.step()));
        assert_eq!(losses, calm);

        card.send(Command::Pause);
        card.until(|event| matches!(event, Event::Paused(true)));
        // Whatever was on its way is told of before an evaluation; the run waits after it, and after each step.
        let first = evaluated(card);
        assert_eq!([evaluated(card), evaluated(card), evaluated(card)], [first; 3]);
        card.steps(1);
        assert_eq!(evaluated(card), first + 1);
        card.send(Command::Resume);
        card.until(|event| matches!(event, Event::Step(_)));
        card.send(Command::Stop);
        let run = card.end();
        assert!(matches!(run.outcome, Outcome::Stopped), "{:?}", run.outcome);
        assert_eq!(run.summary.left_over, Bytes(0));

        // A run that waits is stopped where it waits.
        card.begin(&experiment, true);
        card.steps(3);
        card.send(Command::Stop);
        let run = card.end();
        assert!(matches!(run.outcome, Outcome::Stopped), "{:?}", run.outcome);
        assert_eq!((run.summary.steps, run.summary.left_over), (3, Bytes(0)));
        assert_eq!(card.held(), idle);
        assert_eq!(card.calm(&experiment), calm);
    });
}

/// Tests the model of a run that is paused; after how many steps that was.
fn evaluated(card: &Card) -> u64 {
    card.send(Command::Evaluate);
    match card.until(|event| matches!(event, Event::Evaluated { .. })) {
        Event::Evaluated { step, .. } => step,
        _ => unreachable!("that was waited for"),
    }
}

#[test]
fn a_run_that_another_takes_the_place_of_leaves_it_the_card() {
    on_card("commands::a_run_that_another_takes_the_place_of_leaves_it_the_card", &[], |card| {
        let experiment = experiment("mlp-digits", &[]);
        let calm = card.calm(&experiment);
        card.begin(&self::experiment("cnn-digits", &[ENDLESS]), false);
        card.until(|event| matches!(event, Event::Step(_)));
        card.begin(&experiment, false);
        let run = card.end();
        assert!(matches!(run.outcome, Outcome::Stopped), "{:?}", run.outcome);
        assert_eq!(run.summary.left_over, Bytes(0));
        let run = card.end();
        assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
        assert_eq!(run.losses, calm);
    });
}

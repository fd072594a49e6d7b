//! What a run tells of its kernels: that they are compiled, and which way a convolution ran.

use std::collections::BTreeSet;

use plimsoll_engine::train::{Event, Outcome};

use crate::card::{Card, experiment, on_card};

/// The ways in which the convolutions of a step ran, after some steps of a run.
fn ways(card: &Card, changes: &[&str]) -> BTreeSet<&'static str> {
    let experiment = experiment("cnn-digits", changes);
    let run = card.run(&experiment);
    assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
    let latest = card.trainer.latest();
    assert_eq!(latest.ways.len(), latest.measured_step.len());
    latest.ways.iter().copied().filter(|way| !way.is_empty()).collect()
}

#[test]
fn a_step_tells_which_way_its_convolutions_ran() {
    on_card("compiling::a_step_tells_which_way_its_convolutions_ran", &[], |card| {
        assert_eq!(ways(card, &[]), BTreeSet::from(["cuDNN"]));
        // With gradients of f32 as well.
        assert_eq!(ways(card, &["precision=bf16-mixed"]), BTreeSet::from(["cuDNN"]));
        assert_eq!(ways(card, &["precision=f16-mixed"]), BTreeSet::from(["cuDNN"]));
        // There is no room for a rounded gradient of the weights.
        let small = ways(card, &["precision=bf16-mixed", "gpu.workspace=0B"]);
        assert!(small.contains("a kernel without workspace"), "{small:?}");
        let small = ways(card, &["gpu.workspace=0B"]);
        assert!(small.contains("cuDNN") || small.contains("a kernel without workspace"), "{small:?}");
    });
}

#[test]
fn convolutions_that_are_proposed_with_the_default_math_run_in_f32() {
    let settings = [("PLIMSOLL_SIM_DNN_MATH", "1")];
    on_card("compiling::convolutions_that_are_proposed_with_the_default_math_run_in_f32", &settings, |card| {
        assert_eq!(ways(card, &[]), BTreeSet::from(["cuDNN"]));
        let exact = card.calm(&experiment("cnn-digits", &[]));
        let rounded = card.calm(&experiment("cnn-digits", &["gpu.tf32=true"]));
        assert_ne!(exact, rounded, "the default math rounds to TF32 where that is allowed");
    });
}

#[test]
fn compiling_is_said_once_and_what_is_kept_is_not_compiled_again() {
    on_card("compiling::compiling_is_said_once_and_what_is_kept_is_not_compiled_again", &[], |card| {
        let said = |changes: &[&str]| {
            card.begin(&experiment("mlp-digits", changes), false);
            let mut said = 0;
            loop {
                match card.next() {
                    Event::Warning(text) => said += usize::from(text.contains("compiling kernels")),
                    Event::Ended { .. } => return said,
                    _ => {}
                }
            }
        };
        assert!(said(&[]) >= 1, "the cache was empty");
        assert_eq!(said(&[]), 0, "they are there");
        assert!(said(&["precision=f16-mixed"]) >= 1, "others are not");
    });
}

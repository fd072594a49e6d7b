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
fn a_run_names_the_layers_of_its_convolutions_once() {
    on_card("compiling::a_run_names_the_layers_of_its_convolutions_once", &[], |card| {
        let told = |changes: &[&str]| {
            card.begin(&experiment("cnn-digits", changes), false);
            let mut told = Vec::new();
            loop {
                match card.next() {
                    Event::Ways { step, ways } => told.push((step, ways)),
                    Event::Ended { .. } => return told,
                    _ => {}
                }
            }
        };
        let told = |changes: &[&str]| {
            let told = told(changes);
            let [(step, ways)] = &told[..] else { panic!("{told:?}") };
            // The first step has another timeline.
            assert!(*step > 1 && ways.iter().all(|ran| !ran.layer.is_empty()), "{step}: {ways:?}");
            let ops: Vec<&str> = ways.iter().map(|ran| ran.op).collect();
            (ops, ways.iter().map(|ran| ran.way).collect::<BTreeSet<_>>())
        };
        let (ops, by) = told(&["precision=bf16-mixed", "run.steps=30"]);
        let count = |op| ops.iter().filter(|own| **own == op).count();
        // Nothing asks for the gradient by the images.
        let [forward, input, weight] =
            ["convolution", "convolution input gradient", "convolution weight gradient"].map(count);
        assert_eq!((forward, weight, ops.len()), (input + 1, input + 1, 3 * input + 2), "{ops:?}");
        assert_eq!(by, BTreeSet::from(["cuDNN"]));
        let (others, by) = told(&["precision=bf16-mixed", "gpu.workspace=0B"]);
        assert_eq!(others, ops);
        assert!(by.contains("a kernel without workspace"), "{by:?}");
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

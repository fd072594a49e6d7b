//! Biases, GELU and gradients of biases in the products of cuBLASLt: the launches that are saved, and a library that refuses.

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::preset,
    train::{Event, Outcome, Summary},
};

use crate::{
    card::{Card, heard_on_card},
    launches::{gpt2, launched_by_a_step},
};

const REFUSES: &str = "PLIMSOLL_SIM_LT_REFUSES";

/// A run without a fault: its losses and norms of gradients, its summary, and its warnings about biases.
fn run(card: &Card, experiment: &Experiment) -> (Vec<f64>, Summary, Vec<String>) {
    let (mut numbers, mut warnings) = (Vec::new(), Vec::new());
    card.begin(experiment, false);
    loop {
        match card.next() {
            Event::Step(record) => numbers.extend([record.loss, record.gradient_norm]),
            Event::Evaluated { loss, .. } => numbers.push(loss),
            Event::Warning(warning) if warning.contains("biases") => warnings.push(warning),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                assert_eq!(summary.left_over, Bytes(0));
                return (numbers, *summary, warnings);
            }
            _ => {}
        }
    }
}

/// GPT-2 in each precision, with what changes how gradients come together.
fn drawn() -> Vec<Experiment> {
    let few = ["model.depth=2", "run.steps=7", "run.evaluate_every=3", "optimizer.clip_norm=1"];
    let of = |changes: &[&str]| gpt2(&[&few[..], changes].concat());
    vec![
        of(&["precision=f32"]),
        of(&["precision=bf16-mixed"]),
        of(&["precision=f16-mixed"]),
        of(&["precision=f64", "checkpointing=blocks"]),
        of(&["precision=bf16"]),
        of(&["precision=f32", "batch.accumulation=2"]),
        of(&["precision=f32", "recompute=cheap", "gpu.workspace=0"]),
    ]
}

/// How far two numbers of a run in this precision may be apart, as a share of them.
fn rounding(experiment: &Experiment) -> f64 {
    match experiment.precision.key() {
        "f64" => 1e-12,
        "f32" => 2e-5,
        _ => 0.02,
    }
}

/// Runs each experiment fused and in place, where the library refuses `what`: how the numbers compare is up to `compare`. Where
/// kernels of our own run, a fused run `tells` so, once.
fn compared(name: &str, what: &str, compare: impl Fn(&Experiment, &[f64], &[f64]), tells: bool) {
    compared_of(&drawn(), name, what, compare, tells);
}

/// The same of these experiments.
fn compared_of(
    experiments: &[Experiment],
    name: &str,
    what: &str,
    compare: impl Fn(&Experiment, &[f64], &[f64]),
    tells: bool,
) {
    heard_on_card(name, &[(REFUSES, what)], |card| {
        for in_place in experiments {
            let mut fused = in_place.clone();
            preset::set(&mut fused, "execution=fused").expect("a setting");
            let (numbers, summary, warnings) = run(card, &fused);
            let (wanted, _, none) = run(card, in_place);
            assert_eq!(none, Vec::<String>::new(), "{in_place:?}");
            assert_eq!(warnings.len(), usize::from(tells), "{what}: {warnings:?}, {fused:?}");
            assert!(warnings.iter().all(|warning| warning.contains("cuBLASLt")), "{warnings:?}");
            assert_eq!(summary.measured.live, summary.predicted.live, "{what}: {fused:?}");
            assert_eq!(summary.measured.reserved, summary.predicted.reserved, "{what}: {fused:?}");
            assert!(summary.measured.process <= summary.predicted.process, "{what}: {summary:?}");
            assert!(summary.graphs.is_some(), "{what}: {fused:?}");
            assert_eq!(numbers.len(), wanted.len());
            compare(&fused, &numbers, &wanted);
        }
    });
}

/// The same but for roundings.
fn close(experiment: &Experiment, numbers: &[f64], wanted: &[f64]) {
    for (number, wanted) in numbers.iter().zip(wanted) {
        let apart = (number - wanted).abs() / wanted.abs();
        assert!(apart <= rounding(experiment), "{number}, not {wanted}: {experiment:?}");
    }
}

/// The same to the last bit.
fn equal(experiment: &Experiment, numbers: &[f64], wanted: &[f64]) {
    assert_eq!(numbers, wanted, "{experiment:?}");
}

#[test]
fn products_with_epilogues_come_to_the_same_losses_but_for_roundings() {
    let name = "epilogues::products_with_epilogues_come_to_the_same_losses_but_for_roundings";
    compared(name, "none", close, false);
}

#[test]
fn a_run_that_the_library_refuses_is_as_it_is_in_place_and_takes_the_same_memory() {
    let name = "epilogues::a_run_that_the_library_refuses_is_as_it_is_in_place_and_takes_the_same_memory";
    // One refusal leads to the same kernels as another.
    let drawn = drawn();
    for (what, experiments) in [("create", &drawn[..1]), ("heuristic", &drawn), ("call", &drawn[..2])] {
        compared_of(experiments, name, what, equal, true);
    }
}

#[test]
fn a_library_that_serves_some_products_is_used_for_these() {
    let name = "epilogues::a_library_that_serves_some_products_is_used_for_these";
    compared(name, "gelu", close, true);
}

/// GPT-2 with a vocabulary that is no multiple of 64, in what treats its logits apart.
fn with_a_long_row() -> Vec<Experiment> {
    let few = ["model.depth=1", "data.vocabulary=1031", "run.steps=4", "run.evaluate_every=2", "optimizer.clip_norm=1"];
    let of = |changes: &[&str]| gpt2(&[&few[..], changes].concat());
    vec![
        of(&["precision=f32"]),
        of(&["precision=bf16-mixed"]),
        of(&["precision=f16-mixed", "loss_chunk=5"]),
        of(&["precision=bf16", "model.tied=false", "batch.accumulation=2"]),
        of(&["precision=f32", "checkpointing=blocks", "loss_chunk=7", "batch.accumulation=2"]),
        of(&["precision=f32", "optimizer.update=in-backward", "optimizer.clip_norm=0"]),
    ]
}

#[test]
fn rows_behind_a_vocabulary_change_no_loss_by_a_bit_and_their_memory_is_predicted() {
    let name = "epilogues::rows_behind_a_vocabulary_change_no_loss_by_a_bit_and_their_memory_is_predicted";
    compared_of(&with_a_long_row(), name, "create", equal, true);
}

/// The first experiment, whose library refuses each call behind the first `served`.
fn refused_after(name: &str, served: usize) {
    compared_of(&drawn()[..1], name, &format!("after:{served}"), close, true);
}

// With two micro-batches, a step has 28 of them: so it is in the first, in the second, and as graphs are made.
#[test]
fn a_gradient_to_be_added_that_is_refused_later_is_added_once() {
    let name = "epilogues::a_gradient_to_be_added_that_is_refused_later_is_added_once";
    for served in [20, 40, 68, 75] {
        compared_of(&drawn()[5..6], name, &format!("after:{served}"), close, true);
    }
}

// A step has 14 such products. The first queues each at once, the second one after the other, the third as a graph.
#[test]
fn a_product_that_is_refused_as_a_step_is_queued_costs_no_step() {
    refused_after("epilogues::a_product_that_is_refused_as_a_step_is_queued_costs_no_step", 20);
}

#[test]
fn a_product_that_is_refused_as_a_graph_is_made_costs_no_step_and_no_graph() {
    refused_after("epilogues::a_product_that_is_refused_as_a_graph_is_made_costs_no_step_and_no_graph", 34);
}

#[test]
fn a_product_that_is_refused_as_a_graph_changes_costs_no_step_and_no_graph() {
    refused_after("epilogues::a_product_that_is_refused_as_a_graph_changes_costs_no_step_and_no_graph", 44);
}

/// What a fused step of GPT-2 small launches where the library refuses this: how many, and of each name.
fn of_gpt2(name: &str, what: &str, more: &[&str]) -> Option<(usize, impl Fn(&str) -> usize)> {
    // A pool that gives back makes no graphs, so each launch is told.
    let changes = [&["execution=fused", "gpu.pool=give-back"], more].concat();
    let launches = launched_by_a_step(name, &[(REFUSES, what)], &changes)?;
    let all = launches.values().sum::<usize>();
    println!("{what}: {all} launches, {launches:?}");
    Some((all, move |name: &str| launches.get(name).copied().unwrap_or_default()))
}

#[test]
fn a_fused_step_of_gpt2_launches_no_kernel_for_the_bias_of_a_product() {
    let name = "epilogues::a_fused_step_of_gpt2_launches_no_kernel_for_the_bias_of_a_product";
    let Some((all, of)) = of_gpt2(name, "none", &[]) else { return };
    assert_eq!(all, 247);
    // Of a block: four gradients by weights with those by biases; queries, keys and values; GELU and its gradient.
    assert_eq!(of("matrix product with an epilogue"), 12 * (4 + 1 + 2));
    // Of a block: three gradients by inputs, and the outputs of sums. Two gradients and the logits of the classes.
    assert_eq!(of("matrix product"), 12 * (3 + 2) + 3);
    // Positions are added as a bias of a long row is.
    assert_eq!(["add", "add_bias", "bias_gradient", "bias_gelu_tanh"].map(&of), [0, 1, 1, 0]);
    assert_eq!(["gelu_tanh_gradient", "bias_gelu_tanh_gradient"].map(&of), [0; 2]);
    // The gradient of a norm, by its input and by its parameters, is one kernel; the last sum of a block is normalised with it.
    assert_eq!(["row_norm_gradients", "row_norm", "sum_row_norm"].map(&of), [25, 1, 24]);
}

#[test]
fn micro_batches_add_the_gradients_of_biases_by_the_products_as_well() {
    let name = "epilogues::micro_batches_add_the_gradients_of_biases_by_the_products_as_well";
    let Some((_, of)) = of_gpt2(name, "none", &["batch.accumulation=2"]) else { return };
    // As of one micro-batch, twice. Four gradients of a block's biases are added to those of the first, and positions are twice.
    assert_eq!(of("matrix product with an epilogue"), 2 * 12 * (4 + 1 + 2));
    assert_eq!(of("matrix product"), 2 * (12 * (3 + 2) + 3));
    assert_eq!(["add_bias", "bias_gradient"].map(&of), [2 + 12 * 4, 2]);
}

#[test]
fn a_fused_step_of_gpt2_launches_the_kernels_for_biases_that_the_library_does_not() {
    let name = "epilogues::a_fused_step_of_gpt2_launches_the_kernels_for_biases_that_the_library_does_not";
    let Some((all, of)) = of_gpt2(name, "heuristic", &[]) else { return };
    assert_eq!(all, 331);
    assert_eq!(of("matrix product with an epilogue"), 0);
    assert_eq!(of("matrix product"), 12 * (5 + 7) + 3);
    assert_eq!(["add", "add_bias", "bias_gradient", "bias_gelu_tanh"].map(&of), [0, 1 + 12, 1 + 48, 12]);
    assert_eq!(["gelu_tanh_gradient", "bias_gelu_tanh_gradient"].map(&of), [12, 0]);
}

//! How many kernels a step launches, and that those of all parameters at once come to the same losses.

use std::collections::BTreeMap;

use plimsoll_engine::Experiment;

use crate::card::{experiment, heard_on_card, on_card};

/// GPT-2 with as many blocks and parameters as the published small one, each of them small.
pub(crate) fn gpt2(changes: &[&str]) -> Experiment {
    let small = ["model.width=16", "model.heads=2", "model.hidden=32", "data.length=8", "data.vocabulary=40"];
    let plain = ["execution=in-place", "batch.micro=2", "data.samples=40", "run.evaluate_every=1000"];
    let small = [&small[..], &plain, changes].concat();
    experiment("gpt2-rtx4060-plan", &small)
}

/// Tells the runs of a process apart in what it writes.
const MARK: &str = "a run begins";

/// What a step launches: kernels by their names, from a run of three steps and one of four. A run before them meets the card
/// first, which is then checked.
pub(crate) fn launched_by_a_step(
    name: &str,
    settings: &[(&str, &str)],
    changes: &[&str],
) -> Option<BTreeMap<String, usize>> {
    let settings = [settings, &[("PLIMSOLL_SIM_TRACE", "1")]].concat();
    let heard = heard_on_card(name, &settings, |card| {
        for steps in ["run.steps=1", "run.steps=3", "run.steps=4"] {
            eprintln!("{MARK}");
            card.calm(&gpt2(&[changes, &[steps]].concat()));
        }
    })?;
    let runs: Vec<BTreeMap<String, usize>> = heard.split(MARK).skip(2).map(launched).collect();
    let [three, four] = &runs[..] else { panic!("{} runs", runs.len()) };
    let more = |(name, count): (&String, &usize)| (name.clone(), count - three.get(name).unwrap_or(&0));
    Some(four.iter().map(more).filter(|(_, count)| *count > 0).collect())
}

/// How often each kernel ran, by its name. A stream is given copies and events as well.
fn launched(heard: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let work = heard.lines().filter(|line| line.starts_with("simulated GPU: stream "));
    let names = work.filter_map(|line| line.rsplit(": ").next());
    for name in names.filter(|name| !name.starts_with("copy ") && *name != "event") {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// What a step of [`gpt2`] launches in place.
const IN_PLACE: usize = 415;

#[test]
fn a_step_of_gpt2_updates_many_parameters_by_one_launch() {
    let name = "launches::a_step_of_gpt2_updates_many_parameters_by_one_launch";
    let Some(launches) = launched_by_a_step(name, &[], &[]) else { return };
    let of = |name: &str| launches.get(name).copied().unwrap_or_default();
    // 148 parameters, 64 by a launch; their squares by one, and the sums of these by another.
    assert_eq!(
        [of("adam"), of("sum_all_squares"), of("add_all_parts"), of("clip"), of("sum_squares")],
        [3, 1, 1, 1, 0]
    );
    assert_eq!(launches.values().sum::<usize>(), IN_PLACE, "{launches:?}");
}

#[test]
fn a_step_that_updates_layer_by_layer_launches_one_for_each_parameter() {
    let name = "launches::a_step_that_updates_layer_by_layer_launches_one_for_each_parameter";
    let changes = ["optimizer.update=in-backward", "optimizer.clip_norm=0"];
    let Some(launches) = launched_by_a_step(name, &[], &changes) else { return };
    let of = |name: &str| launches.get(name).copied().unwrap_or_default();
    assert_eq!([of("adam"), of("sum_squares"), of("sum_all_squares")], [148, 148, 0], "{launches:?}");
    // As many as above, with 296 in place of 5, one that sets the sum of squares to zero, and without the factor, for which the
    // norm is known too late.
    assert_eq!(launches.values().sum::<usize>(), IN_PLACE - 5 + 296 + 1 - 1, "{launches:?}");
}

#[test]
fn the_host_sleeps_while_it_waits() {
    let name = "launches::the_host_sleeps_while_it_waits";
    let heard = heard_on_card(name, &[("PLIMSOLL_SIM_TRACE", "1")], |card| {
        // The first run measures the card.
        for _ in 0..2 {
            eprintln!("{MARK}");
            card.calm(&experiment("mlp-digits", &["gpu.pool=release"]));
        }
    });
    let Some(heard) = heard else { return };
    let last = heard.split(MARK).last().expect("a run");
    assert!(last.contains(": event") && !last.contains("the host spins"), "a core that the loader lacks");
}

#[test]
fn updates_by_one_launch_change_no_loss_by_a_bit() {
    on_card("launches::updates_by_one_launch_change_no_loss_by_a_bit", &[], |card| {
        for kind in ["sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw", "lion"] {
            for precision in ["f32", "bf16-mixed"] {
                let [kind, precision] = [format!("optimizer.kind={kind}"), format!("precision={precision}")];
                let losses = |update: &str| {
                    let changes = [&*kind, &*precision, update, "optimizer.clip_norm=0", "model.depth=2"];
                    card.calm(&gpt2(&changes))
                };
                let updates = ["optimizer.update=after-backward", "optimizer.update=in-backward"];
                let [together, apart] = updates.map(losses);
                assert_eq!(together, apart, "{kind}, {precision}");
            }
        }
    });
}

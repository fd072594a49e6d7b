//! What the driver's monitor does not tell, tells under other names, or tells wrongly: nothing is taken for measured that is
//! not, and no context for smaller than it is.

use std::{env, fs, sync::Arc, time::Duration};

use cudarc::driver::result;
use plimsoll_engine::{
    Bytes, Experiment,
    device::Profile,
    hardware::{self, Gpu},
    train::{Command, Outcome},
};

use plimsoll_tests::is_left_out;

use crate::card::{CACHE, Card, Run, experiment, on_card};

const NAME: &str = "mlp-digits";

/// Whether the driver tells no process's memory, which a test is about.
fn is_without_processes() -> bool {
    is_left_out(&["PLIMSOLL_SIM_CONTAINER"], "what the monitor tells of a process")
}

fn finished(card: &Card, experiment: &Experiment) -> Run {
    let run = card.run(experiment);
    assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
    run
}

/// Bytes of a card that are in use, as CUDA itself counts them. There is a context then.
fn in_use(index: i32) -> Bytes {
    result::init().expect("the simulated driver starts");
    let card = result::device::get(index).expect("a card");
    // SAFETY: the card is there; its context lives as long as the process.
    unsafe { result::primary_ctx::retain(card).and_then(|context| result::ctx::set_current(context)) }
        .expect("a context");
    let (free, total) = result::mem_get_info().expect("the context is current");
    Bytes((total - free) as u64)
}

fn known(card: &Card, name: &str) -> Arc<Profile> {
    card.trainer.machine().profile(name).expect("it is here")
}

/// What the program keeps of the contexts it has seen.
fn kept() -> Vec<Option<Bytes>> {
    let cache = env::var_os(CACHE).expect("set for this process");
    let file = std::path::Path::new(&cache).join("plimsoll/gpus/measured.json");
    let text = fs::read_to_string(file).expect("the program wrote it");
    let kinds: serde_json::Map<_, _> = serde_json::from_str(&text).expect("an object");
    kinds.values().map(|kind| kind["opened"].as_str().map(|size| size.parse().expect("a size"))).collect()
}

fn gpus() -> Vec<Gpu> {
    hardware::list().gpus.expect("a list")
}

/// The driver told what this process holds, and it is known.
fn is_measured(card: &Card, name: &str, index: i32) {
    let (card, held) = (known(card, name), in_use(index));
    assert!(!card.is_estimate() && card.context == held, "{} known, {held} held", card.context);
    let [Some(opened)] = kept()[..] else { panic!("{:?}", kept()) };
    assert!(Bytes::ZERO < opened && opened <= held, "{opened} at first, {held} held");
}

/// Nothing is called measured, nothing was kept, and the context is no larger than what is allowed for.
fn is_bounded(card: &Card, name: &str, held: Bytes) {
    let card = known(card, name);
    assert!(card.is_estimate() && card.context >= held, "{} known, {held} held", card.context);
    assert!(kept().iter().all(Option::is_none), "{:?}", kept());
}

#[test]
fn without_the_monitor_a_context_stays_an_estimate() {
    // 18: another version than the driver's.
    let settings = [("PLIMSOLL_SIM_NVML_FAILS", "18"), ("PLIMSOLL_SIM_NAME", "Simulated GPU")];
    on_card("untold::without_the_monitor_a_context_stays_an_estimate", &settings, |card| {
        let run = finished(card, &experiment(NAME, &[]));
        is_bounded(card, "cuda:0", in_use(0));
        let process = run.summary.measured.process;
        assert!(process > known(card, "cuda:0").context && process <= Bytes::gib(1), "{process}");
        // CUDA shows the card all the same.
        let [gpu] = &gpus()[..] else { panic!("{:?}", gpus()) };
        assert_eq!((&gpu.index, gpu.name.as_deref(), &gpu.total), (&Ok(0), Ok("Simulated GPU"), &Ok(Bytes::gib(8))));
        assert!(gpu.used.is_err() && gpu.process.is_err(), "{gpu:?}");
    });
}

#[test]
fn a_part_of_a_card_is_measured_under_its_own_name() {
    if is_without_processes() {
        return;
    }
    let settings = [("PLIMSOLL_SIM_MIG", "1")];
    on_card("untold::a_part_of_a_card_is_measured_under_its_own_name", &settings, |card| {
        finished(card, &experiment(NAME, &[]));
        is_measured(card, "cuda:0", 0);
        // The card that it is a part of is there as well, and is not trained on.
        let gpus = gpus();
        assert_eq!(gpus.len(), 2, "{gpus:?}");
        assert_eq!((&gpus[0].index, &gpus[0].process), (&Ok(0), &Ok(in_use(0))));
        assert!(gpus[1].index.as_ref().is_err_and(|why| why.contains("MIG")), "{gpus:?}");
    });
}

#[test]
fn a_card_that_is_opened_again_holds_no_less_than_before() {
    let settings = [("PLIMSOLL_SIM_UNTOLD", "1"), ("PLIMSOLL_SIM_DEVICES", "2"), ("PLIMSOLL_SIM_CONTEXT_MIB", "900")];
    on_card("untold::a_card_that_is_opened_again_holds_no_less_than_before", &settings, |card| {
        let others = 700;
        card.others_hold(others);
        for device in ["device=cuda:0", "device=cuda:1", "device=cuda:0"] {
            let run = finished(card, &experiment(NAME, &["budget=2GiB", device]));
            let process = run.summary.measured.process;
            assert!(Bytes::mib(900) < process && process <= Bytes::gib(2), "{process} on {device}");
        }
        is_bounded(card, "cuda:0", in_use(0).saturating_sub(Bytes::mib(others)));
    });
}

#[test]
fn a_card_has_the_number_that_cuda_gives_it() {
    if is_without_processes() {
        return;
    }
    let settings =
        [("PLIMSOLL_SIM_NAME", "Simulated GPU"), ("PLIMSOLL_SIM_DEVICES", "2"), ("PLIMSOLL_SIM_HIDDEN", "1")];
    on_card("untold::a_card_has_the_number_that_cuda_gives_it", &settings, |card| {
        finished(card, &experiment(NAME, &["device=cuda:1"]));
        let gpus = gpus();
        let names: Vec<_> = gpus.iter().map(Gpu::title).collect();
        assert_eq!(names, ["GPU 0: Simulated GPU", "GPU 1: Simulated GPU B", "GPU: Simulated GPU C"]);
        let devices: Vec<_> = gpus.iter().map(|gpu| gpu.device().ok()).collect();
        assert_eq!(devices, [Some("cuda:0".to_owned()), Some("cuda:1".to_owned()), None]);
        assert!(gpus[2].index.as_ref().is_err_and(|why| why.contains("CUDA_VISIBLE_DEVICES")), "{gpus:?}");
        // The memory is that of the card that trained.
        let held: Vec<_> = gpus.iter().map(|gpu| gpu.process.clone().expect("told")).collect();
        assert_eq!(held, [Bytes::ZERO, in_use(1), Bytes::ZERO]);
    });
}

#[test]
fn a_process_that_the_driver_numbers_otherwise_is_known_as_the_only_new_one() {
    if is_without_processes() {
        return;
    }
    let settings = [("PLIMSOLL_SIM_PID", "4100000")];
    on_card("untold::a_process_that_the_driver_numbers_otherwise_is_known_as_the_only_new_one", &settings, |card| {
        finished(card, &experiment(NAME, &[]));
        is_measured(card, "cuda:0", 0);
        assert_eq!(gpus()[0].process, Ok(in_use(0)));
    });
}

#[test]
fn in_a_container_what_nobody_else_took_of_a_card_is_as_good_as_told() {
    let settings = [("PLIMSOLL_SIM_CONTAINER", "1"), ("PLIMSOLL_SIM_PID", "4100000")];
    on_card("untold::in_a_container_what_nobody_else_took_of_a_card_is_as_good_as_told", &settings, |card| {
        finished(card, &experiment(NAME, &[]));
        is_measured(card, "cuda:0", 0);
    });
}

#[test]
fn in_a_container_what_others_took_of_a_card_is_not_called_ours() {
    let settings = [("PLIMSOLL_SIM_CONTAINER", "1"), ("PLIMSOLL_SIM_PID", "4100000")];
    on_card("untold::in_a_container_what_others_took_of_a_card_is_not_called_ours", &settings, |card| {
        card.others_hold(700);
        finished(card, &experiment(NAME, &[]));
        is_bounded(card, "cuda:0", in_use(0).saturating_sub(Bytes::mib(700)));
    });
}

#[test]
fn a_monitor_that_falls_silent_in_a_run_adds_nothing_of_others() {
    on_card("untold::a_monitor_that_falls_silent_in_a_run_adds_nothing_of_others", &[], |card| {
        let experiment = experiment(NAME, &["run.steps=8"]);
        let calm = finished(card, &experiment).summary.measured.process;
        card.begin(&experiment, true);
        card.steps(2);
        card.deafen(true);
        card.others_hold(4000);
        // The next reading is due by then.
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(600));
            card.steps(1);
        }
        card.send(Command::Resume);
        let run = card.end();
        card.deafen(false);
        assert_eq!(run.summary.measured.process, calm);
    });
}

#[test]
fn a_driver_whose_lists_are_nonsense_is_not_believed() {
    let settings = [("PLIMSOLL_SIM_DRIVER", "535.54.03")];
    on_card("untold::a_driver_whose_lists_are_nonsense_is_not_believed", &settings, |card| {
        card.others_hold(700);
        finished(card, &experiment(NAME, &[]));
        is_bounded(card, "cuda:0", in_use(0).saturating_sub(Bytes::mib(700)));
        let told = &gpus()[0].process;
        assert!(told.as_ref().is_err_and(|why| why.contains("update the driver")), "{told:?}");
    });
}

//! A kernel that fails, and with it all that the process had on the GPU.

use plimsoll_engine::{Error, train::Outcome};

use crate::card::{Card, Run, experiment, on_card};

fn lost(run: &Run) -> String {
    assert!(matches!(run.outcome, Outcome::Failed(Error::DeviceLost(_))), "{:?}", run.outcome);
    let words = run.words();
    assert!(words.contains("the GPU failed") && words.contains("the next run reopens it"), "{words}");
    words
}

/// Every so many kernels one that fails, and a whole run after each.
fn each_fails(card: &Card, stride: usize, reason: &str) {
    let experiment = experiment("cnn-digits", &["run.steps=3", "batch.micro=16"]);
    let calm = card.calm(&experiment);
    let idle = card.held();
    let mut failed = 0;
    for n in (1..).step_by(stride) {
        card.fail("kernel", n);
        let run = card.run(&experiment);
        if matches!(run.outcome, Outcome::Finished) {
            break;
        }
        assert!(lost(&run).contains(reason), "the {n}th: {}", run.words());
        assert!(card.held() <= idle, "after the {n}th: {} held", card.held());
        assert_eq!(card.calm(&experiment), calm, "after the {n}th");
        assert_eq!(card.held(), idle, "after the {n}th and a whole run");
        failed += 1;
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn whichever_kernel_fails_the_next_run_is_whole() {
    on_card("lost::whichever_kernel_fails_the_next_run_is_whole", &[], |card| {
        each_fails(card, 23, "an illegal memory access was encountered");
    });
}

#[test]
fn a_launch_that_fails_is_named_as_such() {
    // 719: LAUNCH_FAILED. Every block is a mapping of its own: an access to one that is gone is seen.
    let own = [("PLIMSOLL_GUARD", "1"), ("PLIMSOLL_SIM_GUARD", "1")];
    let settings = [own[0], own[1], ("PLIMSOLL_SIM_FAULT", "719"), ("PLIMSOLL_SIM_ORDER", "first")];
    on_card("lost::a_launch_that_fails_is_named_as_such", &settings, |card| {
        each_fails(card, 41, "unspecified launch failure");
    });
}

#[test]
fn a_driver_that_waits_for_each_kernel_names_the_one_that_failed() {
    let settings = [("CUDA_LAUNCH_BLOCKING", "1")];
    on_card("lost::a_driver_that_waits_for_each_kernel_names_the_one_that_failed", &settings, |card| {
        let experiment = experiment("mlp-digits", &[]);
        let calm = card.calm(&experiment);
        let named = |n| {
            card.fail("kernel", n);
            let words = lost(&card.run(&experiment));
            assert!(words.contains("noticed at "), "{words}");
            ["launching ", "cuBLAS"].map(|who| words.contains(who))
        };
        let named: Vec<_> = (60..70).map(named).collect();
        // Ours and the library's are named, each alone.
        assert!(named.contains(&[true, false]) && named.contains(&[false, true]), "{named:?}");
        assert!(named.iter().all(|[ours, library]| ours != library), "{named:?}");
        assert_eq!(card.calm(&experiment), calm);
    });
}

#[test]
fn a_run_that_ended_before_its_fault_was_noticed_does_not_spoil_the_next() {
    let settings = [("PLIMSOLL_GUARD", "1")];
    on_card("lost::a_run_that_ended_before_its_fault_was_noticed_does_not_spoil_the_next", &settings, |card| {
        let experiment = experiment("mlp-digits", &[]);
        let calm = card.calm(&experiment);
        // The host meets the allocation before it asks what became of the kernel.
        card.fail("kernel 20\nallocation", 30);
        let run = card.run(&experiment);
        assert!(matches!(run.outcome, Outcome::Failed(Error::DeviceFull(_))), "{:?}", run.outcome);
        assert_eq!(card.calm(&experiment), calm);
    });
}

#[test]
fn a_driver_that_serves_no_more_is_said_to_need_another_start() {
    let settings = [("PLIMSOLL_SIM_STAYS_LOST", "1")];
    on_card("lost::a_driver_that_serves_no_more_is_said_to_need_another_start", &settings, |card| {
        let mut experiment = experiment("mlp-digits", &[]);
        card.calm(&experiment);
        card.fail("kernel", 60);
        lost(&card.run(&experiment));
        for _ in 0..2 {
            let words = card.run(&experiment).words();
            assert!(
                words.contains("cuda:0 failed in an earlier run") && words.contains("start the program again"),
                "{words}"
            );
        }
        experiment.device = "cpu".to_owned();
        card.calm(&experiment);
    });
}

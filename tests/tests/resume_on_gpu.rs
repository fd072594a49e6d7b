//! Going on from a checkpoint on a GPU: as on the processor, and with what lies on the card copied down part by part.
#![cfg(all(target_os = "linux", feature = "cuda"))]

#[path = "../../engine/tests/runs/resume/going_on.rs"]
mod going_on;

use plimsoll_tests::on_simulated_gpu;

/// The first family only, for the simulated GPU is slow: `PLIMSOLL_DRAWN=19` draws one of each.
const DRAWN: usize = 1;

#[test]
fn a_run_that_goes_on_is_the_run_that_was_never_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().display().to_string();
    on_simulated_gpu("a_run_that_goes_on_is_the_run_that_was_never_stopped", &[("XDG_CACHE_HOME", &cache)], || {
        going_on::is_the_run_that_was_never_stopped("cuda:0", DRAWN);
    });
}

//! The promise: a run that goes on from a checkpoint is, to the last bit, the run that was never stopped, and takes the
//! memory that was predicted; what a checkpoint takes to write is predicted too.

pub(crate) mod going_on;
mod tables;
mod texts;

use plimsoll_engine::selftest::experiments::families;

/// Of each family.
const DRAWN: usize = 2;

#[test]
fn a_run_that_goes_on_is_the_run_that_was_never_stopped() {
    going_on::is_the_run_that_was_never_stopped("cpu", DRAWN * families().count());
}

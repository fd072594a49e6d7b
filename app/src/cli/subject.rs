//! What a command line names by one word: a preset, planned here.

use std::{path::Path, sync::Arc};

use plimsoll_engine::{hardware::Machine, plan, report::Subject};

use crate::cli::choice::Choice;

/// The subject of this name: a preset file or a shipped preset, planned on `machine`, on another device where one is given.
///
/// # Errors
/// What [`Choice::resolve`] and the dry run have.
pub(super) fn named(name: &Path, device: Option<&str>, machine: &Machine) -> anyhow::Result<Subject> {
    let choice = Choice::of(name, device.map(str::to_owned));
    let plan = plan::predict(&choice.resolve(machine, |_| {})?, machine)?;
    Ok(Subject::of_plan(choice.name(), Arc::new(plan)))
}

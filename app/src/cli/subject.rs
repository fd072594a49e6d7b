//! What a command line names by one word: a preset, planned here, or a kept run.

use std::{path::Path, sync::Arc};

use plimsoll_engine::{
    experiment::shipped,
    hardware::Machine,
    plan::{self, Plan},
    report::{Kept, Subject},
};

use crate::cli::{Misuse, choice::Choice, in_store::InStore};

/// A preset or a run, to be compared or written.
pub(super) struct Named {
    /// What it is.
    pub(super) subject: Subject,
    /// Everything that is kept of it; `None` of a preset.
    pub(super) kept: Option<Kept>,
}

/// Whether a word names a preset: a file, something that looks like one, or the name of a shipped preset.
fn is_preset(name: &Path) -> bool {
    let text = name.to_string_lossy();
    let is_path = text.contains(['/', '\\']) || text.ends_with(".toml") || text.ends_with(".json") || text == "-";
    is_path || name.is_file() || shipped::find(&text).is_some()
}

/// The preset or run of this name, planned on `machine`; a preset on another device where one is given. A run that cannot be
/// planned any more, as when its data are gone, comes without a plan, with a note.
///
/// # Errors
/// A name that means neither, a preset that cannot be planned, a store that cannot be read.
pub(super) fn named(name: &Path, device: Option<&str>, in_store: &InStore, machine: &Machine) -> anyhow::Result<Named> {
    if is_preset(name) {
        let choice = Choice::of(name, device.map(str::to_owned));
        let plan = plan::predict(&choice.resolve(machine, |_| {})?, machine)?;
        return Ok(Named { subject: Subject::of_plan(choice.name(), Arc::new(plan)), kept: None });
    }
    let text = name.to_string_lossy();
    let Some(store) = in_store.existing()? else {
        anyhow::bail!(
            "`{text}` is no preset, and no runs are kept in {}; `plimsoll presets` lists the shipped presets",
            in_store.folder()?.display()
        );
    };
    let kept = Kept::read(&store, &store.find(&text)?)?;
    if device.is_some() {
        return Err(Misuse(format!("--device plans presets, and {text} is a run on {}", kept.run.device)).into());
    }
    if let Some(damage) = &kept.damage {
        eprintln!("warning: run {}: {damage}", kept.run.key);
    }
    let plan = Plan::of(&kept.experiment, machine);
    if let Err(why) = &plan {
        eprintln!("note: run {} cannot be planned here any more: {why}", kept.run.key);
    }
    Ok(Named { subject: kept.subject(plan.ok().map(Arc::new)), kept: Some(kept) })
}

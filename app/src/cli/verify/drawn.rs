//! Experiments drawn at random: as cases to measure, and as presets for other commands.

use std::{
    fs,
    path::{self, Path},
};

use anyhow::Context;
use plimsoll_engine::{
    Experiment,
    experiment::{limits::MAX_BUDGET, preset, shipped},
    selftest::experiments::{Drawn, Experiments},
};

use super::Case;

/// The first experiments of a draw for `device`, with the text, the teachers and the weights of some of them in `folder`,
/// which have to be there as long as they run.
///
/// # Errors
/// A folder that takes no file.
pub(super) fn cases(count: u32, seed: u64, device: &str, folder: &Path) -> anyhow::Result<Vec<Case>> {
    let text = folder.join("text.txt");
    fs::write(&text, shipped_text()).with_context(|| unwritable(folder))?;
    let drawn = Experiments::new(seed, device, Some(&text)).take(count as usize).enumerate();
    let case = |(i, drawn): (usize, Drawn)| {
        let drawn = drawn.with_weights_in(folder)?;
        let name = format!("{} {}", i + 1, drawn.family);
        anyhow::Ok(Case { name, experiment: drawn.experiment, seed: Some(seed) })
    };
    drawn.map(case).collect()
}

/// Writes them into a folder as presets with a budget that any run fits, and the files that some of them need.
///
/// # Errors
/// A folder or a file that cannot be written.
pub(super) fn write(folder: &Path, count: u32, seed: u64, device: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| unwritable(folder))?;
    // The presets name the files by a path that is right wherever they are opened.
    let absolute = path::absolute(folder).with_context(|| unwritable(folder))?;
    for (i, case) in cases(count, seed, device, &absolute)?.into_iter().enumerate() {
        let experiment = Experiment { budget: MAX_BUDGET, ..case.experiment };
        preset::write(folder.join(format!("{:03}.toml", i + 1)), &experiment)?;
    }
    Ok(())
}

fn unwritable(folder: &Path) -> String {
    format!("{} cannot be written to", folder.display())
}

/// The shipped presets' text, which every machine has.
fn shipped_text() -> String {
    shipped::shipped().iter().map(|(_, text)| *text).collect()
}

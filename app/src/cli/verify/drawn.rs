//! Experiments drawn at random: as cases to measure, and as presets for other commands.

use std::{
    fs,
    io::Write,
    path::{self, Path},
};

use anyhow::Context;
use plimsoll_engine::{
    Experiment,
    experiment::{limits::MAX_BUDGET, preset, shipped},
    selftest::experiments::Experiments,
};

use super::Case;

/// The first experiments of a draw for `device`; some learn `text`.
pub(super) fn cases(count: u32, seed: u64, device: &str, text: &Path) -> Vec<Case> {
    let drawn = Experiments::new(seed, device, Some(text)).take(count as usize).enumerate();
    drawn
        .map(|(i, drawn)| Case {
            name: format!("{} {}", i + 1, drawn.family),
            experiment: drawn.experiment,
            seed: Some(seed),
        })
        .collect()
}

/// Writes them into a folder as presets with a budget that any run fits, and the text that some of them learn.
///
/// # Errors
/// A folder or a file that cannot be written.
pub(super) fn write(folder: &Path, count: u32, seed: u64, device: &str) -> anyhow::Result<()> {
    let fault = || format!("{} cannot be written to", folder.display());
    fs::create_dir_all(folder).with_context(fault)?;
    // The presets name the text by a path that is right wherever they are opened.
    let text = path::absolute(folder).with_context(fault)?.join("text.txt");
    fs::write(&text, shipped_text()).with_context(fault)?;
    for (i, case) in cases(count, seed, device, &text).into_iter().enumerate() {
        let experiment = Experiment { budget: MAX_BUDGET, ..case.experiment };
        preset::write(folder.join(format!("{:03}.toml", i + 1)), &experiment)?;
    }
    Ok(())
}

/// A file of text to learn.
///
/// # Errors
/// A disk that takes no file.
pub(super) fn a_text() -> anyhow::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(shipped_text().as_bytes())?;
    Ok(file)
}

/// The shipped presets' text, which every machine has.
fn shipped_text() -> String {
    shipped::shipped().iter().map(|(_, text)| *text).collect()
}

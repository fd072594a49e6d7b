//! Presets as the window uses them: the ones that ship with the program.

use plimsoll_engine::{
    Experiment,
    experiment::{preset, shipped},
};

/// A preset that ships with the program.
#[derive(Debug, Clone)]
pub(crate) struct Shipped {
    /// Its short name, such as `mlp-digits`.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) experiment: Experiment,
}

/// The presets that ship with the program, in the order of its list.
pub(crate) fn shipped() -> Vec<Shipped> {
    let parsed = shipped::shipped().iter().filter_map(|(name, text)| {
        // The engine's tests hold every shipped preset to be readable.
        let experiment = preset::parse(text, format!("{name}.toml")).ok()?;
        Some(Shipped { name: (*name).to_owned(), experiment })
    });
    parsed.collect()
}

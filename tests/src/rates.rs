//! The rates of the processor, which every program measures whose cache has none.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use crate::simulator::target_folder;

/// Gives an empty cache (`XDG_CACHE_HOME`) the rates of the processor that programs of tests have measured before: measuring
/// them anew takes longer than most runs of these tests. They are kept in cargo's folder for products.
///
/// # Panics
/// A folder cannot be made there or in the cache.
pub fn share_rates(cache: &Path) {
    share(cache).unwrap_or_else(|error| panic!("the rates of the processor in {}: {error}", cache.display()));
}

fn share(cache: &Path) -> io::Result<()> {
    let (shared, own) = (target_folder()?.join("processor"), cache.join("plimsoll"));
    fs::create_dir_all(&shared)?;
    fs::create_dir_all(&own)?;
    symlink(shared, own.join("processor"))
}

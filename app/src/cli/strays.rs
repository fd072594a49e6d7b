//! Folders of checkpoints whose run is no longer kept, in words.

use jiff::Timestamp;
use plimsoll_engine::{Bytes, store::Stray};

use crate::{cli::age::ago, format};

/// A line for each.
pub(super) fn describe(strays: &[Stray]) -> String {
    let now = Timestamp::now();
    let line = |Stray { folder, on_disk, written }: &Stray| {
        format!("{}: checkpoints of no kept run, {on_disk}, {}\n", folder.display(), ago(*written, now))
    };
    strays.iter().map(line).collect()
}

/// How many those are, and their size on the disk.
pub(super) fn in_all(strays: &[Stray]) -> String {
    let bytes = Bytes(strays.iter().map(|stray| stray.on_disk.0).sum());
    format!("{} of no kept run, {bytes}", format::counted(strays.len() as u64, "folder"))
}

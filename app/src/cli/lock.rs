//! `plimsoll lock` and `plimsoll check`: predicted peaks written down, and a check that none rose since.

use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path, PathBuf, absolute},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use plimsoll_engine::{
    Bytes,
    plan::Plan,
    report::lock::{self, Change, Checked, Lock as LockFile, LockedPeak},
    whole_file,
};
use serde::Serialize;

use crate::cli::{Misuse, choice::Choice, complete, out, save};

/// Write down the predicted peaks of presets, to be checked later
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll lock my-preset.toml -o memory.lock
  plimsoll lock train/*.toml --device cpu --device rtx4060-8g --device t4-16g -o memory.lock
  plimsoll check memory.lock

A lock holds bytes: the peak of the run and of each phase, by category. Neither the rates nor the free memory of this
machine are in them; scratch of the processor depends on its number of threads, which the file states. A preset that is
a file, or the folder of a model, is written by its path from the lock's folder.")]
pub(super) struct Lock {
    /// Preset files, or names of shipped presets
    #[arg(required = true, value_name = "PRESET", add = complete::presets())]
    presets: Vec<PathBuf>,
    /// cpu, or a card to plan for such as rtx4060-8g; may be given more than once; without it, each preset's own
    #[arg(long = "device", value_name = "D", add = complete::devices())]
    devices: Vec<String>,
    /// The file to write, or `-` for standard output, which then has nothing else
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Write the locked peaks as one JSON object as well
    #[arg(long)]
    json: bool,
}

impl Lock {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        save::can_be_written(&self.output, self.force)?;
        save::has_folder(&self.output)?;
        let folder = folder_of(&self.output);
        let mut written = LockFile::new();
        let machine = written.machine();
        let devices: Vec<Option<&String>> =
            if self.devices.is_empty() { vec![None] } else { self.devices.iter().map(Some).collect() };
        for preset in &self.presets {
            let name = name_in(&folder, preset)?;
            // As a check names it: the length of a path to weights is among the bytes that a run keeps.
            let preset = if is_path(&name) { at(&folder, &name) } else { preset.clone() };
            for device in &devices {
                let choice = Choice::of(&preset, device.cloned());
                let resolved = choice.resolve(&machine, |_| {})?;
                lock::can_be_locked(resolved.experiment())?;
                let plan = plimsoll_engine::plan::predict(&resolved, &machine)?;
                written.peaks.push(LockedPeak::of(&name, &plan));
            }
        }
        save::write(&self.output, written.to_text().as_bytes(), self.force)?;
        if save::is_stdout(&self.output) {
            return Ok(ExitCode::SUCCESS);
        }
        if self.json {
            out::json(&written)?;
        } else {
            for LockedPeak { preset, device, bytes, .. } in &written.peaks {
                out::line(format!("{preset} on {device}: {}", Bytes(*bytes)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The folder that the paths in a lock begin at.
fn folder_of(lock: &Path) -> PathBuf {
    let parent = lock.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// The name of a preset in a lock in `folder`: a shipped one has its own name, a file or a model's folder its path from
/// there, which has a slash.
fn name_in(folder: &Path, preset: &Path) -> anyhow::Result<String> {
    let shown = preset.display();
    let text = preset.to_str().with_context(|| format!("{shown}: a lock is text, and this path is not UTF-8"))?;
    if text == "-" {
        return Err(
            Misuse("a lock names files and shipped presets, which can be read again: `-` cannot".to_owned()).into()
        );
    }
    let is_shipped = plimsoll_engine::experiment::shipped::shipped().iter().any(|(name, _)| *name == text);
    if !preset.is_file() && (is_shipped || !preset.is_dir()) {
        return Ok(text.to_owned());
    }
    let path = |path: &Path| absolute(path).and_then(|path| path.canonicalize().or(Ok(path)));
    let (from, to) = (path(folder)?, path(preset)?);
    Ok(relative(&from, &to).replace('\\', "/"))
}

/// Whether a lock's name of a preset is a path.
fn is_path(name: &str) -> bool {
    name.contains(['/', '\\'])
}

/// The way from a folder to a file, both without `..` in them; the file itself if there is none.
fn relative(from: &Path, to: &Path) -> String {
    let (from, to_parts): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to_parts).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return to.to_string_lossy().into_owned();
    }
    let up = from.len() - shared;
    let start = if up == 0 { PathBuf::from(".") } else { std::iter::repeat_n("..", up).collect() };
    start.join(to_parts[shared..].iter().collect::<PathBuf>()).to_string_lossy().into_owned()
}

/// The exit status if nothing could be checked, so that it is not taken for a peak that rose.
const UNCHECKED: u8 = 3;

/// Check whether a predicted peak rose since it was written down
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll check memory.lock
  plimsoll check memory.lock --allow 1
  plimsoll check memory.lock --json | jq '.peaks[] | select(.rose)'
  git show main:memory.lock | plimsoll check -

Exit status 0 when no peak rose, 1 when one did, the peak of a phase included, 2 for misuse of the command line, and 3 when
it could not be checked: a lock or a preset that cannot be read or planned. A peak that fell is reported; `plimsoll lock`
records it.")]
pub(super) struct Check {
    /// A file that `plimsoll lock` wrote, or `-` for standard input, whose paths begin here
    #[arg(add = complete::locks())]
    lock: PathBuf,
    /// Allow a rise of up to this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    allow: f64,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.0..=1e6).contains(&value) { Ok(value) } else { Err("write a number of percent from 0 up".to_owned()) }
}

#[derive(Serialize)]
struct Json<'a> {
    rose: bool,
    /// The version that wrote the lock.
    locked_by: &'a str,
    version: &'static str,
    peaks: &'a [Checked],
}

impl Check {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.check().or_else(|error| {
            if super::is_closed_pipe(&error) {
                return Err(error);
            }
            out::say("error", &format!("{error:#}"));
            Ok(ExitCode::from(UNCHECKED))
        })
    }

    fn check(&self) -> anyhow::Result<ExitCode> {
        let lock = self.read()?;
        let (machine, folder) = (lock.machine(), folder_of(&self.lock));
        let mut checked = Vec::new();
        for locked in &lock.peaks {
            let preset =
                if is_path(&locked.preset) { at(&folder, &locked.preset) } else { PathBuf::from(&locked.preset) };
            let what = || format!("{}: {} on {}", self.lock.display(), locked.preset, locked.device);
            let resolved = Choice::of(&preset, Some(locked.device.clone())).resolve(&machine, |_| {});
            let resolved = resolved.with_context(what)?;
            let plan: Plan = plimsoll_engine::plan::predict(&resolved, &machine).with_context(what)?;
            checked.push(lock::check(locked, &LockedPeak::of(&locked.preset, &plan), self.allow));
        }
        let rose = checked.iter().any(|checked| checked.rose);
        if self.json {
            let version = env!("CARGO_PKG_VERSION");
            out::json(&Json { rose, locked_by: lock.program(), version, peaks: &checked })?;
        } else {
            out::text(&checked.iter().map(words).collect::<String>())?;
        }
        Ok(if rose { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn read(&self) -> anyhow::Result<LockFile> {
        if save::is_stdout(&self.lock) {
            return parsed(io::stdin().lock(), Path::new("standard input"));
        }
        let shown = self.lock.display();
        let unreadable = |error: io::Error| anyhow::anyhow!("{shown}: cannot be read: {}", whole_file::reason(&error));
        let about = self.lock.metadata().map_err(unreadable)?;
        anyhow::ensure!(!about.is_dir(), "{shown}: is a folder; name a lock in it");
        // Opening a pipe would wait for a writer.
        anyhow::ensure!(
            about.is_file(),
            "{shown}: is a pipe or a device, not a file; write `-` to read a lock from standard input"
        );
        parsed(File::open(&self.lock).map_err(unreadable)?, &self.lock)
    }
}

/// Reads a lock; `path` is for messages.
fn parsed(from: impl Read, path: &Path) -> anyhow::Result<LockFile> {
    let mut text = String::new();
    let read = from.take(lock::MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => {
            anyhow::anyhow!(
                "{}: is not UTF-8 text, so it is not a lock; name a file that `plimsoll lock` wrote",
                path.display()
            )
        }
        _ => anyhow::anyhow!("{}: cannot be read: {}", path.display(), whole_file::reason(&error)),
    })?;
    Ok(LockFile::parse(&text, path)?)
}

/// The file that a lock in `folder` calls by this path.
fn at(folder: &Path, preset: &str) -> PathBuf {
    match preset.strip_prefix("./") {
        Some(rest) if folder != Path::new(".") => folder.join(rest),
        // A path begins with its folder, so that it is not the name of a shipped preset.
        Some(_) => PathBuf::from(preset),
        None => folder.join(preset),
    }
}

/// The result for a peak: a line, and more lines if it rose.
fn words(checked: &Checked) -> String {
    let Checked { preset, device, peak, .. } = checked;
    let now = Bytes(peak.bytes);
    let mut text = match (checked.rose, peak.locked_bytes == peak.bytes) {
        (false, true) => format!("{preset} on {device}: {now}, as it was\n"),
        (false, false) => format!("{preset} on {device}: {now}, {} since it was locked\n", peak.words()),
        (true, _) if peak.bytes > peak.locked_bytes => {
            format!("{preset} on {device}: rose: the peak is {now}, {}\n", risen(peak))
        }
        (true, _) => format!("{preset} on {device}: a phase rose, and the peak is {now}, {}\n", peak.words()),
    };
    for (name, change) in &checked.categories {
        text.push_str(&format!("  {name} {} to {}\n", change.words(), Bytes(change.bytes)));
    }
    for phase in checked.phases.iter().filter(|phase| phase.rose) {
        let (name, peak) = (&phase.name, &phase.peak);
        text.push_str(&format!(
            "  {name}: {} alive, {}, in {}, {}\n",
            Bytes(peak.bytes),
            risen(peak),
            phase.layer,
            phase.op
        ));
        let categories = phase.categories.iter().map(|(name, change)| format!("{name} {}", change.words()));
        let categories = categories.collect::<Vec<_>>().join(", ");
        if !categories.is_empty() {
            text.push_str(&format!("    {categories}\n"));
        }
    }
    for phase in checked.phases.iter().filter(|phase| phase.peak.locked_bytes == 0) {
        text.push_str(&format!("  {}: {} alive; was not locked\n", phase.name, Bytes(phase.peak.bytes)));
    }
    text
}

/// The rise in words: `+12.0 KiB (+3.1%)`.
fn risen(change: &Change) -> String {
    let share = (change.bytes as f64 / change.locked_bytes.max(1) as f64 - 1.0) * 100.0;
    format!("{} ({share:+.1}%)", change.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_from_the_folder_of_its_lock() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(way("/a/b", "/a/b/c.toml"), "./c.toml");
        assert_eq!(way("/a/b/ci", "/a/b/presets/c.toml"), "../presets/c.toml");
        assert_eq!(way("/x/y", "/a/c.toml"), "../../a/c.toml");
        let shown = |folder: &str, preset: &str| at(Path::new(folder), preset).display().to_string();
        assert_eq!([shown(".", "./c.toml"), shown("a", "./c.toml")], ["./c.toml", "a/c.toml"]);
        assert_eq!([shown(".", "../c.toml"), shown("a", "../c.toml")], ["./../c.toml", "a/../c.toml"]);
        assert_eq!(name_in(Path::new("."), Path::new("cnn-digits")).expect("a name"), "cnn-digits");
        assert!(name_in(Path::new("."), Path::new("-")).is_err());
    }
}

//! The output on stdout, and the output on stderr in addition.
//!
//! Always holds: text for people has no control characters that came with a name or a title. JSON and files are as they are.

use std::io::{self, Write};

use serde::Serialize;

use crate::cli::plain;

/// Writes one JSON object on a line of its own, at once.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    write(&line)
}

/// Writes text.
pub(super) fn text(text: &str) -> anyhow::Result<()> {
    write(plain::text(text).as_bytes())
}

/// Writes bytes as they are.
pub(super) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    write(bytes)
}

/// Writes a line.
pub(super) fn line(line: impl AsRef<str>) -> anyhow::Result<()> {
    text(&format!("{}\n", line.as_ref()))
}

/// Says something on stderr, such as `warning: the disk is full`. When stderr is closed, it is lost.
pub(super) fn say(what: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{what}: {}", plain::message(text));
}

fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        // The reader has closed it, which is not an error.
        io::ErrorKind::BrokenPipe => error.into(),
        _ => anyhow::anyhow!("standard output cannot be written: {error}; send it where there is room for it"),
    })
}

//! A run whose events can no longer be written: its reader has gone, or the disk that its output goes to is full.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use plimsoll_engine::store::RunKey;

use crate::cli::is_closed_pipe;

/// The exit status if the reader has gone: that of SIGPIPE, by which other programs then end.
const NO_READER: u8 = 128 + 13;

/// Says that the run ended for `failure` after this many steps, and how the run that was `saved` goes on; returns the exit
/// status.
///
/// # Errors
/// Why the output could not be written, unless its reader has gone.
pub(super) fn tell(
    failure: anyhow::Error,
    steps: u64,
    saved: Option<&RunKey>,
    is_quiet: bool,
) -> anyhow::Result<ExitCode> {
    let goes_on = saved.map(|key| format!("; `plimsoll resume {key}` goes on with it")).unwrap_or_default();
    let came = format!("the run was ended after step {steps}{goes_on}");
    anyhow::ensure!(is_closed_pipe(&failure), "{failure:#}; {came}");
    if !is_quiet {
        // Who closed stdout may have closed stderr as well.
        let _ = writeln!(io::stderr(), "standard output has no reader any more, so {came}");
    }
    Ok(ExitCode::from(NO_READER))
}

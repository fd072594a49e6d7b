//! `plimsoll completions`: the script that makes a shell complete.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::cli::{complete, out};

/// Write the script that makes a shell complete commands, options, presets and kept runs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll completions bash > ~/.local/share/bash-completion/completions/plimsoll
  plimsoll completions zsh > ~/.zfunc/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish

The shell then asks this program for presets and runs as they are at that moment. Write the file again after an update.")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        out::bytes(&complete::script(self.shell)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

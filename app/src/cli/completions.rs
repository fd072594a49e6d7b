//! `plimsoll completions`: what a shell completes.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::out;

/// Write the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll completions bash > ~/.local/share/bash-completion/completions/plimsoll
  plimsoll completions zsh > ~/.zfunc/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, mut command: Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "plimsoll", &mut script);
        out::bytes(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

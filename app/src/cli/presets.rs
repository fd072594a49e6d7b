//! `plimsoll presets`: the presets that ship with the program.

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::experiment::{ModelKind, shipped};
use serde::Serialize;

use crate::cli::{out, table::Table};

/// List the presets that ship with the program
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll presets
  plimsoll presets --json | jq -r .name")]
pub(super) struct Presets {
    /// Write a JSON object a line, one for each preset
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    title: &'a str,
    description: &'a str,
    model: ModelKind,
    device: &'a str,
    budget_bytes: u64,
}

impl Presets {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut table = Table::new(["name", "title"]);
        for (name, _) in shipped::shipped() {
            let Some(experiment) = shipped::find(name).transpose()? else { continue };
            if self.json {
                out::json(&Row {
                    name,
                    title: &experiment.title,
                    description: &experiment.description,
                    model: experiment.model.kind,
                    device: &experiment.device,
                    budget_bytes: experiment.budget.0,
                })?;
            } else {
                table.row([(*name).to_owned(), experiment.title]);
            }
        }
        if !self.json {
            out::text(&table.to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

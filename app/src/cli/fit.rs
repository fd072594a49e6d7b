//! `plimsoll fit`: the configurations that fit a budget, fastest first.

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::{
    experiment::{Batch, Precision},
    plan::{self, Advice, Peak},
};
use serde::Serialize;

use crate::cli::{
    choice::Choice,
    out,
    plan::{changes, percent},
    table::Table,
};

/// Find the configurations with the same effective batch that fit a budget, fastest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll fit cnn-shapes --budget 16MiB
  plimsoll fit cnn-shapes --budget 16MiB --json | jq '.candidates[0].set'

Exit status 1 when nothing fits.")]
pub(super) struct Fit {
    #[command(flatten)]
    choice: Choice,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    preset: &'a str,
    budget_bytes: u64,
    fits: bool,
    peak: Peak,
    step_secs: f64,
    candidates: Vec<Candidate<'a>>,
    /// The largest micro-batch that fits, when it is another; its time ratio is that of a sample.
    fill: Option<Candidate<'a>>,
}

#[derive(Serialize)]
struct Candidate<'a> {
    change: &'a str,
    peak_bytes: u64,
    step_secs: f64,
    time_ratio: f64,
    micro: usize,
    accumulation: usize,
    precision: Precision,
    checkpointing: String,
    /// For `--set`, to run it.
    set: [String; 4],
}

impl<'a> Candidate<'a> {
    fn new(advice: &'a Advice) -> Self {
        let e = &advice.experiment;
        Self {
            change: &advice.change,
            peak_bytes: advice.peak.0,
            step_secs: advice.step_secs,
            time_ratio: advice.time_ratio,
            micro: e.batch.micro,
            accumulation: e.batch.accumulation,
            precision: e.precision,
            checkpointing: e.checkpointing.to_string(),
            set: [
                format!("batch.micro={}", e.batch.micro),
                format!("batch.accumulation={}", e.batch.accumulation),
                format!("precision={}", e.precision.key()),
                format!("checkpointing={}", e.checkpointing),
            ],
        }
    }
}

impl Fit {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let experiment = self.choice.experiment(|_| {})?;
        let plan = plan::predict(&experiment)?;
        let found = plan::fit(&plan, plan.budget)?;
        let fill = plan::fill(&plan)?;
        if self.json {
            out::json(&Json {
                preset: self.choice.name(),
                budget_bytes: plan.budget.0,
                fits: plan.fits(),
                peak: plan.peak,
                step_secs: plan.step_secs,
                candidates: found.iter().map(Candidate::new).collect(),
                fill: fill.as_ref().map(Candidate::new),
            })?;
        } else {
            out::text(&describe(&plan, &found, fill.as_ref()))?;
        }
        if found.is_empty() {
            anyhow::bail!(
                "nothing with an effective batch of {} fits in {}",
                plan.experiment.batch.effective(),
                plan.budget
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn describe(plan: &plan::Plan, found: &[Advice], fill: Option<&Advice>) -> String {
    let verdict = if plan.fits() { "which fits" } else { "which does not fit" };
    let text = format!(
        "As it is, the run takes {} of {}, {verdict}, at about {:.1} ms a step.\n",
        plan.load(),
        plan.budget,
        plan.step_secs * 1e3
    );
    let fill = fill.map(|advice| {
        let Batch { micro, accumulation } = &advice.experiment.batch;
        let (peak, time) = (advice.peak, percent(advice.time_ratio));
        format!("The largest micro-batch that fits is {micro} x {accumulation}: {peak}, {time} time a sample.\n")
    });
    let fill = fill.unwrap_or_default();
    if found.is_empty() {
        return text + &changes(found) + &fill;
    }
    let mut table = Table::new(["micro-batch", "precision", "checkpointing", "peak", "of the line", "time"]).words(3);
    for advice in found {
        let e = &advice.experiment;
        table.row([
            format!("{} x {}", e.batch.micro, e.batch.accumulation),
            e.precision.key().to_owned(),
            e.checkpointing.to_string(),
            advice.peak.to_string(),
            format!("{:.0}%", advice.peak.0 as f64 / plan.budget.0.max(1) as f64 * 100.0),
            percent(advice.time_ratio),
        ]);
    }
    text + &format!("\n{table}\n{fill}")
}

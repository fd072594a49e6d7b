//! `plimsoll selftest`: the check that a device's results are right and its memory is as predicted.

use std::{ops::ControlFlow, process::ExitCode, time::Instant};

use clap::Args;
use plimsoll_engine::{
    memory::probe::uncounted,
    selftest::{self, Check, Choice, cases::Extent},
};
use serde::Serialize;

use crate::{
    cli::{Misuse, out, provenance::Provenance, seed},
    format,
};

/// Check a device: every kernel, gradients, memory and small runs
#[derive(Debug, Args)]
#[command(after_help = "\
Kernels are compared with the CPU in f64, gradients with finite differences, allocations with the dry run. Every check
is a line: its name, what was compared, the largest difference and what was allowed there, and the seconds.
The numbers differ from run to run; the same seed gives the same numbers.

Examples:
  plimsoll selftest
  plimsoll selftest --only matmul --only kernel/bf16
  plimsoll selftest --quick --json
  plimsoll selftest --device cuda:0

Exit status 1 when a check fails.")]
pub(super) struct Selftest {
    /// The device that is checked: cpu, or a GPU by its number, such as cuda:0
    #[arg(long, value_name = "D", default_value = "cpu")]
    device: String,
    /// Only checks whose names contain this; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Fewer sizes of everything: for a device that is slow, or simulated
    #[arg(long)]
    quick: bool,
    /// Seed of the random numbers
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write a JSON object a line: one for each check, then the summary
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    provenance: Provenance,
    seed: u64,
    checks: usize,
    failed: usize,
    secs: f64,
}

impl Selftest {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let seed = self.seed.unwrap_or_else(seed::fresh);
        let extent = if self.quick { Extent::Quick } else { Extent::Whole };
        let choice = Choice { seed, extent, only: self.only.clone() };
        let mut summary = Summary { provenance: Provenance::now(&self.device), seed, checks: 0, failed: 0, secs: 0.0 };
        let start = Instant::now();
        let mut written = Ok(());
        let mut report = |check: Check| {
            summary.checks += 1;
            summary.failed += usize::from(!check.ok);
            written = uncounted(|| if self.json { out::json(&check) } else { out::line(describe(&check)) });
            // The rest is not read.
            if written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        selftest::run_on(&self.device, &choice, &mut report)?;
        written?;
        if summary.checks == 0 {
            return Err(Misuse(format!("no check has {} in its name", self.only.join(" or "))).into());
        }
        summary.secs = start.elapsed().as_secs_f64();
        if self.json {
            out::json(&summary)?;
        } else {
            let Summary { seed, checks, failed, secs, .. } = &summary;
            let checks = format::counted(*checks as u64, "check");
            out::line(format!("{}: {checks}, {failed} failed, in {secs:.1} s (seed {seed})", self.device))?;
        }
        Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn describe(check: &Check) -> String {
    let Check { name, worst_error, tolerance, secs, compared, .. } = check;
    let is_exact = *worst_error == 0.0 && *tolerance == 0.0;
    let numbers = if is_exact { "exact".to_owned() } else { format!("{worst_error:.1e} of {tolerance:.1e}") };
    match &check.fault {
        None => format!("{name:<38} ok      {numbers:<20} {secs:>6.2} s  {compared}"),
        Some(fault) => format!("{name:<38} FAILED  {numbers:<20} {secs:>6.2} s  {fault}"),
    }
}

//! `plimsoll verify`: predicted memory against measured memory, preset by preset.

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::{
    Bytes, Experiment,
    device::{self, Figure, Target, target},
    experiment::{check::MAX_BUDGET, shipped},
    plan::{self, Peak, Plan},
    train::Trainer,
};
use serde::Serialize;

use crate::cli::{out, run, table::Table};

/// What the prediction may be above the measurement beside 1%: room for what happens inside one op.
const ALLOWANCE: Bytes = Bytes::kib(128);
/// What the prediction may be above the measurement, as a share of it.
const TOLERANCE: f64 = 0.01;
/// The same of what a GPU's pool holds from the device, and of the process there.
const TOLERANCE_HELD: f64 = 0.03;

/// What would train longer than this is planned only.
const LONGEST_SECS: f64 = 300.0;

/// Train each preset for a few steps and compare predicted memory with measured memory
#[derive(Debug, Args)]
#[command(after_help = "\
A prediction is right when the live peak is never below the measured one, and above it by at most 1% and 128 KiB. Of
the process, which holds the window's and the system's parts as well, the prediction is a bound from experience.
On a GPU, live is what the memory pool has handed out; what it holds from the device, and the process as the driver
tells it, may be above the measured by at most 3%, and never below.
The line is lifted for the measurement, so that presets that do not fit are measured as well. What this machine has no
memory for, or would take minutes for, is planned and skipped, and it is said why.

Examples:
  plimsoll verify
  plimsoll verify cnn-digits my-preset.toml --json
  plimsoll verify --device cuda:0

Exit status 1 when a prediction is wrong.")]
pub(super) struct Verify {
    /// Preset files or names of shipped presets; all shipped ones when none is given
    presets: Vec<String>,
    /// Where they run: cpu, or a GPU that is here, such as cuda:0
    #[arg(long, value_name = "D", default_value = "cpu")]
    device: String,
    /// Optimizer steps of each
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    steps: u64,
    /// Write a JSON object a line, one for each preset
    #[arg(long)]
    json: bool,
}

/// A preset that this machine cannot train, or not in good time.
#[derive(Serialize)]
struct Skipped<'a> {
    name: &'a str,
    predicted: Peak,
    skipped: &'a str,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    predicted: Peak,
    measured: Peak,
    difference_bytes: i64,
    difference_percent: f64,
    ok: bool,
}

impl<'a> Row<'a> {
    fn new(name: &'a str, predicted: Peak, measured: Peak) -> Self {
        let (said, seen) = (predicted.live.0 as i64, measured.live.0 as i64);
        let difference_bytes = said - seen;
        Self {
            name,
            predicted,
            measured,
            difference_bytes,
            difference_percent: difference_bytes as f64 / seen.max(1) as f64 * 100.0,
            ok: is_right(predicted.live, measured.live),
        }
    }

    /// The same on a GPU, where pool and process are the driver's own figures.
    fn on_gpu(name: &'a str, predicted: Peak, measured: Peak) -> Self {
        let row = Self::new(name, predicted, measured);
        let is_held = is_within(predicted.reserved, measured.reserved, TOLERANCE_HELD)
            && is_within(predicted.process, measured.process, TOLERANCE_HELD);
        Self { ok: row.ok && is_held, ..row }
    }
}

/// Never below, and above by no more than a share.
fn is_within(predicted: Bytes, measured: Bytes, share: f64) -> bool {
    measured > Bytes::ZERO && predicted >= measured && predicted.0 as f64 <= measured.0 as f64 * (1.0 + share)
}

/// Never below, and above by no more than is stated. Nothing measured is no measurement.
fn is_right(predicted: Bytes, measured: Bytes) -> bool {
    let most = measured.0 as f64 * (1.0 + TOLERANCE) + ALLOWANCE.0 as f64;
    measured > Bytes::ZERO && predicted >= measured && predicted.0 as f64 <= most
}

impl Verify {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let all = || shipped::shipped().iter().map(|(name, _)| *name).collect();
        let names: Vec<&str> =
            if self.presets.is_empty() { all() } else { self.presets.iter().map(String::as_str).collect() };
        // Everything is read before anything runs.
        let presets = names.iter().map(|name| Ok((*name, shipped::open(name)?))).collect::<anyhow::Result<Vec<_>>>()?;
        let trainer = Trainer::new(|| {});
        let mut table =
            Table::new(["preset", "predicted", "measured", "above by", "percent", "reserved", "process", "verdict"]);
        let (mut wrong, mut skipped) = (Vec::new(), Vec::new());
        let target = Target::of(&self.device)?;
        let free = match &target {
            Target::Cpu { .. } => device::list().cpu.available,
            Target::Gpu(profile) => Ok(profile.capacity),
        };
        if let (Target::Gpu(_), Some((name, experiment))) = (&target, presets.first()) {
            // The first run on a GPU loads kernels, for which its plan allows; from then on they are known.
            run::record(&trainer, name, self.shortened(experiment.clone())?.0)?;
        }
        for (name, experiment) in presets {
            let (experiment, plan) = self.shortened(experiment)?;
            if let Some(reason) = too_large(&plan, self.steps, &free) {
                if self.json {
                    out::json(&Skipped { name, predicted: plan.peak, skipped: &reason })?;
                } else {
                    table.row(unmeasured(name, &plan));
                    skipped.push(format!("{name} is planned and not trained: {reason}\n"));
                }
                continue;
            }
            let record = run::record(&trainer, name, experiment)?;
            let (predicted, measured) = (record.summary.predicted, record.summary.measured);
            let row = if target.is_gpu() {
                Row::on_gpu(name, predicted, measured)
            } else {
                Row::new(name, predicted, measured)
            };
            if !row.ok {
                wrong.push(name);
            }
            if self.json {
                out::json(&row)?;
            } else {
                table.row(cells(&row));
            }
        }
        if !self.json {
            out::text(&format!("{table}{}", skipped.concat()))?;
        }
        if wrong.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        anyhow::bail!("the prediction is wrong for {}", wrong.join(", "))
    }

    /// The run that is measured: a few steps, and no line in their way.
    fn shortened(&self, mut experiment: Experiment) -> anyhow::Result<(Experiment, Plan)> {
        (experiment.run.steps, experiment.run.epochs) = (Some(self.steps), None);
        experiment.device.clone_from(&self.device);
        experiment.budget = MAX_BUDGET;
        let plan = plan::predict(&experiment)?;
        Ok((experiment, plan))
    }
}

/// Why a plan is not trained on this machine, if it is not.
fn too_large(plan: &Plan, steps: u64, free: &Figure<Bytes>) -> Option<String> {
    if let Some(problem) = target::not_trained_on(&plan.experiment.device) {
        return Some(problem.message);
    }
    if let Ok(free) = free
        && plan.peak.process > *free
    {
        return Some(format!("it takes {} and this machine has {free} free", plan.peak.process));
    }
    let secs = plan.step_secs * steps as f64;
    (secs > LONGEST_SECS).then(|| format!("{steps} steps would take this machine about {:.0} minutes", secs / 60.0))
}

fn unmeasured(name: &str, plan: &Plan) -> [String; 8] {
    let none = || "-".to_owned();
    let (live, reserved) = (plan.peak.live.to_string(), plan.peak.reserved.to_string());
    [name.to_owned(), live, none(), none(), none(), reserved, plan.peak.process.to_string(), "skipped".to_owned()]
}

fn cells(row: &Row<'_>) -> [String; 8] {
    [
        row.name.to_owned(),
        row.predicted.live.to_string(),
        row.measured.live.to_string(),
        row.predicted.live.difference(row.measured.live),
        format!("{:+.2}%", row.difference_percent),
        format!("{} / {}", row.predicted.reserved, row.measured.reserved),
        format!("{} / {}", row.predicted.process, row.measured.process),
        if row.ok { "right" } else { "WRONG" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_below_the_measurement_is_wrong_however_close() {
        assert!(!is_right(Bytes::mib(100) - Bytes(1), Bytes::mib(100)));
        assert!(is_right(Bytes::mib(100), Bytes::mib(100)));
        assert!(is_right(Bytes::mib(101), Bytes::mib(100)));
        assert!(!is_right(Bytes::mib(102), Bytes::mib(100)));
        assert!(!is_right(Bytes(0), Bytes(0)));
    }
}

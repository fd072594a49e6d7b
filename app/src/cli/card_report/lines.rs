//! Runs with not a byte more than they are predicted to take, by every policy of the pool: the plan allowed them, so none may
//! be refused, and none may cross its line.

use std::process::ExitCode;

use plimsoll_engine::{
    Bytes,
    experiment::{PoolPolicy, limits::MAX_BUDGET, shipped},
    plan::Plan,
    train::Trainer,
};
use serde::Serialize;

use crate::cli::{interrupt::Interrupt, out, run};

const PRESETS: [&str; 4] = ["cnn-shapes", "resnet18-shapes", "gpt-long", "cnn-shapes-bf16"];
/// Steps of each run.
const STEPS: u64 = 40;

/// Bytes of a line above the run that it is drawn for, if a pool takes the whole line at its start.
const ABOVE: Bytes = Bytes::mib(64);

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    budget_bytes: u64,
    /// The most bytes of the process; `None` if the run was refused.
    process_bytes: Option<u64>,
    ok: bool,
    /// Why it was refused.
    fault: Option<String>,
}

/// Runs them all, a row each.
pub(super) fn run(device: &str, quick: bool) -> anyhow::Result<ExitCode> {
    let (trainer, interrupt) = (Trainer::new(|| {}), Interrupt::listen()?);
    let presets: &[&str] = if quick { &["mlp-digits"] } else { &PRESETS };
    let mut ok = true;
    for preset in presets {
        for policy in PoolPolicy::ALL {
            let row = one(&trainer, device, preset, policy, &interrupt)?;
            ok &= row.ok;
            out::json(&row)?;
        }
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn one(
    trainer: &Trainer,
    device: &str,
    preset: &str,
    policy: PoolPolicy,
    interrupt: &Interrupt,
) -> anyhow::Result<Row> {
    let name = format!("{preset}, {}", policy.key());
    let mut experiment = shipped::open(preset)?.experiment;
    device.clone_into(&mut experiment.device);
    experiment.budget = MAX_BUDGET;
    experiment.shorten(STEPS);
    // With its kernels loaded, a run takes its planned memory and no more. A pool that takes all would take the card.
    let mut first = experiment.clone();
    first.shorten(2);
    run::record(trainer, &name, first, interrupt)?;
    // Nor does it show where its line is: the memory of a pool that grows, and as much as one large block leaves in pieces.
    let (planned, above) = match policy {
        PoolPolicy::Reserve => (PoolPolicy::Grow, ABOVE),
        PoolPolicy::Grow | PoolPolicy::Release | PoolPolicy::Planned => (policy, Bytes::ZERO),
    };
    experiment.gpu.pool = planned;
    let line = Plan::of(&experiment, &trainer.machine())?.peak.process + above;
    (experiment.gpu.pool, experiment.budget) = (policy, line);
    let budget_bytes = line.0;
    Ok(match run::record(trainer, &name, experiment, interrupt) {
        Ok(record) => {
            let process: Bytes = record.summary.measured.process;
            Row { name, budget_bytes, process_bytes: Some(process.0), ok: process <= line, fault: None }
        }
        Err(error) if interrupt.has_come() => return Err(error),
        Err(error) => Row { name, budget_bytes, process_bytes: None, ok: false, fault: Some(format!("{error:#}")) },
    })
}

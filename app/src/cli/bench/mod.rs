//! `plimsoll bench`: the time of a training step, on workloads that other libraries can run as well.

mod expected;
pub(in crate::cli) mod workloads;

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::{Bytes, experiment::Execution, plan, train::Trainer};
use serde::Serialize;

use crate::cli::{Misuse, interrupt::Interrupt, out, provenance::Provenance, run, table::Table};
use workloads::{CPU, Workload};

/// Steps that are not counted: caches and allocators settle in them.
const WARM_UP: usize = 4;

/// Time a training step
#[derive(Debug, Args)]
#[command(after_help = "\
Workloads: mlp-digits-b64 (two hidden layers of 256) and cnn-digits-b64 (two blocks of 32 and 64 filters, kernel 3, then
a dense layer of 64), on 8 x 8 x 1 images in batches of 64; sepcnn-cifar-b64 (two depthwise-separable blocks) and
resnet18-cifar-b32, on 32 x 32 x 3 images in batches of 64 and 32; gpt-d256-l6-t128-b16 (a GPT-2 of width 256, six
blocks and eight heads, untied), on 16 sequences of 128 out of 256 tokens. The last two recompute cheap activations.
Large ones, which only run where they are named: gpt2-small-b8-t1024 (GPT-2 small, 50257 tokens, clipped at norm 1),
resnet50-b64-s224, mobilenetv2-b128-s224 and vit-s-b128-s224 (patches of 16), on images of 224 x 224 x 3 in ten classes;
each followed by -f32, -tf32 or -bf16 (bf16-mixed). The beginning of a name stands for all names that begin with it;
a workload that several names mean is timed once.
All with AdamW. A step is forward, backward, update and loss. On a GPU the large ones are fused, and their steps are launched
as graphs. tests/peers/cuda.py times PyTorch on the same.

Examples:
  plimsoll bench
  plimsoll bench cnn-digits-b64 --steps 400 --json
  plimsoll bench --device cuda:0 gpt2-small resnet50-b64-s224-bf16
  plimsoll bench --device cuda:0 gpt2-small --execution in-place
  plimsoll bench --expected --device rtx4060-8g gpt2-small")]
pub(super) struct Bench {
    /// Workloads, or how their names begin; the small ones when none is given
    names: Vec<String>,
    /// Where they run: cpu, or a GPU of this machine, such as cuda:0
    #[arg(long, value_name = "D", default_value = CPU)]
    device: String,
    /// Steps that are timed
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    /// Let sums take any order where that makes an algorithm faster (gpu.deterministic=false); as cuda.py --any-order
    #[arg(long)]
    any_order: bool,
    /// How ops run: in-place, fused or eager; fused for large workloads on a GPU, and in-place otherwise
    #[arg(long, value_name = "E", value_parser = execution)]
    execution: Option<Execution>,
    /// Say what a step is planned to take, and run nothing; D may be a card that is not here, such as rtx4060-8g
    #[arg(long, conflicts_with_all = ["steps", "any_order"])]
    expected: bool,
    /// Write a JSON object a line, one for each workload
    #[arg(long)]
    json: bool,
}

/// The way of this word.
fn execution(word: &str) -> Result<Execution, String> {
    let known = || Execution::ALL.map(Execution::key).join(", ");
    Execution::ALL.into_iter().find(|way| way.key() == word).ok_or_else(|| format!("the ways are {}", known()))
}

/// The measurements of a workload.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Row<'a> {
    name: &'static str,
    #[serde(flatten)]
    provenance: &'a Provenance,
    /// The median.
    ms: f64,
    min_ms: f64,
    /// Predicted by the time model, with the rates measured when the program starts.
    predicted_ms: f64,
    /// Measured: most bytes alive in a steady step.
    peak_bytes: u64,
    /// Measured: most bytes that the allocator held in a steady step.
    reserved_bytes: u64,
    predicted_bytes: u64,
    parameters: u64,
    deterministic: bool,
    /// How ops ran.
    execution: &'static str,
}

impl Bench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let chosen = self.chosen()?;
        if self.expected {
            return self.expect(&chosen);
        }
        let (trainer, provenance) = (Trainer::new(|| {}), Provenance::now(&self.device));
        let interrupt = Interrupt::listen()?;
        let mut table = Table::new(["workload", "median ms", "least ms", "predicted ms", "peak", "parameters"]);
        for workload in chosen {
            let timing = self.timing();
            let row = timing.of(&trainer, workload, &provenance, &interrupt)?;
            if self.json {
                out::json(&row)?;
            } else {
                let peak = Bytes(row.peak_bytes).to_string();
                let [ms, least, predicted] = [row.ms, row.min_ms, row.predicted_ms].map(|ms| format!("{ms:.3}"));
                table.row([row.name.to_owned(), ms, least, predicted, peak, row.parameters.to_string()]);
            }
        }
        if !self.json {
            out::text(&table.to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn timing(&self) -> Timing<'_> {
        Timing { device: &self.device, steps: self.steps, any_order: self.any_order, execution: self.execution }
    }

    /// Tells what steps are planned to take.
    fn expect(&self, chosen: &[Workload]) -> anyhow::Result<ExitCode> {
        let machine = plan::this_machine();
        let mut table = Table::new(["workload", "execution", "predicted ms", "peak"]);
        for workload in chosen {
            let row = expected::row(*workload, &self.device, self.execution, &machine)?;
            if self.json { out::json(&row)? } else { table.row(row.cells()) }
        }
        if !self.json {
            out::text(&table.to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The workloads that are named, each once, in the order of their first names.
    fn chosen(&self) -> anyhow::Result<Vec<Workload>> {
        if self.names.is_empty() {
            return Ok(Workload::usual());
        }
        let mut chosen: Vec<Workload> = Vec::new();
        for name in &self.names {
            let found = Workload::named(name);
            if found.is_empty() {
                let known: Vec<&str> = Workload::all().map(|workload| workload.name).collect();
                let message = format!("there is no workload `{name}`; the workloads are {}", known.join(", "));
                return Err(Misuse(message).into());
            }
            for workload in found {
                if chosen.iter().all(|known| known.name != workload.name) {
                    chosen.push(workload);
                }
            }
        }
        Ok(chosen)
    }
}

/// How a workload is timed.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Timing<'a> {
    pub(in crate::cli) device: &'a str,
    /// Steps that are counted.
    pub(in crate::cli) steps: u64,
    /// Sums need no fixed order.
    pub(in crate::cli) any_order: bool,
    /// How ops run, where it is not the workload's own way.
    pub(in crate::cli) execution: Option<Execution>,
}

impl Timing<'_> {
    /// Runs a workload.
    ///
    /// # Errors
    /// A run that fails, or that a signal stops.
    pub(in crate::cli) fn of<'a>(
        &self,
        trainer: &Trainer,
        workload: Workload,
        provenance: &'a Provenance,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Row<'a>> {
        let name = workload.name;
        let mut experiment = workload.experiment(self.device, self.steps + WARM_UP as u64);
        experiment.gpu.deterministic = !self.any_order;
        experiment.execution = self.execution.unwrap_or(experiment.execution);
        let execution = experiment.execution.key();
        let record = run::record(trainer, name, experiment, interrupt)?;
        let steady = &record.steps[WARM_UP.min(record.steps.len())..];
        let mut ms: Vec<f64> = steady.iter().map(|step| step.secs * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        Ok(Row {
            name,
            provenance,
            ms: ms.get(ms.len() / 2).copied().unwrap_or(f64::NAN),
            min_ms: ms.first().copied().unwrap_or(f64::NAN),
            peak_bytes: steady.iter().map(|step| step.live.0).max().unwrap_or(0),
            reserved_bytes: steady.iter().map(|step| step.reserved.0).max().unwrap_or(0),
            predicted_ms: record.plan.step_secs * 1e3,
            predicted_bytes: record.plan.steady.peak().0,
            parameters: record.plan.parameters,
            deterministic: !self.any_order,
            execution,
        })
    }
}

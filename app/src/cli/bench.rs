//! `plimsoll bench`: the time of a training step, on workloads that other libraries can run as well.

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{Batch, Model, ModelKind, Optimizer, Run},
    train::Trainer,
};
use serde::Serialize;

use crate::cli::{Misuse, out, run, table::Table};

/// Steps that are not counted: caches and allocators settle in them.
const WARM_UP: usize = 4;

/// A workload: 8 x 8 x 1 images, ten classes, batches of 64, AdamW with a learning rate of 0.001.
type Workload = (&'static str, fn() -> Model);

const WORKLOADS: [Workload; 2] = [
    ("mlp-digits-b64", || Model { kind: ModelKind::Mlp, width: 256, depth: 2, ..Model::default() }),
    ("cnn-digits-b64", || Model { kind: ModelKind::Cnn, width: 32, ..Model::default() }),
];

/// Time a training step
#[derive(Debug, Args)]
#[command(after_help = "\
Workloads: mlp-digits-b64 (two hidden layers of 256) and cnn-digits-b64 (two blocks of 32 and 64 filters, kernel 3, then
a dense layer of 64), on 8 x 8 x 1 images in batches of 64 with AdamW. A step is forward, backward, update and loss.

Examples:
  plimsoll bench
  plimsoll bench cnn-digits-b64 --steps 400 --json")]
pub(super) struct Bench {
    /// Workloads; all when none is given
    names: Vec<String>,
    /// Steps that are timed
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    /// Write a JSON object a line, one for each workload
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    /// Median.
    ms: f64,
    min_ms: f64,
    /// Measured: most bytes alive in a steady step.
    peak_bytes: u64,
    predicted_bytes: u64,
    parameters: u64,
}

impl Bench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let trainer = Trainer::new(|| {});
        let mut table = Table::new(["workload", "median ms", "least ms", "peak", "parameters"]);
        for (name, model) in self.chosen()? {
            let row = self.time(&trainer, name, model())?;
            if self.json {
                out::json(&row)?;
            } else {
                let peak = Bytes(row.peak_bytes).to_string();
                let (ms, least) = (format!("{:.3}", row.ms), format!("{:.3}", row.min_ms));
                table.row([name.to_owned(), ms, least, peak, row.parameters.to_string()]);
            }
        }
        if !self.json {
            out::text(&table.to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn chosen(&self) -> anyhow::Result<Vec<Workload>> {
        if self.names.is_empty() {
            return Ok(WORKLOADS.to_vec());
        }
        let find = |name: &String| {
            WORKLOADS.into_iter().find(|(known, _)| known == name).ok_or_else(|| {
                let known: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).collect();
                Misuse(format!("there is no workload `{name}`; the workloads are {}", known.join(", "))).into()
            })
        };
        self.names.iter().map(find).collect()
    }

    fn time(&self, trainer: &Trainer, name: &'static str, model: Model) -> anyhow::Result<Row> {
        let steps = self.steps + WARM_UP as u64;
        let record = run::record(
            trainer,
            name,
            Experiment {
                title: name.to_owned(),
                budget: Bytes::gib(1),
                model,
                batch: Batch { micro: 64, accumulation: 1 },
                optimizer: Optimizer { learning_rate: 1e-3, ..Optimizer::default() },
                // One evaluation, after the last step.
                run: Run { steps: Some(steps), evaluate_every: steps, ..Run::default() },
                ..Experiment::default()
            },
        )?;
        let steady = &record.steps[WARM_UP.min(record.steps.len())..];
        let mut ms: Vec<f64> = steady.iter().map(|step| step.secs * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        Ok(Row {
            name,
            ms: ms.get(ms.len() / 2).copied().unwrap_or(f64::NAN),
            min_ms: ms.first().copied().unwrap_or(f64::NAN),
            peak_bytes: steady.iter().map(|step| step.live.0).max().unwrap_or(0),
            predicted_bytes: record.plan.steady.peak().0,
            parameters: record.plan.parameters,
        })
    }
}

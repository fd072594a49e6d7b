//! `plimsoll bench`: the time of a training step, on workloads that other libraries can run as well.

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{DataKind, Model, ModelKind, Optimizer, Recompute, Run},
    train::Trainer,
};
use serde::Serialize;

use crate::cli::{Misuse, interrupt::Interrupt, out, provenance::Provenance, run, table::Table};

/// Steps that are not counted: caches and allocators settle in them.
const WARM_UP: usize = 4;

/// A workload: its name, and what is not as for all. For all, AdamW has a learning rate of 0.001.
type Workload = (&'static str, fn(&mut Experiment));

/// Shapes stand for CIFAR-10: images of 32 x 32 x 3 in ten classes.
const WORKLOADS: [Workload; 5] = [
    ("mlp-digits-b64", |e| (e.model.width, e.model.depth) = (256, 2)),
    ("cnn-digits-b64", |e| (e.model.kind, e.model.width) = (ModelKind::Cnn, 32)),
    ("sepcnn-cifar-b64", |e| {
        (e.model.kind, e.model.width) = (ModelKind::Sepcnn, 32);
        e.data.kind = DataKind::Shapes;
    }),
    ("resnet18-cifar-b32", |e| {
        (e.model.kind, e.recompute) = (ModelKind::Resnet, Recompute::Cheap);
        (e.data.kind, e.batch.micro) = (DataKind::Shapes, 32);
    }),
    ("gpt-d256-l6-t128-b16", |e| {
        let (kind, heads, hidden) = (ModelKind::Gpt2, 8, 1024);
        e.model = Model { kind, width: 256, depth: 6, heads, hidden, tied: false, ..Model::default() };
        (e.data.kind, e.data.length, e.data.vocabulary) = (DataKind::Tokens, 128, 256);
        (e.batch.micro, e.recompute) = (16, Recompute::Cheap);
    }),
];

/// Time a training step
#[derive(Debug, Args)]
#[command(after_help = "\
Workloads: mlp-digits-b64 (two hidden layers of 256) and cnn-digits-b64 (two blocks of 32 and 64 filters, kernel 3, then
a dense layer of 64), on 8 x 8 x 1 images in batches of 64; sepcnn-cifar-b64 (two depthwise-separable blocks) and
resnet18-cifar-b32, on 32 x 32 x 3 images in batches of 64 and 32; gpt-d256-l6-t128-b16 (a GPT-2 of width 256, six
blocks and eight heads, untied), on 16 sequences of 128 out of 256 tokens. The last two recompute cheap activations. All
with AdamW. A step is forward, backward, update and loss.

Examples:
  plimsoll bench
  plimsoll bench cnn-digits-b64 --steps 400 --json")]
pub(super) struct Bench {
    /// Workloads; all when none is given
    names: Vec<String>,
    /// Where they run: cpu, or a GPU of this machine, such as cuda:0
    #[arg(long, value_name = "D", default_value = "cpu")]
    device: String,
    /// Steps that are timed
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    /// Write a JSON object a line, one for each workload
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'static str,
    #[serde(flatten)]
    provenance: &'a Provenance,
    /// Median.
    ms: f64,
    min_ms: f64,
    /// By the time model, with the rates measured when the program starts.
    predicted_ms: f64,
    /// Measured: most bytes alive in a steady step.
    peak_bytes: u64,
    predicted_bytes: u64,
    parameters: u64,
}

impl Bench {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let (trainer, provenance) = (Trainer::new(|| {}), Provenance::now(&self.device));
        let interrupt = Interrupt::listen()?;
        let mut table = Table::new(["workload", "median ms", "least ms", "predicted ms", "peak", "parameters"]);
        for workload in self.chosen()? {
            let name = workload.0;
            let row = self.time(&trainer, workload, &provenance, &interrupt)?;
            if self.json {
                out::json(&row)?;
            } else {
                let peak = Bytes(row.peak_bytes).to_string();
                let [ms, least, predicted] = [row.ms, row.min_ms, row.predicted_ms].map(|ms| format!("{ms:.3}"));
                table.row([name.to_owned(), ms, least, predicted, peak, row.parameters.to_string()]);
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
            WORKLOADS.into_iter().find(|(known, ..)| known == name).ok_or_else(|| {
                let known: Vec<&str> = WORKLOADS.iter().map(|(name, ..)| *name).collect();
                Misuse(format!("there is no workload `{name}`; the workloads are {}", known.join(", "))).into()
            })
        };
        self.names.iter().map(find).collect()
    }

    fn time<'a>(
        &self,
        trainer: &Trainer,
        (name, change): Workload,
        provenance: &'a Provenance,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Row<'a>> {
        let steps = self.steps + WARM_UP as u64;
        let mut experiment = Experiment {
            title: name.to_owned(),
            device: self.device.clone(),
            budget: Bytes::gib(2),
            optimizer: Optimizer { learning_rate: 1e-3, ..Optimizer::default() },
            // One evaluation, after the last step.
            run: Run { steps: Some(steps), evaluate_every: steps, ..Run::default() },
            ..Experiment::default()
        };
        (experiment.batch.micro, experiment.data.samples) = (64, 2000);
        change(&mut experiment);
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
            predicted_ms: record.plan.step_secs * 1e3,
            predicted_bytes: record.plan.steady.peak().0,
            parameters: record.plan.parameters,
        })
    }
}

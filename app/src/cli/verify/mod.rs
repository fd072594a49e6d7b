//! `plimsoll verify`: predicted memory against measured memory, run by run.

mod drawn;
mod row;
mod verdict;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use plimsoll_engine::{
    Bytes, Experiment,
    device::{Target, target},
    experiment::{PoolPolicy, limits::MAX_BUDGET, shipped},
    hardware::{self, Figure, Machine},
    plan::{self, Limit, Plan},
    train::Trainer,
};

use crate::{
    cli::{
        interrupt::{Interrupt, Stopped},
        out,
        provenance::Provenance,
        run, seed,
        table::Table,
    },
    format,
};
use row::{Pair, Row, Skipped, cells, unmeasured};
use verdict::Rule;

/// A run that would train longer than this is planned only, unless the steps were asked for.
const LONGEST_SECS: f64 = 300.0;
/// Steps of a preset.
const STEPS: u64 = 6;
/// Bytes of a line above the run that it is drawn for, if a pool takes the whole line at its start.
const ABOVE: Bytes = Bytes::mib(64);

/// Train presets, or experiments drawn at random, for a few steps and compare predicted memory with measured memory
#[derive(Debug, Args)]
#[command(after_help = "\
A prediction is right when the live peak is never below the measured one, and at most 1% of the measurement plus 128 KiB
above it. On the processor, what the engine's bookkeeping varies by in the phase of the peak is allowed as well: some 400
bytes for each layer (for experiments drawn at random, which are small, the stated bookkeeping and 64 KiB in place of both).
The reserved peak is never below the measured one either, and at most 1% plus the stated bookkeeping and 1.06 MiB above it.
The figure for the process, which also holds parts of the window and the system, is an estimate. Of a run that
did less than was planned, such as one in f16 that skipped updates, it is only checked that no figure is below the measured one.
On a GPU, live is what the memory pool has handed out. What the pool holds from the device, and the process as the driver
reports it, may be at most 3% above the measured figure, and never below. Each experiment runs twice there: the prediction
of the first run allows for the kernels it loads; the second run is judged.
The budget is lifted for the measurement, so that presets that do not fit are measured as well. With --budget, each runs at
the largest micro-batch that fits it, and may never cross it. Weights are pruned and channels are taken out within the few
steps, although the preset may name a later one. What this machine has no memory for, or would take minutes for, is planned
and skipped, with the reason; so is a shipped preset whose data are a folder that is not here.

Examples:
  plimsoll verify
  plimsoll verify cnn-digits my-preset.toml --json
  plimsoll verify --device cuda:0
  plimsoll verify --device cuda:0 --drawn 100
  plimsoll verify resnet18-shapes --device cuda:0 --budget 2GiB --steps 1000

Exit status 1 when a prediction is wrong.")]
pub(super) struct Verify {
    /// Preset files or names of shipped presets; all shipped ones when none is given
    presets: Vec<String>,
    /// Where they run: cpu, or a GPU of this machine, such as cuda:0
    #[arg(long, value_name = "D", default_value = "cpu")]
    device: String,
    /// Experiments drawn at random instead: every family, precision, checkpointing and optimizer, some with a teacher
    #[arg(long, value_name = "N", conflicts_with = "presets", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    drawn: Option<u32>,
    /// Seed of the draw
    #[arg(long, value_name = "N", requires = "drawn")]
    seed: Option<u64>,
    /// Write the drawn experiments into this folder as presets, each under its number, and train none
    #[arg(long, value_name = "DIR", requires = "drawn", conflicts_with_all = ["steps", "json"])]
    write: Option<PathBuf>,
    /// A budget to keep to, at the largest micro-batch that fits it
    #[arg(long, value_name = "SIZE", conflicts_with = "drawn")]
    budget: Option<Bytes>,
    /// Optimizer steps of each; 6 for a preset
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=100_000))]
    steps: Option<u64>,
    /// Write a JSON object a line, one for each run
    #[arg(long)]
    json: bool,
}

/// The run that is to be measured.
struct Case {
    name: String,
    experiment: Experiment,
    /// The seed that it was drawn by, if it was drawn.
    seed: Option<u64>,
}

impl Case {
    /// Why a shipped preset for a folder of the user's cannot be planned, where the folder is not here.
    fn lacks_data(&self) -> Option<String> {
        let path = self.experiment.data.missing_path()?;
        Some(format!("its data are not here, in {}", path.display()))
    }
}

/// The memory that a target has free.
fn free(target: &Target) -> Figure<Bytes> {
    match target {
        Target::Cpu(_) => hardware::list().cpu.available,
        Target::Gpu(profile) => Ok(profile.capacity),
    }
}

impl Verify {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let (Some(folder), Some(count)) = (&self.write, self.drawn) {
            drawn::write(folder, count, self.seed.unwrap_or_else(seed::fresh), &self.device)?;
            return Ok(ExitCode::SUCCESS);
        }
        let trainer = Trainer::new(|| {});
        let target = trainer.machine().target(&self.device)?;
        let seed = self.seed.unwrap_or_else(seed::fresh);
        // Everything is read before anything runs. The files that some drawn experiments need live as long as they do.
        let files = self.drawn.map(|_| tempfile::tempdir()).transpose()?;
        let (cases, lacking) = match (&files, self.drawn) {
            (Some(files), Some(count)) => (drawn::cases(count, seed, &self.device, files.path())?, Vec::new()),
            _ => self.with_data(self.open()?)?,
        };
        let free = free(&target);
        let provenance = Provenance::now(&self.device);
        let interrupt = Interrupt::listen()?;
        if target.is_gpu() && target::not_trained_on(&self.device).is_none() {
            self.warm_up(&trainer, &interrupt)?;
        }
        let mut table =
            Table::new(["run", "predicted", "measured", "above by", "percent", "reserved", "process", "verdict"]);
        let (mut wrong, mut notes, mut stopped) = (Vec::new(), lacking, None);
        for (i, case) in cases.iter().enumerate() {
            let name = case.name.as_str();
            let plan = self.plan(case, &trainer.machine())?;
            if let Some(reason) = self.too_large(&plan, &free) {
                notes.extend(self.skip(&mut table, name, &plan, &reason)?);
                continue;
            }
            progress(&format!("{} of {}: {name}", i + 1, cases.len()));
            let row = self.measure(&trainer, case, &plan, &provenance, &interrupt);
            progress("");
            let row = match row {
                Ok(row) => row,
                // The measurements before the signal are worth their table.
                Err(error) if error.is::<Stopped>() => {
                    stopped = Some(error);
                    break;
                }
                Err(error) if case.seed.is_some() && has_diverged(&error) => {
                    let reason = format!("a learning rate was drawn that is too high: {}", error.root_cause());
                    notes.extend(self.skip(&mut table, name, &plan, &reason)?);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !row.ok {
                wrong.push(name);
            }
            if self.json {
                out::json(&row)?;
            } else {
                table.row(cells(&row));
                notes.extend(row.note());
            }
        }
        if !self.json {
            out::text(&format!("{table}{}", notes.concat()))?;
        }
        if let Some(stopped) = stopped {
            // When stderr is closed, the exit status still says it.
            let _ = writeln!(io::stderr(), "{stopped}; the measurements so far are above");
            return Ok(interrupt.exit_code());
        }
        self.verdict(&wrong, seed)
    }

    /// Reports a run that is planned and not measured: as JSON, or as a row and a line that goes below the table.
    fn skip(&self, table: &mut Table<8>, name: &str, plan: &Plan, reason: &str) -> anyhow::Result<Option<String>> {
        if self.json {
            out::json(&Skipped { name, predicted: Some(plan.peak), skipped: reason })?;
            return Ok(None);
        }
        table.row(unmeasured(name, plan));
        Ok(Some(format!("{name} is planned and not measured: {reason}\n")))
    }

    /// How the command ends when the predictions of these runs are wrong.
    fn verdict(&self, wrong: &[&str], seed: u64) -> anyhow::Result<ExitCode> {
        if wrong.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let again = self.drawn.map(|n| format!(" (again: --drawn {n} --seed {seed})")).unwrap_or_default();
        anyhow::bail!("the prediction is wrong for {}{again}", wrong.join(", "))
    }

    fn open(&self) -> anyhow::Result<Vec<Case>> {
        let all = || shipped::shipped().iter().map(|(name, _)| *name).collect();
        let names: Vec<&str> =
            if self.presets.is_empty() { all() } else { self.presets.iter().map(String::as_str).collect() };
        let open = |name: &str| {
            let mut experiment = shipped::open(name)?.experiment;
            experiment.shorten(STEPS);
            Ok(Case { name: name.to_owned(), experiment, seed: None })
        };
        names.into_iter().map(open).collect()
    }

    /// The cases whose data are here, and lines about the others: shipped presets, where all are verified, for folders of the
    /// user's.
    fn with_data(&self, cases: Vec<Case>) -> anyhow::Result<(Vec<Case>, Vec<String>)> {
        let (mut here, mut lacking) = (Vec::new(), Vec::new());
        for case in cases {
            let Some(reason) = case.lacks_data().filter(|_| self.presets.is_empty()) else {
                here.push(case);
                continue;
            };
            if self.json {
                out::json(&Skipped { name: &case.name, predicted: None, skipped: &reason })?;
            } else {
                lacking.push(format!("{} is not planned: {reason}\n", case.name));
            }
        }
        Ok((here, lacking))
    }

    /// The run that is measured: a few steps, and no line in their way or the one that was asked for.
    fn plan(&self, case: &Case, machine: &Machine) -> anyhow::Result<Plan> {
        let mut experiment = case.experiment.clone();
        if let Some(steps) = self.steps.or(experiment.run.steps) {
            experiment.shorten(steps);
        }
        experiment.device.clone_from(&self.device);
        experiment.budget = self.budget.unwrap_or(MAX_BUDGET);
        if let Some(budget) = self.budget {
            let largest = plan::largest_batch(&experiment, machine, Limit::NONE)?;
            return largest.ok_or_else(|| anyhow::anyhow!("{}: not even one sample fits in {budget}", case.name));
        }
        if experiment.gpu.pool == PoolPolicy::Reserve && target::cuda_index(&self.device).is_some() {
            // Without a line such a pool would take the whole card.
            let mut grows = experiment.clone();
            grows.gpu.pool = PoolPolicy::Grow;
            experiment.budget = Plan::of(&grows, machine)?.peak.process + ABOVE;
        }
        Ok(Plan::of(&experiment, machine)?)
    }

    /// Opens the GPU by a small run, so that every plan has the memory of the open GPU.
    fn warm_up(&self, trainer: &Trainer, interrupt: &Interrupt) -> anyhow::Result<()> {
        let mut small = Experiment { device: self.device.clone(), budget: MAX_BUDGET, ..Experiment::default() };
        small.run.steps = Some(1);
        run::record(trainer, &self.device, small, interrupt).map(drop)
    }

    fn measure<'a>(
        &self,
        trainer: &Trainer,
        case: &'a Case,
        plan: &Plan,
        provenance: &'a Provenance,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Row<'a>> {
        let name = case.name.as_str();
        let once = |experiment: Experiment| {
            let record = run::record(trainer, name, experiment, interrupt)?;
            let pair = Pair { predicted: record.summary.predicted, measured: record.summary.measured };
            anyhow::Ok((pair, record))
        };
        let rule = |plan: &Plan| {
            let rule = if case.seed.is_some() { Rule::of_any_size(plan) } else { Rule::of(plan) };
            rule.inside(self.budget)
        };
        let experiment = (*plan.experiment).clone();
        let (mut first, mut ok) = (None, true);
        if plan.target.is_gpu() {
            let mut short = experiment.clone();
            short.shorten(short.run.steps.map_or(STEPS, |steps| steps.min(STEPS)));
            let (pair, record) = once(short)?;
            ok = rule(&record.plan).at_the_most().is_met(pair.predicted, pair.measured);
            first = Some(pair);
        }
        let (pair, record) = once(experiment)?;
        // A step that f16 overflowed updates nothing, and may never bear the optimizer's state.
        let is_less = record.summary.skipped_steps > 0 || record.plan.may_stay_below();
        let rule = if is_less { rule(&record.plan).at_the_most() } else { rule(&record.plan) };
        ok &= rule.is_met(pair.predicted, pair.measured);
        let host = &record.summary.host;
        ok &= host.predicted >= host.measured;
        let difference_bytes = pair.predicted.live.0 as i64 - pair.measured.live.0 as i64;
        Ok(Row {
            name,
            difference_bytes,
            difference_percent: difference_bytes as f64 / pair.measured.live.0.max(1) as f64 * 100.0,
            host_bytes: [host.predicted.0, host.measured.0],
            ok,
            budget_bytes: self.budget.map(|budget| budget.0),
            micro: plan.experiment.batch.micro,
            steps: record.summary.steps,
            channels_out_after: record.plan.thinned_after.filter(|after| *after <= record.summary.steps),
            first,
            pair,
            provenance,
            seed: case.seed,
        })
    }

    /// Why a plan is not trained on this machine, if it is not.
    fn too_large(&self, plan: &Plan, free: &Figure<Bytes>) -> Option<String> {
        if let Some(problem) = target::not_trained_on(&plan.experiment.device) {
            return Some(problem.message);
        }
        if let Ok(free) = free
            && plan.peak.process > *free
        {
            return Some(format!("it takes {} and this machine has {free} free", plan.peak.process));
        }
        let secs = plan.step_secs * plan.total_steps as f64;
        (self.steps.is_none() && secs > LONGEST_SECS).then(|| {
            let steps = format::counted(plan.total_steps, "step");
            format!("{steps} would take this machine about {:.0} minutes", secs / 60.0)
        })
    }
}

/// Whether a run ended because its numbers were no longer finite, which says nothing of its memory.
fn has_diverged(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(plimsoll_engine::Error::NotFinite(_)))
}

/// Shows progress on a line that the next one replaces; on a terminal only.
fn progress(text: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        // A closed stderr takes no progress.
        let _ = write!(stderr, "\r\x1b[K{text}");
        let _ = stderr.flush();
    }
}

//! `plimsoll plan`: the memory and time of a run, without running it.

mod description;

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::{
    device::profile::Card,
    experiment::WholeLayer,
    memory::{Alive, Categories, Phase, Timeline},
    plan::{self, Factorable, HighPrecisionTensor, LayerRow, Pass, Peak, SmallerSize},
};
use serde::Serialize;

use self::description::describe;
use crate::{
    cli::{choice::Choice, out},
    samples,
};

/// Predict how much memory a run takes, where and when, without running it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll plan cnn-digits
  plimsoll plan cnn-shapes --budget 32MiB --set batch.micro=128 --set precision=bf16-mixed
  plimsoll plan resnet18-shapes --device rtx4060-8g --budget 4GiB
  plimsoll plan my-preset.toml --json | jq .peak.live_bytes
  plimsoll plan my-preset.toml --check && plimsoll train my-preset.toml

A run fits when its peak is inside the budget and inside what a run can use of the memory that this machine has free. Exit
status 0 also when the run does not fit; with --check 1.")]
pub(super) struct Plan {
    #[command(flatten)]
    choice: Choice,
    /// Exit with status 1 when the run does not fit its budget or this machine
    #[arg(long)]
    check: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// Host memory outside the budget.
#[derive(Serialize)]
struct Host {
    data_bytes: u64,
    batches_bytes: u64,
    workers_bytes: u64,
    factors_bytes: u64,
    normalising_bytes: u64,
    total_bytes: u64,
    answers_bytes: u64,
    cache_bytes: u64,
    /// Bytes on a disk; they do not count in the total.
    disk_bytes: u64,
    budget_bytes: Option<u64>,
    /// Changes that would fit, if the data are the obstacle.
    would_fit: Vec<String>,
}

/// How a model is factored.
#[derive(Serialize)]
struct LowRank<'a> {
    words: String,
    layers: Vec<Factored<'a>>,
}

/// A layer that is factored.
#[derive(Serialize)]
struct Factored<'a> {
    path: &'a str,
    /// Inputs and outputs of the whole layer, and the side of its kernel.
    inner: usize,
    out: usize,
    size: usize,
    /// The rank at its inputs and that at its outputs.
    ranks: [usize; 2],
    whole_weights: usize,
    weights: usize,
}

impl<'a> Factored<'a> {
    fn of(layer: &'a Factorable) -> Option<Self> {
        let Factorable { path, whole, ranks } = layer;
        let WholeLayer { inner, out, size } = *whole;
        let ranks = (*ranks).map(|ranks| [ranks.inner, ranks.out])?;
        Some(Self { path, inner, out, size, ranks, whole_weights: whole.weights(), weights: layer.weights() })
    }
}

/// The form and the size of a trained model.
#[derive(Serialize)]
struct Smaller {
    became: &'static str,
    bytes: u64,
    whole_bytes: u64,
    /// Bytes of the tensors of its file.
    file_bytes: u64,
    /// Whether the number of zeros is foretold.
    is_estimate: bool,
}

impl Smaller {
    fn of(size: &SmallerSize) -> Self {
        let SmallerSize { became, bytes, whole_bytes, file_bytes, is_estimate } = size;
        let [bytes, whole_bytes, file_bytes] = [bytes, whole_bytes, file_bytes].map(|bytes| bytes.0);
        Self { became: became.key(), bytes, whole_bytes, file_bytes, is_estimate: *is_estimate }
    }
}

impl Host {
    fn of(plan: &plan::Plan) -> Self {
        let host = &plan.host;
        Self {
            data_bytes: host.data.0,
            batches_bytes: host.batches.0,
            workers_bytes: host.workers.0,
            factors_bytes: host.factors.0,
            normalising_bytes: host.normalising.0,
            total_bytes: host.total().0,
            answers_bytes: host.answers.0,
            cache_bytes: host.cache.0,
            disk_bytes: host.disk.0,
            budget_bytes: plan.experiment.data.host_line().map(|line| line.0),
            would_fit: plan.host_offers.iter().map(ToString::to_string).collect(),
        }
    }
}

#[derive(Serialize)]
struct Json<'a> {
    preset: &'a str,
    fits: bool,
    /// Whether it fits, or the obstacle.
    verdict: &'static str,
    /// The most that this machine can give a run on the CPU in addition to its data, if the system reports it.
    machine_bytes: Option<u64>,
    budget_bytes: u64,
    device: &'a str,
    /// The bytes that count against the budget: the live bytes of the processor, the process on a GPU.
    load_bytes: u64,
    /// The GPU's figures.
    card: Option<Card<'a>>,
    peak: Peak,
    /// The live peak until the first update, where f16 may skip updates.
    live_bytes_without_updates: Option<u64>,
    /// Which figures of the peak do not come from a dry run.
    estimates: &'a [&'static str],
    peak_pass: Pass,
    phases: Vec<PhasePeak>,
    categories_at_peak: Categories,
    alive_at_peak: &'a [Alive],
    /// The timeline of the pass that reaches the peak.
    timeline: Vec<Moment<'a>>,
    /// Bytes of the data set and its cache, outside the budget.
    host_data_bytes: u64,
    host: Host,
    /// Facts of the data that their settings do not show.
    data_notes: Vec<String>,
    /// The facts of a table.
    table: Option<samples::TableJson<'a>>,
    /// The facts of texts that become tokens.
    text: Option<samples::Json<'a>>,
    /// How layers are products of smaller ones, where they are to be.
    low_rank: Option<LowRank<'a>>,
    /// The size of the trained model, if it gets smaller.
    compressed: Option<Smaller>,
    layers: &'a [LayerRow],
    parameters: u64,
    trained: u64,
    wide: &'a [HighPrecisionTensor],
    total_steps: u64,
    steps_per_epoch: u64,
    step_secs: f64,
    tests: u64,
    test_secs: f64,
    run_secs: f64,
    /// The time of a teacher that is asked before the first step.
    teach_secs: f64,
    plan_secs: f64,
    /// What graphs of launches are allowed on a GPU, a part of the context.
    graphs_bytes: u64,
    /// What pruning to zeros holds while the run trains, a part of the buffers.
    pruning_bytes: u64,
}

/// The peak of a phase of the run.
#[derive(Serialize)]
struct PhasePeak {
    phase: Pass,
    live_bytes: u64,
    /// The step after which it comes, where that is known.
    after_step: Option<u64>,
}

impl PhasePeak {
    fn all(plan: &plan::Plan) -> Vec<Self> {
        let after = |pass| plan.thinned_after.filter(|_| matches!(pass, Pass::Prune | Pass::Pruned));
        let peak = |pass| Self { phase: pass, live_bytes: plan.timeline(pass).peak().0, after_step: after(pass) };
        plan.passes().map(peak).collect()
    }
}

#[derive(Serialize)]
struct Moment<'a> {
    op: &'static str,
    layer: &'a str,
    phase: Phase,
    live_bytes: u64,
}

fn moments(timeline: &Timeline) -> Vec<Moment<'_>> {
    let moment = |point: &plimsoll_engine::memory::Point| (point.op, point.layer, point.phase, point.live.0);
    timeline
        .points
        .iter()
        .map(moment)
        .map(|(op, layer, phase, live_bytes)| Moment { op, layer: timeline.layer(layer), phase, live_bytes })
        .collect()
}

impl Plan {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let machine = plan::this_machine();
        let resolved = self.choice.resolve(&machine, |_| {})?;
        self.choice.look_at_weights(&resolved)?;
        let plan = plan::predict_here(&resolved, &machine)?;
        let verdict = plan.verdict();
        if self.json {
            out::json(&Json {
                preset: &self.choice.name(),
                fits: verdict.fits(),
                verdict: verdict.name(),
                machine_bytes: plan.machine_line().map(|line| line.bytes.0),
                budget_bytes: plan.budget.0,
                device: &plan.experiment.device,
                load_bytes: plan.load().0,
                card: plan.target.profile().map(|profile| profile.card()),
                peak: plan.peak,
                live_bytes_without_updates: plan.peak_without_updates().map(|bytes| bytes.0),
                estimates: match plan.target.profile() {
                    None => &["process_bytes"],
                    // Its context, and how its pool grows, are measured on the card alone.
                    Some(card) if card.is_estimate() => &["process_bytes", "reserved_bytes"],
                    Some(_) => &[],
                },
                peak_pass: plan.peak_pass,
                phases: PhasePeak::all(&plan),
                categories_at_peak: plan.categories_at_peak,
                alive_at_peak: &plan.alive_at_peak,
                timeline: moments(plan.timeline(plan.peak_pass)),
                host_data_bytes: plan.host.data.0,
                host: Host::of(&plan),
                data_notes: plan.resolved.notes(),
                table: plan.resolved.data().table_facts().map(samples::TableJson::of),
                text: plan.resolved.data().text_facts().map(samples::Json::of),
                low_rank: plan.resolved.ranks_in_words().map(|words| LowRank {
                    words,
                    layers: plan.resolved.factored().iter().filter_map(Factored::of).collect(),
                }),
                compressed: plan.smaller.as_ref().map(Smaller::of),
                layers: &plan.layers,
                parameters: plan.parameters,
                trained: plan.trained,
                wide: &plan.high_precision,
                total_steps: plan.total_steps,
                steps_per_epoch: plan.steps_per_epoch,
                step_secs: plan.step_secs,
                tests: plan.tests(),
                test_secs: plan.test_secs,
                run_secs: plan.run_secs(),
                teach_secs: plan.teach_secs,
                plan_secs: plan.plan_secs,
                graphs_bytes: plan.graphs.0,
                pruning_bytes: plan.pruning.0,
            })?;
        } else {
            out::text(&describe(&plan)?)?;
        }
        Ok(if self.check && !verdict.fits() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

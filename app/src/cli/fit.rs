//! `plimsoll fit`: the configurations that fit a budget, fastest first.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use plimsoll_engine::{
    Experiment,
    experiment::{Batch, Precision, preset},
    plan::{self, Advice, Found, Limit, Peak},
};
use serde::Serialize;

use crate::{
    advice::{self, Shortfall},
    cli::{
        choice::Choice,
        offers::{self, percent},
        out,
        table::Table,
    },
    format,
};

/// Find the configurations with the same effective batch that fit a budget, fastest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll fit cnn-shapes --budget 16MiB
  plimsoll fit cnn-shapes --budget 16MiB --json | jq '.candidates[0].set'

A search that takes longer than --seconds ends with the best so far, and says so. If nothing fits, the answer says
why, and which changes of the training itself would. Exit status 1 when nothing fits.")]
pub(super) struct Fit {
    #[command(flatten)]
    choice: Choice,
    /// The longest the search may take
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    preset: &'a str,
    budget_bytes: u64,
    fits: bool,
    /// The bar that refuses the run as it is, or `fits`.
    verdict: &'static str,
    /// The problem of its data, with what would lower them; null when they fit.
    host_problem: Option<String>,
    peak: Peak,
    step_secs: f64,
    /// The least bytes that weights and optimizer state hold for the whole run.
    held_bytes: u64,
    /// The lowest peak of everything that was planned.
    least_bytes: u64,
    /// False when the search ended at its time limit.
    complete: bool,
    candidates: Vec<Candidate>,
    /// The largest micro-batch that fits, if it differs; its time ratio is per sample.
    fill: Option<Candidate>,
    /// Changes that would fit although they change the training, when no candidate does.
    further: Vec<Further>,
}

/// A change of the training itself.
#[derive(Serialize)]
struct Further {
    change: String,
    peak_bytes: u64,
    time_ratio: f64,
    /// For `--set`, to run it from the preset as it is.
    set: Vec<String>,
}

#[derive(Serialize)]
struct Candidate {
    change: String,
    peak_bytes: u64,
    step_secs: f64,
    time_ratio: f64,
    micro: usize,
    accumulation: usize,
    precision: Precision,
    checkpointing: String,
    /// For `--set`, to run it from the preset as it is.
    set: Vec<String>,
}

/// The assignments that make `to` of a preset: micro-batch, accumulation, precision and checkpointing in any case, then
/// everything else that differs.
fn set(preset: &Experiment, to: &Experiment) -> Vec<String> {
    let always = [
        ("batch.micro", to.batch.micro.to_string()),
        ("batch.accumulation", to.batch.accumulation.to_string()),
        ("precision", to.precision.key().to_owned()),
        ("checkpointing", to.checkpointing.to_string()),
    ];
    let is_always = |change: &String| always.iter().any(|(key, _)| change.split('=').next() == Some(*key));
    let others: Vec<String> = preset::changes(preset, to).into_iter().filter(|change| !is_always(change)).collect();
    always.iter().map(|(key, value)| format!("{key}={value}")).chain(others).collect()
}

impl Candidate {
    fn new(preset: &Experiment, offer: &Advice) -> Self {
        let e = &offer.experiment;
        Self {
            change: advice::words(offer),
            peak_bytes: offer.peak.0,
            step_secs: offer.step_secs,
            time_ratio: offer.time_ratio,
            micro: e.batch.micro,
            accumulation: e.batch.accumulation,
            precision: e.precision,
            checkpointing: e.checkpointing.to_string(),
            set: set(preset, e),
        }
    }
}

impl Fit {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let machine = plan::this_machine();
        let plan = plan::predict_here(&self.choice.resolve(&machine, |_| {})?, &machine)?;
        let limit = Limit::within(Duration::from_secs(self.seconds));
        let mut found = plan::fit(&plan, plan.budget, limit.early())?;
        if !self.json {
            // Known at once; what follows may take its time.
            out::text(&as_it_is(&plan, &found))?;
        }
        let fill = plan::fill(&plan, limit.early())?;
        let fits = plan.verdict().fits();
        if fits {
            add_as_it_is(&plan, &mut found);
        }
        let further = if found.offers.is_empty() { plan::further(&plan, offers::COUNT, limit)? } else { Vec::new() };
        if self.json {
            let preset = self.choice.preset()?.experiment;
            out::json(&Json {
                preset: &self.choice.name(),
                budget_bytes: plan.budget.0,
                fits,
                verdict: plan.verdict().name(),
                host_problem: plan.host_problem().map(|problem| problem.to_string()),
                peak: plan.peak,
                step_secs: plan.step_secs,
                held_bytes: found.held.0,
                least_bytes: found.least.0,
                complete: found.is_whole,
                candidates: found.offers.iter().map(|offer| Candidate::new(&preset, offer)).collect(),
                fill: fill.as_ref().map(|offer| Candidate::new(&preset, offer)),
                further: further.iter().map(|offer| Further::new(&preset, offer)).collect(),
            })?;
        } else {
            out::text(&found_for(&plan, &found, fill.as_ref(), &further))?;
        }
        if found.offers.is_empty() {
            let effective = plan.experiment.batch.effective();
            if let Some(problem) = Shortfall::of(&found).of_host(&plan) {
                anyhow::bail!("nothing with an effective batch of {effective} fits: {} is in the way", problem.key);
            }
            let [_, line] = plan.line().beside(plan.load());
            anyhow::bail!("nothing with an effective batch of {effective} fits in {line}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Puts the plan itself among the configurations that fit, where its time puts it.
fn add_as_it_is(plan: &plan::Plan, found: &mut Found) {
    let itself = Advice {
        changes: Vec::new(),
        experiment: (*plan.experiment).clone(),
        peak: plan.load(),
        host: plan.host.total(),
        step_secs: plan.step_secs,
        time_ratio: 1.0,
    };
    let place = found.offers.partition_point(|offer| offer.step_secs < plan.step_secs);
    found.offers.insert(place, itself);
}

impl Further {
    fn new(preset: &Experiment, offer: &Advice) -> Self {
        let set = set(preset, &offer.experiment);
        Self { change: advice::words(offer), peak_bytes: offer.peak.0, time_ratio: offer.time_ratio, set }
    }
}

/// The need of the run as it is, and the reason if nothing fits.
fn as_it_is(plan: &plan::Plan, found: &Found) -> String {
    let fits = plan.verdict().fits();
    let of_host = plan.host_problem();
    let is_inside = plan.load() <= plan.line().bytes;
    let [load, line] = plan.line().beside(plan.load());
    let step = format!("A step takes about {}.\n", format::secs(plan.step_secs));
    let text = match &of_host {
        Some(problem) if is_inside => {
            format!("As it is, the run does not fit: it needs {load} of {line}, but {problem}. {step}")
        }
        _ => {
            let verdict = if fits { "fits" } else { "does not fit" };
            format!("As it is, the run {verdict}: it needs {load}, and the limit is {line}. {step}")
        }
    };
    let shortfall = Shortfall::of(found);
    // What is said above is not said again.
    let is_said = of_host.is_some() && is_inside && shortfall.of_host(plan).is_some();
    if fits || is_said || !found.offers.is_empty() { text } else { text + &shortfall.words(plan) + "\n" }
}

/// The checkpointing of an offer, and whether it computes cheap layers again, if the experiment as it is does not.
fn recomputed(asked: &Experiment, offered: &Experiment) -> String {
    let checkpointing = offered.checkpointing.to_string();
    if offered.recompute == asked.recompute {
        return checkpointing;
    }
    format!("{checkpointing}, recompute={}", offered.recompute.key())
}

/// The configurations that were found, and those with another effective batch or another training.
fn found_for(plan: &plan::Plan, found: &Found, fill: Option<&Advice>, further: &[Advice]) -> String {
    let fill = fill.map(|fill| {
        let Batch { micro, accumulation, .. } = &fill.experiment.batch;
        let (peak, time) = (fill.peak, percent(fill.time_ratio));
        let effective = fill.experiment.batch.effective();
        format!(
            "With another effective batch, {effective}, the largest micro-batch that fits is {micro} x {accumulation}: {peak}, \
             {time} time a sample.\n"
        )
    });
    let fill = fill.unwrap_or_default();
    if found.offers.is_empty() {
        return offers::list("What would fit, and changes the training", further) + &fill;
    }
    let mut table = Table::new(["micro-batch", "precision", "checkpointing", "peak", "of the budget", "time"]).words(3);
    for offer in &found.offers {
        let e = &offer.experiment;
        table.row([
            format!("{} x {}", e.batch.micro, e.batch.accumulation),
            e.precision.key().to_owned(),
            recomputed(&plan.experiment, e),
            offer.peak.to_string(),
            format!("{:.0}%", offer.peak.0 as f64 / plan.budget.0.max(1) as f64 * 100.0),
            percent(offer.time_ratio),
        ]);
    }
    let offered = &found.offers[0].experiment.batch.evaluation;
    let tested = if *offered == plan.experiment.batch.evaluation {
        String::new()
    } else {
        format!("Each with batch.evaluation = {offered}: as it is, the test alone does not fit.\n")
    };
    let ended = if found.is_whole { "" } else { "The search ended at its time limit; --seconds gives it more.\n" };
    format!("\n{table}\n{tested}{ended}{fill}")
}

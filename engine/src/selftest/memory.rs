//! The budget, and the memory that is given back: a run past its line is refused as its dry run is, and leaves nothing
//! behind; the memory of steps does not grow with their number.

use super::{
    Bench, Choice, Fault, Found, Runner,
    compare::Worst,
    families::{KINDS, small},
    steps::{Noise, passes},
};
use crate::{
    backend::{Backend, Executor},
    bytes::Bytes,
    data::DatasetInfo,
    error::{BudgetError, Error, Result},
    experiment::{Experiment, ModelKind},
    memory::{Ledger, probe::uncounted},
    step::{Blank, MicroBatch, Session},
};

/// Steps of the runs that must not leak.
const STEPS: usize = 200;
/// Budgets, as shares of a run's memory.
const SHARES: [f64; 6] = [0.999, 0.5, 0.97, 0.85, 0.25, 0.05];
/// Families whose budgets and leaks are tried.
const TRIED: [usize; 5] = [0, 1, 6, 3, 8];

pub(super) fn run<B: Backend>(bench: &Bench<B>, choice: &Choice, runner: &mut Runner<'_>) {
    let tried = || choice.extent.of(&TRIED).iter().map(|i| KINDS[*i]);
    for (kind, info) in tried() {
        runner.check(format!("budget/{}", kind.key()), || budgets(bench, choice, (&large(kind), &info)));
    }
    for (kind, info) in tried() {
        runner.check(format!("leak/{}", kind.key()), || leak(bench, choice, (&small(kind), &info)));
    }
}

/// An experiment with more samples, so that activations weigh.
fn large(kind: ModelKind) -> Experiment {
    let mut experiment = small(kind);
    experiment.batch.micro = 32;
    experiment.gpu.workspace = Bytes::ZERO;
    experiment
}

/// Runs two steps and an evaluation under an account.
fn try_under<B: Backend, M: MicroBatch>(
    executor: Executor<B>,
    (experiment, info): (&Experiment, &DatasetInfo),
    batch: impl Fn() -> M,
) -> Result<Ledger> {
    let ledger = executor.ledger().clone();
    passes(&mut Session::new(executor, experiment, info)?, batch)?;
    Ok(ledger)
}

/// The refusal in a result; none when it went well.
fn refusal<T>(result: Result<T>) -> Result<Option<BudgetError>> {
    match result {
        Ok(_) => Ok(None),
        Err(Error::Budget(refusal)) => Ok(Some(refusal)),
        Err(other) => Err(other),
    }
}

fn budgets<B: Backend>(bench: &Bench<B>, choice: &Choice, of: (&Experiment, &DatasetInfo)) -> Result<Found, Fault> {
    let (experiment, info) = of;
    let noise = Noise::new(experiment.batch.micro, info, choice.seed);
    let blank = || Blank(experiment.batch.micro);
    let account = |budget| bench.account(experiment, budget, false);
    let context = bench.target.profile().map_or(Bytes::ZERO, |profile| profile.context);
    let peak = {
        let mut session = Session::new(bench.open_dry(bench.account(experiment, None, true)), experiment, info)?;
        let recordings = passes(&mut session, blank)?;
        let of = |r: &crate::memory::ledger::Recording| {
            if bench.target.is_gpu() { context + r.reserved_peak } else { r.live_peak }
        };
        recordings.iter().map(of).max().unwrap_or_default()
    };
    let enough = || try_under((bench.open)(account(Some(peak)))?, of, || &noise);
    // Memory that the first run leaves for good, such as modules and threads' rooms, is not a leak.
    enough()?;
    let idle = (bench.measured)();
    let mut refused = 0;
    for share in SHARES {
        let line = context + Bytes(((peak.0 - context.0) as f64 * share) as u64);
        let wanted = refusal(uncounted_error(|| try_under(bench.open_dry(account(Some(line))), of, blank)))?;
        let met = refusal(uncounted_error(|| try_under((bench.open)(account(Some(line)))?, of, || &noise)))?;
        if met != wanted {
            return Err(Fault::new(format!("a budget of {line} met {met:?}, and {wanted:?} in the dry run")));
        }
        refused += usize::from(met.is_some());
        if let Some(met) = &met
            && (met.budget != line || met.live + met.asked <= line || met.layer.is_empty())
        {
            return Err(Fault::new(format!("a budget of {line} was refused by {met:?}")));
        }
        uncounted(|| drop((met, wanted)));
        is_idle(bench, idle, "after a refusal")?;
        enough().map_err(|error| Fault::new(format!("after a refusal: {error}")))?;
        is_idle(bench, idle, "after the run that followed a refusal")?;
    }
    if refused < SHARES.len() / 2 {
        return Err(Fault::new(format!("{refused} of {} budgets below {peak} were refused", SHARES.len())));
    }
    let text =
        format!("{refused} refusals at {} budgets below {peak}, the dry run's; each run after one", SHARES.len());
    Ok(Found::new(text, Worst::default()))
}

/// Runs `f`; the memory of its error is not counted.
fn uncounted_error<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    f().map_err(|error| {
        let copy = uncounted(|| error.clone());
        drop(error);
        copy
    })
}

fn is_idle<B: Backend>(bench: &Bench<B>, idle: Bytes, when: &str) -> Result<(), Fault> {
    let now = (bench.measured)();
    if now == idle { Ok(()) } else { Err(Fault::new(format!("{now} in use {when}, and {idle} before"))) }
}

fn leak<B: Backend>(
    bench: &Bench<B>,
    choice: &Choice,
    (experiment, info): (&Experiment, &DatasetInfo),
) -> Result<Found, Fault> {
    let mut experiment = experiment.clone();
    (experiment.batch.micro, experiment.batch.accumulation) = (2, 1);
    let noise = Noise::new(experiment.batch.micro, info, choice.seed);
    let steps = |count: usize, seen: &mut Vec<Bytes>| -> Result<()> {
        let mut session = Session::new(bench.open_free(&experiment, false)?, &experiment, info)?;
        for _ in 0..count {
            session.step(1e-3, || Ok(&noise))?;
            seen.push((bench.measured)());
        }
        Ok(())
    };
    let mut seen = Vec::with_capacity(STEPS);
    steps(2, &mut seen)?;
    seen.clear();
    let idle = (bench.measured)();
    steps(STEPS, &mut seen)?;
    let steady = seen[1];
    if let Some(step) = seen[1..].iter().position(|now| *now != steady) {
        let message = format!("{} in use after step {}, and {steady} after the second", seen[step + 1], step + 2);
        return Err(Fault::new(message));
    }
    is_idle(bench, idle, "after the run")?;
    let held = steady.saturating_sub(idle);
    Ok(Found::new(format!("{STEPS} steps hold {held} each, and leave nothing"), Worst::default()))
}

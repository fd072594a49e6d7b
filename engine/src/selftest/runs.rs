//! Whole small runs: their losses, step by step, against the CPU's in f64; that every optimizer lowers the loss; and that
//! the same seed gives the same bits.

use super::{
    Bench, Choice, Fault, Found, Runner,
    compare::Worst,
    families::{KINDS, small},
    kernels::values,
    steps::Noise,
};
use crate::{
    backend::{Backend, Cpu, Executor},
    data::DatasetInfo,
    device::cpu_threads,
    experiment::{Batch, Experiment, ModelKind, OptimizerKind, Precision},
    memory::Ledger,
    step::Session,
};

/// Steps of a run.
const STEPS: usize = 20;
/// How far the first loss may be from the CPU's in f64, as a share.
const TOLERANCE: f64 = 2e-5;
/// The tolerance of a later loss: where a rounding has moved a ReLU or a max-pool to its other side, losses drift apart. Of 449 CNNs
/// with a seed each, 436 stayed within 3e-5, and two came to 3.6e-3 and 4.5e-3.
const TOLERANCE_OF_LATER: f64 = 3e-2;
/// The tolerance of the first loss of a deep network with batch norms. Where they normalise few values, a rounding grows from
/// layer to layer and from step to step, so that later losses show nothing.
const TOLERANCE_OF_DEEP: f64 = 1e-3;
/// Steps of a U-Net whose losses are compared. Its max-pools and ReLUs change sides, and no norm follows, so a rounding
/// grows about twofold from step to step.
const STEPS_OF_UNET: usize = 5;
/// The share of the loss that may be left at most.
const LEFT: f64 = 0.97;

pub(super) fn run<B: Backend>(bench: &Bench<B>, choice: &Choice, runner: &mut Runner<'_>) {
    for (kind, info) in choice.extent.of(&KINDS).iter().copied() {
        runner.check(format!("train/{}", kind.key()), || {
            let experiment = Experiment { batch: Batch { micro: 8, ..Batch::default() }, ..small(kind) };
            of_one(bench, choice, (&experiment, &info), 3e-3)
        });
    }
    for kind in OptimizerKind::ALL {
        runner.check(format!("optimizer/{}", kind.key()), || {
            let mut experiment = Experiment { batch: Batch { micro: 16, ..Batch::default() }, ..small(ModelKind::Mlp) };
            experiment.optimizer.choose(kind);
            let rate = match kind {
                OptimizerKind::Sgd => 0.1,
                OptimizerKind::Momentum | OptimizerKind::Nesterov => 0.02,
                _ => 1e-3,
            };
            of_one(bench, choice, (&experiment, &KINDS[0].1), rate)
        });
    }
}

fn of_one<B: Backend>(
    bench: &Bench<B>,
    choice: &Choice,
    (experiment, info): (&Experiment, &DatasetInfo),
    rate: f64,
) -> Result<Found, Fault> {
    let mut experiment = experiment.clone();
    experiment.run.seed = choice.seed;
    let noise = Noise::new(experiment.batch.micro, info, choice.seed);
    let once = || train(bench.open_free(&experiment, false)?, &experiment, info, &noise, rate);
    let [(losses, weights), again] = [once()?, once()?];
    if !same_bits(&losses, &again.0) || !same_bits(&weights, &again.1) {
        return Err(Fault::new("a second run with the same seed gave other bits"));
    }
    let wide = Experiment { precision: Precision::F64, ..experiment.clone() };
    let cpu = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false));
    let (wanted, _) = train(cpu, &wide, info, &noise, rate)?;
    let mut worst = Worst::default();
    let is_deep = experiment.model.kind.has_stem();
    let compared = match experiment.model.kind {
        _ if is_deep => 1,
        ModelKind::Unet => STEPS_OF_UNET,
        _ => losses.len(),
    };
    for (step, (loss, wanted)) in losses.iter().zip(&wanted).take(compared).enumerate() {
        let tolerance = match step {
            0 if is_deep => TOLERANCE_OF_DEEP,
            0 => TOLERANCE,
            _ => TOLERANCE_OF_LATER,
        };
        let here = Worst::between(*loss, *wanted, tolerance * (0.1 + wanted.abs()));
        if !here.holds() {
            let message = format!("a loss of {loss} in step {}, and of {wanted} on the CPU in f64", step + 1);
            return Err(Fault { message, worst: here });
        }
        worst = worst.or(here);
    }
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    if last.is_nan() || last >= LEFT * first {
        return Err(Fault::new(format!("the loss went from {first} to {last}")));
    }
    let text =
        format!("{compared} of {} losses, the CPU in f64, and all twice; from {first:.3} to {last:.3}", losses.len());
    Ok(Found::new(text, worst))
}

fn same_bits(a: &[f64], b: &[f64]) -> bool {
    a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
}

/// Trains on one batch again and again: the loss of each step, and all weights at the end.
fn train<B: Backend>(
    executor: Executor<B>,
    experiment: &Experiment,
    info: &DatasetInfo,
    noise: &Noise,
    rate: f64,
) -> Result<(Vec<f64>, Vec<f64>), Fault> {
    let mut session = Session::new(executor, experiment, info)?;
    let mut losses = Vec::new();
    // The largest of all takes few steps.
    let steps = if experiment.model.kind == ModelKind::Resnet { 5 } else { STEPS };
    for _ in 0..steps {
        losses.push(session.step(rate, || Ok(noise))?.loss);
    }
    let mut weights = Vec::new();
    for param in session.model().params() {
        weights.extend(values(session.executor(), param.weight())?);
    }
    Ok((losses, weights))
}

//! Gradients of whole models: every layer's rule, the tape and checkpointing, against finite differences in f64.
//!
//! A [`Probe`] holds a small model and a batch of noise. Along a random direction of one parameter, the summed loss must
//! change as the gradient says.

use super::{Bench, Choice, Fault, Found, Runner, cases::Extent, compare::Worst, families::sloped};
use crate::backend::ops::{Elementwise, Optimizer};
use crate::{
    autograd::Tape,
    backend::{
        Backend, DType, Executor, HostSlice, IGNORE_INDEX, Kernel, Tensor,
        ops::{Update, UpdateRule},
    },
    data::{DatasetInfo, Input},
    error::Result,
    experiment::{Checkpointing, Execution, Experiment, LabelKind, ModelKind, Precision, Quantise},
    memory::{Category, Phase},
    models::Model,
    nn::Param,
    rng::{Rng, Stream},
};

/// Samples of the batch.
const SAMPLES: usize = 3;

/// Steps of the difference. They are so small that a ReLU or a maximum rarely changes sides; where one does, as in deep
/// networks with batch norm over few values, a smaller step agrees. A rule that is wrong agrees with none.
const STEPS: [f64; 4] = [1e-6, 1e-8, 1e-9, 1e-10];

/// A model with a batch.
pub struct Probe<B: Backend> {
    executor: Executor<B>,
    model: Model<B>,
    images: Vec<f32>,
    tokens: Vec<u32>,
    labels: Vec<u32>,
    info: DatasetInfo,
    precision: Precision,
}

/// How the loss changes along a direction of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Slope {
    /// The parameter: its number, its layer and its name.
    pub param: String,
    /// The slope by differences.
    pub measured: f64,
    /// The slope by the gradient.
    pub expected: f64,
}

impl Slope {
    /// The difference between the two, and the tolerance.
    pub fn worst(&self) -> Worst {
        Worst::between(self.measured, self.expected, 1e-6 + 1e-4 * self.expected.abs())
    }
}

impl<B: Backend> Probe<B> {
    /// The experiment's model and a batch from `seed`.
    ///
    /// # Errors
    /// Fails when the device refuses memory or fails.
    pub fn new(executor: Executor<B>, experiment: &Experiment, info: DatasetInfo, seed: u64) -> Result<Self> {
        executor.set_execution(experiment.execution);
        let model = Model::build(&executor, experiment, &info)?;
        let rng = Rng::new(seed, Stream::Data, 0);
        let pixels = SAMPLES * info.input.elements();
        let images = (0..pixels as u64).map(|i| rng.normal(i) as f32).collect();
        let tokens = (0..pixels as u64).map(|i| rng.below(1 << 41 | i, info.classes) as u32).collect();
        let label = |i: u64| match info.labels_per_sample {
            // Some of many labels do not count.
            2.. if i.is_multiple_of(3) => IGNORE_INDEX,
            _ => rng.below(1 << 40 | i, info.classes) as u32,
        };
        let labels = (0..(SAMPLES * info.labels_per_sample) as u64).map(label).collect();
        Ok(Self { executor, model, images, tokens, labels, info, precision: experiment.precision })
    }

    /// Uniform numbers in ±1 of a parameter's shape.
    fn direction(&self, param: &Param<B>, seed: u64, index: usize) -> Result<Tensor<B>> {
        let shape = param.weight().shape();
        let direction = self.executor.allocate(shape, DType::F64, Category::Scratch, "direction")?;
        let key = Rng::new(seed, Stream::Data, 1 + index as u64).key();
        self.executor.launch(Elementwise::Uniform { bound: 1.0, key }, &[], &[&direction])?;
        Ok(direction)
    }

    /// Moves a parameter by `-rate * direction`.
    fn walk(&self, param: &Param<B>, direction: &Tensor<B>, rate: f64) -> Result<()> {
        let kernel =
            Kernel::from(Optimizer::Update(Update { rule: UpdateRule::Sgd, rate, weight_decay: 0.0, grad_scale: 1.0 }));
        self.executor.launch(kernel, &[direction], &[param.weight()])
    }

    /// Moves every parameter a little. A batch norm's bias starts at zero, where a channel that is constant, as a dead one
    /// is, meets the edge of the next ReLU exactly.
    fn leave_the_start(&self, seed: u64) -> Result<()> {
        // Weights that are held as codes stay.
        let params: Vec<_> = self.model.params().into_iter().filter(|param| !param.role().is_of_codes()).collect();
        params.iter().enumerate().try_for_each(|(i, param)| self.walk(param, &self.direction(param, !seed, i)?, 0.1))
    }

    fn batch(&self) -> Result<(Tensor<B>, Tensor<B>)> {
        let input = self.info.input;
        let numbers = match input {
            Input::Image { .. } => HostSlice::F32(&self.images),
            Input::Tokens { .. } => HostSlice::U32(&self.tokens),
        };
        let inputs = self.executor.upload(numbers, input.shape(SAMPLES), input.dtype(self.precision), input.label())?;
        let values: Vec<f32> = self.labels.iter().map(|label| *label as f32 - 1.5).collect();
        let (labels, dtype) = match self.info.label {
            LabelKind::Class => (HostSlice::U32(&self.labels), DType::U32),
            LabelKind::Value => (HostSlice::F32(&values), DType::F32),
        };
        Ok((inputs, self.executor.upload(labels, [self.labels.len()], dtype, "labels")?))
    }

    /// Summed loss; with `backward`, the gradients are left in the parameters.
    ///
    /// # Errors
    /// Fails when the device refuses memory or fails.
    pub fn loss(&self, backward: bool) -> Result<f64> {
        let executor = &self.executor;
        let (images, labels) = self.batch()?;
        let stats = executor.filled(0.0, [2], DType::F64, Category::Scratch, "stats")?;
        // Recorded either way: evaluation is another function where a layer normalises by its batch.
        let mut tape = Tape::recording(executor);
        let logits = self.model.forward(&mut tape, images)?;
        let is_value = self.info.label == LabelKind::Value;
        match is_value {
            true => executor.squared_error(&logits.tensor, &labels, &stats)?,
            false => executor.cross_entropy(&logits.tensor, self.info.classes, &labels, &stats)?,
        }
        if backward && let Some(id) = logits.id() {
            executor.ledger().set_phase(Phase::Backward);
            let gradient = match is_value {
                true => executor.squared_error_grad(logits.tensor, &labels, 1.0)?,
                false => executor.cross_entropy_grad(logits.tensor, self.info.classes, &labels, 1.0)?,
            };
            tape.backward(id, gradient, None, &mut |_| Ok(()))?;
        }
        Ok(self.read(&stats)?[0])
    }

    /// The gradient of every parameter that is trained, in order.
    ///
    /// # Errors
    /// Fails when the device refuses memory or fails.
    pub fn gradients(&self) -> Result<Vec<Vec<f64>>> {
        self.loss(true)?;
        self.trained().map(|param| param.take_gradient().map_or_else(|| Ok(Vec::new()), |g| self.read(&g))).collect()
    }

    /// The slope along a direction of each parameter that is trained, one after another.
    ///
    /// # Errors
    /// Fails when the device refuses memory or fails.
    pub fn slopes(&self, seed: u64, mut each: impl FnMut(Slope)) -> Result<()> {
        self.leave_the_start(seed)?;
        let gradients = self.gradients()?;
        for (i, (param, gradient)) in self.trained().zip(&gradients).enumerate() {
            let direction = self.direction(param, seed, i)?;
            let expected: f64 = self.read(&direction)?.iter().zip(gradient).map(|(d, g)| d * g).sum();
            let _layer = self.executor.enter(param.layer());
            let param_name = format!("{i}, {} of {}", param.name(), self.executor.ledger().layer_path());
            let mut slope = Slope { param: param_name, measured: f64::INFINITY, expected };
            for step in STEPS {
                let measured = self.difference(param, &direction, step)?;
                if (measured - expected).abs() < (slope.measured - expected).abs() {
                    slope.measured = measured;
                }
                if slope.worst().holds() {
                    break;
                }
            }
            each(slope);
        }
        Ok(())
    }

    fn difference(&self, param: &Param<B>, direction: &Tensor<B>, step: f64) -> Result<f64> {
        self.walk(param, direction, -step)?;
        let above = self.loss(false)?;
        self.walk(param, direction, 2.0 * step)?;
        let below = self.loss(false)?;
        self.walk(param, direction, -step)?;
        Ok((above - below) / (2.0 * step))
    }

    fn trained(&self) -> impl Iterator<Item = &Param<B>> {
        self.model.params().into_iter().filter(|param| param.is_trained())
    }

    fn read(&self, tensor: &Tensor<B>) -> Result<Vec<f64>> {
        Ok(self.executor.read(tensor)?.unwrap_or_default())
    }
}

/// The ways to checkpoint and to execute that every model is tried with.
pub const WAYS: [(Checkpointing, Execution); 8] = [
    (Checkpointing::None, Execution::InPlace),
    (Checkpointing::None, Execution::Fused),
    (Checkpointing::Blocks, Execution::InPlace),
    (Checkpointing::Every(2), Execution::InPlace),
    (Checkpointing::Every(2), Execution::Fused),
    (Checkpointing::Sqrt, Execution::InPlace),
    (Checkpointing::Percent(60), Execution::InPlace),
    (Checkpointing::Percent(60), Execution::Fused),
];

/// Every model in every way: as many experiments, one after another, as there are ways.
pub fn cases() -> Vec<(Experiment, DatasetInfo)> {
    let mut cases = Vec::new();
    for (model, info, frozen, lora, base) in ModelKind::ALL.into_iter().flat_map(sloped) {
        for (checkpointing, execution) in WAYS {
            let model = model.clone();
            let (precision, quantise) = (Precision::F64, Quantise { base, ..Quantise::default() });
            let of = Experiment { precision, checkpointing, execution, model, ..Experiment::default() };
            cases.push((Experiment { frozen, lora, quantise, ..of }, info));
        }
    }
    cases
}

pub(super) fn run<B: Backend>(bench: &Bench<B>, choice: &Choice, runner: &mut Runner<'_>) {
    let all = cases();
    for kind in ModelKind::ALL {
        // Deep ones have nothing that others have not.
        let is_deep = matches!(kind, ModelKind::Mobilenetv1 | ModelKind::Mobilenetv2);
        let own = all.iter().filter(|(experiment, _)| experiment.model.kind == kind).collect::<Vec<_>>();
        if own.is_empty() || (is_deep && choice.extent == Extent::Quick) {
            continue;
        }
        runner.check(format!("gradient/{}", kind.key()), || of_family(bench, choice, &own));
    }
}

fn of_family<B: Backend>(
    bench: &Bench<B>,
    choice: &Choice,
    cases: &[&(Experiment, DatasetInfo)],
) -> Result<Found, Fault> {
    let (mut worst, mut count, mut fault) = (Worst::default(), 0, None);
    let cases = choice.extent.of(cases);
    for (experiment, info) in cases {
        let mut experiment = experiment.clone();
        experiment.run.seed = choice.seed;
        let probe = Probe::new(bench.open_free(&experiment, false)?, &experiment, *info, choice.seed)?;
        probe.slopes(choice.seed, |slope| {
            count += 1;
            worst = worst.or(slope.worst());
            if !slope.worst().holds() {
                let Slope { param, measured, expected } = &slope;
                let Experiment { checkpointing, execution, .. } = &experiment;
                let way = format!("checkpointing {checkpointing}, {}", execution.key());
                let message = || format!("{way}: parameter {param}: {measured} measured, {expected} expected");
                fault.get_or_insert_with(message);
            }
        })?;
    }
    match fault {
        Some(message) => Err(Fault { message, worst }),
        None => Ok(Found::new(format!("{count} slopes of {} models, finite differences", cases.len()), worst)),
    }
}
